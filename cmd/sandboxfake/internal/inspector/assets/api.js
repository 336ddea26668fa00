// Requests to the control plane, and the state that all views share.

import { $, setText, show } from './dom.js';

const base = '/_sandbox/';

// Problem is the error of a request. Its status is 0 if there was no response.
export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// call sends a request to the control plane and returns the decoded body, or null without one.
export async function call(method, path, body, headers = {}) {
  const init = { method, cache: 'no-store', credentials: 'same-origin', headers: { Accept: 'application/json', ...headers } };
  if (method === 'POST') {
    init.headers['Content-Type'] = 'application/json';
    if (body !== undefined) init.body = JSON.stringify(body);
  } else if (method === 'GET') {
    init.signal = AbortSignal.timeout(20000);
  }
  let response;
  let text;
  try {
    response = await fetch(base + path, init);
    text = await response.text();
  } catch {
    throw new Problem(0, 'The server is unreachable.');
  }
  const decoded = decode(text);
  if (!response.ok) throw new Problem(response.status, describe(response.status, decoded));
  return decoded;
}

function decode(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

// describe returns the text of a problem document.
function describe(status, problem) {
  const detail = [problem?.title, problem?.detail].filter((part) => typeof part === 'string' && part !== '');
  return `${status} ${detail.length ? detail.join(': ') : 'The request failed.'}`;
}

export const get = (path, query = {}) => {
  const params = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '' && value !== null && value !== undefined));
  const text = params.toString();
  return call('GET', text ? `${path}?${text}` : path);
};
export const post = (path, body) => call('POST', path, body);

// app is the state that all views share. server is the last response of GET state.
export const app = {
  server: null,
  view: '',
  selected: null, // check ID
  caFile: 'ca.pem',
  operations: [],
  clock: { base: Date.now(), at: performance.now(), frozen: false },
};

// now returns the time on the server's clock as a Date.
export function now() {
  const { base: start, at, frozen } = app.clock;
  return new Date(frozen ? start : start + performance.now() - at);
}

// setServer stores a response of GET state. The request took the given milliseconds.
export function setServer(state, elapsed) {
  app.server = state;
  app.clock = { base: new Date(state.now).getTime() + (state.frozen ? 0 : elapsed / 2), at: performance.now(), frozen: state.frozen };
}

// pager keeps the cursors of a list that is shown page by page, newest first.
export class Pager {
  cursors = []; // of the pages before the current one
  before = '';
  next = '';

  reset() {
    this.cursors = [];
    this.before = '';
    this.next = '';
  }

  // get returns a page, or null if its cursor is from before a reset.
  async get(path, query) {
    try {
      return await get(path, query);
    } catch (err) {
      if (!(err instanceof Problem && err.status === 409)) throw err;
      this.reset();
      return null;
    }
  }

  older() {
    if (!this.next) return;
    this.cursors.push(this.before);
    this.before = this.next;
    this.next = '';
  }

  newer() {
    this.before = this.cursors.pop() ?? '';
  }

  // render shows the position of the page. total is null if a filter hides entries.
  render(name, count, total) {
    setOff($(`${name}-newer`), this.cursors.length === 0);
    setOff($(`${name}-older`), !this.next);
    const page = this.cursors.length + 1;
    const newest = total === null ? `Newest ${count}` : `Newest ${count} of ${total.toLocaleString('en')}`;
    setText($(`${name}-page`), count === 0 ? '' : page === 1 ? newest : `Page ${page.toLocaleString('en')}`);
  }
}

// setOff disables a button for a reason other than its own request. See busy.
export function setOff(button, off, reason = '') {
  button.dataset.off = off ? '1' : '';
  button.disabled = off || button.dataset.busy === '1';
  if (reason || button.title) button.title = off ? reason : '';
}

// busy disables a button while its request is in flight, so that it is not sent twice.
export function busy(button, on) {
  if (on) {
    button.dataset.busy = '1';
    button.dataset.focus = document.activeElement === button ? '1' : '';
    button.setAttribute('aria-busy', 'true');
    button.disabled = true;
    return;
  }
  button.dataset.busy = '';
  button.removeAttribute('aria-busy');
  button.disabled = button.dataset.off === '1';
  // Browsers remove the focus from a disabled button.
  if (button.dataset.focus === '1' && document.activeElement === document.body) button.focus();
}

// showView makes one view visible.
export function showView(name) {
  for (const view of document.querySelectorAll('.view')) show(view, view.id === `view-${name}`);
  for (const entry of $('nav').querySelectorAll('a')) {
    if (entry.id === `nav-${name}`) entry.setAttribute('aria-current', 'page');
    else entry.removeAttribute('aria-current');
  }
}
