// The log of the requests that the service received.

import { $, h, setAttr, setText, setTime, show, sync } from './dom.js';
import { Pager, app, get } from './api.js';
import { block, headers } from './timeline.js';

const pageSize = 100;
const maxPath = 160; // characters in a row; the expanded row contains the complete path
const pager = new Pager();
let opened = null; // the request ID of the expanded row
let visible = [];
let stale = true; // the list must be fetched even while it is not live

export function resetRequests() {
  pager.reset();
  opened = null;
  stale = true;
}

export const filterRequests = resetRequests;

export function olderRequests() {
  pager.older();
  stale = true;
}

export function newerRequests() {
  pager.newer();
  stale = true;
}

// requestByID returns a request of the visible page.
export const requestByID = (id) => visible.find((request) => request.request_id === id);

// latestRequest returns the latest request that the service received. If ofCheck is set, it returns
// the latest one that creates or uses a check, among the latest 200.
export async function latestRequest(ofCheck = false) {
  const { requests } = await get('requests', { limit: ofCheck ? 200 : 1 });
  return ofCheck ? requests.find((request) => /_check\.(?!list)/.test(request.operation) && request.status < 400) : requests[0];
}

// setOperations fills the lists of operations.
export function setOperations(operations) {
  app.operations = [...new Set(operations.map((entry) => entry.operation))].filter((name) => name !== 'callback').sort();
  $('requests-operation').replaceChildren(h('option', { value: '', text: 'All operations' }), ...app.operations.map((name) => h('option', { text: name })));
}

// toggleRequest expands or collapses the row of a request. An expanded row stops the list, so that
// new requests do not move it.
export function toggleRequest(id) {
  opened = opened === id ? null : id;
  renderRows();
}

// refreshRequests gets the visible page of requests.
export async function refreshRequests() {
  if (!stale && (opened || !$('requests-live').checked)) return;
  const before = pager.before;
  const query = { limit: pageSize, before, operation: $('requests-operation').value, status: $('requests-status').value, search: $('requests-search').value.trim() };
  const page = await pager.get('requests', query);
  if (!page || before !== pager.before) return; // the user has turned the page
  stale = false;
  pager.next = page.next ?? '';
  visible = page.requests.slice(0, pageSize);
  renderRows();
  const filtered = Boolean(query.operation || query.status || query.search);
  show($('requests-table'), visible.length > 0);
  show($('requests-empty'), visible.length === 0);
  setText($('requests-empty'), filtered ? 'No request matches the filter.' : 'The service has not received a request yet.');
  const { total = visible.length } = app.server.requests ?? {};
  const dropped = page.dropped ?? 0;
  setText($('requests-total'), `${total.toLocaleString('en')} in the journal${dropped ? ` (${dropped.toLocaleString('en')} dropped)` : ''}`);
  pager.render('requests', visible.length, filtered ? null : total);
}

function renderRows() {
  const rows = visible.flatMap((request) => (request.request_id === opened ? [{ request }, { request, detail: true }] : [{ request }]));
  sync($('requests-body'), rows, (row) => `${row.request.request_id}${row.detail ? ' detail' : ''}`,
    (row) => (row.detail ? createDetail(row.request) : createRow(row.request)),
    (node, row) => { if (!row.detail) updateRow(node, row.request); });
}

function createRow(request) {
  const button = h('button', { type: 'button', class: 'link mono break', dataset: { action: 'toggle-request', request: request.request_id }, text: request.path.length > maxPath ? `${request.path.slice(0, maxPath)}…` : request.path });
  const time = h('time', { class: 'mono muted' });
  setTime(time, request.time, true);
  const row = h('tr', { dataset: { id: request.request_id } },
    h('td', {}, time),
    h('td', {}, h('span', { class: 'badge', dataset: { code: String(request.status).charAt(0) }, text: request.status || 'none' }), request.fault ? h('span', { class: 'tag', text: 'fault' }) : null),
    h('td', { class: 'mono', text: request.method }), h('th', { scope: 'row' }, button), h('td', { class: 'muted', text: request.operation || 'unknown path' }));
  row.button = button;
  return row;
}

function updateRow(row, request) {
  setAttr(row.button, 'aria-expanded', request.request_id === opened ? 'true' : 'false');
}

function createDetail(request) {
  const dataset = { request: request.request_id };
  const owner = [['Path', request.path], ['Request ID', request.request_id], ['Client ID', request.client_id], ['Project', request.project_id], ['Workspace', request.workspace_id]];
  const cell = h('td', { colspan: '5' },
    h('div', { class: 'row' },
      h('button', { type: 'button', class: 'small', dataset: { action: 'request-curl', ...dataset }, text: 'Copy as curl' }),
      h('button', { type: 'button', class: 'small', dataset: { action: 'request-go-test', ...dataset }, text: 'Copy as Go test' })),
    h('dl', { class: 'facts' }, ...owner.filter(([, value]) => value).map(([name, value]) => h('div', {}, h('dt', { text: name }), h('dd', { class: 'mono break', text: value })))),
    headers(request.header), block(request.body));
  if (request.truncated) cell.append(h('p', { class: 'hint', text: 'The journal contains only a part of this request.' }));
  if (request.fault) cell.append(h('p', { class: 'hint', text: `Injected fault: ${JSON.stringify(request.fault)}` }));
  return h('tr', { class: 'expanded' }, cell);
}
