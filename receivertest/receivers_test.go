package receivertest_test

import (
	"bufio"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
)

func TestMain(m *testing.M) {
	tooltest.Overlap()
	os.Exit(m.Run())
}

// callbackProgram and redirectProgram describe the receivers of a program at url.
func callbackProgram(keys *receivertest.Keys, url string) receivertest.Receiver {
	return receivertest.Receiver{
		Keys:  keys,
		URL:   "https://" + receiverHost + "/callbacks/caf%C3%A9?lang=en%2DGB",
		Addr:  url,
		Probe: receivertest.HTTPProbe(url+"/probe", http.DefaultClient),
	}
}

func redirectProgram(keys *receivertest.Keys, url string) receivertest.Receiver {
	r := callbackProgram(keys, url)
	r.Kind, r.URL = receivertest.KindRedirect, "https://"+receiverHost+"/redirect/caf%C3%A9?lang=en%2DGB"
	return r
}

// withoutSlowRules returns r without the rules that take some time: those about the key set and
// large bodies.
func withoutSlowRules(r receivertest.Receiver) receivertest.Receiver {
	for _, rule := range receivertest.Rules(r.Kind, r.Strict) {
		if !strings.Contains(rule.Name, "/key-") && !strings.HasSuffix(rule.Name, "-mib") {
			r.Only = append(r.Only, rule.Name)
		}
	}
	return r
}

// concurrently calls test for the elements 0 to n-1, several at a time: an examination mostly
// waits. The elements share a few key servers, because new keys take time.
func concurrently(t *testing.T, n int, test func(s *keyServer, i int)) {
	t.Helper()
	next := make(chan int)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(next)
	for range min(n, 6) {
		s := newKeyServer(t)
		workers.Go(func() {
			for i := range next {
				test(s, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
}

func TestExamine_Programs(t *testing.T) {
	t.Parallel()
	concurrently(t, len(receiverPrograms), func(s *keyServer, i int) {
		t.Run(receiverPrograms[i], func(t *testing.T) {
			url := s.startReceiver(t, receiverPrograms[i])

			for _, r := range []receivertest.Receiver{callbackProgram(s.keys, url), withoutSlowRules(redirectProgram(s.keys, url))} {
				wantPassed(t, examine(t, r), 0)
			}
		})
	})
}

// wantPassed verifies that no rule failed. A failed rule for a correct receiver is a false alarm.
func wantPassed(t *testing.T, report receivertest.Report, notApplicable int) {
	t.Helper()
	if n, got := len(report.Failed()), count(report, receivertest.ResultNotApplicable); n > 0 || got != notApplicable {
		t.Errorf("%d rules failed and %d are not applicable, want 0 and %d for a correct %s receiver", n, got, notApplicable, report.Kind)
		var text strings.Builder
		if err := report.WriteText(&text, false); err != nil {
			t.Error(err)
		}
		t.Log(text.String())
	}
}

// pageReceivers is the directory of the receivers that the page of cmd/sandboxfake shows.
const pageReceivers = "../cmd/sandboxfake/internal/inspector/assets/receivers/"

func TestExamine_PageReceivers(t *testing.T) {
	t.Parallel()
	names := []string{"receiver.go.txt", "receiver.mjs", "receiver.py"}
	concurrently(t, len(names), func(s *keyServer, i int) {
		t.Run(names[i], func(t *testing.T) {
			text := must(os.ReadFile(pageReceivers + names[i]))(t)
			placeholders := []string{"__JWKS_URL__", s.url, "__CA_FILE__", s.caFile, "__CALLBACK_HEADER__", "X-Acme-Callback"}
			if filepath.Ext(names[i]) == ".txt" {
				// The source does not depend on the test, so that the executable is cached. By default, the
				// receiver fetches the key set every 30 s at most.
				placeholders = []string{
					`"__JWKS_URL__"`, `os.Getenv("JWKS_URL")`, `"__CA_FILE__"`, `os.Getenv("SSL_CERT_FILE")`, "__CALLBACK_HEADER__", "X-Acme-Callback",
					"HTTPClient: client", "HTTPClient: client, MinRefetch: time.Second",
				}
			}
			placeholders = append(placeholders, patience...)
			source := strings.NewReplacer(placeholders...).Replace(string(text))
			file := filepath.Join(t.TempDir(), strings.TrimSuffix(names[i], ".txt"))
			writeSource(t, file, source, nil)
			r := receivertest.Receiver{Keys: s.keys, URL: s.run(t, receiverCommand(t, file)), CallbackHeader: "X-Acme-Callback"}

			report := examine(t, r)

			const withoutProbe = 6 // effect, duplicate, unknown-check, other-product, slow-store, slow-store-retry
			wantPassed(t, report, withoutProbe)
		})
	})
}

// brokenReceiver is a receiver with one defect, and the rules that must fail.
type brokenReceiver struct {
	name    string
	file    string
	kind    receivertest.Kind
	changes []change
	want    []string
}

// brokenReceivers begins with one row for each program. An examination takes seconds, so the others
// are only examined with IDVERIFY_SLOW=1.
var brokenReceivers = []brokenReceiver{
	{"digest not checked", "http.js", receivertest.KindCallback, []change{
		{"verify.js", "check(digestMatches(headers.digest, body), 'the digest does not match the body');", ""},
	}, []string{"changed-match", "signed-digest-of-another-body", "signed-digest-of-the-empty-body"}},
	{"signature of a redirect not verified", "express.js", receivertest.KindRedirect, []change{
		{"verify.js", "check(httpSignature.verifySignature(parsed, key), 'the signature does not verify');", ""},
	}, []string{"different-code", "removed-code", "different-query", "signed-target-only-in-x-original-url", "signed-target-only-in-x-original-uri", "signed-target-only-in-x-forwarded-uri", "signed-target-only-in-x-rewrite-url", "date-of-two-lines", "old-date-changed-to-now", "signed-for-another-customer-host-changed", "signed-host-only-in-x-forwarded-host", "signed-host-only-in-x-original-host", "signed-host-only-in-forwarded", "unpublished-key-with-published-id", "zero-signature", "short-signature", "signature-longer-than-key", "hash-as-signature"}},
	{"host not checked", "server.py", receivertest.KindCallback, []change{
		{"verify.py", "check(values['host'] in HOSTS, 'the message is for another host')", "pass"},
	}, []string{"signed-for-another-customer", "our-host-as-prefix", "our-host-as-suffix", "our-host-only-in-x-forwarded-host", "our-host-only-in-forwarded"}},
	{"code exchanged again", "flask_app.py", receivertest.KindRedirect, []change{
		{"store.py", "if check_id not in results: act(check_id)", "act(check_id)"},
	}, []string{"replay"}},
	{"digest need not be signed", "express.js", receivertest.KindCallback, []change{
		{"verify.js", "'date', KIND, 'digest'];", "'date', KIND];"},
	}, []string{"digest-not-covered"}},
	// The unit of clockSkew in npm http-signature is a second.
	{"clock skew in milliseconds", "http.js", receivertest.KindCallback, []change{
		{"verify.js", "clockSkew: SKEW,", "clockSkew: 4000,"},
	}, []string{"date-60-s-old", "date-60-s-ahead", "old-date-with-new-x-date"}},
	{"400 while the key set is unavailable", "express.js", receivertest.KindCallback, []change{
		{"verify.js", "VerificationError(503, `the key set is unavailable", "VerificationError(400, `the key set is unavailable"},
	}, []string{"key-set-error", "key-set-malformed", "key-set-hangs"}},
	{"400 while the store is unavailable", "server.py", receivertest.KindCallback, []change{
		{"server.py", "self.respond(503)", "self.respond(400)"},
	}, []string{"slow-store"}},
	{"no timeout of the store", "http.js", receivertest.KindCallback, []change{
		{"store.js", "const TIMEOUT = 500;", "const TIMEOUT = 20_000;"},
	}, []string{"slow-store"}},
	{"replay acted on", "express.js", receivertest.KindCallback, []change{
		{"store.js", "if (results.has(id)) return;", ""},
	}, []string{"replay", "duplicate"}},
	{"duplicate acted on", "http.js", receivertest.KindCallback, []change{
		{"store.js", "if (results.has(id)) return;", ""},
	}, []string{"duplicate"}},
	{"unknown check acted on", "server.py", receivertest.KindCallback, []change{
		{"store.py", "if checks.get(check_id) != product: return", "if checks.get(check_id, product) != product: return"},
	}, []string{"unknown-check"}},
	{"other product acted on", "flask_app.py", receivertest.KindCallback, []change{
		{"store.py", "if checks.get(check_id) != product: return", "if check_id not in checks: return"},
	}, []string{"other-product"}},
	{"X-Forwarded-Host trusted", "http.js", receivertest.KindCallback, []change{
		{"verify.js", "HOSTS.includes(headers.host)", "HOSTS.includes(request.headers['x-forwarded-host'] ?? headers.host)"},
	}, []string{"our-host-only-in-x-forwarded-host"}},
	{"X-Forwarded-Host verified", "http.js", receivertest.KindCallback, []change{
		{"verify.js", "HOSTS.includes(headers.host)", "HOSTS.includes(request.headers.host)"},
		{"verify.js", "  const signature = await verify(", "  headers.host = request.headers['x-forwarded-host'] ?? headers.host;\n  const signature = await verify("},
	}, []string{"signed-host-only-in-x-forwarded-host"}},
	{"end of the host compared", "server.py", receivertest.KindCallback, []change{
		{"verify.py", "check(values['host'] in HOSTS,", "check(any(values['host'].endswith(host) for host in HOSTS),"},
	}, []string{"our-host-as-suffix"}},
	{"X-Original-URI verified", "flask_app.py", receivertest.KindCallback, []change{
		{"flask_app.py", "def target(): return ", "def target(): return request.headers.get('x-original-uri') or "},
	}, []string{"signed-target-only-in-x-original-uri"}},
	// npm http-signature checks X-Date in place of Date, if the request has it.
	{"X-Date trusted", "express.js", receivertest.KindCallback, []change{
		{"verify.js", "url, headers, httpVersion", "url, headers: request.headers, httpVersion"},
	}, []string{"old-date-with-new-x-date"}},
	{"algorithm of the message", "http.js", receivertest.KindCallback, []change{
		{"verify.js", ", algorithms: ['rsa-sha256']", ""},
		{"verify.js", "check(httpSignature.verifySignature(parsed, key)", "check(parsed.algorithm.startsWith('HMAC') ? httpSignature.verifyHMAC(parsed, key) : httpSignature.verifySignature(parsed, key)"},
	}, []string{"public-key-as-hmac-secret-pem"}},
	{"other algorithms not verified", "server.py", receivertest.KindCallback, []change{
		{"verify.py", "check(parts.get('algorithm') == 'rsa-sha256', 'the algorithm is not rsa-sha256')", "pass"},
		{"verify.py", "        key.verify(", "        if parts.get('algorithm') == 'rsa-sha256': key.verify("},
	}, []string{
		"public-key-as-hmac-secret-pem", "public-key-as-hmac-secret-pem-without-final-newline", "public-key-as-hmac-secret-rsa-pem", "public-key-as-hmac-secret-der", "empty-hmac-secret", "none-with-empty-signature",
		"forged-signature-labeled-none", "forged-signature-labeled-none-in-upper-case", "forged-signature-labeled-hs2019", "forged-signature-labeled-ecdsa-sha256", "forged-signature-labeled-ed25519", "forged-signature-with-unknown-algorithm", "forged-signature-without-algorithm",
	}},
	{"first digest verified, last one compared", "server.py", receivertest.KindCallback, []change{
		{"verify.py", "check(len(found) == 1,", "check(found,"},
		{"verify.py", "values['digest'].encode()", "header('digest')[-1].encode()"},
	}, []string{"changed-body-and-a-second-digest"}},
	{"path decoded", "flask_app.py", receivertest.KindCallback, []change{
		{"flask_app.py", "request.environ['REQUEST_URI']", "request.full_path"},
	}, []string{"valid"}},
	{"session not compared", "http.js", receivertest.KindRedirect, []change{
		{"store.js", "if (sessions.get(session) !== id) return false;", ""},
	}, []string{"other-session"}},
	{"date of a redirect not checked", "server.py", receivertest.KindRedirect, []change{
		{"verify.py", "check(abs(time.time() - date) <= SKEW,", "check(covered == REDIRECT or abs(time.time() - date) <= SKEW,"},
	}, []string{"date-60-s-old", "date-60-s-ahead", "date-5000-s-old", "date-5000-s-ahead", "old-date-with-new-date-header"}},
	{"parameters after the signature", "server.py", receivertest.KindRedirect, []change{
		{"verify.py", "'&'.join(s for s in segments if s.split('=')[0] not in ('authorization', 'date'))", "query.partition('&authorization=')[0]"},
		{"verify.py", "return {'check_id': only(parameters, 'check_id')}", "return {'check_id': parameters['check_id'][-1]}"},
	}, []string{"other-check"}},
	{"X-Original-URL verified", "express.js", receivertest.KindRedirect, []change{
		{"verify.js", "authorization, date } = cut(url);", "authorization, date } = cut(request.headers['x-original-url'] ?? url);"},
		{"verify.js", "new URL(signed, 'https://host')", "new URL(url, 'https://host')"},
	}, []string{"signed-target-only-in-x-original-url"}},
	{"last check ID verified, first one used", "server.py", receivertest.KindRedirect, []change{
		{"verify.py", "signed = '&'.join(s for s in segments if", "signed = '&'.join(s for i, s in enumerate(segments) if (not s.startswith('check_id=') or '&check_id=' not in '&' + '&'.join(segments[i+1:])) and"},
		{"verify.py", "return {'check_id': only(parameters, 'check_id')}", "return {'check_id': parameters['check_id'][0]}"},
	}, []string{"other-check"}},
	{"first of two check IDs", "http.js", receivertest.KindRedirect, []change{
		{"verify.js", "check(parameters.getAll('check_id').length === 1,", "check(parameters.has('check_id'),"},
	}, []string{"other-check"}},
}

func TestExamine_BrokenPrograms(t *testing.T) {
	t.Parallel()
	rows := brokenReceivers
	if os.Getenv("IDVERIFY_SLOW") == "" {
		rows = rows[:len(receiverPrograms)]
	}
	concurrently(t, len(rows), func(s *keyServer, i int) {
		row := rows[i]
		t.Run(row.name, func(t *testing.T) {
			changes := row.changes
			if row.kind == receivertest.KindRedirect {
				changes = slices.Concat(changes, patientFetch)
			}
			url := s.startReceiver(t, row.file, changes...)
			r := callbackProgram(s.keys, url)
			if row.kind == receivertest.KindRedirect {
				r = withoutSlowRules(redirectProgram(s.keys, url))
			}

			report := examine(t, r)

			if got := strings.Fields(failures(report)); !slices.Equal(got, row.want) {
				t.Errorf("failed rules = %q, want %q", got, row.want)
			}
		})
	})
}

// receiverDir contains backends with receivers, as developers write them with common packages.
const receiverDir = "testdata/receivers"

// receiverPrograms are the backends in receiverDir. All receive callbacks and redirects and have a
// probe.
var receiverPrograms = []string{"http.js", "express.js", "server.py", "flask_app.py"}

// receiverHost is the host of the receivers' URLs.
const receiverHost = "shop.example.com"

// change is a textual change of a file.
type change struct{ file, old, new string }

// keyServer serves a key set over TLS.
type keyServer struct {
	keys   *receivertest.Keys
	url    string // of the key set
	caFile string
}

func newKeyServer(t *testing.T) *keyServer {
	t.Helper()
	keys := newKeys(t)
	server := httptest.NewUnstartedServer(keys)
	server.TLS = tooltest.TLSConfig(t) // some programs connect for each message
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &keyServer{keys: keys, url: server.URL + receivertest.KeySetPath, caFile: caFile(t, server)}
}

// caFile returns the name of a file with the certificate of a server.
func caFile(t *testing.T, server *httptest.Server) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	noError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	return name
}

// patience contains replacements of the clock skew. With them, the programs accept messages that
// arrive late on a busy machine, but none whose date differs by a minute.
var patience = []string{
	"const SKEW = 5;", "const SKEW = 30;", "const skew = 5;", "const skew = 30;", "SKEW = 5 ", "SKEW = 30 ",
	"signature.NewMemoryReplayStore(0),", "signature.NewMemoryReplayStore(0), ClockSkew: 30 * time.Second,",
}

// patientFetch lets the programs wait longer for a key set on a busy machine. Programs that are
// examined with the rules about key sets need the usual time.
var patientFetch = []change{
	{"verify.js", "AbortSignal.timeout(3000)", "AbortSignal.timeout(60_000)"},
	{"verify.py", "timeout=3)", "timeout=60)"},
}

// startReceiver runs a program in a copy of receiverDir with patience and the changes, until the
// test ends. It returns the program's URL.
func (s *keyServer) startReceiver(t *testing.T, file string, changes ...change) (url string) {
	t.Helper()
	dir := t.TempDir()
	for _, source := range must(filepath.Glob(receiverDir + "/*" + filepath.Ext(file)))(t) {
		text := must(os.ReadFile(source))(t)
		writeSource(t, filepath.Join(dir, filepath.Base(source)), strings.NewReplacer(patience...).Replace(string(text)), changes)
	}
	return s.run(t, receiverCommand(t, filepath.Join(dir, file)))
}

// writeSource writes a source file with its changes.
func writeSource(t *testing.T, path, text string, changes []change) {
	t.Helper()
	for _, c := range changes {
		if c.file != filepath.Base(path) {
			continue
		}
		if strings.Count(text, c.old) != 1 {
			t.Fatalf("%s does not contain %q exactly once", c.file, c.old)
		}
		text = strings.Replace(text, c.old, c.new, 1)
	}
	noError(t, os.WriteFile(path, []byte(text), 0o600))
}

// run runs a receiver until the test ends and returns the URL that it prints.
func (s *keyServer) run(t *testing.T, command *exec.Cmd) (url string) {
	t.Helper()
	modules := must(filepath.Abs(receiverDir + "/node_modules"))(t)
	command.Env = append(os.Environ(), "HOSTS="+receiverHost, "JWKS_URL="+s.url, "PORT=0", "PYTHONDONTWRITEBYTECODE=1",
		"NODE_PATH="+modules, "NODE_EXTRA_CA_CERTS="+s.caFile, "SSL_CERT_FILE="+s.caFile)
	stderr := must(os.Create(filepath.Join(t.TempDir(), "stderr")))(t)
	defer stderr.Close()
	command.Stderr = stderr
	t.Cleanup(func() { // after the receiver has ended
		if output, _ := os.ReadFile(stderr.Name()); t.Failed() {
			t.Logf("standard error of the receiver:\n%s", output)
		}
	})
	lines := bufio.NewScanner(tooltest.Start(t, command))
	lines.Scan()
	_, url, found := strings.Cut(lines.Text(), "http://")
	if !found {
		t.Fatalf("the receiver prints %q, want its URL", lines.Text())
	}
	go func() { // the receiver must not block when it prints; ends with the receiver
		for lines.Scan() {
		}
	}()
	return "http://" + url
}

// receiverCommand returns the command that runs a receiver.
func receiverCommand(t *testing.T, file string) *exec.Cmd {
	t.Helper()
	const install = "run script/setup interop, which installs "
	switch filepath.Ext(file) {
	case ".js", ".mjs":
		tooltest.Require(t, tooltest.Installed("node"), install+"Node.js")
		_, err := os.Stat(receiverDir + "/node_modules/express")
		tooltest.Require(t, err == nil, install+"Express and http-signature")
		return exec.Command("node", file)
	case ".py":
		python := tooltest.Python(t, "cryptography, flask")
		tooltest.Require(t, python != "", install+"Python with cryptography and Flask")
		return exec.Command(python, file)
	}
	program := filepath.Join(t.TempDir(), "receiver")
	noError(t, tooltest.Build(program, file))
	return exec.Command(program)
}
