// The panel that leads to a first verified callback.

import { $, button, h, setAttr, setText } from './dom.js';
import { app, get, setOff } from './api.js';
import { faultText } from './panels.js';
import { shellQuote } from './snippets.js';
import { whyLost } from './checks.js';
import { whyNotOpen } from './timeline.js';

// directory is the directory of the saved program. A name of its own keeps other files intact.
const directory = 'sandbox-receiver';

// Programs of the panel. They contain placeholders.
const programs = {
  node: { name: 'Node.js', file: 'receiver.mjs', source: 'receiver.mjs', run: `node ${directory}/receiver.mjs`, needs: 'It requires Node.js 18 or later and no other packages.' },
  python: { name: 'Python', file: 'receiver.py', source: 'receiver.py', run: `python3 ${directory}/receiver.py`, needs: 'It requires the package cryptography: pip install cryptography.' },
  go: { name: 'Go', file: 'main.go', source: 'receiver.go.txt', run: `go run ./${directory}`, needs: 'Run it in the checkout of idverify-go in which you started sandboxfake, or in another module that requires idverify-go.' },
};
const sources = new Map(); // by language
let flow = null; // the ID of the panel's check
let language = 'node';

const step = (heading, ...children) => h('li', { class: 'card' }, h('h3', { text: heading }), ...children);

// startReceiver creates the panel, once.
export function startReceiver() {
  const view = $('view-receiver');
  if (view.children.length > 0) return;
  const choices = Object.entries(programs).map(([value, { name }]) => h('label', { class: 'check' },
    h('input', { type: 'radio', name: 'receiver-language', value, id: `receiver-${value}`, checked: value === language }), ` ${name}`));
  view.append(h('h2', { text: 'Receiver' }),
    h('p', { class: 'lead', text: 'A check reports its result to your callback URL. The receiver must verify the signature before it uses the result.' }),
    h('ol', { class: 'steps' },
      step('1. Start a receiver',
        h('div', { class: 'row' }, h('fieldset', { class: 'row', id: 'receiver-language' }, h('legend', { class: 'hide', text: 'Language' }), ...choices),
          h('span', { class: 'spring' }), h('label', { class: 'check' }, 'Port', h('input', { id: 'receiver-port', type: 'number', min: '1', max: '65535', value: '3000', class: 'short' }))),
        h('p', { class: 'hint', id: 'receiver-needs' }),
        h('p', { id: 'receiver-saves' }),
        h('div', { class: 'row' }, button('receiver-copy-command', 'receiver-copy-command', 'Copy command', 'primary'), button('receiver-copy-program', 'receiver-copy-program', 'Copy program only')),
        h('details', {}, h('summary', { id: 'receiver-show-program', text: 'Show the program' }), h('pre', { id: 'receiver-program', class: 'program', tabindex: '0', 'aria-label': 'Program of the receiver' })),
        h('p', { class: 'hint' }, 'After a restart of sandboxfake, copy the command again: the URL and the CA certificate are new. With the flags ', h('code', { text: '-addr' }), ' and ', h('code', { text: '-ca-file' }), ', only start the receiver again.'),
        h('p', { class: 'hint', id: 'receiver-dates' })),
      step('2. Create a check', h('p', { text: 'The number ends in 12, so that it matches.' }), h('div', { class: 'row' }, button('receiver-create', 'receiver-create', '', 'primary'))),
      step('3. Open the Check URL', h('p', { text: 'A phone does this over its mobile data connection. This button does it in place of a phone.' }),
        h('div', { class: 'row' }, button('receiver-open', 'receiver-open', 'Open as phone', 'primary'))),
      step('4. Result', h('p', { id: 'receiver-result', class: 'result', role: 'status', text: 'Waiting for steps 1 to 3.' }),
        h('div', { class: 'row' }, button('receiver-forge', 'receiver-forge', 'Send a forged callback'), h('a', { href: '#checks', class: 'button', id: 'receiver-show', text: 'Show the timeline' })),
        h('p', { class: 'hint', text: 'A forged callback is signed with the wrong key. The receiver must reject it with 400.' }))));
  view.addEventListener('change', (event) => {
    if (event.target.name === 'receiver-language') language = event.target.value;
    refreshReceiver().catch(() => {});
  });
}

// callbackURL returns the callback URL of the receiver.
export const callbackURL = () => `http://localhost:${port()}/callbacks`;

function port() {
  const value = Number($('receiver-port').value);
  return Number.isInteger(value) && value > 0 && value < 65536 ? value : 3000;
}

// program returns the source of the receiver. JSON escapes are valid in string literals of all
// three languages.
export function program() {
  const literal = (text) => JSON.stringify(text).slice(1, -1);
  return (sources.get(language) ?? '')
    .replaceAll('__JWKS_URL__', () => literal(`${app.server.url}/.well-known/jwks.json`))
    .replaceAll('__CA_FILE__', () => literal(app.caFile))
    .replaceAll('__CALLBACK_HEADER__', () => literal(app.server.callback_header));
}

// command returns a command that saves and starts the receiver. Tabs would start the completion of
// some shells.
export function command() {
  const { file, run } = programs[language];
  const prefix = port() === 3000 ? '' : `PORT=${port()} `;
  return `mkdir -p ${directory} && cat > ${shellQuote(`${directory}/${file}`)} <<'END_OF_PROGRAM'\n${program().replaceAll('\t', '    ').trimEnd()}\nEND_OF_PROGRAM\n${prefix}${run}\n`;
}

async function source(name) {
  const response = await fetch(`/_sandbox/page/receivers/${programs[name].source}`);
  if (!response.ok) throw new Error(`The program for ${programs[name].name} is unavailable.`);
  return response.text();
}

// setFlow sets the check of the panel.
export function setFlow(id) {
  flow = id;
}

export const flowCheck = () => flow;

// refreshReceiver shows the program, and the result of the panel's check.
export async function refreshReceiver() {
  const chosen = language;
  if (!sources.has(chosen)) sources.set(chosen, await source(chosen));
  if (chosen !== language) return;
  setText($('receiver-program'), program());
  setText($('receiver-needs'), programs[language].needs);
  setText($('receiver-saves'), `Paste this command in a terminal with sh, bash or zsh. It saves a short program as ${directory}/${programs[language].file}, replaces an earlier copy of it, and starts it:`);
  setText($('receiver-create'), `Create a check with callback to ${callbackURL()}`);
  const skewed = app.server.dates === 'sandbox' && Math.abs(new Date(app.server.now) - Date.now()) > 5000;
  setText($('receiver-dates'), skewed ? "Signatures are dated by the server's clock, which differs from the system's clock. The receiver rejects them. Change this in the view Clock and faults." : '');
  await refreshResult();
}

async function refreshResult() {
  const id = flow;
  setOff($('receiver-open'), !id, 'Create a check first.');
  if (!id) return;
  const { check, events } = await get('timeline', { check_id: id });
  if (flow !== id) return;
  setOff($('receiver-open'), !check.check_url, whyNotOpen(check));
  const attempt = events.findLast((event) => event.kind === 'attempt');
  const [text, kind] = result(check, attempt);
  setText($('receiver-result'), text);
  setAttr($('receiver-result'), 'data-result', kind);
}

// result describes what happened to the callback of a check, and whether that is good.
function result(check, attempt) {
  if (check.status === 'EXPIRED') return [whyNotOpen(check), 'bad'];
  if (!attempt) return [check.check_url ? 'The check is created. Open its Check URL.' : 'The callback is in flight.', 'none'];
  const { fault, status } = attempt;
  const accepted = attempt.result === 'acknowledged';
  const after = accepted || !check.last_delivery ? '' : check.last_delivery.done ? ` ${whyLost(check.last_delivery)}` : ' The next attempt follows.';
  if (fault?.wrong_key && accepted) return [`The receiver accepted a forged callback (${status}). It does not verify signatures.`, 'bad'];
  if (fault?.wrong_key && status === 400) return ['The receiver rejected the forged callback with 400. That is correct.', 'good'];
  // The receiver is not called if the fault has a status.
  if (fault && !fault.wrong_key && (fault.status || !accepted)) return [`The fault that you set under Clock and faults caused this: ${faultText(fault)}.${after}`, 'none'];
  if (accepted) return [`The receiver accepted the callback (${status}). Its output should say: verified: ${check.product} ${check.status}, match: ${verdict(check)}.`, 'good'];
  if (status) return [`The receiver responded ${status} (${attempt.result}). See its output for the reason.${after}`, 'bad'];
  if (/connection refused/.test(attempt.error)) return [`Nothing listens at ${check.callback_url ?? 'the callback URL'}. Start the receiver, then create another check.${after}`, 'bad'];
  return [`The callback was not delivered: ${attempt.error || attempt.result}.${after}`, 'bad'];
}

const verdict = ({ status, match }) => (status === 'COMPLETED' && { true: 'yes', false: 'no' }[match]) || 'unknown';
