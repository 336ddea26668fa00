// A complete PhoneCheck in Node 18 or later: get a token, create a check, open its Check URL, verify the callback and the redirect, exchange the code.
// It verifies signatures with npm http-signature and needs no other package.
//
//   go run ./cmd/sandboxfake -json > sandbox.json
//   NODE_EXTRA_CA_CERTS=<ca_file from sandbox.json> node walkthrough.js sandbox.json
'use strict';

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const httpSignature = require('http-signature');

const { url, project, control_token: controlToken } = JSON.parse(fs.readFileSync(process.argv[2] ?? 0, 'utf8'));

// What a signature must cover, and the clock skew in seconds.
const CALLBACK = ['(request-target)', 'host', 'date', 'x-service-callback', 'digest'];
const REDIRECT = ['(request-target)', 'host', 'date'];
const CLOCK_SKEW = 5;

async function call(path, { status = 200, ...init } = {}) {
  const response = await fetch(url + path, init);
  const text = await response.text();
  assert.equal(response.status, status, text);
  return text && JSON.parse(text);
}

async function token(scope) {
  const body = new FormData();
  body.set('grant_type', 'client_credentials');
  body.set('scope', scope);
  const basic = Buffer.from(`${project.client_id}:${project.client_secret}`).toString('base64');
  return (await call('/oauth2/v1/token', { method: 'POST', body, headers: { authorization: `Basic ${basic}` } })).access_token;
}

// Returns the service's public keys by key ID. A server should cache them for as long as Cache-Control says.
async function publicKeys() {
  const { keys } = await call('/.well-known/jwks.json');
  return new Map(keys.map((jwk) => [jwk.kid, crypto.createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' })]));
}

// Returns the signature. Throws unless the message is for one of hosts, recent, signed by a key of the set, and fully covered by the signature.
function verify(keys, hosts, message, covered) {
  const parsed = httpSignature.parseRequest(message, { clockSkew: CLOCK_SKEW, headers: covered, algorithms: ['rsa-sha256'] });
  assert.ok(hosts.includes(message.headers.host), 'the message is for another host'); // all customers of the service get messages with the same keys
  const key = keys.get(parsed.keyId);
  assert.ok(key, 'the key ID is not in the key set');
  assert.ok(httpSignature.verifySignature(parsed, key), 'the signature does not verify');
  return Buffer.from(parsed.params.signature, 'base64').toString('hex');
}

// http-signature does not verify the digest. Without this check, anyone could change the body.
function verifyDigest(header, body) {
  const sum = (encoding) => 'SHA-256=' + crypto.createHash('sha256').update(body).digest(encoding);
  assert.ok([sum('hex'), sum('base64')].includes(header), 'the digest does not match the body');
}

// Throws if the signature was claimed before. All processes that serve the same host must share one store, such as a database.
const claimed = new Map();
function claim(signature) {
  for (const [old, expiry] of claimed) if (expiry < Date.now()) claimed.delete(old);
  assert.ok(!claimed.has(signature), 'the message was already accepted');
  claimed.set(signature, Date.now() + 1000 * (2 * CLOCK_SKEW + 1));
}

function verifyCallback(keys, hosts, message, body) {
  const signature = verify(keys, hosts, message, CALLBACK);
  verifyDigest(message.headers.digest, body);
  claim(signature);
  return { kind: message.headers['x-service-callback'], payload: JSON.parse(body) };
}

// Listens for one callback, responds to it, and resolves with it.
function receiver(keys) {
  let resolve, reject;
  const callback = new Promise((...settle) => { [resolve, reject] = settle; });
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    try {
      const verified = verifyCallback(keys, [`127.0.0.1:${server.address().port}`], request, body);
      response.writeHead(204).end();
      resolve({ ...verified, message: request, body });
    } catch (error) {
      response.writeHead(400).end();
      reject(error);
    }
  });
  return new Promise((ready) => server.listen(0, '127.0.0.1', () => ready({ server, callback, port: server.address().port })));
}

// Removes authorization and date from the query and leaves every other byte unchanged, because the service signs the rest.
function verifyRedirect(keys, hosts, location) {
  const { host, pathname, search } = new URL(location);
  const taken = {};
  const rest = search.slice(1).split('&').filter((segment) => {
    const [name, value] = segment.split('=');
    if (name !== 'authorization' && name !== 'date') return true;
    taken[name] = Buffer.from(decodeURIComponent(value), 'base64').toString();
    return false;
  });
  claim(verify(keys, hosts, { method: 'GET', url: `${pathname}?${rest.join('&')}`, headers: { host, ...taken }, httpVersion: '1.1' }, REDIRECT));
  return new URLSearchParams(rest.join('&'));
}

// Verifies changed copies of an accepted callback.
function rejectCopies(keys, host, { message, body }) {
  const { method, url, headers, httpVersion } = message;
  const authorization = (from, to) => ({ headers: { ...headers, authorization: headers.authorization.replace(from, to) } });
  const rejects = (reason, changes, changedBody = body) => assert.throws(() => verifyCallback(keys, [host], { method, url, headers, httpVersion, ...changes }, changedBody), reason);
  rejects(/already accepted/, {});
  rejects(/digest does not match/, {}, Buffer.from(body.toString().replace('true', 'false')));
  rejects(/digest was not a signed header/, authorization(' digest"', '"'));
  rejects(/another host/, { headers: { ...headers, host: 'shop.example.com' } });
  rejects(/clock skew/, { headers: { ...headers, date: new Date(Date.now() - 60000).toUTCString() } });
  rejects(/does not verify/, { url: '/other' });
  rejects(/not in the key set/, authorization('keyId="', 'keyId="x'));
}

async function main() {
  const keys = await publicKeys();
  const authorization = `Bearer ${await token('phone_check')}`;
  const json = { authorization, 'content-type': 'application/json' };

  // A check whose result comes by callback. An even last digit matches.
  const { server, callback, port } = await receiver(keys);
  const first = await call('/phone_check/v0.1/checks', {
    method: 'POST', headers: json, status: 201,
    body: JSON.stringify({ phone_number: '447700900012', callback_url: `http://127.0.0.1:${port}/callbacks` }),
  });
  await fetch(first._links.check_url.href); // the device does this over its mobile data connection
  const received = await callback;
  const { kind, payload } = received;
  server.close();
  assert.deepEqual([kind, payload.check_id, payload.status, payload.match], ['phone_check', first.check_id, 'COMPLETED', true]);
  console.log('the callback is verified: the number matches');
  rejectCopies(keys, `127.0.0.1:${port}`, received);
  console.log('changed and repeated callbacks are rejected');

  // A check whose device returns with a code. An odd last digit does not match.
  const second = await call('/phone_check/v0.2/checks', {
    method: 'POST', headers: json, status: 201,
    body: JSON.stringify({ phone_number: '447700900013', redirect_url: 'https://app.example.com/back?cart=a%2fb' }),
  });
  const redirect = await fetch(second._links.check_url.href, { redirect: 'manual' });
  const location = redirect.headers.get('location');
  assert.throws(() => verifyRedirect(keys, ['app.example.com'], location.replace('a%2fb', 'a%2Fb')), /does not verify/);
  const query = verifyRedirect(keys, ['app.example.com'], location);
  assert.throws(() => verifyRedirect(keys, ['app.example.com'], location), /already accepted/);
  assert.deepEqual([query.get('cart'), query.get('check_id')], ['a/b', second.check_id]);
  const result = await call(`/phone_check/v0.2/checks/${second.check_id}`, {
    method: 'PATCH', headers: { authorization, 'content-type': 'application/json-patch+json' },
    body: JSON.stringify([{ op: 'add', path: '/code', value: query.get('code') }]),
  });
  assert.deepEqual([result.status, result.match], ['COMPLETED', false]);
  console.log('the redirect is verified: the number does not match');

  // A forged callback: the fake signs it with a key that it does not publish.
  await call('/_sandbox/faults', {
    method: 'POST', headers: { authorization: `Bearer ${controlToken}`, 'content-type': 'application/json' }, status: 204,
    body: JSON.stringify({ match: { operation: 'callback' }, faults: [{ wrong_key: true }] }),
  });
  const forged = await receiver(keys);
  const third = await call('/phone_check/v0.1/checks', {
    method: 'POST', headers: json, status: 201,
    body: JSON.stringify({ phone_number: '447700900012', callback_url: `http://127.0.0.1:${forged.port}/callbacks` }),
  });
  const rejection = assert.rejects(forged.callback, /does not verify/); // before the callback can arrive
  await fetch(third._links.check_url.href);
  await rejection;
  forged.server.close();
  console.log('the forged callback is rejected');
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
