// Verifies callbacks and redirects of the service with npm http-signature.
'use strict';
const crypto = require('node:crypto');
const httpSignature = require('http-signature');

const HOSTS = process.env.HOSTS.split(',');
const KIND = process.env.CALLBACK_HEADER ?? 'x-service-callback';
const CALLBACK = ['(request-target)', 'host', 'date', KIND, 'digest'];
const REDIRECT = ['(request-target)', 'host', 'date'];
const SKEW = 5; // seconds
const REFETCH = 1000; // milliseconds between two fetches of the key set for unknown key IDs

// Status is the status of the response: 400 if the message is invalid, 503 if it cannot be verified now.
class VerificationError extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

function check(condition, message) { if (!condition) throw new VerificationError(400, message); }

let keys = new Map(); // PEM by key ID
let fetched = 0;

async function fetchKeys() {
  const response = await fetch(process.env.JWKS_URL, { signal: AbortSignal.timeout(3000) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const set = await response.json();
  keys = new Map(set.keys.filter((jwk) => jwk.kty === 'RSA').map((jwk) =>
    [jwk.kid, crypto.createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' })]));
  fetched = Date.now();
}

// Returns the public key of an ID. It fetches the key set if that does not contain the ID.
async function publicKey(id) {
  if (keys.has(id)) return keys.get(id);
  if (Date.now() - fetched < REFETCH) throw new VerificationError(503, 'the key may be new');
  try {
    await fetchKeys();
  } catch (error) {
    throw new VerificationError(503, `the key set is unavailable: ${error.message}`);
  }
  check(keys.has(id), 'the key ID is not in the key set');
  return keys.get(id);
}

// Returns the only value of a header.
function header(request, name) {
  const values = request.headersDistinct[name] ?? [];
  check(values.length === 1, `the header ${name} does not occur exactly once`);
  return values[0];
}

function parse(message, covered) {
  try {
    return httpSignature.parseRequest(message, { clockSkew: SKEW, headers: covered, algorithms: ['rsa-sha256'] });
  } catch (error) {
    throw new VerificationError(400, error.message);
  }
}

// Verifies a signature that covers the URL and the headers, and returns it.
async function verify(request, url, headers, covered) {
  // npm http-signature checks a header X-Date in place of Date, so it must not get other headers.
  const parsed = parse({ method: request.method, url, headers, httpVersion: request.httpVersion }, covered);
  check(HOSTS.includes(headers.host), 'the message is for another host');
  const key = await publicKey(parsed.keyId);
  check(httpSignature.verifySignature(parsed, key), 'the signature does not verify');
  return parsed.params.signature;
}

function digestMatches(digest, body) {
  const hash = (encoding) => 'SHA-256=' + crypto.createHash('sha256').update(body).digest(encoding);
  return digest === hash('hex') || digest === hash('base64');
}

// Verifies a callback and returns its product, its payload and its signature.
async function verifyCallback(request, url, body) {
  check(request.method === 'POST', 'the method is not POST');
  const headers = {};
  for (const name of ['authorization', 'host', 'date', KIND, 'digest']) headers[name] = header(request, name);
  const signature = await verify(request, url, headers, CALLBACK);
  check(digestMatches(headers.digest, body), 'the digest does not match the body');
  return { product: headers[KIND], payload: JSON.parse(body), signature };
}

function decode(parameter) {
  try {
    return decodeURIComponent(parameter);
  } catch {
    throw new VerificationError(400, 'a parameter has an invalid escape');
  }
}

// Removes authorization and date from a query. The order and the escapes of the rest are signed.
function cut(url) {
  const [path, ...query] = url.split('?');
  const found = {};
  const rest = query.join('?').split('&').filter((segment) => {
    const name = segment.split('=')[0];
    if (name !== 'authorization' && name !== 'date') return true;
    check(found[name] === undefined, `the parameter ${name} occurs more than once`);
    found[name] = Buffer.from(decode(segment.slice(name.length + 1)), 'base64').toString();
    return false;
  });
  check(found.authorization && found.date, 'the redirect is not signed');
  return { url: `${path}?${rest.join('&')}`, ...found };
}

// Verifies a redirect and returns its parameters.
async function verifyRedirect(request, url) {
  check(request.method === 'GET', 'the method is not GET');
  const { url: signed, authorization, date } = cut(url);
  const headers = { authorization, date, host: header(request, 'host') };
  await verify(request, signed, headers, REDIRECT);
  const parameters = new URL(signed, 'https://host').searchParams;
  check(parameters.getAll('check_id').length === 1, 'there is not exactly one check_id');
  return parameters;
}

module.exports = { VerificationError, verifyCallback, verifyRedirect };
