// Commands and tests that the page copies. Nothing here uses the DOM. All values are untrusted and
// are quoted.

import { outcomeOf, presets, productName, products } from './products.js';

// literal matches text that sh, bash, zsh and fish keep unchanged between single quotes. fish
// interprets a backslash there.
const literal = /^[ -&(-[\]-~]*$/;

const octets = (text, escape) => [...new TextEncoder().encode(text)].map(escape).join('');

// shellQuote quotes literal text as one word of sh, bash, zsh and fish.
export function shellQuote(text) {
  if (!literal.test(text)) throw new Error('The text contains characters that not every shell keeps.');
  return `'${text}'`;
}

// printf returns a command that prints text exactly, with other than literal characters in octal.
function printf(text) {
  const escaped = text.replaceAll('%', '%%')
    .replace(/^-|[^ -&(-[\]-~]/gu, (char) => octets(char, (octet) => `\\${octet.toString(8).padStart(3, '0')}`));
  return `printf '${escaped}'`;
}

// skipped are headers that curl sets, or that belong to the connection.
const skipped = new Set(['host', 'content-length', 'connection', 'accept-encoding', 'transfer-encoding', 'te', 'trailer', 'upgrade', 'keep-alive', 'cookie', 'authorization', 'proxy-authorization', 'expect']);

// curl returns a curl command for sh, bash, zsh and fish. header contains a list of values for each
// name. The command is without a method and headers that are not literal, and says so.
function curl({ method, url, header, body, options = [] }) {
  const words = ['curl -sS -i --globoff', ...options];
  let omitted = 0;
  if (method === 'HEAD') words.push('--head');
  else if (/^[A-Za-z]+$/.test(method)) words.push(...(method === 'GET' ? [] : [`-X '${method}'`]));
  else omitted++;
  const names = new Set();
  for (const [name, values] of header) {
    for (const value of values) {
      if (/^[\w-]+$/.test(name) && literal.test(value)) {
        names.add(name.toLowerCase());
        words.push(`-H ${shellQuote(value === '' ? `${name};` : `${name}: ${value}`)}`);
      } else omitted++;
    }
  }
  let before = omitted ? `: 'Without ${omitted} headers or methods that not every shell keeps unchanged'\n` : '';
  if (body) {
    // Without this, curl sends the media type of a form.
    if (!names.has('content-type')) words.push(`-H 'Content-Type:'`);
    if (literal.test(body)) words.push(`--data-raw ${shellQuote(body)}`);
    else {
      before += `${printf(body)} | `;
      words.push('--data-binary @-');
    }
  }
  words.push(`--url ${shellQuote(plainURL(url))}`);
  return before + words.join(' \\\n  ');
}

const percent = (text) => octets(text, (octet) => `%${octet.toString(16).toUpperCase().padStart(2, '0')}`);

// plainURL escapes the characters of a URL that are not printable ASCII, or not literal in a shell.
const plainURL = (url) => url.replace(/[^!-&(-[\]-~]/gu, percent);

// requestCurl returns a command that repeats a request of the journal. It uses $TOKEN and $CA.
export function requestCurl(request, { url, credentials = [] }) {
  const entries = Object.entries(request.header ?? {});
  const scheme = (entries.find(([name]) => name.toLowerCase() === 'authorization')?.[1]?.[0] ?? '').split(' ')[0].toLowerCase();
  const options = ['--cacert "$CA"'];
  const known = credentials.find((pair) => pair && pair.client_id === request.client_id);
  const basic = request.operation === 'token.create' || request.operation === 'token.revoke' || scheme === 'basic';
  if (basic && known && literal.test(known.client_id + known.client_secret)) options.push(`-u ${shellQuote(`${known.client_id}:${known.client_secret}`)}`);
  else if (basic) options.push('-u "$CLIENT_ID:$CLIENT_SECRET"');
  else if (scheme) options.push('-H "Authorization: Bearer $TOKEN"');
  const header = entries.filter(([name]) => !skipped.has(name.toLowerCase()));
  // Any other path could name another host, which would receive the token.
  const path = request.path.startsWith('/') ? request.path : `/${percent(request.path)}`;
  return curl({ method: request.method, url: url + path.replaceAll('#', '%23'), header, body: request.body, options });
}

// attemptCurl returns a command that sends the exact body and the signed headers of a delivery
// attempt to the receiver.
export function attemptCurl(attempt, target) {
  const signed = new Set(['authorization']);
  const header = Object.entries(attempt.header ?? {}).filter(([name]) => signed.has(name.toLowerCase()) || !skipped.has(name.toLowerCase()));
  return curl({ method: 'POST', url: target, header, body: attempt.body });
}

// eventRequest returns the request of an event of a check, as the journal would contain it.
export function eventRequest(event, check) {
  const path = `/${check.product}/${check.version}/checks`;
  if (event.kind === 'created') {
    const body = { phone_number: check.phone_number, callback_url: check.callback_url, redirect_url: check.redirect_url, reference_id: check.reference_id };
    return { method: 'POST', path, operation: `${check.product}.create`, header: { Authorization: ['Bearer'], 'Content-Type': ['application/json'] }, body: JSON.stringify(body) };
  }
  if (event.kind === 'opened' || event.kind === 'redirected') return { method: 'GET', path: `${path}/${check.check_id}/redirect`, header: {}, body: '' };
  return { method: 'GET', path: `${path}/${check.check_id}`, header: { Authorization: ['Bearer'] }, body: '' };
}

// goString returns text as a Go string literal.
export const goString = (text) => JSON.stringify(text).replace(/[\p{Cf}\p{Zl}\p{Zp}\u007f-\u009f]/gu, (char) => {
  const code = char.codePointAt(0).toString(16);
  return code.length > 4 ? `\\U${code.padStart(8, '0')}` : `\\u${code.padStart(4, '0')}`;
});

// same reports whether a result in the sandbox is the result of a check.
const same = (outcome, check) => outcome.status === check.status && (outcome.match ?? null) === (check.match ?? null) && (outcome.no_sim_change ?? null) === (check.no_sim_change ?? null);

// expectation returns a number and its result for the test of a check. A choice on the phone page
// can replace the result of the number; the test then uses a number that has that result.
function expectation(check) {
  const natural = outcomeOf(check.product, check.phone_number);
  const ended = { ...check };
  if (check.status === 'ERROR') delete ended.match;
  if (check.status === 'EXPIRED') return { number: check.phone_number, status: 'EXPIRED' };
  if (!['COMPLETED', 'ERROR'].includes(check.status) || same(natural, ended)) return { number: check.phone_number, ...natural };
  const digits = [...presets, '17', '19'].find((end) => same(outcomeOf(check.product, end), ended));
  return digits ? { number: `4477009000${digits}`, ...outcomeOf(check.product, digits) } : { number: check.phone_number, ...natural };
}

const statuses = { COMPLETED: 'StatusCompleted', ERROR: 'StatusError', EXPIRED: 'StatusExpired' };
const verdict = (value) => (value === true ? 'VerdictYes' : value === false ? 'VerdictNo' : 'VerdictUnknown');

// asserts returns the lines that verify the result in the variable got, a check or a callback.
function asserts(check, want, got) {
  const lines = [
    `	if ${got}.Status != idverify.${statuses[want.status]} {`,
    `		t.Errorf("Status = %s, want ${want.status}", ${got}.Status)`,
    '	}',
  ];
  const verify = (field, value) => lines.push(`	if got := ${got}.${field}; got != idverify.${verdict(value)} {`, `		t.Errorf("${field} = %s, want ${verdict(value).slice(7).toLowerCase()}", got)`, '	}');
  if (check.product !== 'sim_check') verify('Match', want.match);
  if (check.product !== 'phone_check') verify('NoSIMChange', want.no_sim_change);
  return lines;
}

const fatal = ['	if err != nil {', '		t.Fatal(err)', '	}'];

// faultField returns the field of a sandboxfake.Fault, or null without one that makes a callback
// fail.
function faultField(fault) {
  if (!fault) return null;
  if (fault.wrong_key) return 'WrongKey: true';
  if (fault.drop) return 'Drop: true';
  if (fault.truncate) return 'Truncate: true';
  if (fault.status) return `Status: ${Number(fault.status)}`;
  return null;
}

// goTest returns a Go test that creates a check like the given one and verifies its result. With a
// fault, the test injects it into the first attempt of the callback.
export function goTest(check, fault) {
  const want = expectation(check);
  const sim = check.product === 'sim_check';
  const redirect = check.version === 'v0.2' && want.status !== 'EXPIRED';
  const imports = sim ? ['testing'] : redirect ? ['context', 'net/http', 'testing', 'time'] : ['context', 'testing', 'time'];
  const body = sim ? simTest(check, want) : callbackTest(check, want, redirect, faultField(fault));
  const name = `Test${productName(check.product)}_${want.status.charAt(0)}${want.status.slice(1).toLowerCase()}`;
  return [
    'package foo_test', '', 'import (', ...imports.map((path) => `	${goString(path)}`), '',
    '	"github.com/idverify/idverify-go"', '	"github.com/idverify/idverify-go/sandboxfake"', ')', '',
    `func ${name}(t *testing.T) {`, ...body, '}', '',
  ].join('\n');
}

// client returns the line that creates a client with the version of the check.
function client(check) {
  const versions = check.version === 'v0.1' ? '' : `idverify.WithVersions(idverify.Versions{${productName(check.product)}: ${goString(check.version)}})`;
  return `	client := srv.Client(${versions})`;
}

function create(check, params) {
  const { name, service } = products[check.product];
  if (check.reference_id) params.push(`ReferenceID: ${goString(check.reference_id)}`);
  return [`	check, err := client.${service}.Create(t.Context(), idverify.${name}Params{${params.join(', ')}})`, ...fatal];
}

function simTest(check, want) {
  return ['	srv := sandboxfake.New(t)', client(check), '', ...create(check, [`PhoneNumber: ${goString(want.number)}`]), '', ...asserts(check, want, 'check')];
}

const callbackHandler = [
  'idverify.CallbackHandler(verifier, func(_ context.Context, c *idverify.Callback) error {',
  '		callbacks <- c', '		return nil', '	})',
].join('\n');

// callbackTest returns a test that receives the callback of the check and, with redirect, the
// device's return with a code.
function callbackTest(check, want, redirect, fault) {
  const lines = ['	srv := sandboxfake.New(t)', client(check), '	verifier := srv.Verifier([]string{"shop.sandbox.test"}, nil)', '	callbacks := make(chan *idverify.Callback, 1)'];
  const params = [`PhoneNumber: ${goString(want.number)}`, 'CallbackURL: url + "/callbacks"'];
  if (redirect) {
    params.push('RedirectURL: url + "/back"');
    lines.push(
      '	redirects := make(chan *idverify.Redirect, 1)', '	mux := http.NewServeMux()', `	mux.Handle("/callbacks", ${callbackHandler})`,
      '	mux.Handle("/back", idverify.RedirectHandler(verifier, func(_ http.ResponseWriter, _ *http.Request, r *idverify.Redirect) {',
      '		redirects <- r', '	}))', '	url := srv.Handle("shop.sandbox.test", mux)',
    );
  } else lines.push(`	url := srv.Handle("shop.sandbox.test", ${callbackHandler})`);
  if (fault) lines.push(`	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{${fault}})`);
  lines.push('', ...create(check, params));
  if (want.status === 'EXPIRED') lines.push('	srv.Expire(check.CheckID)');
  else lines.push('	if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {', '		t.Fatal(err)', '	}');
  if (redirect) lines.push(...redirectLines(check, want));
  const match = fault ? 'func(d sandboxfake.Delivery) bool { return len(d.Attempts) > 0 }' : 'sandboxfake.Delivery.Acknowledged';
  lines.push(
    '', '	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)', '	defer cancel()',
    `	delivery, err := srv.WaitDelivery(ctx, ${match})`, ...fatal, '',
  );
  if (fault) lines.push('	if got := delivery.Attempts[0].Result; got == sandboxfake.ResultAcknowledged {', '		t.Errorf("result of the first attempt = %s, want a failure", got)', '	}');
  else lines.push('	callback := <-callbacks', '	if callback.CheckID != check.CheckID || delivery.CheckID != check.CheckID {', '		t.Errorf("CheckID = %s, want %s", callback.CheckID, check.CheckID)', '	}', ...asserts(check, want, 'callback'));
  return lines;
}

// redirectLines returns the lines that exchange the code of the redirect.
function redirectLines(check, want) {
  const lines = ['	redirect := <-redirects'];
  if (want.status === 'ERROR') lines.push('	if redirect.ErrorCode == "" {', '		t.Error("the redirect has no error")', '	}');
  else lines.push(`	if _, err := client.${products[check.product].service}.Complete(t.Context(), redirect.CheckID, redirect.Code); err != nil {`, '		t.Fatal(err)', '	}');
  return lines;
}
