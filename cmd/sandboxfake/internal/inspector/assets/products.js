// The products, and their results in the sandbox.

// products are the products of the service, by their name in paths.
export const products = {
  phone_check: { name: 'PhoneCheck', service: 'PhoneChecks', callbacks: true, versions: ['v0.1', 'v0.2'] },
  sim_check: { name: 'SIMCheck', service: 'SIMChecks', callbacks: false, versions: ['v0.1'] },
  subscriber_check: { name: 'SubscriberCheck', service: 'SubscriberChecks', callbacks: true, versions: ['v0.1', 'v0.2'] },
};

export const productName = (product) => products[product]?.name ?? product;
export const versionsOf = (product) => products[product]?.versions ?? ['v0.1'];
export const hasCallbacks = (product) => products[product]?.callbacks ?? false;

// outcomeOf returns the result of a check in the sandbox, which the number determines.
export function outcomeOf(product, number) {
  const digits = number.replace(/\D/g, '');
  const error = { status: 'ERROR', error_code: 'mno_server_error' };
  if (digits.endsWith('99') || (product !== 'sim_check' && /(00|55)$/.test(digits))) return error;
  const last = Number(digits.slice(-1));
  const completed = { status: 'COMPLETED' };
  if (product === 'sim_check') return { ...completed, no_sim_change: last <= 4 };
  if (last % 2 === 1) return { ...completed, match: false };
  if (product === 'phone_check') return { ...completed, match: true };
  return { ...completed, match: true, no_sim_change: last <= 4 };
}

// normalizeNumber returns the digits of a phone number as the Go client normalizes it: number, or
// error with the reason why it cannot.
export function normalizeNumber(text) {
  const rest = text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, '');
  const number = rest.replace(/\D/g, '');
  const malformed = (error) => ({ number: '', error });
  if (/\([^0-9)]*0[^0-9)]*\)/.test(rest)) return malformed('omit the (0), which is not dialed from abroad');
  if (/[^0-9 \u00a0\u2009\u202f\t().\-\u2010\u2011\u2013]/u.test(rest.replace(/^([^0-9+]*)\+/, '$1'))) return malformed('contains a character that is neither a digit nor a separator');
  if (number === '') return malformed('no digits');
  if (number.startsWith('0')) return malformed('begins with a zero: start with the country code, as in 44 7700 900012');
  if (number.length < 7) return malformed('fewer than 7 digits');
  if (number.length > 15) return malformed('more than 15 digits');
  return { number, error: '' };
}

// presets are the last two digits of one number for each result, with 12, 13 and 99 first.
export const presets = ['12', '13', '99', '16'];
