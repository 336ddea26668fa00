package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// doctorOutput is the JSON document of doctor.
type doctorOutput struct {
	Result string               `json:"result"`
	Count  map[doctorResult]int `json:"count"`
	Checks []doctorRow          `json:"checks"`
	code   int
	text   string
}

// doctorJSON runs doctor with -json. The output must not contain a secret of env.
func doctorJSON(t *testing.T, env map[string]string, args ...string) doctorOutput {
	t.Helper()
	return newProgram(env).doctorJSON(t, t.Context(), args...)
}

// doctorJSON runs doctor with -json. The output must not contain a secret of the environment.
func (p *program) doctorJSON(t *testing.T, ctx context.Context, args ...string) doctorOutput {
	t.Helper()
	got := p.runCommand(ctx, append([]string{"doctor", "-json"}, args...)...)
	output := doctorOutput{code: got.code, text: got.stdout}
	if err := json.Unmarshal([]byte(got.stdout), &output); err != nil {
		t.Fatalf("doctor %q: %v, exit code %d, stdout: %s\nstderr: %s", args, err, got.code, got.stdout, got.stderr)
	}
	if secret := p.getenv(clientSecretVariable); secret != "" && strings.Contains(got.stdout, secret) {
		t.Errorf("the output contains the client secret: %s", got.stdout)
	}
	return output
}

func (o doctorOutput) row(t *testing.T, name string) doctorRow {
	t.Helper()
	i := slices.IndexFunc(o.Checks, func(row doctorRow) bool { return row.Name == name })
	if i < 0 {
		t.Fatalf("the output has no check %s:\n%s", name, o.text)
	}
	return o.Checks[i]
}

// wantProblem checks that a check has found a problem, with its remedy and a part of its detail. If
// problem is empty, the check must have found none.
func (o doctorOutput) wantProblem(t *testing.T, check, problem, detail string) {
	t.Helper()
	row, want := o.row(t, check), problemOf(check, problem)
	if problem == "" {
		o.wantOK(t, check)
	} else if row.Problem != problem || row.Result != want.result || row.Remedy != linked(want.remedy) || want.remedy == "" {
		t.Errorf("%s = %+v, want the problem %s", check, row, problem)
	}
	if !strings.Contains(row.Detail, detail) {
		t.Errorf("%s: detail = %q, want it to contain %q", check, row.Detail, detail)
	}
	if (o.code == exitProblem) != (o.Count[resultFailed] > 0) {
		t.Errorf("exit code = %d with %d failed checks", o.code, o.Count[resultFailed])
	}
}

// wantOK checks that checks have found no problem.
func (o doctorOutput) wantOK(t *testing.T, checks ...string) {
	t.Helper()
	for _, check := range checks {
		if row := o.row(t, check); row.Result != resultOK || row.Problem != "" || row.Remedy != "" {
			t.Errorf("%s = %+v, want ok", check, row)
		}
	}
}

// wantSkipped checks that checks were skipped because of another one.
func (o doctorOutput) wantSkipped(t *testing.T, because string, checks ...string) {
	t.Helper()
	for _, check := range checks {
		if row := o.row(t, check); row.Result != resultSkipped || !strings.Contains(row.Detail, because) {
			t.Errorf("%s = %+v, want skipped because of %q", check, row, because)
		}
	}
}

// authority is a certificate authority for tests.
type authority struct {
	certificate tls.Certificate
	file        string // PEM
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	c := tooltest.NewCertificate(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return &authority{c, writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Leaf.Raw})))}
}

// issue returns a certificate for hosts that is valid for a period from now, or expired if that is
// negative.
func (a *authority) issue(t *testing.T, validity time.Duration, hosts ...string) tls.Certificate {
	t.Helper()
	return tooltest.NewCertificate(t, x509.Certificate{Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(validity)}, &a.certificate, hosts...)
}

const longValidity = 90 * 24 * time.Hour

// serveTLS serves handler with a certificate, and returns the base URL.
func serveTLS(t *testing.T, certificate tls.Certificate, handler http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL
}

// front returns a reverse proxy for the fake that changes its responses.
func front(t *testing.T, srv *sandboxfake.Server, change func(http.Header)) http.HandlerFunc {
	t.Helper()
	target := must(url.Parse(srv.URL()))(t)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: srv.HTTPClient().Transport,
		ModifyResponse: func(r *http.Response) error {
			change(r.Header)
			return nil
		},
		ErrorLog: discardLog,
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil // only that of the fake
		proxy.ServeHTTP(w, r)
	}
}

// behind returns the environment for a fake behind a reverse proxy that changes its responses.
func behind(t *testing.T, change func(http.Header)) (*sandboxfake.Server, map[string]string) {
	t.Helper()
	srv, env := newService(t)
	ca := newAuthority(t, "Test CA")
	env[baseURLVariable] = serveTLS(t, ca.issue(t, longValidity, "127.0.0.1"), front(t, srv, change))
	env[caFileVariable] = ca.file
	return srv, env
}

// with returns a copy of env with a variable.
func with(env map[string]string, name, value string) map[string]string {
	changed := maps.Clone(env)
	changed[name] = value
	return changed
}

func TestDoctor_Healthy(t *testing.T) {
	t.Parallel()
	srv, _ := newService(t)
	live := srv.NewProject(liveProject())
	createChecks(t, live.Client(), 1)
	env := environment(t, srv, live.Credentials)

	got := doctorJSON(t, env, "-warnings")

	if got.code != exitOK || got.Result != "ok" || got.Count[resultOK] != len(got.Checks) || len(got.Checks) != 12 {
		t.Errorf("exit code %d, %s", got.code, got.text)
	}
	for _, r := range srv.Requests() {
		switch r.Operation {
		case "token.create", "jwks.get", "phone_check.list", "sim_check.list", "subscriber_check.list":
		case "phone_check.create": // by the test
		default:
			t.Errorf("doctor sent %s, want only requests that are free and read", r.Operation)
		}
	}
	if n := countRequests(srv, "phone_check.create"); n != 1 {
		t.Errorf("%d checks were created, want that of the test: each one is charged", n)
	}
}

func TestDoctor_Text(t *testing.T) {
	t.Parallel()
	_, env := newService(t)

	got := runProgram(t, env, "", "doctor", "-only", "key set", "-only", "config", "-skip", "config-credentials")

	if got.code != exitOK || !strings.Contains(got.stdout, "\nok       key set               1 key, fetched in ") ||
		!strings.HasPrefix(got.stdout, "ok       config base url       https://127.0.0.1:") || !strings.Contains(got.stdout, ", 0 failed, 0 skipped\n") {
		t.Errorf("exit code %d, stdout:\n%s%s", got.code, got.stdout, got.stderr)
	}
}

func TestDoctor_Usage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"https://api.example.com"}, "unexpected argument"},
		{[]string{"-timeout", "0s"}, "-timeout must be positive"},
		{[]string{"-only", "key-sets"}, "-only: there is no check \"key-sets\". The checks are\n  config-base-url, config-credentials, "},
		{[]string{"-skip", "call"}, "-skip: there is no check \"call\". The checks are\n  config-base-url, config-credentials, "},
		{[]string{"-only", "callback"}, "nothing to check"},
		{[]string{"-only", "key-set", "-skip", "config-ca-file"}, "-skip: key-set needs the check config-ca-file"},
		{[]string{"-skip", "credentials-scopes"}, "-skip: credentials-mode needs the check credentials-scopes"},
		{[]string{"-skip", "config"}, "-skip: base-url-proxy needs the check config-base-url"},
	} {
		got := runProgram(t, nil, "", append([]string{"doctor"}, row.args...)...)

		if got.code != exitUsage || !strings.HasPrefix(got.stderr, "idverify: doctor: "+row.stderr) || !strings.Contains(got.stderr, `"idverify doctor -h" lists the flags`) || got.stdout != "" {
			t.Errorf("doctor %q: exit code %d, stderr: %s%s", row.args, got.code, got.stderr, got.stdout)
		}
	}
}

// A readiness job must not succeed because a required variable is missing.
func TestDoctor_OnlyNeedsConfiguration(t *testing.T) {
	t.Parallel()

	got := doctorJSON(t, nil, "-only", "key-set")

	got.wantProblem(t, "config-base-url", "missing", "IDVERIFY_BASE_URL is not set")
	got.wantSkipped(t, "config base url failed", "key-set")
	if got.code != exitProblem || len(got.Checks) != 3 {
		t.Errorf("exit code = %d, want %d:\n%s", got.code, exitProblem, got.text)
	}
}

func TestDoctor_Warnings(t *testing.T) {
	t.Parallel()
	_, env := behind(t, func(h http.Header) { h["Date"] = nil })

	without := doctorJSON(t, env, "-only", "clock")
	strict := doctorJSON(t, env, "-only", "clock", "-warnings")

	without.wantProblem(t, "clock", "unknown", "no Date")
	if without.code != exitOK || strict.code != exitProblem || without.Result != "warning" {
		t.Errorf("exit codes %d and %d, want %d and %d with -warnings", without.code, strict.code, exitOK, exitProblem)
	}
}

func TestDoctor_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	got := newProgram(nil).runCommand(ctx, "doctor")

	got.expect(t, exitError, []string{"\n0 ok, 0 warnings, 0 failed, 12 skipped\n"}, []string{"idverify: doctor: interrupted"})
}

// A document of an interrupted run must not look like that of a complete one.
func TestDoctor_InterruptedJSON(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ca := newAuthority(t, "Test CA")
	env := map[string]string{clientIDVariable: "id", clientSecretVariable: "secret-of-id", caFileVariable: ca.file}
	env[baseURLVariable] = serveTLS(t, ca.issue(t, longValidity, "127.0.0.1"), func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})

	got := newProgram(env).doctorJSON(t, ctx)

	if got.code != exitError || got.Result != "interrupted" || len(got.Checks) != 12 || got.Count[resultFailed] > 0 {
		t.Errorf("exit code %d, want %d, the result interrupted, and all checks:\n%s", got.code, exitError, got.text)
	}
	got.wantOK(t, "config-base-url", "config-credentials")
	got.wantSkipped(t, "because doctor was interrupted", "base-url-response", "clock", "credentials-token", "credentials-mode", "key-set")
}

func TestDoctorRun_Detail(t *testing.T) {
	t.Parallel()
	d := newDoctorRun(newProgram(nil))
	d.secrets = []string{"the-secret", "password", "e"}
	for text, want := range map[string]string{
		"a\x1b[31mb\u202ec\r\nd":         `a\x1b[31mb\u202ec\r\nd`,
		"the-secret, the-secret":         "[REDACTED], [REDACTED]",
		"response":                       "response", // a short secret must not be visible as gaps
		strings.Repeat("x", maxDetail+1): strings.Repeat("x", maxDetail-len("password: ")) + "…",
	} {
		for _, value := range []any{text, errors.New(text)} {
			if got := d.detail(sick("other", "password: %v", value)); got != "password: "+want {
				t.Errorf("detail with %q = %q, want %q", text, got, "password: "+want)
			}
		}
	}
}

// The remedies and details of the program must stay readable, whatever the secret is.
func TestDoctor_SecretIsWord(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"wrong", "e", "environment", "credentials"} {
		_, env := newService(t)
		env[clientSecretVariable] = secret

		got := runProgram(t, env, "", "doctor", "-only", "config", "-only", "credentials-token")

		if got.code != exitProblem || !strings.Contains(got.stdout, "the service does not know the client ID, or the secret is wrong (invalid_client)") || strings.Contains(got.stdout, "[REDACTED]") {
			t.Errorf("exit code %d, stdout with the secret %q:\n%s", got.code, secret, got.stdout)
		}
	}
}

func TestDoctor_Transcript(t *testing.T) {
	t.Parallel()
	_, env := newService(t)

	runTranscript(t, "doctor", env)
}

// tableRows returns the cells of the table rows in a section whose first cell is a code span.
func tableRows(section string) [][]string {
	var rows [][]string
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// The page lists the checks in their order, and the problems of each. The checks of redirects have
// the problems of callbacks.
func TestDoctorChecks_Documented(t *testing.T) {
	t.Parallel()
	var checks []string
	problems := make(map[string][]string)
	for _, row := range tableRows(pageSection(t, "### Checks of doctor")) {
		for _, check := range spans(row[0]) {
			checks = append(checks, check)
			problems[check] = spans(row[2])
		}
	}

	if diff := cmp.Diff(doctorChecks(), checks); diff != "" {
		t.Errorf("checks in docs/tools.md (-code +page):\n%s", diff)
	}
	want := make(map[string][]string)
	for _, p := range doctorProblems {
		check := strings.Replace(p.check, "redirect-", "callback-", 1)
		if !slices.Contains(want[check], p.name) {
			want[check] = append(want[check], p.name)
		}
	}
	for check, names := range want {
		if diff := cmp.Diff(names, problems[check]); diff != "" {
			t.Errorf("problems of %s in docs/tools.md (-code +page):\n%s", check, diff)
		}
	}
}

func TestDoctorChecks_Selectable(t *testing.T) {
	t.Parallel()
	for _, name := range doctorChecks() {
		d := newDoctorRun(newProgram(nil))
		d.timeout, d.callbacks, d.redirects, d.only = time.Second, stringList{"https://a.test"}, stringList{"https://a.test"}, stringList{name}

		if err := d.configure(nil); err != nil {
			t.Errorf("-only %s: %v", name, err)
		}
	}
}

func TestDoctorJSON_Documented(t *testing.T) {
	t.Parallel()
	want := [][]string{{"result", "started", "duration_seconds", "count", "checks"}, nil}
	for field := range reflect.TypeFor[doctorRow]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want[1] = append(want[1], name)
	}
	var document map[string]any
	noError(t, json.Unmarshal([]byte(doctorJSON(t, nil, "-only", "config").text), &document))
	for name := range document {
		if !slices.Contains(want[0], name) {
			t.Errorf("the document has the field %s, which is not documented", name)
		}
	}

	var got [][]string
	for line := range strings.Lines(pageSection(t, "### JSON of doctor")) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.Contains(cells[2], "`") {
			got = append(got, spans(cells[2]))
		}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields in docs/tools.md (-code +page):\n%s", diff)
	}
}

// The arguments of the Kubernetes example must be valid.
func TestDoctorJob_Documented(t *testing.T) {
	t.Parallel()
	match := regexp.MustCompile("`command: (\\[.*?\\])`").FindStringSubmatch(pageSection(t, "### Kubernetes"))
	if match == nil {
		t.Fatal("the example has no command")
	}
	var command []string
	noError(t, json.Unmarshal([]byte(match[1]), &command))

	got := doctorJSON(t, nil, command[2:]...)

	if got.code != exitProblem || len(got.Checks) < 12 {
		t.Errorf("exit code %d, output: %s", got.code, got.text)
	}
}

// Every problem must have a test that asserts it.
func TestDoctorProblems_Tested(t *testing.T) {
	t.Parallel()
	paths := must(filepath.Glob("doctor*.go"))(t)
	var tests, sources strings.Builder
	for _, path := range paths {
		text := must(os.ReadFile(path))(t)
		switch {
		case strings.HasSuffix(path, "_test.go"):
			tests.Write(text)
		case path != "doctor.go": // it contains the table
			sources.Write(text)
		}
	}
	for _, p := range doctorProblems {
		named := fmt.Sprintf("%q, %q", p.check, p.name)
		if !strings.Contains(tests.String(), named) && !testedByTable[p.check+" "+p.name] {
			t.Errorf("no test contains %s", named)
		}
		if !strings.Contains(sources.String(), fmt.Sprintf("%q", p.name)) {
			t.Errorf("the code never reports %s", named)
		}
	}
}

// testedByTable contains the problems of tests whose rows have the name of the problem only.
var testedByTable = map[string]bool{
	"base-url-proxy invalid": true, "base-url-proxy unreachable": true, "base-url-proxy rejected": true, // TestDoctor_Proxy
	"base-url-proxy timeout": true, "base-url-tls timeout": true, "callback-tls timeout": true, // TestDoctor_HangingProxy, TestDoctor_HangingTLS
	"base-url-connection unresolved": true, "base-url-connection closed-port": true, "base-url-connection unreachable": true, // TestDoctor_Connection
	"base-url-tls wrong-host": true, "base-url-tls expired": true, "base-url-tls handshake": true, "base-url-tls expires-soon": true, // TestDoctor_Certificates
	"callback-tls wrong-host": true, "callback-tls expired": true, "callback-tls handshake": true, "callback-tls expires-soon": true, "callback-tls untrusted": true,
	"base-url-response none": true, "base-url-response redirect": true, // TestDoctor_Response
	"clock wrong": true, "clock skewed": true, // TestDoctor_Clock
	"key-set unusable": true, "key-set ignored": true, // TestDoctor_KeySet
	"callback-unsigned slow": true, "callback-forged slow": true, // TestDoctor_SlowReceiver
	"callback-address invalid": true, "callback-address unresolved": true, "callback-address closed-port": true, "callback-address unreachable": true, // TestDoctor_ReceiverAddress
}
