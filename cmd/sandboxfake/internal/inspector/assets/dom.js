// Elements of the page. All text of the server is untrusted: it becomes text nodes only.

// $ returns the element with an ID.
export const $ = (id) => document.getElementById(id);

// h returns a new element. The keys of props are attributes; class, dataset and text are special.
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') node.className = value;
    else if (name === 'dataset') Object.assign(node.dataset, value);
    else if (name === 'text') node.textContent = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// button returns a button that runs an action of actions.js.
export const button = (id, action, text, kind = '', data = {}) => h('button', { type: 'button', id, class: kind, dataset: { action, ...data }, text });

// setText changes the text of a node only if it differs, so that a selection is kept.
export function setText(node, text) {
  const value = String(text ?? '');
  if (node.textContent !== value) node.textContent = value;
}

// setAttr sets an attribute, or removes it if value is null, only if it differs.
export function setAttr(node, name, value) {
  if (value === null || value === undefined) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

// sync makes the children of parent correspond to items. It keeps the element of each key, so that
// focus, selection and scroll position survive.
export function sync(parent, items, key, create, update) {
  const keys = new Set(items.map(key));
  const old = new Map();
  for (const node of [...parent.children]) {
    if (keys.has(node.itemKey)) old.set(node.itemKey, node);
    else node.remove();
  }
  let next = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    let node = old.get(k);
    if (!node) {
      node = create(item);
      node.itemKey = k;
    }
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
    update(node, item);
  }
}

// webURL returns text if it is an absolute http or https URL, or null.
export function webURL(text) {
  try {
    const url = new URL(text);
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
  } catch {
    return null;
  }
}

// link returns a link to an untrusted URL, or its text if the URL must not be opened.
export function link(text) {
  const href = webURL(text);
  return href ? h('a', { href, target: '_blank', rel: 'noopener noreferrer', class: 'break', text }) : h('span', { class: 'break', text });
}

// isLoopback reports whether only this machine can open the URL.
export function isLoopback(text) {
  try {
    const { hostname } = new URL(text);
    return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || hostname.startsWith('127.');
  } catch {
    return false;
  }
}

const pad = (n, width = 2) => String(n).padStart(width, '0');

// clockTime returns the local time of day of a Date.
export function clockTime(date, millis = false) {
  const text = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return millis ? `${text}.${pad(date.getMilliseconds(), 3)}` : text;
}

// setTime shows a time of the server in a <time> element.
export function setTime(node, iso, millis = false) {
  if (node.dateTime === iso) return;
  const date = new Date(iso);
  node.dateTime = iso;
  node.title = iso;
  setText(node, Number.isNaN(date.getTime()) ? '' : clockTime(date, millis));
}

// span returns a duration as text, such as "1:45" or "2 d 3 h".
export function span(seconds) {
  if (!Number.isFinite(seconds)) return '';
  const s = Math.max(0, Math.ceil(seconds));
  if (s < 3600) return `${Math.floor(s / 60)}:${pad(s % 60)}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// duration returns the length of an attempt as text.
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '';
  return seconds < 1 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(2)} s`;
}

// setCountdown makes node show the time until iso. countdowns updates it each second.
export function setCountdown(node, iso, now) {
  setAttr(node, 'data-due', iso ?? null);
  setText(node, iso ? span((new Date(iso) - now) / 1000) : '');
}

// countdowns updates all countdowns of the visible view.
export function countdowns(now) {
  for (const node of document.querySelectorAll('.view:not([hidden]) [data-due]')) {
    const left = (new Date(node.dataset.due) - now) / 1000;
    if (node.tagName === 'PROGRESS') node.value = Math.max(0, left);
    else setText(node, span(left));
  }
}

// pretty returns JSON text with indentation, or any other text unchanged.
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

let noticeTimer = 0;

// notice announces a message that needs no action.
export function notice(text) {
  const node = $('notice');
  node.textContent = text;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { node.textContent = ''; }, 6000);
}

// showError announces an error until the user closes it.
export function showError(err) {
  $('error-text').textContent = err?.message ?? String(err);
  $('error').hidden = false;
}

// setFieldError marks a field as invalid, shows why below it, and moves the focus to it. Without a
// text, it removes the mark.
export function setFieldError(input, text) {
  setAttr(input, 'aria-invalid', text ? 'true' : null);
  setText($(`${input.id}-error`), text);
  if (text) input.focus();
}

export function clearError() {
  $('error').hidden = true;
  $('error-text').textContent = '';
}

// copy copies text to the clipboard. Without permission, it shows the text in a dialog.
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`Copied ${what}.`);
  } catch {
    $('copy-text').value = text;
    $('copy-dialog').showModal();
    $('copy-text').select();
  }
}
