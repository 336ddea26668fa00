package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// receiver is one of the programs that the inspector page shows, and its output.
type receiver struct {
	url    string // callback URL
	lines  *bufio.Scanner
	stderr string // file
}

// receiverCommand returns the command that runs a receiver. Go code is built first, so that the
// command is not the parent of the receiver.
func receiverCommand(t *testing.T, file string) []string {
	t.Helper()
	switch filepath.Ext(file) {
	case ".mjs":
		requireTool(t, installed("node"), "run script/setup interop, which installs Node.js")
		return []string{"node", file}
	case ".py":
		python := pythonWith(t, "cryptography")
		requireTool(t, python != "", "run script/setup interop, which installs Python with cryptography")
		return []string{python, file}
	}
	program := filepath.Join(t.TempDir(), "receiver")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("build the receiver: %v\n%s", err, output)
	}
	return []string{program}
}

// startReceiver runs a receiver that the program serves, until the test ends. It replaces the
// placeholders like the page.
func startReceiver(t *testing.T, a announced, name string, placeholders map[string]string) *receiver {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+"/_sandbox/page/receivers/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, source := do(t, a.client(t), request)
	if status != http.StatusOK {
		t.Fatalf("GET %s = %d, want 200", name, status)
	}
	text := string(source)
	for placeholder, value := range placeholders {
		if !strings.Contains(text, `"`+placeholder+`"`) {
			t.Errorf("%s does not contain %q", name, placeholder)
		}
		text = strings.ReplaceAll(text, placeholder, value)
	}
	file := filepath.Join(t.TempDir(), strings.TrimSuffix(name, ".txt"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := receiverCommand(t, file)
	cmd := exec.Command(args[0], args[1:]...)
	stderr, err := os.Create(file + ".stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd.Env, cmd.Stderr = append(os.Environ(), "PORT=0"), stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	r := &receiver{lines: bufio.NewScanner(stdout), stderr: stderr.Name()}
	url, found := strings.CutPrefix(r.line(t), "listening on ")
	if !found {
		t.Fatalf("%s does not print its URL", name)
	}
	r.url = url
	return r
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

// redelivery is an attempt from the journal, for a test that sends a changed copy.
type redelivery struct {
	URL      string `json:"url"`
	Body     string `json:"body"`
	Attempts []struct {
		Header http.Header `json:"header"`
		Status int         `json:"status"`
	} `json:"attempts"`
}

// deliver creates and opens a check whose callback goes to the receiver, and returns the delivery.
func (r *receiver) deliver(t *testing.T, a announced) redelivery {
	t.Helper()
	view, err := json.Marshal(a.deliver(t, r.url))
	if err != nil {
		t.Fatal(err)
	}
	var d redelivery
	if err := json.Unmarshal(view, &d); err != nil || len(d.Attempts) != 1 {
		t.Fatalf("delivery %s, want one attempt", view)
	}
	return d
}

// attack is a changed copy of a callback.
type attack struct {
	name   string
	change func(r *http.Request, body string) string // returns the new body
	reason string                                    // regular expression
}

var attacks = []attack{
	{"repeated", func(_ *http.Request, body string) string { return body }, `already accepted`},
	{"body", func(_ *http.Request, body string) string { return strings.Replace(body, "true", "null", 1) }, `digest does not match`},
	{"digest not signed", func(r *http.Request, body string) string {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), ` digest"`, `"`, 1))
		return body
	}, `does not cover`},
	{"host", func(r *http.Request, body string) string { r.Host = "shop.example.com"; return body }, `host`},
	{"old", func(r *http.Request, body string) string {
		r.Header.Set("Date", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat))
		return body
	}, `date`},
	{"path", func(r *http.Request, body string) string { r.URL.Path = "/other"; return body }, `does not verify`},
	{"key ID", func(r *http.Request, body string) string {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), `keyId="`, `keyId="x`, 1))
		return body
	}, `key`},
	{"two digests", func(r *http.Request, body string) string {
		r.Header.Add("Digest", r.Header.Get("Digest"))
		return body
	}, `exactly once`},
	{"unsigned", func(r *http.Request, body string) string { r.Header.Del("Authorization"); return body }, `(?i)authorization`},
}

// isOld reports whether a receiver might soon reject the delivery because of its date.
func (d redelivery) isOld(t *testing.T) bool {
	t.Helper()
	date, err := http.ParseTime(d.Attempts[0].Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(date) > 3*time.Second
}

// send sends a changed copy of the delivery and returns the status of the response.
func (d redelivery) send(t *testing.T, change func(*http.Request, string) string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = d.Attempts[0].Header.Clone()
	body := change(request, d.Body)
	copied, err := http.NewRequestWithContext(t.Context(), http.MethodPost, request.URL.String(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	copied.Header, copied.Host = request.Header, request.Host
	status, _ := do(t, http.DefaultClient, copied)
	return status
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

			if got := r.line(t); got != "verified: phone_check COMPLETED, match: yes" || valid.Attempts[0].Status != http.StatusNoContent {
				t.Errorf("a valid callback: printed %q with status %d, want verified with 204", got, valid.Attempts[0].Status)
			}
			for _, row := range attacks {
				if valid.isOld(t) { // the machine is slow
					valid = r.deliver(t, a)
					r.line(t)
				}
				status := valid.send(t, row.change)
				if got := r.line(t); status != http.StatusBadRequest || !strings.HasPrefix(got, "rejected: ") || !regexp.MustCompile(row.reason).MatchString(got) {
					t.Errorf("%s: printed %q with status %d, want a rejection with 400 for the reason %s", row.name, got, status, row.reason)
				}
			}

			a.control(t, http.MethodPost, "faults", `{"match":{"operation":"callback"},"faults":[{"wrong_key":true}]}`)
			forged := r.deliver(t, a)

			if got := r.line(t); !strings.Contains(got, "signature does not verify") || forged.Attempts[0].Status != http.StatusBadRequest {
				t.Errorf("a forged callback: printed %q with status %d, want a rejection with 400", got, forged.Attempts[0].Status)
			}
		})
	}
}

func TestReceiver_KeySetUnavailable(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t)
	for _, name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReceiver(t, a, name, map[string]string{
				"__JWKS_URL__": "https://127.0.0.1:1/.well-known/jwks.json", "__CA_FILE__": a.CAFile, "__CALLBACK_HEADER__": "x-service-callback",
			})
			check := a.create(t, a.token(t, a.client(t)), r.url)

			a.open(t, check)
			line := r.line(t)
			a.control(t, http.MethodPost, "idle", "")
			deliveries := a.control(t, http.MethodGet, fmt.Sprintf("deliveries?check_id=%s", check["check_id"]), "")["deliveries"].([]any)

			attempt := deliveries[0].(map[string]any)["attempts"].([]any)[0].(map[string]any)
			if !strings.HasPrefix(line, "rejected: ") || attempt["status"] != 503.0 {
				t.Errorf("printed %q with status %v, want a rejection with 503, so that the service retries", line, attempt["status"])
			}
		})
	}
}
