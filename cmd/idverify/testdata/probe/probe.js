// A backend with the probe of docs/tools.md.
'use strict';
const http = require('node:http');

const created = new Map();
const backend = {
  slow: false,
  effects: async (id) => created.has(id) ? (backend.slow ? 0 : 1) : 0,
  create: async (id, product) => { created.set(id, product); },
};

// Serves /probe, in test builds only. With Express: app.all('/probe', probe)
async function probe(request, response) {
  const query = new URL(request.url, 'http://localhost').searchParams;
  const id = query.get('check_id');
  if (request.method === 'GET') return response.end(String(await backend.effects(id)));
  if (request.method === 'PUT') await backend.create(id, query.get('product'));
  else if (query.has('store')) backend.slow = query.get('store') === 'slow';
  else response.statusCode = 501; // not supported
  response.end();
}

const server = http.createServer(probe).listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
