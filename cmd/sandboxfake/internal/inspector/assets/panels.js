// The view of the clock, faults, keys, projects and credentials.

import { $, button, h, link, setAttr, setCountdown, setText, show, sync } from './dom.js';
import { app, get, now, setOff } from './api.js';

const tile = (id, heading, ...children) => h('section', { class: 'card', id, 'aria-labelledby': `${id}-title` }, h('h2', { id: `${id}-title`, text: heading }), ...children);
const field = (label, id, input) => h('div', { class: 'field' }, h('label', { for: id, text: label }), input);
const hint = (text, id) => h('p', { class: 'hint', id, text });
const options = (values) => values.map(([value, text]) => h('option', { value, text: text ?? value }));

// startPanels creates the panels, once.
export function startPanels() {
  const view = $('view-control');
  if (view.children.length > 0) {
    fillOperations();
    return;
  }
  view.append(clockTile(), callbackTile(), apiTile(), faultsTile(), keysTile(), projectsTile(), credentialsTile(), serverTile());
  fillOperations();
}

function fillOperations() {
  $('api-operation').replaceChildren(h('option', { value: '', text: 'any call' }), ...app.operations.map((name) => h('option', { text: name })));
}

function clockTile() {
  return tile('clock', 'Clock',
    h('p', { class: 'big' }, h('span', { class: 'mono', id: 'clock-now' }), ' ', h('span', { class: 'tag', id: 'clock-frozen', text: 'frozen' })),
    h('div', { class: 'row' },
      button('advance-120', 'advance', 'Advance 2 min', '', { seconds: '120' }), button('advance-3600', 'advance', 'Advance 1 h', '', { seconds: '3600' })),
    h('form', { class: 'row end', dataset: { form: 'advance' }, id: 'advance-form' },
      field('Advance by', 'advance-value', h('input', { id: 'advance-value', type: 'number', min: '0', step: 'any', value: '10', required: true })),
      field('Unit', 'advance-unit', h('select', { id: 'advance-unit' }, ...options([['1', 'seconds'], ['60', 'minutes'], ['3600', 'hours'], ['86400', 'days']]))),
      h('button', { type: 'submit', id: 'advance-submit', text: 'Advance' })),
    field('Signatures are dated by', 'dates-select', h('select', { id: 'dates-select' }, ...options([['system', "the system's clock"], ['sandbox', 'this clock']]))),
    hint('A receiver rejects a signature whose date differs by more than 5 s from its own clock.'));
}

function callbackTile() {
  return tile('callback-faults', 'Next callback',
    hint('The next delivery attempt of any check gets the fault, also if it is a retry. Further attempts follow the usual rules.'),
    h('div', { class: 'field', id: 'fault-check-field', hidden: true }, h('label', { for: 'fault-check', text: 'Callback of' }),
      h('select', { id: 'fault-check' }, ...options([['', 'any check'], ['selected', '']]))),
    h('div', { class: 'row' },
      button('fault-503', 'callback-fault', 'Receiver responds 503', '', { fault: '503' }),
      button('fault-drop', 'callback-fault', 'Drop', '', { fault: 'drop' }),
      button('fault-wrong-key', 'callback-fault', 'Wrong key', '', { fault: 'wrong_key' }),
      button('fault-truncate', 'callback-fault', 'Truncate the body', '', { fault: 'truncate' })),
    h('div', { class: 'row end' },
      field('Seconds', 'fault-delay-seconds', h('input', { id: 'fault-delay-seconds', type: 'number', min: '0.1', max: '600', step: 'any', value: '3' })),
      button('fault-delay', 'callback-fault', 'Delay', '', { fault: 'delay' })));
}

function apiTile() {
  return tile('api-faults', 'Next API call',
    hint('The next matching call fails. Calls of this page count too: Create check and Open as phone.'),
    h('form', { class: 'row end', dataset: { form: 'api-fault' }, id: 'api-fault-form' },
      field('Operation', 'api-operation', h('select', { id: 'api-operation' })),
      field('Status', 'api-status', h('select', { id: 'api-status' }, ...options([['500'], ['503'], ['429'], ['401']]))),
      h('button', { type: 'submit', id: 'api-fault-submit', text: 'Make it fail' })));
}

function faultsTile() {
  return tile('faults', 'Active faults',
    h('ul', { class: 'list', id: 'faults-list' }), hint('No fault is active.', 'faults-none'),
    h('div', { class: 'actions' }, button('faults-clear', 'clear-faults', 'Remove all faults')));
}

function keysTile() {
  return tile('keys', 'Signing keys', h('ul', { class: 'list', id: 'keys-list' }),
    hint('After a rotation, the old key stays published for five minutes.'),
    h('div', { class: 'actions' }, button('rotate-keys', 'rotate-keys', 'Rotate keys')));
}

function projectsTile() {
  return tile('projects', 'Workspaces and projects', h('ul', { class: 'list', id: 'workspaces-list' }), h('ul', { class: 'list', id: 'projects-list' }), hint('', 'projects-more'));
}

function credentialsTile() {
  return tile('credentials', 'Credentials', h('dl', { class: 'facts', id: 'credentials-list' }));
}

function serverTile() {
  return tile('server', 'Server',
    h('dl', { class: 'facts' },
      h('div', {}, h('dt', { text: 'URL' }), h('dd', { id: 'server-url', class: 'mono break' })),
      h('div', {}, h('dt', { text: 'CA certificate' }), h('dd', { id: 'server-ca', class: 'mono break' })),
      h('div', {}, h('dt', { text: 'Recorded' }), h('dd', { id: 'server-counts' }))),
    h('div', { class: 'actions' }, button('sign-out', 'sign-out', 'Disconnect this browser'), button('reset', 'reset', 'Reset…', 'danger')));
}

// renderFaultCount shows the number of active faults in the navigation.
function renderFaultCount(injections) {
  const left = injections.reduce((sum, injection) => sum + (injection.left ?? 0), 0);
  show($('fault-count'), left > 0);
  setText($('fault-count'), left > 0 ? `${left}` : '');
  setAttr($('fault-count'), 'title', 'faults that are left');
}

// refreshFaults gets the active faults.
export async function refreshFaults() {
  const { injections } = await get('faults');
  renderFaultCount(injections);
  return injections;
}

// renderFaultCheck lets the user limit a fault to the callback of the selected check.
export function renderFaultCheck() {
  const choice = $('fault-check');
  show($('fault-check-field'), Boolean(app.selected));
  if (choice.dataset.check === app.selected) return;
  choice.dataset.check = app.selected ?? '';
  choice.value = '';
  setText(choice.options[1], `the selected check ${app.selected ?? ''}`);
}

// refreshPanels gets the faults and shows the state that main.js has fetched.
export async function refreshPanels() {
  renderFaultCheck();
  renderServer();
  renderFaults(await refreshFaults());
}

function renderServer() {
  const { server } = app;
  renderTime();
  show($('clock-frozen'), server.frozen);
  if (document.activeElement !== $('dates-select')) $('dates-select').value = server.dates;
  setOff($('fault-delay'), server.frozen, 'A delay on a frozen clock would never end.');
  renderKeys(server.keys ?? []);
  renderProjects(server);
  renderCredentials(server.credentials ?? {});
  setText($('server-url'), server.public_url ? `${server.url}, public: ${server.public_url}` : server.url);
  setText($('server-ca'), app.caFile);
  setText($('server-counts'), [['checks', server.checks], ['requests', server.requests], ['deliveries', server.deliveries]].map(([name, count]) => `${name}: ${(count?.total ?? 0).toLocaleString('en')}`).join(', '));
}

// renderTime shows the date and time of the server's clock.
export function renderTime() {
  const date = now();
  const iso = new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString();
  if ($('clock-now')) setText($('clock-now'), `${iso.slice(0, 10)} ${iso.slice(11, 19)}`);
}

function renderKeys(keys) {
  sync($('keys-list'), keys, (key) => key.key_id, () => {
    const parts = { id: h('span', { class: 'mono break' }), state: h('span', { class: 'muted' }), left: h('span', { class: 'mono' }) };
    const node = h('li', {}, parts.id, h('span', { class: 'spring' }), parts.state, parts.left);
    node.parts = parts;
    return node;
  }, ({ parts }, key) => {
    setText(parts.id, key.key_id);
    setText(parts.state, key.signing ? 'signs messages' : key.expires_at ? 'published for' : 'published');
    setCountdown(parts.left, key.expires_at, now());
  });
}

const line = () => {
  const parts = { name: h('strong'), note: h('span', { class: 'muted' }), id: h('small', { class: 'mono muted break' }), url: h('small', { class: 'break' }) };
  const node = h('li', { class: 'stack' }, h('span', { class: 'row' }, parts.name, h('span', { class: 'spring' }), parts.note), parts.id, parts.url);
  node.parts = parts;
  return node;
};

function renderProjects({ workspaces = [], projects = [], workspaces_total: allWorkspaces = 0, projects_total: allProjects = 0 }) {
  sync($('workspaces-list'), workspaces, (w) => w.workspace_id, line, ({ parts }, w) => {
    setText(parts.name, w.name);
    setText(parts.note, `balance ${w.balance} ${w.currency}`);
    setText(parts.id, w.workspace_id);
  });
  sync($('projects-list'), projects, (p) => p.project_id, line, ({ parts }, p) => {
    setText(parts.name, p.name);
    setText(parts.note, p.mode);
    setText(parts.id, p.project_id);
    renderURLs(parts.url, p);
  });
  const more = Math.max(0, allWorkspaces - workspaces.length) + Math.max(0, allProjects - projects.length);
  setText($('projects-more'), more ? `${more} more are not shown.` : '');
}

function renderURLs(node, project) {
  const urls = [
    ['callback URL', project.callback_url], ['PhoneCheck callback', project.phone_check?.callback_url], ['PhoneCheck redirect', project.phone_check?.redirect_url],
    ['SubscriberCheck callback', project.subscriber_check?.callback_url], ['SubscriberCheck redirect', project.subscriber_check?.redirect_url],
  ].filter(([, url]) => url);
  const text = JSON.stringify(urls);
  if (node.dataset.urls === text) return;
  node.dataset.urls = text;
  node.replaceChildren(...urls.map(([name, url]) => h('span', { class: 'stack' }, `${name}: `, link(url))));
}

function renderCredentials(credentials) {
  const list = $('credentials-list');
  const text = JSON.stringify(credentials);
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...['project', 'workspace'].filter((name) => credentials[name]).map((name) => h('div', { class: 'stack' },
    h('dt', { text: `${name === 'project' ? 'Project' : 'Workspace'}: client ID` }),
    h('dd', { class: 'mono break', text: credentials[name].client_id }),
    h('dd', { class: 'row' },
      h('button', { type: 'button', class: 'small', id: `copy-id-${name}`, dataset: { action: 'copy-secret', owner: name, field: 'client_id' }, text: 'Copy client ID' }),
      h('button', { type: 'button', class: 'small', id: `copy-secret-${name}`, dataset: { action: 'copy-secret', owner: name, field: 'client_secret' }, text: 'Copy client secret' })))));
}

function renderFaults(injections) {
  const active = injections.filter((injection) => injection.left > 0).slice(0, 50);
  const items = active.map((injection, i) => ({ injection, key: `${i} ${JSON.stringify(injection.match)}` }));
  sync($('faults-list'), items, (item) => item.key, () => {
    const node = h('li', {}, h('span', { class: 'mono break' }), h('span', { class: 'spring' }), h('span', { class: 'muted' }));
    return node;
  }, (node, { injection }) => {
    const { match, faults, left } = injection;
    setText(node.firstChild, `${match.operation || 'any call'}${match.check_id ? ` of ${match.check_id}` : ''}`);
    setText(node.lastChild, `${faults.slice(-left).slice(0, 3).map(faultText).join(', ')}${match.repeat ? ', repeated' : `, ${left} left`}`);
  });
  show($('faults-none'), active.length === 0);
  setOff($('faults-clear'), injections.length === 0);
}

// faultText describes a fault.
export function faultText(fault) {
  const parts = [];
  if (fault.status) parts.push(`status ${fault.status}`);
  if (fault.drop) parts.push('drop');
  if (fault.truncate) parts.push('truncate');
  if (fault.wrong_key) parts.push('wrong key');
  if (fault.body && !fault.status) parts.push('other body');
  if (fault.latency_seconds) parts.push(`delay ${fault.latency_seconds} s`);
  return parts.join(', ') || 'pass';
}
