// The start of the page: the session, the event stream, and the refresh of the visible view.

import { $, clearError, clockTime, countdowns, notice, setAttr, setFieldError, setText, show, showError } from './dom.js';
import { Problem, app, call, get, now, setServer, showView } from './api.js';
import { refreshChecks, resetChecks } from './checks.js';
import { refreshTimeline, setOutcomes } from './timeline.js';
import { refreshRequests, resetRequests, setOperations } from './requests.js';
import { refreshFaults, refreshPanels, startPanels } from './panels.js';
import { refreshReceiver, startReceiver } from './receiver.js';
import { startActions } from './actions.js';
import { fillProjects } from './create.js';

const views = {
  checks: () => {
    fillProjects();
    return [refreshChecks(), refreshTimeline(), refreshFaults()];
  },
  requests: () => [refreshRequests(), refreshFaults()],
  control: () => [refreshPanels()],
  receiver: () => [refreshReceiver(), refreshFaults()],
};

// minInterval is the minimum time between two refreshes, in milliseconds.
const minInterval = 500;

const refresh = { dirty: false, running: false, timer: 0, ended: 0 };

// invalidate refreshes the visible view soon, but not while the page is hidden.
function invalidate() {
  refresh.dirty = true;
  if (refresh.running || refresh.timer || document.hidden || !views[app.view]) return;
  const wait = Math.max(0, refresh.ended + minInterval - performance.now());
  refresh.timer = setTimeout(runRefresh, wait);
}

async function runRefresh() {
  refresh.timer = 0;
  refresh.dirty = false;
  refresh.running = true;
  try {
    await refreshServer();
    const results = await Promise.allSettled(views[app.view]?.() ?? []);
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
  } catch (err) {
    failedRefresh(err);
  } finally {
    refresh.running = false;
    refresh.ended = performance.now();
    if (refresh.dirty) invalidate();
  }
}

// refreshServer gets the state, which the header and all views use.
async function refreshServer() {
  const start = performance.now();
  const state = await get('state');
  const another = app.server && app.server.generation !== state.generation;
  setServer(state, performance.now() - start);
  if (another) {
    resetChecks();
    resetRequests();
    notice('The server was reset.');
  }
  renderHeader();
}

function failedRefresh(err) {
  if (err instanceof Problem && err.status === 401) signIn();
  else if (err instanceof Problem && err.status === 0) disconnected();
  else showError(err);
}

function renderHeader() {
  const { server } = app;
  show($('top-frozen'), server.frozen);
  setText($('foot-url'), server.public_url ?? server.url);
  renderClock();
}

function renderClock() {
  if (app.server) setText($('top-clock'), clockTime(now()));
}

// stream is the connection to GET events. It is closed while the page is hidden, because a browser
// opens at most six connections to a host.
const stream = { source: null, timer: 0, wait: 0, seen: '' };

function connect() {
  clearTimeout(stream.timer);
  stream.timer = 0;
  if (stream.source || document.hidden || app.view === 'signin') return;
  const source = new EventSource('/_sandbox/events');
  stream.source = source;
  source.addEventListener('change', (event) => {
    connected();
    if (stream.seen === event.data) return;
    stream.seen = event.data;
    invalidate();
  });
  source.addEventListener('error', () => {
    if (stream.source === source) disconnected();
  });
}

function closeStream() {
  stream.source?.close();
  stream.source = null;
}

function connected() {
  if ($('connection').dataset.state === 'live') return;
  stream.wait = 0;
  stream.seen = '';
  setConnection('live');
  clearError();
}

// disconnected shows that the server does not respond, and connects again after a delay. Requests
// and their errors are handled by reconnect, because an EventSource does not report a status.
function disconnected() {
  closeStream();
  setConnection('disconnected');
  stream.wait = Math.min(10000, Math.max(1000, stream.wait * 2));
  clearTimeout(stream.timer);
  stream.timer = setTimeout(reconnect, stream.wait);
}

async function reconnect() {
  if (document.hidden) return;
  try {
    await call('GET', 'session');
  } catch (err) {
    failedRefresh(err);
    if (!(err instanceof Problem && (err.status === 401 || err.status === 0))) disconnected();
    return;
  }
  if (app.view === 'signin' || app.view === '') await open();
  else {
    connect();
    invalidate();
  }
}

function setConnection(state) {
  setAttr($('connection'), 'data-state', state);
  setText($('connection'), state === 'signin' ? 'no token' : state);
}

// signIn asks for the control token.
function signIn() {
  closeStream();
  clearTimeout(stream.timer);
  setConnection('signin');
  app.view = 'signin';
  showView('signin');
  show($('nav'), false);
}

// useToken starts a session with the control token. text is the token, or contains the URL that the
// program prints.
async function useToken(text) {
  setFieldError($('signin-token'), '');
  if (!await startSession(tokenOf(text) ?? text)) {
    signIn();
    setFieldError($('signin-token'), 'This is not the control token of this run. Copy the URL with /_sandbox/#token= from the first line that sandboxfake printed when it started, and paste it here or in the address bar.');
    return;
  }
  $('signin-token').value = '';
  clearError();
  await open();
}

// startSession exchanges a token for a cookie, and reports whether the token is valid.
async function startSession(token) {
  if (!/^[!-~]+$/.test(token)) return false; // not valid in a header
  try {
    await call('POST', 'session', undefined, { Authorization: `Bearer ${token}` });
    return true;
  } catch (err) {
    if (err instanceof Problem && err.status === 401) return false;
    throw err;
  }
}

// tokenOf returns the token in the fragment of a URL, or null.
function tokenOf(url) {
  const [, token] = /#token=(.+)$/.exec(url) ?? [];
  try {
    return token ? decodeURIComponent(token) : null;
  } catch {
    return token;
  }
}

// takeToken returns the token of the URL's fragment and removes it from the address and the history.
function takeToken() {
  const token = tokenOf(location.hash);
  if (token) history.replaceState(null, '', location.pathname + location.search);
  return token;
}

// route shows the view of the URL's fragment.
function route() {
  const name = location.hash.slice(1);
  app.view = views[name] ? name : 'checks';
  show($('nav'), true);
  showView(app.view);
  invalidate();
}

// open shows the page to an authorized user.
async function open() {
  const [environment, operations, outcomes] = await Promise.allSettled([get('page/private/environment.json'), get('operations'), get('outcomes')]);
  app.caFile = environment.value?.ca_file || app.caFile;
  setOperations(operations.value?.operations ?? []);
  setOutcomes(outcomes.value?.outcomes ?? []);
  await refreshServer();
  startPanels();
  startReceiver();
  route();
  connect();
}

async function start() {
  const token = takeToken();
  try {
    if (token) await useToken(token);
    else {
      await call('GET', 'session');
      await open();
    }
  } catch (err) {
    failedRefresh(err);
  }
}

window.addEventListener('hashchange', () => {
  const token = takeToken();
  if (token) useToken(token).catch(showError);
  else if (app.view && app.view !== 'signin') route();
});

document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    closeStream();
    return;
  }
  if (app.view === 'signin') return;
  if ($('connection').dataset.state === 'disconnected' || !app.view) reconnect();
  else {
    connect();
    invalidate();
  }
});

setInterval(() => {
  if (document.hidden || !app.server) return;
  renderClock();
  if (!app.clock.frozen) countdowns(now());
}, 1000);

startActions({ invalidate, useToken, signIn });
start();
