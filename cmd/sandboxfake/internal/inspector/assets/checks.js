// The table of checks.

import { $, h, setAttr, setCountdown, setText, setTime, show, sync } from './dom.js';
import { Pager, app, now } from './api.js';
import { productName } from './products.js';

const pageSize = 50;
const pager = new Pager();
let stale = true; // the list must be fetched even while it is not live

// resetChecks shows the first page, without a selected check.
export function resetChecks() {
  filterChecks();
  app.selected = null;
}

// filterChecks shows the first page after a change of a filter.
export function filterChecks() {
  pager.reset();
  stale = true;
}

export function olderChecks() {
  pager.older();
  stale = true;
}

export function newerChecks() {
  pager.newer();
  stale = true;
}

// refreshChecks gets the visible page of checks.
export async function refreshChecks() {
  if (!stale && !$('checks-live').checked) return;
  const before = pager.before;
  const query = {
    limit: pageSize, before,
    search: $('checks-search').value.trim(), product: $('checks-product').value, status: $('checks-status').value,
  };
  const page = await pager.get('checks', query);
  if (!page || before !== pager.before) return; // the user has turned the page
  stale = false;
  pager.next = page.next ?? '';
  render(page, Boolean(query.search || query.product || query.status));
}

function render(page, filtered) {
  const checks = page.checks.slice(0, pageSize);
  sync($('checks-body'), checks, (check) => check.check_id, createRow, updateRow);
  show($('checks-table'), checks.length > 0);
  show($('checks-empty'), checks.length === 0);
  renderEmpty(filtered);
  const { total, dropped } = page;
  setText($('checks-total'), `${total.toLocaleString('en')} ${total === 1 ? 'check' : 'checks'}${dropped ? ` (${dropped.toLocaleString('en')} dropped)` : ''}`);
  pager.render('checks', checks.length, filtered ? null : total);
}

function renderEmpty(filtered) {
  const node = $('checks-empty');
  if (filtered) setText(node, 'No check matches the filter.');
  else if (!node.querySelector('a')) node.replaceChildren('No checks yet. Create the first one above, or use the ', h('a', { href: '#control', text: 'credentials of this server' }), ' in your program.');
}

function createRow(check) {
  const row = h('tr', { dataset: { id: check.check_id } });
  const button = h('button', { type: 'button', class: 'link mono', dataset: { action: 'select-check' } });
  const cells = {
    number: button, reference: h('span'), product: h('span'), version: h('small', { class: 'muted' }),
    status: h('span', { class: 'badge' }), ttl: h('small', { class: 'muted', dataset: { before: 'expires in' } }), result: h('small'), created: h('time'),
    delivery: h('span'), retry: h('small', { class: 'muted', dataset: { before: 'retry in' } }),
  };
  row.cells_ = cells;
  row.append(
    h('th', { scope: 'row' }, cells.number, h('small', { class: 'muted clip' }, cells.created, ' ', cells.reference)), h('td', {}, h('span', { class: 'stack' }, cells.product, cells.version)),
    h('td', {}, h('span', { class: 'stack' }, h('span', {}, cells.status), cells.result, cells.ttl)), h('td', {}, h('span', { class: 'stack' }, cells.delivery, cells.retry)),
  );
  return row;
}

function updateRow(row, check) {
  const c = row.cells_;
  setText(c.number, check.phone_number);
  setAttr(c.number, 'title', check.check_id);
  setText(c.reference, check.reference_id ?? '');
  setText(c.product, productName(check.product));
  setText(c.version, check.version + (check.live ? ' live' : ''));
  setStatus(c.status, check.status);
  setCountdown(c.ttl, check.expires_at, now());
  setResult(c.result, check);
  setDelivery(c.delivery, check);
  setCountdown(c.retry, check.last_delivery?.next_attempt, now());
  setTime(c.created, check.created_at);
  setAttr(row, 'aria-current', check.check_id === app.selected ? 'true' : null);
}

// markSelected marks the row of the selected check.
export function markSelected() {
  for (const row of $('checks-body').children) setAttr(row, 'aria-current', row.dataset.id === app.selected ? 'true' : null);
}

// setStatus shows the status of a check in a badge.
export function setStatus(node, status) {
  setText(node, status);
  setAttr(node, 'data-status', status);
}

// setResult shows the result of a check.
export function setResult(node, check) {
  setText(node, resultText(check));
  const good = [check.match, check.no_sim_change].filter((value) => value !== undefined && value !== null);
  const kind = check.status !== 'COMPLETED' ? 'none' : good.includes(false) ? 'bad' : 'good';
  setAttr(node, 'data-result', kind);
}

// resultText describes the result of a check. Match is valid only if the check is COMPLETED.
export function resultText(check) {
  if (check.status === 'ERROR') return check.error_code || 'error';
  if (check.status === 'EXPIRED') return 'no result';
  if (check.status !== 'COMPLETED') return '';
  const parts = [];
  if (check.match === true) parts.push('match');
  if (check.match === false) parts.push('no match');
  if (check.no_sim_change === true) parts.push('no SIM change');
  if (check.no_sim_change === false) parts.push('SIM change');
  return parts.join(', ');
}

// setDelivery shows the state of the latest callback of a check.
export function setDelivery(node, check) {
  setText(node, deliveryText(check));
  setAttr(node, 'data-result', deliveryKind(check));
}

// hasEnded reports whether the status of a check is final.
export const hasEnded = (status) => !['ACCEPTED', 'PENDING'].includes(status);

// deliveryText describes the state of the latest callback of a check, such as "403 rejected".
export function deliveryText({ status, deliveries, last_delivery: delivery }) {
  if (!delivery) return deliveries ? 'dropped' : hasEnded(status) ? 'none' : '';
  if (delivery.attempts === 0) return 'in flight';
  return `${delivery.status ? `${delivery.status} ` : ''}${delivery.result.replaceAll('_', ' ')}`;
}

// deliveryKind reports whether the callback was delivered, was lost, or neither so far.
export function deliveryKind({ last_delivery: delivery }) {
  if (!delivery?.attempts) return 'none';
  return delivery.result === 'acknowledged' ? 'good' : delivery.done ? 'bad' : 'warn';
}

// whyLost says why no attempt follows the last one of a delivery, which was not acknowledged.
export function whyLost({ status, result, attempts }) {
  if (result === 'failed') return `It was the last of ${attempts} attempts.`;
  return `The service does not retry ${status ? `a ${String(status).charAt(0)}XX` : 'without a response'}.`;
}
