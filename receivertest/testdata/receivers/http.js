// A backend that receives callbacks and redirects with node:http.
'use strict';
const http = require('node:http');
const store = require('./store');
const { VerificationError, verifyCallback, verifyRedirect } = require('./verify');

const LIMIT = 64 * 1024; // bytes of a body

async function read(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > LIMIT) throw new VerificationError(413, 'the body is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function callback(request, response) {
  const { product, payload, signature } = await verifyCallback(request, request.url, await read(request));
  if (!store.first(signature)) throw new VerificationError(400, 'the message was already accepted');
  await store.record(product, payload);
  response.writeHead(204).end();
}

async function redirect(request, response) {
  const parameters = await verifyRedirect(request, request.url);
  const own = await store.signIn(request.headers.cookie, parameters);
  response.writeHead(own ? 303 : 403, own ? { location: '/' } : {}).end();
}

const server = http.createServer(async (request, response) => {
  const [path, query] = request.url.split('?');
  try {
    if (path.startsWith('/callbacks/')) return await callback(request, response);
    if (path.startsWith('/redirect/')) return await redirect(request, response);
    if (path !== '/probe') return response.writeHead(404).end();
    const [status, body] = store.probe(request.method, new URLSearchParams(query));
    response.writeHead(status).end(body);
  } catch (error) {
    const status = error instanceof SyntaxError ? 400 : error.status ?? 503;
    response.writeHead(status, { connection: 'close' }).end();
  }
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
