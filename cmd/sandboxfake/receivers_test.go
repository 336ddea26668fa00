package main

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/internal/tooltest"
)

// receiver is one of the programs that the inspector page shows, and its output.
type receiver struct {
	url    string // callback URL
	lines  *bufio.Scanner
	stderr string // file
}

// placeholder returns the environment variable with the value of a placeholder.
func placeholder(name string) string { return "RECEIVER" + name }

// patience lets the receivers accept messages that arrive late on a busy machine, and wait for the
// key set.
var patience = strings.NewReplacer(
	"const skew = 5;", "const skew = 600;", "AbortSignal.timeout(3000)", "AbortSignal.timeout(60_000)",
	"SKEW = 5 ", "SKEW = 600 ", "timeout=3)", "timeout=60)",
	"signature.NewMemoryReplayStore(0),", "signature.NewMemoryReplayStore(0), ClockSkew: 10 * time.Minute,",
	"Timeout: 3 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}", "Transport: patient{&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}",
)

// buildReceiver builds the receiver in Go once for all tests, and returns its path. It reads the
// values of the placeholders from the environment.
var buildReceiver = sync.OnceValues(func() (string, error) {
	source, err := os.ReadFile("internal/inspector/assets/receivers/receiver.go.txt")
	if err != nil {
		return "", err
	}
	file, program := filepath.Join(buildDir, "receiver.go"), filepath.Join(buildDir, "receiver")
	text := regexp.MustCompile(`"(__[A-Z_]+__)"`).ReplaceAllString(patience.Replace(string(source)), `os.Getenv("`+placeholder("$1")+`")`) + `
type patient struct{ http.RoundTripper }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.RoundTripper.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	return program, tooltest.Build(program, file)
})

// receiverCommand returns the command that runs a receiver.
func receiverCommand(t *testing.T, file string) []string {
	t.Helper()
	switch filepath.Ext(file) {
	case ".mjs":
		tooltest.Require(t, tooltest.Installed("node"), "run script/setup interop, which installs Node.js")
		return []string{"node", file}
	case ".py":
		python := tooltest.Python(t, "cryptography")
		tooltest.Require(t, python != "", "run script/setup interop, which installs Python with cryptography")
		return []string{python, file}
	}
	return []string{must(buildReceiver())(t)}
}

// startReceiver runs a receiver that the program serves, until the test ends. It replaces the
// placeholders like the page.
func startReceiver(t *testing.T, a announced, name string, placeholders map[string]string) *receiver {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+"/_sandbox/page/receivers/"+name, nil))(t)
	status, source := do(t, a.client(t), request)
	if status != http.StatusOK {
		t.Fatalf("GET %s = %d, want 200", name, status)
	}
	text := patience.Replace(string(source))
	env := append(os.Environ(), "PORT=0")
	for name, value := range placeholders {
		if !strings.Contains(text, `"`+name+`"`) {
			t.Errorf("the receiver does not contain %q:\n%s", name, text)
		}
		text = strings.ReplaceAll(text, name, value)
		env = append(env, placeholder(name)+"="+value)
	}
	file := filepath.Join(t.TempDir(), strings.TrimSuffix(name, ".txt"))
	noError(t, os.WriteFile(file, []byte(text), 0o600))
	args := receiverCommand(t, file)
	cmd := exec.Command(args[0], args[1:]...)
	stderr := must(os.Create(file + ".stderr"))(t)
	defer stderr.Close()
	cmd.Env, cmd.Stderr = env, stderr
	r := &receiver{lines: bufio.NewScanner(tooltest.Start(t, cmd)), stderr: stderr.Name()}
	url, found := strings.CutPrefix(r.line(t), "listening on ")
	if !found {
		t.Fatalf("%s does not print its URL", name)
	}
	r.url = url
	return r
}

// values returns the replacement for each placeholder in a receiver's source.
func values(keySetURL, caFile string) map[string]string {
	return map[string]string{"__JWKS_URL__": keySetURL, "__CA_FILE__": caFile, "__CALLBACK_HEADER__": "x-service-callback"}
}

// line returns the next line that the receiver prints.
func (r *receiver) line(t *testing.T) string {
	t.Helper()
	if !r.lines.Scan() {
		stderr, _ := os.ReadFile(r.stderr)
		t.Fatalf("the receiver ended: %v\n%s", r.lines.Err(), stderr)
	}
	return r.lines.Text()
}

// deliver creates and opens a check whose callback goes to the receiver. It returns the status of
// the only attempt, or 0 if the receiver did not respond.
func (r *receiver) deliver(t *testing.T, a announced) int {
	t.Helper()
	delivery := a.deliver(t, r.url)
	attempts := delivery["attempts"].([]any)
	if len(attempts) != 1 {
		t.Fatalf("delivery %v, want one attempt", delivery)
	}
	status, _ := attempts[0].(map[string]any)["status"].(float64)
	return int(status)
}

var receivers = []string{"receiver.go.txt", "receiver.mjs", "receiver.py"}

func TestReceiver_VerifiesCallbacks(t *testing.T) {
	t.Parallel()
	for _, name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, a := startJSON(t, "-callback-header", "X-Acme-Callback")
			r := startReceiver(t, a, name, map[string]string{
				"__JWKS_URL__": a.URL + "/.well-known/jwks.json", "__CA_FILE__": a.CAFile, "__CALLBACK_HEADER__": "X-Acme-Callback",
			})

			valid := r.deliver(t, a)

			if got := r.line(t); got != "verified: phone_check COMPLETED, match: yes" || valid != http.StatusNoContent {
				t.Errorf("a valid callback: printed %q with status %d, want verified with 204", got, valid)
			}

			a.control(t, http.MethodPost, "faults", `{"match":{"operation":"callback"},"faults":[{"wrong_key":true}]}`)
			forged := r.deliver(t, a)

			if got := r.line(t); !strings.Contains(got, "signature does not verify") || forged != http.StatusBadRequest {
				t.Errorf("a forged callback: printed %q with status %d, want a rejection with 400", got, forged)
			}
		})
	}
}

// printedReasons contains what the receivers print for some attacks, as regular expressions.
var printedReasons = map[string]string{
	"changed match":                     `digest does not match`,
	"digest not covered":                `does not cover`,
	"signed for another customer":       `host`,
	"date 5000 s old":                   `date`,
	"different path":                    `does not verify`,
	"unpublished key with published ID": `does not verify`,
	"unpublished key":                   `key`,
	"two digests":                       `exactly once`,
	"no Authorization":                  `(?i)authorization`,
}

// Package receivertest examines the receivers with all attacks. This test reads what they print.
func TestReceiver_PrintsReasons(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys")
	for _, name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setup, keySetURL, caFile := serveKeys(t)
			r := startReceiver(t, a, name, values(keySetURL, caFile))
			setup.URL = must(url.Parse(r.url))(t)
			setup.Now = time.Now()
			valid := setup.Callback()
			valid.Sign()

			status := exchange(t, setup.URL.Host, valid.Bytes())

			if got := r.line(t); status != http.StatusNoContent || !strings.HasPrefix(got, "verified: ") {
				t.Fatalf("a valid callback: printed %q with status %d, want verified with 204", got, status)
			}
			r.wantRejection(t, "repeated", `already accepted`, exchange(t, setup.URL.Host, valid.Bytes()))
			printed := 0
			for _, row := range attack.Callbacks() {
				if reason, ok := printedReasons[row.Name]; ok {
					printed++
					setup.Now = time.Now()
					r.wantRejection(t, row.Name, reason, exchange(t, setup.URL.Host, row.Message(setup).Bytes()))
				}
			}
			if printed != len(printedReasons) {
				t.Errorf("%d attacks sent, want %d: a name in printedReasons does not exist", printed, len(printedReasons))
			}
		})
	}
}

// wantRejection verifies the response to a message, and the line that the receiver prints.
func (r *receiver) wantRejection(t *testing.T, name, reason string, status int) {
	t.Helper()
	got := r.line(t)
	if status != http.StatusBadRequest || !strings.HasPrefix(got, "rejected: ") || !regexp.MustCompile(reason).MatchString(got) {
		t.Errorf("%s: printed %q with status %d, want a rejection with 400 for the reason %s", name, got, status, reason)
	}
}

// attackKeys returns a published and an unpublished key. All tests share them.
var attackKeys = sync.OnceValues(func() (keys [2]*rsa.PrivateKey, err error) {
	for i := range keys {
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			return keys, err
		}
	}
	return keys, nil
})

// serveKeys serves a key set with the key of the setup.
func serveKeys(t *testing.T) (setup attack.Setup, keySetURL, caFile string) {
	t.Helper()
	keys := must(attackKeys())(t)
	setup.Key, setup.Unpublished, setup.KeyID, setup.CheckID = keys[0], keys[1], "key", "check"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, e := keys[0].N.Bytes(), big.NewInt(int64(keys[0].E)).Bytes()
		fmt.Fprintf(w, `{"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": %q, "n": %q, "e": %q}]}`,
			setup.KeyID, base64.RawURLEncoding.EncodeToString(n), base64.RawURLEncoding.EncodeToString(e))
	}))
	t.Cleanup(server.Close)
	return setup, server.URL, writePEM(t, "CERTIFICATE", server.Certificate().Raw)
}

// exchange sends a raw request and returns the status of the response.
func exchange(t *testing.T, addr string, request []byte) int {
	t.Helper()
	conn := must(new(net.Dialer).DialContext(t.Context(), "tcp", addr))(t)
	defer conn.Close()
	noError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	must(conn.Write(request))(t)
	return status(t, conn)
}

func TestReceiver_KeySetUnavailable(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys")
	for _, name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReceiver(t, a, name, values("https://127.0.0.1:1/.well-known/jwks.json", a.CAFile))

			attempt := a.firstAttempt(t, r.url)

			line := r.line(t)
			if !strings.HasPrefix(line, "rejected: ") || attempt["status"] != 503.0 {
				t.Errorf("printed %q with status %v, want a rejection with 503, so that the service retries", line, attempt["status"])
			}
		})
	}
}

// dial sends the start of a request to the receiver, whose header contains the line.
func (r *receiver) dial(t *testing.T, line, body string) net.Conn {
	t.Helper()
	target := must(url.Parse(r.url))(t)
	conn := must(new(net.Dialer).DialContext(t.Context(), "tcp", target.Host))(t)
	t.Cleanup(func() { conn.Close() })
	noError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	must(fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n%s", target.Path, target.Host, line, body))(t)
	return conn
}

// status returns the status of the response.
func status(t *testing.T, conn net.Conn) int {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("response: %v", err)
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// verify sends a valid callback. The receiver must accept it, and may print rejections before.
func (r *receiver) verify(t *testing.T, a announced) {
	t.Helper()
	if got := r.deliver(t, a); got != http.StatusNoContent {
		t.Errorf("a valid callback: status %d, want 204", got)
	}
	line := r.line(t)
	for strings.HasPrefix(line, "rejected: ") {
		line = r.line(t)
	}
	if line != "verified: phone_check COMPLETED, match: yes" {
		t.Errorf("a valid callback: printed %q, want verified", line)
	}
}

func TestReceiver_InvalidRequests(t *testing.T) {
	t.Parallel()
	signed := []string{
		`null`, `[]`, `"text"`, `1`, `{}`, `{"status":null}`, `{"status":1,"match":true}`, `{"status":["COMPLETED"],"match":true}`,
		``, `{`, strings.Repeat("[", 20_000),
	}
	for _, name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, a := startJSON(t, "-fixed-keys")
			r := startReceiver(t, a, name, values(a.URL+"/.well-known/jwks.json", a.CAFile))

			for _, body := range signed {
				request := must(json.Marshal(map[string]string{"url": r.url, "product": "phone_check", "body": body}))(t)
				a.control(t, http.MethodPost, "callbacks", string(request))
				a.control(t, http.MethodPost, "idle", "")
			}
			deliveries := a.control(t, http.MethodGet, "deliveries", "")["deliveries"].([]any)
			if len(deliveries) != len(signed) {
				t.Fatalf("%d deliveries, want %d", len(deliveries), len(signed))
			}
			for _, delivery := range deliveries {
				d := delivery.(map[string]any)
				attempt := d["attempts"].([]any)[0].(map[string]any)
				if got := attempt["status"]; got != 400.0 && got != 500.0 {
					t.Errorf("%.20v: status %v, want 400 or 500", d["body"], got)
				}
			}
			stalled := r.dial(t, "Content-Length: 100", "{")
			r.dial(t, "Content-Length: 100", "{").Close()
			huge := strings.Repeat(" ", 100_000)
			rows := map[string][]int{
				"Content-Length: -1":     {400},
				"Content-Length: x":      {400},
				"X-Length: none":         {400, 411},
				"Content-Length: 100000": {400, 413},
				"Transfer-Encoding: x":   {400, 501},
				"Content-Length: 0":      {400},
			}
			for line, want := range rows {
				body := ""
				if strings.HasSuffix(line, "100000") {
					body = huge
				}
				if got := status(t, r.dial(t, line, body)); !slices.Contains(want, got) {
					t.Errorf("%s: status %d, want one of %v", line, got, want)
				}
			}

			r.verify(t, a)
			stalled.Close()
			r.verify(t, a)
			if stderr, _ := os.ReadFile(r.stderr); len(stderr) > 0 {
				t.Errorf("the receiver printed to standard error\n%s", stderr)
			}
		})
	}
}
