package sandboxfake_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

func TestWithRequestLog_Lines(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 16)
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRequestLog(writerFunc(func(p []byte) { lines <- string(p) })))
	a := newAPI(t, srv)
	target := srv.Handle("app.sandbox.test", new(recordingReceiver))
	id := a.completeCheck(target + "/callbacks?token=secret")
	if err := srv.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})
	a.get(phoneChecks)
	close(lines)

	var all strings.Builder
	for line := range lines {
		if strings.Count(line, "\n") != 1 {
			t.Errorf("one write contains %q, want one line", line)
		}
		all.WriteString(line)
	}
	log := all.String()

	for _, want := range []string{
		" POST   /oauth2/v1/token token.create 200 ",
		" POST   /phone_check/v0.1/checks phone_check.create 201 ",
		" GET    /phone_check/v0.1/checks/" + id + "/redirect phone_check.open 200 ",
		" →      callback " + id + " phone_check COMPLETED, attempt 1 204 acknowledged ",
		" GET    /phone_check/v0.1/checks phone_check.list 503 injected fault ",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("log does not contain %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "secret") || strings.Contains(log, "447700900012") {
		t.Errorf("log contains the receiver's secret or a phone number:\n%s", log)
	}
}

// TestWithRequestLog_AttemptCauses checks the lines of attempts without a response.
func TestWithRequestLog_AttemptCauses(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 16)
	srv := sandboxfake.New(t, sandboxfake.WithRequestLog(writerFunc(func(p []byte) { lines <- string(p) })))
	a := newAPI(t, srv)
	const unused = "http://127.0.0.1:9" // nothing listens on port 9
	a.completeCheck(unused + "/callbacks?token=secret")
	if err := srv.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Drop: true})
	a.completeCheck(unused)
	if err := srv.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(lines)

	var all strings.Builder
	for line := range lines {
		all.WriteString(line)
	}

	for _, want := range []string{
		"attempt 1 --- unreachable: the connection failed or was lost: connection refused ",
		"attempt 1 --- unreachable: the connection failed or was lost: dropped by an injected fault ",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("log does not contain %q:\n%s", want, all.String())
		}
	}
	if strings.Contains(all.String(), "secret") || strings.Contains(all.String(), "127.0.0.1") {
		t.Errorf("log contains the receiver's secret or address:\n%s", all.String())
	}
}

// writerFunc implements io.Writer.
type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
