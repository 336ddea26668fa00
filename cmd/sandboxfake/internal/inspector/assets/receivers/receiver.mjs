// Receives callbacks on port 3000 and verifies them. Requires Node 18 or later and no packages: node receiver.mjs
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
const ca = fs.readFileSync("__CA_FILE__"); // the CA certificate of this sandbox
const hosts = ['localhost', '127.0.0.1']; // the hosts of your callback URLs; messages for other hosts are not for you
const covered = ['(request-target)', 'host', 'date', "__CALLBACK_HEADER__".toLowerCase(), 'digest'];
const skew = 5; // seconds
const limit = 64 * 1024; // bytes of a body
const seen = new Map(); // expiry of the accepted signatures; a server should remove expired ones
// Returns the key set. A server should cache it for as long as Cache-Control says.
function fetchKeys() {
  return new Promise((resolve, reject) => {
    https.get("__JWKS_URL__", { ca, signal: AbortSignal.timeout(3000) }, (response) => {
      response.toArray().then((chunks) => resolve([...JSON.parse(Buffer.concat(chunks)).keys])).catch(reject);
    }).on('error', reject);
  });
}

function check(condition, reason) { if (!condition) throw new Error(reason); }

// Returns the product and the payload of a valid callback, or throws the reason to reject it.
function verify(request, body, keys) {
  const header = (name) => {
    const values = request.headersDistinct[name] ?? [];
    check(values.length === 1, `the header ${name} does not occur exactly once`);
    return values[0];
  };
  const [, keyId, headers, signature] = /^Signature keyId="([^"]+)",algorithm="rsa-sha256",headers="([^"]+)",signature="([^"]+)"$/.exec(header('authorization')) ?? [];
  check(keyId, 'the authorization is not a signature with rsa-sha256');
  check(headers === covered.join(' '), 'the signature does not cover exactly the required headers');
  check(hosts.includes(header('host').toLowerCase().replace(/:\d+$/, '')), 'the message is for another host');
  check(Math.abs(Date.now() - Date.parse(header('date'))) <= skew * 1000, 'the date differs from the clock');
  const jwk = keys.find((key) => key.kid === keyId);
  check(jwk, 'the key ID is not in the key set');
  const text = covered.map((name) => `${name}: ${name === '(request-target)' ? `post ${request.url}` : header(name)}`).join('\n');
  const bytes = Buffer.from(signature, 'base64');
  check(crypto.verify('sha256', Buffer.from(text, 'latin1'), crypto.createPublicKey({ key: jwk, format: 'jwk' }), bytes), 'the signature does not verify');
  const digest = (encoding) => 'SHA-256=' + crypto.createHash('sha256').update(body).digest(encoding);
  check([digest('hex'), digest('base64')].includes(header('digest')), 'the digest does not match the body');
  check(!(seen.get(bytes.toString('hex')) >= Date.now()), 'the message was already accepted');
  seen.set(bytes.toString('hex'), Date.now() + 1000 * (2 * skew + 1));
  return [header(covered[3]), JSON.parse(body)];
}

// Returns the body. The rest of a body that is too long is not kept.
async function read(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) if ((size += chunk.length) <= limit) chunks.push(chunk);
  check(size <= limit, 'the body is too long');
  return Buffer.concat(chunks);
}

const server = http.createServer(async (request, response) => {
  let status = 413; // or the request was aborted
  try {
    const body = await read(request);
    status = 503; // the key set is unavailable
    const keys = await fetchKeys();
    status = 400;
    const [product, payload] = verify(request, body, keys);
    check(typeof payload?.status === 'string', 'the payload has no status');
    const match = payload.status === 'COMPLETED' ? payload.match : null; // valid only when COMPLETED
    console.log(`verified: ${product} ${payload.status}, match: ${match === true ? 'yes' : match === false ? 'no' : 'unknown'}`);
    status = 204;
  } catch (error) {
    console.log('rejected:', status === 503 ? `the key set is unavailable: ${error.message}` : error.message);
  }
  response.writeHead(status).end();
});
server.requestTimeout = 10_000; // milliseconds
server.listen(process.env.PORT ?? 3000, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}/callbacks`));
