// The database of the receivers, in memory.
'use strict';
const crypto = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

const TIMEOUT = 500; // milliseconds; less than the timeout of the service

const checks = new Map(); // the checks that the backend created: product by check ID
const results = new Map(); // number of effects by check ID
const sessions = new Map(); // check ID by cookie
const accepted = new Set(); // signatures of accepted messages; a server should remove them when their date has expired
let slow = false;

// Waits for the database, or throws.
async function ready() {
  if (!slow) return;
  await sleep(TIMEOUT);
  throw new Error('the database is unavailable');
}

function act(checkID) { results.set(checkID, (results.get(checkID) ?? 0) + 1); }

// Acts on the result of a check of ours, once.
async function record(product, payload) {
  await ready();
  const id = payload.check_id;
  if (checks.get(id) !== product) return;
  if (results.has(id)) return;
  act(id);
}

// Reports whether a message is accepted for the first time.
function first(signature) {
  if (accepted.has(signature)) return false;
  accepted.add(signature);
  return true;
}

// Signs the browser in with the code of a redirect, and reports whether its session started the check.
async function signIn(cookie, parameters) {
  await ready();
  const id = parameters.get('check_id');
  const session = /(?:^|; )session=([^;]+)/.exec(cookie ?? '')?.[1];
  if (sessions.get(session) !== id) return false;
  if (!results.has(id)) act(id); // the code works once
  return true;
}

// Serves the probe of an examination and returns the status and the body of the response.
function probe(method, query) {
  const id = query.get('check_id');
  if (method === 'GET' && id) return [200, String(results.get(id) ?? 0)];
  if (method === 'PUT' && id) {
    checks.set(id, query.get('product'));
    return [204, ''];
  }
  if (method === 'POST' && query.has('store')) {
    slow = query.get('store') === 'slow';
    return [204, ''];
  }
  if (method === 'POST' && query.has('session')) {
    const checkID = crypto.randomUUID();
    const session = crypto.randomUUID();
    sessions.set(session, checkID);
    return [200, JSON.stringify({ check_id: checkID, header: { Cookie: `session=${session}` } })];
  }
  return [405, ''];
}

module.exports = { record, first, signIn, probe };
