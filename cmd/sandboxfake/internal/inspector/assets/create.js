// The form that creates a check.

import { $, h, notice, setFieldError, setText, show } from './dom.js';
import { Problem, app, post } from './api.js';
import { hasCallbacks, normalizeNumber, outcomeOf, presets, versionsOf } from './products.js';
import { resultText } from './checks.js';

const remembered = ['create-product', 'create-version', 'create-callback', 'create-redirect'];

// createCheck creates a check by a call of the service, and returns it. The service may reject the
// call, or a fault may change its response.
export async function createCheck(params) {
  const { check, response } = await post('checks', params);
  if (!check) throw new Problem(response.status, describe(response));
  if (response.status !== 201) notice(`The check exists, but the response is ${response.status}.`);
  return check;
}

function describe({ status, body, error }) {
  const parts = [body?.title, body?.detail ?? body?.error_description ?? body?.error].filter((part) => typeof part === 'string');
  return `${status ? `The service responded ${status}` : `There was no response${error ? `: ${error}` : ''}`}${parts.length ? `: ${parts.join(': ')}` : ''}`;
}

// startCreate prepares the form, and returns its submit handler.
export function startCreate(select) {
  restore();
  const form = $('create-form');
  form.addEventListener('input', render);
  $('create-number').addEventListener('input', () => setFieldError($('create-number'), ''));
  form.addEventListener('click', (event) => {
    const number = event.target.closest('[data-number]')?.dataset.number;
    if (!number) return;
    $('create-number').value = number;
    setFieldError($('create-number'), '');
    render();
  });
  render();
  return async () => {
    const { number, error } = normalizeNumber($('create-number').value);
    setFieldError($('create-number'), error && `${error.charAt(0).toUpperCase()}${error.slice(1)}.`);
    if (error) return;
    const check = await createCheck(params(number));
    remember();
    select(check.check_id);
    notice('The check is created.');
  };
}

function params(number) {
  const product = $('create-product').value;
  const text = (id) => $(id).value.trim() || undefined;
  const period = Number($('create-period').value);
  return {
    product, version: $('create-version').value, phone_number: number,
    callback_url: hasCallbacks(product) ? text('create-callback') : undefined,
    redirect_url: $('create-version').value === 'v0.2' ? text('create-redirect') : undefined,
    reference_id: text('create-reference'), period: product !== 'phone_check' && period ? period : undefined,
    project_id: $('create-project-field').hidden ? undefined : $('create-project').value || undefined,
  };
}

// render shows the fields of the product and the result of the number.
function render() {
  const product = $('create-product').value;
  for (const option of $('create-version').options) option.disabled = !versionsOf(product).includes(option.text);
  if ($('create-version').selectedOptions[0]?.disabled) $('create-version').value = 'v0.1';
  show($('create-callback-field'), hasCallbacks(product));
  show($('create-redirect-field'), $('create-version').value === 'v0.2');
  show($('create-period-field'), product !== 'phone_check');
  const number = $('create-number').value.replace(/\D/g, '');
  setText($('create-outcome'), number ? `${number.slice(-2)} ${outcomeText(product, number)}` : '');
  renderPresets(product);
}

const outcomeText = (product, number) => {
  const outcome = outcomeOf(product, number);
  return outcome.status === 'ERROR' ? 'error' : resultText(outcome);
};

function renderPresets(product) {
  if ($('presets').dataset.product === product) return;
  $('presets').dataset.product = product;
  const shown = product === 'phone_check' ? presets.filter((digits) => digits !== '16') : presets;
  $('presets').replaceChildren(...shown.map((digits) => h('button', {
    type: 'button', class: 'small', id: `preset-${digits}`, dataset: { action: 'preset', number: `4477009000${digits}` }, text: `${digits} ${outcomeText(product, digits)}`,
  })));
}

// fillProjects offers the projects of the server, if there are several.
export function fillProjects() {
  const projects = app.server.projects ?? [];
  const select = $('create-project');
  const key = JSON.stringify(projects.map((project) => [project.project_id, project.name, project.mode]));
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  const { value } = select;
  select.replaceChildren(...projects.map((project) => h('option', { value: project.project_id, text: `${project.name} (${project.mode})` })));
  if (projects.some((project) => project.project_id === value)) select.value = value;
  else select.value = app.server.credentials?.project?.project_id ?? '';
  show($('create-project-field'), projects.length > 1);
}

// remember keeps the values of the form until the tab is closed.
function remember() {
  try {
    sessionStorage.setItem('create', JSON.stringify(remembered.map((id) => $(id).value)));
  } catch {
    // The browser does not allow storage: the form starts with its defaults.
  }
}

function restore() {
  try {
    const values = JSON.parse(sessionStorage.getItem('create') ?? '[]');
    remembered.forEach((id, i) => { if (typeof values[i] === 'string') $(id).value = values[i]; });
  } catch {
    // See remember.
  }
}
