// Signs and verifies messages with npm http-signature for TestInterop.
// It reads a JSON array of jobs from standard input and writes an array of results.
'use strict';

const crypto = require('crypto');
const httpSignature = require('http-signature');

const CALLBACK = ['(request-target)', 'host', 'date', 'x-service-callback', 'digest'];
const REDIRECT = ['(request-target)', 'host', 'date'];

// outgoing returns a request in the form that httpSignature.sign expects.
function outgoing(method, path, headers) {
  return {
    method,
    path,
    getHeader: (name) => headers[name.toLowerCase()],
    setHeader: (name, value) => { headers[name.toLowerCase()] = value; },
  };
}

function sign(job, method, path, headers, covered) {
  httpSignature.sign(outgoing(method, path, headers), {
    key: job.key, keyId: job.keyId, algorithm: 'rsa-sha256', headers: covered,
  });
  return headers.authorization;
}

function verify(job, method, url, headers, covered) {
  // clockSkew is in seconds.
  const parsed = httpSignature.parseRequest({ method, url, headers, httpVersion: '1.1' }, { clockSkew: 300, headers: covered });
  return parsed.keyId === job.keyId && httpSignature.verifySignature(parsed, job.key);
}

function digestMatches(header, body) {
  const value = header.slice('SHA-256='.length);
  return header.startsWith('SHA-256=') && ['hex', 'base64'].some((encoding) =>
    crypto.createHash('sha256').update(body).digest(encoding) === value);
}

// Takes authorization and date out of a query and leaves its other bytes.
function cut(url) {
  const [path, query] = [url.slice(0, url.indexOf('?')), url.slice(url.indexOf('?') + 1)];
  const found = {};
  const rest = query.split('&').filter((segment) => {
    const name = segment.split('=')[0];
    if (name !== 'authorization' && name !== 'date') return true;
    found[name] = Buffer.from(decodeURIComponent(segment.slice(name.length + 1)), 'base64').toString();
    return false;
  }).join('&');
  return { url: path + (rest ? '?' + rest : ''), ...found };
}

const jobs = {
  signCallback(job) {
    const digest = 'SHA-256=' + crypto.createHash('sha256').update(job.body).digest(job.encoding);
    const headers = { host: job.host, date: job.date, 'x-service-callback': job.kind, digest };
    sign(job, 'POST', job.url, headers, CALLBACK);
    return { headers };
  },
  verifyCallback(job) {
    return { ok: verify(job, 'POST', job.url, job.headers, CALLBACK) && digestMatches(job.headers.digest, job.body) };
  },
  signRedirect(job) {
    const authorization = sign(job, 'GET', job.url, { host: job.host, date: job.date }, REDIRECT);
    const encoded = (text) => encodeURIComponent(Buffer.from(text).toString('base64'));
    return { url: job.url + '&authorization=' + encoded(authorization) + '&date=' + encoded(job.date) };
  },
  verifyRedirect(job) {
    const { url, authorization, date } = cut(job.url);
    return { ok: verify(job, 'GET', url, { host: job.host, date, authorization }, REDIRECT) };
  },
};

const results = JSON.parse(require('fs').readFileSync(0, 'utf8')).map((job) => {
  try {
    return jobs[job.op](job);
  } catch (error) {
    return { ok: false, error: String(error) };
  }
});
process.stdout.write(JSON.stringify(results));
