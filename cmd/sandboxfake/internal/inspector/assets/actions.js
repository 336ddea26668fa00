// The buttons and forms. One listener for each event type serves the whole page, so that the number
// of listeners does not grow.

import { $, clearError, copy, h, isLoopback, notice, setAttr, setText, show, showError } from './dom.js';
import { Problem, app, busy, call, get, post } from './api.js';
import { filterChecks, newerChecks, olderChecks } from './checks.js';
import { attemptOf, detail, latestEvent, refreshTimeline, selectCheck } from './timeline.js';
import { filterRequests, latestRequest, newerRequests, olderRequests, requestByID, toggleRequest } from './requests.js';
import { attemptCurl, eventRequest, goTest, requestCurl } from './snippets.js';
import { faultText } from './panels.js';
import { createCheck, startCreate } from './create.js';
import { callbackURL, command, flowCheck, program, setFlow } from './receiver.js';

let page = null; // invalidate, useToken and signIn of main.js

const selected = () => app.selected;

const callbackFaults = {
  503: () => ({ status: 503 }),
  drop: () => ({ drop: true }),
  wrong_key: () => ({ wrong_key: true }),
  truncate: () => ({ truncate: true }),
  delay: () => ({ latency_seconds: Number($('fault-delay-seconds').value) }),
};

const inject = (match, fault) => post('faults', { match, faults: [fault] });

const curlOptions = () => ({ url: app.server.url, credentials: [app.server.credentials?.project, app.server.credentials?.workspace] });

// copyCurl copies a request, and names the variables that the command uses.
const copyCurl = (request) => copy(requestCurl(request, curlOptions()), 'a curl command for sh, bash, zsh and fish. Set TOKEN to an access token and CA to the path of the CA certificate');
const copyTest = (check, fault) => copy(goTest(check, fault), 'a Go test');

// copyRequestTest copies the Go test of the check that a request is about.
async function copyRequestTest(request) {
  const [, product, version, rest = ''] = /^\/([a-z_]+_check)\/(v[0-9.]+)\/checks([^?]*)/.exec(request?.path ?? '') ?? [];
  const id = rest.split('/')[1];
  if (id) {
    await copyTest((await get('timeline', { check_id: id })).check);
    return;
  }
  if (!product || request.method !== 'POST') throw new Error('A Go test is available only for a request that creates or uses a check.');
  const { phone_number: number, reference_id: reference } = JSON.parse(request.body);
  await copyTest({ product, version, phone_number: String(number), reference_id: reference, status: 'ACCEPTED' });
}

const needRequest = (request) => {
  if (!request) throw new Error('The journal contains no such request.');
  return request;
};

// copyEventCurl copies the latest event of the selected check as a curl command.
function copyEventCurl() {
  const event = latestEvent();
  if (event?.kind === 'attempt') return copy(attemptCurl(attemptOf(event.delivery_id, event.number), attemptOf(event.delivery_id, event.number).url), 'a curl command with the signed callback, for sh, bash, zsh and fish');
  return copyCurl(eventRequest(event ?? { kind: 'created' }, detail.check));
}

// actions are the handlers of the buttons, by data-action. Their button is disabled until they end.
const actions = {
  'close-error': clearError,
  'select-check': async (button) => {
    selectCheck(button.closest('tr').dataset.id);
    page.invalidate();
  },
  'close-detail': () => selectCheck(null),
  'checks-older': olderChecks,
  'checks-newer': newerChecks,
  'requests-older': olderRequests,
  'requests-newer': newerRequests,
  'toggle-request': (button) => toggleRequest(button.dataset.request),
  'open-phone': async () => {
    const id = selected();
    const opened = await post('open', { check_id: id, as: $('open-as').value || undefined, follow: $('open-follow').checked });
    if (selected() !== id) return;
    renderOpened(opened);
    await refreshTimeline();
    $('open-result').scrollIntoView({ block: 'nearest' });
  },
  'copy-link': () => copy(detail.check.open_url || detail.check.check_url, 'the link'),
  'show-qr': (button) => {
    const visible = $('qr').hidden;
    const url = detail.check.open_url || detail.check.check_url;
    const reachable = !isLoopback(url);
    show($('qr-image'), reachable);
    if (visible && reachable) setAttr($('qr-image'), 'src', `/_sandbox/page/qr.png?text=${encodeURIComponent(url)}`);
    setText($('qr-hint'), !reachable ? 'A phone cannot reach this address. Start the program with -lan or -public-url.' : url);
    show($('qr'), visible);
    setAttr(button, 'aria-expanded', String(visible));
  },
  expire: () => post('expire', { check_id: selected() }),
  redeliver: () => post('redeliver', { delivery_id: detail.check.last_delivery.delivery_id }),
  'redeliver-one': (button) => post('redeliver', { delivery_id: button.dataset.delivery }),
  'send-callback': openCallbackDialog,
  'copy-curl': copyEventCurl,
  'copy-go-test': () => copyTest(detail.check, latestEvent()?.fault),
  'attempt-curl': (button) => {
    const attempt = attemptOf(button.dataset.delivery, Number(button.dataset.number));
    return copy(attemptCurl(attempt, attempt.url), 'a curl command with the signed callback, for sh, bash, zsh and fish');
  },
  'attempt-go-test': (button) => copyTest(detail.check, attemptOf(button.dataset.delivery, Number(button.dataset.number)).fault),
  'request-curl': (button) => copyCurl(needRequest(requestByID(button.dataset.request))),
  'request-go-test': (button) => copyRequestTest(needRequest(requestByID(button.dataset.request))),
  'latest-request-curl': async () => copyCurl(needRequest(await latestRequest())),
  'latest-request-go-test': async () => copyRequestTest(needRequest(await latestRequest(true))),
  advance: async (button) => advance(Number(button.dataset.seconds)),
  'callback-fault': async (button) => {
    const fault = callbackFaults[button.dataset.fault]();
    const id = $('fault-check').value === 'selected' ? selected() ?? undefined : undefined;
    await inject({ operation: 'callback', check_id: id }, fault);
    notice(`The next delivery attempt of ${id ? 'the selected check' : 'any check, including a retry,'} gets this fault: ${faultText(fault)}.`);
  },
  'clear-faults': () => call('DELETE', 'faults'),
  'rotate-keys': async () => {
    await post('keys');
    notice('The server signs with a new key.');
  },
  reset: () => $('reset-dialog').showModal(),
  'close-dialog': (button) => button.closest('dialog').close(),
  'copy-secret': (button) => copy(app.server.credentials[button.dataset.owner][button.dataset.field], 'the value'),
  'sign-out': async () => {
    await call('DELETE', 'session');
    page.signIn();
  },
  'receiver-copy-program': () => copy(program(), 'the program'),
  'receiver-copy-command': () => copy(command(), 'the command'),
  'receiver-create': async () => setFlow(await receiverCheck()),
  'receiver-open': () => post('open', { check_id: flowCheck(), follow: true }),
  'receiver-forge': async () => {
    const id = await receiverCheck();
    await inject({ operation: 'callback', check_id: id }, { wrong_key: true });
    setFlow(id);
    await post('open', { check_id: id, follow: true });
  },
};

async function receiverCheck() {
  const check = await createCheck({ product: 'phone_check', version: 'v0.1', phone_number: '447700900012', callback_url: callbackURL() });
  selectCheck(check.check_id);
  return check.check_id;
}

async function advance(seconds) {
  await post('advance', { seconds });
  notice('The clock is advanced, and the events that became due have run.');
}

// renderOpened shows the responses that a phone would get. The timeline contains complete URLs.
function renderOpened({ response: { status, error }, hops }) {
  const plain = (url) => (url.includes('?') ? `${url.slice(0, url.indexOf('?'))}?…` : url);
  const lines = hops.slice(0, 25).map((hop) => `${hop.status || hop.error || 'no response'} ${plain(hop.url)}`);
  if (lines.length === 0) lines.push(status ? `${status}` : error || 'The Check URL was not opened.');
  $('open-hops').replaceChildren(...lines.map((line) => h('p', { class: 'mono break', text: line })));
  show($('open-result'), true);
}

// openCallbackDialog fills the form with the body of the latest callback, or with one that the
// selected check could have.
function openCallbackDialog() {
  const { check, events } = detail;
  const queued = events.findLast((event) => event.kind === 'callback_queued');
  const wire = (iso) => `${iso.slice(0, 19)}+0000`;
  const body = {
    check_id: check.check_id, reference_id: check.reference_id, status: 'COMPLETED', match: true,
    no_sim_change: check.product === 'subscriber_check' ? true : undefined, charge_amount: 0, charge_currency: 'API',
    created_at: wire(check.created_at), updated_at: wire(check.updated_at),
  };
  $('callback-url').value = queued?.url ?? check.callback_url ?? callbackURL();
  $('callback-product').value = check.product;
  $('callback-body').value = queued?.body ?? JSON.stringify(body);
  $('callback-dialog').showModal();
}

// forms are the handlers of the forms, by data-form.
const forms = {
  none: () => {},
  signin: () => page.useToken($('signin-token').value.trim()),
  callback: async () => {
    await post('callbacks', { url: $('callback-url').value, product: $('callback-product').value, body: $('callback-body').value, check_id: selected() ?? undefined });
    $('callback-dialog').close();
    notice('The callback is queued.');
  },
  reset: async () => {
    await post('reset');
    $('reset-dialog').close();
  },
  advance: () => advance(Number($('advance-value').value) * Number($('advance-unit').value)),
  'api-fault': async () => {
    const status = Number($('api-status').value);
    const operation = $('api-operation').value;
    await inject(operation ? { operation } : {}, status === 429 ? { status, retry_after_seconds: 3 } : { status });
    notice('The next matching call fails.');
  },
};

// run runs a handler. Its button is disabled until it ends, so that no request is sent twice.
async function run(handler, button) {
  if (!handler || button.dataset.busy === '1' || button.disabled) return;
  busy(button, true);
  clearError();
  try {
    await handler(button);
  } catch (err) {
    button.closest('dialog')?.close(); // a dialog would hide the message
    showError(err);
    if (err instanceof Problem && err.status === 401) page.signIn();
  } finally {
    busy(button, false);
    page.invalidate();
  }
}

const filters = { 'checks-filter': filterChecks, 'requests-filter': filterRequests };
let filterTimer = 0;

// filter refreshes a list after a change of its filters, but not for each key.
function filter(form) {
  clearTimeout(filterTimer);
  filterTimer = setTimeout(() => {
    filters[form.id]();
    page.invalidate();
  }, 250);
}

export function startActions(main) {
  page = main;
  forms.create = startCreate(selectCheck);
  document.addEventListener('click', (event) => {
    const button = event.target.closest('[data-action]');
    if (button?.dataset.action === 'skip') {
      event.preventDefault(); // the fragment of the URL names the view
      $('main').focus();
    } else if (button) run(actions[button.dataset.action], button);
    else if (event.target.closest('#checks-body tr') && getSelection().isCollapsed) run(actions['select-check'], event.target.closest('tr').querySelector('button'));
  });
  document.addEventListener('submit', (event) => {
    event.preventDefault();
    const button = event.submitter ?? event.target.querySelector('[type=submit]');
    if (button) run(forms[event.target.dataset.form], button);
  });
  document.addEventListener('input', (event) => {
    if (event.target.type !== 'checkbox' && event.target.form && filters[event.target.form.id]) filter(event.target.form);
  });
  $('main').addEventListener('change', async (event) => {
    if (event.target.id.endsWith('-live')) page.invalidate();
    if (event.target.id === 'dates-select') await post('dates', { clock: event.target.value }).catch(showError);
  });
}
