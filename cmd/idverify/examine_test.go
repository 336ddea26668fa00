package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

// keySet is the announced key set of an examination.
type keySet struct {
	url, caFile string
	now         func() time.Time // the clock of the examination
}

// jwks fetches the key set of an examination, for a receiver.
func (k keySet) jwks(t *testing.T) *signature.JWKS {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(readText(t, k.caFile)))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	keys := must(signature.NewJWKS(k.url, &signature.JWKSOptions{
		HTTPClient: &http.Client{Transport: &patientTransport{next: transport}},
		MinRefetch: time.Second,
	}))(t)
	noError(t, keys.Ready(t.Context()))
	return keys
}

// patientTransport is a transport whose first request does not end with its context, because a busy
// machine may need more than the 3 s of a fetch. Later requests end with their contexts, because an
// examination makes the key set hang. After a failed fetch, a receiver still has the first key set.
type patientTransport struct {
	next http.RoundTripper
	used atomic.Bool
}

func (t *patientTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.used.Swap(true) {
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	return t.next.RoundTrip(r)
}

// receiver returns a correct receiver of callbacks for a host.
func (k keySet) receiver(t *testing.T, host string) http.Handler {
	t.Helper()
	return accepting(t, k.jwks(t), host, &signature.VerifierOptions{Now: k.now})
}

// accepting returns a receiver of callbacks with a verifier.
func accepting(t *testing.T, keys signature.KeySource, host string, opts *signature.VerifierOptions) http.Handler {
	t.Helper()
	verifier := must(signature.NewVerifier(keys, []string{host}, opts))(t)
	return idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error { return nil })
}

// acceptAll is a receiver that verifies nothing.
func acceptAll(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// announcement matches what is written to stderr before an examination begins.
const announcement = `(?s)  key set   (\S+)\n(?:  CA file   (\S+)\n.*?)?  host `

// runExamine runs "idverify examine -keys 127.0.0.1:0" with args. announced is called when the key
// set is known. The clock of the examination stands still: a receiver must not reject a message
// because the machine is busy.
func runExamine(ctx context.Context, announced func(keySet), args ...string) result {
	p := newProgram(nil)
	clock := stopClock(p, time.Now())
	if announced != nil {
		p.stderr = watch(announcement, func(m []string) { announced(keySet{m[1], m[2], clock.now}) })
	}
	return p.runCommand(ctx, append([]string{"examine", "-keys", "127.0.0.1:0"}, args...)...)
}

// lateHandler is a handler that is set after its server has started.
type lateHandler struct{ set chan http.Handler }

func (h lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := <-h.set
	h.set <- handler
	handler.ServeHTTP(w, r)
}

// startReceiver serves a handler that is set later.
func startReceiver(t *testing.T) (*httptest.Server, lateHandler) {
	t.Helper()
	handler := lateHandler{make(chan http.Handler, 1)}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server, handler
}

// examineReceiver examines the receiver that newReceiver returns for the key set and the host of
// the receiver.
func examineReceiver(t *testing.T, newReceiver func(k keySet, host string) http.Handler, args ...string) result {
	t.Helper()
	server, handler := startReceiver(t)
	host := strings.TrimPrefix(server.URL, "http://")
	return runExamine(t.Context(), func(k keySet) { handler.set <- newReceiver(k, host) }, append(args, server.URL+"/callbacks?shop=1")...)
}

func TestExamine_CorrectReceiver(t *testing.T) {
	t.Parallel()
	var announced keySet

	got := examineReceiver(t, func(k keySet, host string) http.Handler {
		announced = k
		return k.receiver(t, host)
	}, "-strict")

	if got.code != exitOK || !regexp.MustCompile(`\n\d{3} passed, 0 failed, \d+ not applicable, in `).MatchString(got.stdout) {
		t.Errorf("exit code %d, want 0\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	if _, err := os.Stat(announced.caFile); !os.IsNotExist(err) {
		t.Errorf("the temporary CA file %s remains: %v", announced.caFile, err)
	}
	if !strings.HasPrefix(announced.url, "https://127.0.0.1:") || !strings.HasSuffix(announced.url, receivertest.KeySetPath) {
		t.Errorf("key set = %s", announced.url)
	}
	if !strings.Contains(got.stderr, "examined ") {
		t.Errorf("stderr shows no progress:\n%s", got.stderr)
	}
}

func TestExamine_ExitCode(t *testing.T) {
	t.Parallel()
	broken := func(keySet, string) http.Handler { return http.HandlerFunc(acceptAll) }
	// The receiver responds with 500 to invalid messages, which is a failure of low severity.
	wrongStatus := func(k keySet, host string) http.Handler {
		receiver := k.receiver(t, host)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			receiver.ServeHTTP(recorder, r)
			if recorder.Code == http.StatusBadRequest {
				recorder.Code = http.StatusInternalServerError
			}
			w.WriteHeader(recorder.Code)
		})
	}
	for _, row := range []struct {
		name     string
		receiver func(keySet, string) http.Handler
		args     []string
		want     int
	}{
		{"accepts all", broken, []string{"-only", "callback/changed-match"}, exitProblem},
		{"accepts all and critical", broken, []string{"-only", "callback/changed-match", "-fail", "critical"}, exitProblem},
		{"wrong status", wrongStatus, []string{"-only", "callback/changed-match"}, exitProblem},
		{"wrong status and medium", wrongStatus, []string{"-only", "callback/changed-match", "-fail", "medium"}, exitOK},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := examineReceiver(t, row.receiver, row.args...)

			got.expect(t, row.want, []string{": response ", "\n      callback/changed-match ("}, nil)
		})
	}
}

func TestExamine_Formats(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "report")
	run := func(format ...string) []byte {
		got := examineReceiver(t, func(keySet, string) http.Handler { return http.HandlerFunc(acceptAll) },
			append(format, "-only", "callback/changed-*", "-o", path)...)
		if got.code != exitProblem || got.stdout != "" || !strings.Contains(got.stderr, "\nFAIL  accepted an invalid message (changed match): response 204 No Content (callback/changed-match, critical)\n") {
			t.Errorf("%s: exit code %d\nstdout: %s\nstderr: %s", format, got.code, got.stdout, got.stderr)
		}
		wantMode(t, path, 0o600)
		return []byte(readText(t, path))
	}

	var report receivertest.Report
	jsonErr := json.Unmarshal(run("-json"), &report)
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Text string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	junitErr := xml.Unmarshal(run("-junit"), &suite)
	text, verbose := string(run()), string(run("-v"))

	failed := make(map[string]string) // commands by rule
	for _, f := range report.Failed() {
		failed[f.Rule] = f.Curl
	}
	if jsonErr != nil || !strings.Contains(failed["callback/changed-match"], "curl ") {
		t.Errorf("JSON: error %v, failures %q, want callback/changed-match with a command", jsonErr, failed)
	}
	if junitErr != nil || suite.Tests != len(suite.Cases) || suite.Tests != len(report.Findings) || suite.Failures != len(failed) {
		t.Errorf("JUnit: error %v, %d tests and %d failures, want %d and %d as in JSON", junitErr, suite.Tests, suite.Failures, len(report.Findings), len(failed))
	}
	for _, c := range suite.Cases {
		if _, ok := failed[c.Name]; ok != (c.Failure != nil) {
			t.Errorf("JUnit: %s failed: %t, want %t", c.Name, c.Failure != nil, ok)
		}
	}
	const row = "\nFAIL  accepted an invalid message (changed match): response 204 No Content\n      callback/changed-match (critical): "
	if !strings.Contains(text, row) || strings.Contains(text, "pass  ") || !strings.Contains(text, "\n1 passed, ") {
		t.Errorf("text: want the failures, and only the number of rules that passed:\n%s", text)
	}
	if !strings.Contains(verbose, row) || !strings.Contains(verbose, "\npass  callback/valid: ") {
		t.Errorf("text with -v: want also the rules that passed:\n%s", verbose)
	}
	if n := strings.Count(text, " This message is valid for seconds: "); n != 2 {
		t.Errorf("text: %d commands with a note about their date, want one for each reason:\n%s", n, text)
	}
}

func TestExamine_Header(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	received := make(map[string]int)

	got := examineReceiver(t, func(keySet, string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			received[r.Header.Get("X-Tenant")]++
			mu.Unlock()
			acceptAll(w, r)
		})
	}, "-header", "X-Tenant: tenant-secret", "-only", "callback/changed-match")

	if len(received) != 1 || received["tenant-secret"] == 0 {
		t.Errorf("received X-Tenant %v, want only tenant-secret", received)
	}
	got.expect(t, exitProblem, []string{"X-Tenant", "!tenant-secret"}, []string{"!tenant-secret"})
}

func TestExamine_Usage(t *testing.T) {
	t.Parallel()
	const receiver = "http://127.0.0.1:3000/callbacks"
	for _, row := range []struct {
		name string
		args []string
		want string // part of stderr
	}{
		{"no URL", nil, "the URL of the receiver is missing"},
		{"two URLs", []string{receiver, receiver}, "unexpected number of arguments: 2"},
		{"no scheme", []string{"127.0.0.1:3000"}, "must begin with https:// or http://"},
		{"user", []string{"http://me:hidden@127.0.0.1/"}, "neither a user nor a fragment"},
		{"list and URL", []string{"-list", receiver}, "-list needs no URL"},
		{"digest", []string{"-digest", "md5", receiver}, "-digest must be"},
		{"digest of a redirect", []string{"-redirect", "-digest", "base64", receiver}, "not for -redirect"},
		{"CA file without TLS", []string{"-keys-http", "-ca-file", "ca.pem", receiver}, "-ca-file has no effect"},
		{"severity", []string{"-fail", "severe", receiver}, "-fail must be"},
		{"two formats", []string{"-json", "-junit", receiver}, "only one of -json, -junit and -v"},
		{"rule", []string{"-only", "callback/no-such-rule", receiver}, "there is no rule \"callback/no-such-rule\". The rules are\n  callback/valid, "},
		{"rule without a kind", []string{"-only", "changed-match", receiver}, "there is no rule \"changed-match\": use callback/changed-match"},
		{"strict rule", []string{"-only", "callback/hs2019", receiver}, "there is no rule \"callback/hs2019\" without -strict"},
		{"malformed pattern", []string{"-only", "callback/[", receiver}, "the pattern callback/[ is malformed"},
		{"list and format", []string{"-list", "-json"}, "with -list, only -redirect, -strict and -only"},
		{"list and report", []string{"-list", "-o", "report"}, "with -list, only -redirect, -strict and -only"},
		{"header of the message", []string{"-header", "Host: hidden", receiver}, "examine: -header must not contain Host, which is a part of the message"},
		{"probe on another machine", []string{"-probe", "http://192.0.2.1/probe", receiver}, "192.0.2.1 is not this machine: a probe"},
		{"rule of redirects", []string{"-only", "redirect/*", receiver}, "there is no rule \"redirect/*\" for receivers of callbacks: set -redirect"},
		{"header without a value", []string{"-header", "Cookie=hidden", receiver}, "-header number 1 must be 'Name: value'"},
		{"address", []string{"-addr", "/socket", receiver}, "-addr must be"},
		{"address with a path", []string{"-addr", "http://127.0.0.1:3000/x", receiver}, "-addr must be"},
		{"probe", []string{"-probe", "/probe", receiver}, "-probe must begin"},
		{"key set", []string{"-keys", "8446", receiver}, "-keys must be host:port"},
		{"timeout", []string{"-timeout", "-1s", receiver}, "-timeout must not be negative"},
		{"unknown flag", []string{receiver, "-x"}, "flag provided but not defined: -x"},
		{"other machine", []string{"https://192.0.2.1/callbacks"}, "is not this machine: an examination sends forged messages"},
		{"address on another machine", []string{"-addr", "192.0.2.1:80", receiver}, "is not this machine"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, "", append([]string{"examine"}, row.args...)...)

			got.expectError(t, exitUsage, row.want, "!hidden")
		})
	}
}

func TestExamine_Unable(t *testing.T) {
	t.Parallel()
	used := httptest.NewServer(http.HandlerFunc(acceptAll))
	t.Cleanup(used.Close)
	missing := filepath.Join(t.TempDir(), "missing", "file")
	for _, row := range []struct {
		name string
		args []string
		want []string // parts of stderr
	}{
		{"port of the key set in use", []string{"-keys", strings.TrimPrefix(used.URL, "http://"), used.URL}, []string{"address already in use (choose another address with -keys"}},
		{"receiver does not listen", []string{"-timeout", "0", "http://" + unusedAddress}, []string{"connection refused (start it, compare its port with that of the URL or -addr"}},
		{"CA file", []string{"-ca-file", missing, used.URL}, []string{"write the CA file", "no such file or directory (set -ca-file to a file in a writable directory)"}},
		{"directory as CA file", []string{"-ca-file", t.TempDir(), used.URL}, []string{"exists and is not a regular file (set -ca-file"}},
		{"receiver CA", []string{"-receiver-ca", missing, used.URL}, []string{"-receiver-ca: "}},
		// The command must fail before it serves the key set.
		{"report", []string{"-o", missing, "-only", "callback/changed-match", used.URL}, []string{"idverify: examine: write the report: ", "!key set"}},
		{"directory as report", []string{"-o", t.TempDir(), used.URL}, []string{"idverify: examine: write the report: ", "!key set"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runExamine(t.Context(), nil, row.args...)

			got.expectError(t, exitError, row.want...)
		})
	}
}

func TestExamine_WaitsForReceiver(t *testing.T) {
	t.Parallel()
	addr := tooltest.ReservedAddress(t)
	server := &http.Server{Handler: http.HandlerFunc(acceptAll)}
	defer server.Close()
	start := func([]string) { // after the first connection has failed
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		go server.Serve(listener)
	}
	p := newProgram(nil)
	p.stderr = watch("(?m)^waiting until the receiver listens", start)

	got := p.runCommand(t.Context(), "examine", "-keys", "127.0.0.1:0", "-only", "callback/changed-match", "http://"+addr)

	got.expect(t, exitProblem, nil, nil)
}

// writerFunc is an io.Writer that calls a function.
type writerFunc func(text string)

func (f writerFunc) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

// TestExamine_OutputKept requires that a report that cannot be written at the end is printed.
func TestExamine_OutputKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "reports")
	noError(t, os.Mkdir(dir, 0o700))

	got := examineReceiver(t, func(keySet, string) http.Handler {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		return http.HandlerFunc(acceptAll)
	}, "-only", "callback/changed-match", "-json", "-o", filepath.Join(dir, "report.json"))

	got.expect(t, exitError, nil, []string{"\nFAIL  accepted an invalid message (changed match): ", "write the report: "})
}

// wantMode fails the test if a file has other permissions. Windows has none.
func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	if mode := must(os.Stat(path))(t).Mode(); mode != want && runtime.GOOS != "windows" {
		t.Errorf("mode = %v, want %v", mode, want)
	}
}

// TestExamine_OutputReplaced requires that an interrupted command leaves an old report unchanged,
// and a complete one replaces it through a symbolic link, with the same permissions.
func TestExamine_OutputReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "report"), filepath.Join(dir, "link")
	noError(t, errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Chmod(file, 0o640), os.Symlink(file, link)))

	failed := runExamine(t.Context(), nil, "-timeout", "0", "-o", link, "http://"+unusedAddress)
	before := readText(t, file)
	replaced := examineReceiver(t, func(keySet, string) http.Handler { return http.HandlerFunc(acceptAll) },
		"-only", "callback/changed-match", "-o", link)

	if failed.code != exitError || before != "old" {
		t.Errorf("exit code %d, report %q, want 3 and the old report", failed.code, before)
	}
	if replaced.code != exitProblem || !strings.HasPrefix(readText(t, file), "Examination of the callback receiver") {
		t.Errorf("exit code %d, report %q, want 1 and a new report", replaced.code, readText(t, file))
	}
	wantMode(t, file, 0o640)
}

// TestExamine_UntrustedKeySet examines a receiver that was started without the CA file.
func TestExamine_UntrustedKeySet(t *testing.T) {
	t.Parallel()

	got := examineReceiver(t, func(k keySet, host string) http.Handler {
		return accepting(t, must(signature.NewJWKS(k.url, nil))(t), host, &signature.VerifierOptions{Now: k.now})
	}, "-only", "callback/valid")

	got.expect(t, exitProblem, []string{"does not trust its certificate. Start it with the CA file", "!has not requested the key set"}, nil)
}

func TestExamine_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	server, handler := startReceiver(t)

	got := runExamine(ctx, func(k keySet) {
		receiver, requests := k.receiver(t, strings.TrimPrefix(server.URL, "http://")), 0
		handler.set <- http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests == 30 { // messages are sent one after the other
				interrupt()
			}
			receiver.ServeHTTP(w, r)
		})
	}, "-v", server.URL)

	got.expect(t, exitError, []string{"\npass  callback/", " passed, 0 failed, "}, []string{"The examination ended early"})
}

func TestExamine_InterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())

	got := runExamine(ctx, func(keySet) { interrupt() }, "http://"+unusedAddress)

	got.expectError(t, exitError, "interrupted before the receiver listened")
}

func TestExamine_AddressAndProbe(t *testing.T) {
	t.Parallel()
	hosts := make(chan string, 1000)
	var probes atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/probe" {
			probes.Add(1)
			fmt.Fprint(w, "1") // effect of each check
			return
		}
		hosts <- r.Host
		acceptAll(w, r)
	}))
	server.Config.ErrorLog = discardLog // the command connects without TLS while it waits
	server.StartTLS()
	defer server.Close()
	ca := writeFile(t, certificatePEM(server))
	u := must(url.Parse(server.URL))(t)

	// The certificate of httptest is valid for example.com.
	got := runExamine(t.Context(), nil, "-addr", u.Host, "-receiver-ca", ca, "-keys-http", "-probe", server.URL+"/probe", "-only", "callback/changed-match", "https://example.com/callbacks")

	got.expect(t, exitProblem, nil, []string{"  key set   http://127.0.0.1:", "!CA file", "  host      example.com "})
	if len(hosts) == 0 || <-hosts != "example.com" {
		t.Errorf("%d messages, want some with the host example.com", len(hosts))
	}
	if probes.Load() == 0 {
		t.Error("no request to the probe")
	}
}

func TestExamine_List(t *testing.T) {
	t.Parallel()

	all := runProgram(t, nil, "", "examine", "-list")
	strict := runProgram(t, nil, "", "examine", "-list", "-strict")
	redirects := runProgram(t, nil, "", "examine", "-list", "-redirect")
	one := runProgram(t, nil, "", "examine", "-list", "-only", "callback/changed-match")

	count := func(r result, rule string) int { return strings.Count("\n"+r.stdout, "\n"+rule) }
	if n := count(all, "callback/"); n < 50 || count(strict, "callback/") <= n || count(redirects, "callback/") != 0 || count(redirects, "redirect/") < 30 {
		t.Errorf("%d rules, %d with -strict, %d with -redirect", n, count(strict, "callback/"), count(redirects, "redirect/"))
	}
	if want := regexp.MustCompile(`^callback/changed-match \(critical\)\n    [^\n]+\.\n    [^\n]+\.\n$`); !want.MatchString(one.stdout) {
		t.Errorf("one rule: %q, want %s", one.stdout, want)
	}
	if all.code != exitOK || all.stderr != "" {
		t.Errorf("exit code %d, stderr %s", all.code, all.stderr)
	}
}

// pageSection returns the text below a heading of docs/tools.md, up to the next one of the same
// or a higher level.
func pageSection(t *testing.T, heading string) string {
	t.Helper()
	_, section, ok := strings.Cut(readText(t, "../../docs/tools.md"), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/tools.md has no heading %q", heading)
	}
	for level, _, _ := strings.Cut(heading, " "); level != ""; level = level[1:] {
		section, _, _ = strings.Cut(section, "\n"+level+" ")
	}
	return section
}

// TestExamine_CommandsDocumented parses each command of the section.
func TestExamine_CommandsDocumented(t *testing.T) {
	t.Parallel()
	commands := regexp.MustCompile(`(?m)^ *(?:\$ )?(idverify examine .*)$`).FindAllStringSubmatch(pageSection(t, "## Examine a receiver"), -1)

	for _, command := range commands {
		text, _, _ := strings.Cut(command[1], " #")
		args := shellWords(strings.TrimSuffix(strings.TrimSpace(text), " &"))[2:]
		e := &examination{}
		flags := flag.NewFlagSet("examine", flag.ContinueOnError)
		e.define(flags)
		if err := flags.Parse(args); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if err := e.check(flags.Args(), nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if len(commands) < 5 {
		t.Errorf("found %d commands, want at least 5", len(commands))
	}
}

// startProbe runs a program of testdata/probe until the test ends. It returns the URL of its probe.
func startProbe(t *testing.T, interpreter, file string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), interpreter, "testdata/probe/"+file)
	command.Stderr = os.Stderr
	line, err := tooltest.Start(t, command).ReadString('\n')
	if err != nil {
		t.Fatalf("%s does not print its URL: %v", file, err)
	}
	return strings.TrimSpace(line) + "/probe"
}

// TestExamine_ProbeSnippets runs the probes of docs/tools.md.
func TestExamine_ProbeSnippets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ language, interpreter, file string }{
		{"js", "node", "probe.js"},
		{"py", tooltest.Python(t, "flask"), "probe.py"},
	} {
		t.Run(row.language, func(t *testing.T) {
			t.Parallel()
			snippet := regexp.MustCompile("(?s)```" + row.language + "\n(.*?)```").FindStringSubmatch(pageSection(t, "### Probe"))
			if snippet == nil || !strings.Contains(readText(t, "testdata/probe/"+row.file), snippet[1]) {
				t.Fatalf("docs/tools.md does not contain the probe of %s: %q", row.file, snippet)
			}
			tooltest.Require(t, tooltest.Installed(row.interpreter), "run script/setup interop, which installs Node.js and Python with Flask")
			probe := receivertest.HTTPProbe(startProbe(t, row.interpreter, row.file), nil)
			ctx := t.Context()

			before, beforeErr := probe.Effects(ctx, "check 1")
			createdErr := probe.Created(ctx, receivertest.Check{CheckID: "check 1", Product: "phone_check"})
			after, afterErr := probe.Effects(ctx, "check 1")
			slowErr := probe.SlowStore(ctx, true)
			slow, slowEffectsErr := probe.Effects(ctx, "check 1") // 0 while the store of the program is slow
			_, sessionErr := probe.Session(ctx)

			noError(t, errors.Join(beforeErr, createdErr, afterErr, slowErr, slowEffectsErr))
			if before != 0 || after != 1 || slow != 0 {
				t.Errorf("effects = %d, %d after the check was created, and %d while the store is slow, want 0, 1 and 0", before, after, slow)
			}
			if !errors.Is(sessionErr, errors.ErrUnsupported) {
				t.Errorf("Session = %v, want ErrUnsupported", sessionErr)
			}
		})
	}
}

// TestExamine_FieldNames verifies that reports of package receivertest, which this program prints
// for receivers in any language, name no fields of the package.
func TestExamine_FieldNames(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../receivertest/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d files of receivertest, error %v", len(paths), err)
	}
	field := regexp.MustCompile(`\b(Probe|Receiver)\.[A-Z]\w*|\bBase64Digest\b|\bKeys\b`)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "receiver.go" { // errors of an invalid Receiver are for callers
			continue
		}
		file := must(parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == gotoken.STRING && field.MatchString(literal.Value) && !strings.Contains(literal.Value, "receivertest: ") {
				t.Errorf("%s: the command would print %s", path, literal.Value)
			}
			return true
		})
	}
}

// TestExamine_Transcript examines a receiver whose clock skew is 5000 s instead of 5000 ms.
func TestExamine_Transcript(t *testing.T) {
	t.Parallel()
	server, handler := startReceiver(t)
	host := strings.TrimPrefix(server.URL, "http://")
	keySetPort := regexp.MustCompile(`(key set +https://127\.0\.0\.1:)\d+`)

	runTranscript(t, "examine", nil, func(args []string, p *program) []string {
		terminal := p.stdout
		p.stdout = writerFunc(func(text string) {
			text = strings.ReplaceAll(text, host, "127.0.0.1:3000")
			io.WriteString(terminal, keySetPort.ReplaceAllString(text, "${1}8446"))
		})
		clock := stopClock(p, time.Now())
		p.stderr = io.MultiWriter(watch(announcement, func(m []string) {
			k := keySet{m[1], m[2], clock.now}
			handler.set <- accepting(t, k.jwks(t), host, &signature.VerifierOptions{ClockSkew: 5000 * time.Second, Now: k.now})
		}), p.stdout)
		args = append([]string{args[0], "-keys", "127.0.0.1:0"}, args[1:]...)
		args[len(args)-1] = strings.ReplaceAll(args[len(args)-1], "127.0.0.1:3000", host)
		return args
	})
}
