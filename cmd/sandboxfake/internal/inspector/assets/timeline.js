// The selected check: its fields and its timeline.

import { $, button, duration, h, link, pretty, setAttr, setCountdown, setText, setTime, show, sync } from './dom.js';
import { Problem, app, get, now, setOff } from './api.js';
import { deliveryKind, deliveryText, hasEnded, markSelected, resultText, setDelivery, setResult, setStatus, whyLost } from './checks.js';
import { faultText, renderFaultCheck } from './panels.js';
import { hasCallbacks, productName } from './products.js';

// maxEvents is the maximum number of events that are shown.
const maxEvents = 200;

// detail is the last response of GET timeline for the selected check.
export const detail = { check: null, events: [] };

// selectCheck shows the timeline of a check, or nothing if id is null.
export function selectCheck(id) {
  if (app.selected !== id) {
    app.selected = id;
    detail.check = null;
    detail.events = [];
    $('timeline').replaceChildren();
    show($('qr'), false);
    setAttr($('show-qr'), 'aria-expanded', 'false');
    show($('open-result'), false);
    renderFaultCheck(); // the next refresh would reset a choice that the user makes before it
  }
  markSelected();
  if (!id) showDetail(false);
}

// narrow matches if the selected check replaces the list.
const narrow = matchMedia('(max-width: 1080px)');

function showDetail(visible) {
  const changed = $('detail').hidden === visible;
  show($('detail'), visible);
  show($('detail-empty'), !visible);
  document.body.classList.toggle('has-detail', visible);
  if (!changed || !narrow.matches) return;
  // The element with the focus is no longer visible.
  if (visible) {
    scrollTo(0, 0);
    $('detail-title').focus({ preventScroll: true });
  } else $('checks-title').focus();
}

// refreshTimeline gets the timeline of the selected check.
export async function refreshTimeline() {
  const id = app.selected;
  if (!id) {
    showDetail(false);
    return;
  }
  let timeline;
  try {
    timeline = await get('timeline', { check_id: id });
  } catch (err) {
    if (!(err instanceof Problem && err.status === 404)) throw err;
    if (app.selected === id) selectCheck(null); // the server was reset, or its history is full
    return;
  }
  if (app.selected !== id) return;
  detail.check = timeline.check;
  detail.events = timeline.events;
  renderCheck(timeline.check);
  renderEvents(timeline);
  showDetail(true);
}

function renderCheck(check) {
  setText($('detail-title'), `${productName(check.product)} ${check.phone_number}`);
  setStatus($('detail-status'), check.status);
  renderFacts(check);
  renderDelivery(check);
  renderOutcome(check);
  const opens = Boolean(check.check_url);
  const open = !check.product.startsWith('sim') && !hasEnded(check.status);
  show($('phone-actions'), opens || !$('open-result').hidden);
  setOff($('open-phone'), !opens, whyNotOpen(check));
  setOff($('copy-link'), !opens, 'The Check URL can be opened only once.');
  setOff($('show-qr'), !opens, 'The Check URL can be opened only once.');
  const url = check.open_url || check.check_url || '';
  setAttr($('open-tab'), 'href', opens && /^https?:/.test(url) ? url : null);
  if (!opens) show($('qr'), false);
  setAttr($('save-timeline'), 'href', `page/private/timeline.html?${new URLSearchParams({ check_id: check.check_id })}`);
  setOff($('expire-now'), !open, 'The check has already ended.');
  setOff($('send-callback'), !hasCallbacks(check.product), 'A SIMCheck has no callback.');
}

// whyNotOpen says why the Check URL of a check cannot be opened.
export const whyNotOpen = (check) => (check.status === 'EXPIRED' ? 'The check expired before it was opened. Create another one.' : 'The Check URL can be opened only once.');

const factRows = [
  ['Check ID', (check) => [check.check_id]],
  ['Version', (check) => [`${check.version}${check.live ? ', live project' : ''}`]],
  ['Reference ID', (check) => [check.reference_id]],
  ['Callback URL', (check) => [check.callback_url, link]],
  ['Redirect URL', (check) => [check.redirect_url, link]],
  ['Check URL', (check) => [check.check_url, (text) => h('code', { class: 'break', text })]],
];

function renderFacts(check) {
  const list = $('detail-facts');
  if (list.dataset.id !== check.check_id) {
    list.dataset.id = check.check_id;
    list.replaceChildren(
      h('div', {}, h('dt', { text: 'Result' }), h('dd', {}, h('span', { id: 'fact-result' }))),
      h('div', { id: 'fact-delivery' }, h('dt', { text: 'Delivery' }), h('dd', { class: 'row' }, h('span', { id: 'delivery-state' }), button('redeliver', 'redeliver', 'Redeliver', 'small'), h('span', { id: 'delivery-hint' }))),
      h('div', { id: 'fact-ttl' }, h('dt', { text: 'Expires in' }), h('dd', {}, h('span', { class: 'mono', id: 'fact-left' }), h('progress', { id: 'fact-progress', 'aria-label': 'Time until the check expires' }))),
    );
  }
  setResult($('fact-result'), check);
  if (!resultText(check)) setText($('fact-result'), check.status === 'PENDING' ? 'waits for the code' : 'waits for the phone');
  show($('fact-ttl'), Boolean(check.expires_at));
  setCountdown($('fact-left'), check.expires_at, now());
  const progress = $('fact-progress');
  setAttr(progress, 'data-due', check.expires_at ?? null);
  if (check.expires_at) {
    const expires = new Date(check.expires_at);
    setAttr(progress, 'max', Math.max(1, (expires - new Date(check.created_at)) / 1000));
    progress.value = Math.max(0, (expires - now()) / 1000);
  }
  for (const [name, value] of factRows) renderFact(list, name, ...value(check));
}

function renderFact(list, name, text, element = (value) => h('span', { class: 'break', text: value })) {
  let row = [...list.children].find((child) => child.dataset.name === name);
  if (!text) {
    row?.remove();
    return;
  }
  if (!row) {
    row = h('div', { dataset: { name } }, h('dt', { text: name }), h('dd'));
    list.append(row);
  }
  if (row.dataset.text === text) return;
  row.dataset.text = text;
  row.lastChild.replaceChildren(element(text));
}

// renderDelivery shows the state of the latest callback. A lost one is not hidden below the status
// of a check that is completed.
function renderDelivery(check) {
  const delivery = check.last_delivery;
  show($('fact-delivery'), hasCallbacks(check.product));
  $('fact-delivery').classList.toggle('alert', deliveryKind(check) === 'bad');
  setDelivery($('delivery-state'), check);
  setText($('delivery-hint'), deliveryHint(check));
  show($('redeliver'), Boolean(delivery));
}

function deliveryHint(check) {
  const delivery = check.last_delivery;
  switch (deliveryKind(check)) {
    case 'bad': return `${whyLost(delivery)} ${remedy(delivery)}`;
    case 'warn': return `The service retries a 5XX: attempt ${delivery.attempts + 1} of at most 6 follows.`;
  }
  if (check.deliveries > 0) return '';
  if (!check.callback_url) return 'The check has no callback URL.';
  return hasEnded(check.status) ? '' : 'The callback follows when the check ends.';
}

// remedy says what to do about a lost callback.
function remedy({ delivery_id: id }) {
  const { fault } = detail.events.findLast((event) => event.kind === 'attempt' && event.delivery_id === id) ?? {};
  return fault ? `The attempt had an injected fault: ${faultText(fault)}.` : 'Correct the receiver, then redeliver the callback.';
}

// renderOutcome repeats the result next to the button that opened the check.
function renderOutcome(check) {
  const delivery = check.last_delivery && `callback: ${deliveryText(check)}`;
  setText($('open-outcome'), [check.status, resultText(check), delivery].filter(Boolean).join(', '));
  const kind = deliveryKind(check);
  setAttr($('open-outcome'), 'data-result', kind === 'none' ? $('fact-result').dataset.result : kind);
}

// latestEvent returns the latest event that has happened.
export function latestEvent() {
  return detail.events.findLast((event) => !['next_attempt', 'attempt_in_flight', 'callback_queued', 'completed', 'expired', 'failed', 'removed'].includes(event.kind)) ?? null;
}

// attemptOf returns an attempt of the selected check with the URL and body of its delivery.
export function attemptOf(deliveryID, number) {
  const find = (kind, test) => detail.events.find((event) => event.kind === kind && event.delivery_id === deliveryID && test(event));
  const attempt = find('attempt', (event) => event.number === number);
  const queued = find('callback_queued', () => true);
  return attempt ? { url: queued?.url ?? detail.check.callback_url, ...attempt, body: attempt.body || queued?.body || '' } : null;
}

const titles = {
  created: () => 'Created',
  removed: () => 'Removed with its project',
  opened: (e) => `Check URL opened${e.as ? `: ${asText(e.as)}` : ''}`,
  redirected: () => 'Redirected to the redirect URL',
  exchanged: () => 'Code exchanged',
  expired: () => 'Expired',
  completed: (e) => `Completed: ${resultText({ ...e, status: 'COMPLETED' }) || 'no result'}`,
  failed: (e) => `Ended with an error${e.error_code ? `: ${e.error_code}` : ''}`,
  callback_queued: () => 'Callback queued',
  attempt: (e) => `Attempt ${e.number}: ${e.status ? `${e.status} ` : ''}${e.result.replaceAll('_', ' ')}`,
  attempt_in_flight: () => 'Attempt in flight',
  next_attempt: () => 'Next attempt',
};

// setOutcomes offers the results that a phone can choose.
export function setOutcomes(outcomes) {
  const group = (label, list, text) => h('optgroup', { label }, ...list.map((outcome) => h('option', { value: outcome.as, text: text(outcome) })));
  const [byNumber] = $('open-as').options;
  $('open-as').replaceChildren(byNumber,
    group('Phone', outcomes.filter((outcome) => !outcome.error_code), ({ title }) => lowerFirst(title)),
    group('Error', outcomes.filter((outcome) => outcome.error_code), ({ error_code: code }) => code));
}

const asText = (as) => [...$('open-as').options].find((option) => option.value === as)?.text ?? as;

function renderEvents({ events, dropped }) {
  const shown = events.slice(-maxEvents);
  const missing = (dropped ?? 0) + events.length - shown.length;
  show($('timeline-dropped'), missing > 0);
  setText($('timeline-dropped'), `${missing} earlier events are not shown.`);
  const keys = new Map();
  const keyed = shown.map((event) => {
    const key = [event.kind, event.delivery_id ?? event.time, event.number ?? ''].join(' ');
    const n = keys.get(key) ?? 0;
    keys.set(key, n + 1);
    return { event, key: `${key} ${n}` };
  });
  sync($('timeline'), keyed, (item) => item.key, ({ event }) => createEvent(event), (node, { event }) => updateEvent(node, event));
  const latest = latestEvent();
  setText($('latest-event'), latest ? lowerFirst(title(latest)) : 'none');
}

const title = (event) => (titles[event.kind] ?? (() => event.kind))(event);

const lowerFirst = (text) => text.charAt(0).toLowerCase() + text.slice(1);

function createEvent(event) {
  const parts = { title: h('span', { class: 'event-title' }), time: h('time', { class: 'mono muted' }), note: h('span', { class: 'muted event-note' }), due: h('span', { class: 'mono event-due' }) };
  const node = h('li', { dataset: { kind: event.kind } }, h('div', { class: 'event-head' }, parts.title, parts.due, parts.note, parts.time));
  node.parts = parts;
  if (hasContent(event)) {
    const details = h('details', {}, h('summary', { text: event.kind === 'attempt' ? 'Signed headers and body' : 'Details' }));
    // The content can be large. It is created when it becomes visible.
    details.addEventListener('toggle', () => {
      if (details.open && details.children.length === 1) details.append(content(node.event));
    });
    node.append(details);
  }
  return node;
}

const hasContent = (event) => ['attempt', 'callback_queued', 'redirected'].includes(event.kind);

function updateEvent(node, event) {
  const { parts } = node;
  node.event = event;
  setText(parts.title, title(event));
  if (event.kind === 'next_attempt') setCountdown(parts.due, event.due, now());
  else setTime(parts.time, event.time, true);
  setText(parts.note, noteOf(event));
  setAttr(node, 'data-outcome', outcomeClass(event));
}

function noteOf(event) {
  const notes = [];
  if (event.kind === 'attempt' && Number.isFinite(event.duration_seconds)) notes.push(duration(event.duration_seconds));
  if (event.error) notes.push(event.error);
  if (event.fault) notes.push(`injected: ${faultText(event.fault)}`);
  if (event.kind === 'callback_queued') notes.push(event.url);
  return notes.join(', ');
}

function outcomeClass(event) {
  if (event.kind === 'attempt') return event.result === 'acknowledged' ? 'good' : event.result === 'rejected' ? 'bad' : 'warn';
  if (event.kind === 'completed') return event.match === false || event.no_sim_change === false ? 'bad' : 'good';
  if (event.kind === 'failed' || event.kind === 'expired') return 'warn';
  return 'none';
}

function content(event) {
  if (event.kind === 'redirected') return h('p', {}, link(event.location ?? ''));
  const box = h('div', { class: 'content' });
  if (event.kind === 'attempt') {
    const dataset = { delivery: event.delivery_id, number: event.number };
    box.append(headers(event.header), h('div', { class: 'row' },
      h('button', { type: 'button', class: 'small', dataset: { action: 'attempt-curl', ...dataset }, text: 'Copy as curl' }),
      h('button', { type: 'button', class: 'small', dataset: { action: 'attempt-go-test', ...dataset }, text: 'Copy as Go test' }),
      h('button', { type: 'button', class: 'small', dataset: { action: 'redeliver-one', ...dataset }, text: 'Redeliver' })));
    box.append(block(attemptOf(event.delivery_id, event.number)?.body ?? ''));
    if (event.fault) box.append(block(JSON.stringify(event.fault)));
    return box;
  }
  box.append(h('p', {}, link(event.url ?? '')), block(event.body ?? ''));
  return box;
}

// headers returns a list of header lines.
export function headers(header) {
  const list = h('dl', { class: 'headers' });
  for (const [name, values] of Object.entries(header ?? {})) {
    for (const value of values) list.append(h('dt', { text: name }), h('dd', { class: 'break', text: value }));
  }
  return list;
}

// block returns a body as preformatted text.
export const block = (text) => h('pre', { tabindex: '0', text: text ? pretty(text) : '(no body)' });
