// A backend that receives callbacks and redirects with Express. It has no list of accepted messages:
// it acts on each check once.
'use strict';
const express = require('express');
const store = require('./store');
const { verifyCallback, verifyRedirect } = require('./verify');

const app = express();

app.post('/callbacks/:shop', express.raw({ type: () => true, limit: '64kb' }), async (request, response) => {
  const { product, payload } = await verifyCallback(request, request.originalUrl, request.body ?? '');
  await store.record(product, payload);
  response.sendStatus(204);
});

app.get('/redirect/:shop', async (request, response) => {
  const parameters = await verifyRedirect(request, request.originalUrl);
  if (!await store.signIn(request.headers.cookie, parameters)) return response.sendStatus(403);
  response.redirect(303, '/');
});

app.all('/probe', (request, response) => {
  const [status, body] = store.probe(request.method, new URL(request.url, 'http://host').searchParams);
  response.status(status).send(body);
});

app.use((error, request, response, next) => {
  response.sendStatus(error instanceof SyntaxError ? 400 : error.status ?? 503);
});

const server = app.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
