package sandboxfake_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

// requestLog returns the log of a server that use calls. Each write is one line.
func requestLog(t *testing.T, use func(a *api), opts ...sandboxfake.Option) string {
	t.Helper()
	lines := make(chan string, 16)
	srv := sandboxfake.New(t, append(opts, sandboxfake.WithRequestLog(writerFunc(func(p []byte) { lines <- string(p) })))...)
	use(newAPI(t, srv))
	close(lines)
	var log strings.Builder
	for line := range lines {
		if strings.Count(line, "\n") != 1 {
			t.Errorf("one write contains %q, want one line", line)
		}
		log.WriteString(line)
	}
	return log.String()
}

func TestWithRequestLog_Lines(t *testing.T) {
	t.Parallel()
	var id string
	log := requestLog(t, func(a *api) {
		id = a.completeCheck(a.srv.Handle("app.sandbox.test", new(recordingReceiver)) + "/callbacks?token=secret")
		waitIdle(t, a.srv)
		a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})
		a.get(phoneChecks)
	}, sandboxfake.WithInMemory())

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
	log := requestLog(t, func(a *api) {
		const unused = "http://127.0.0.1:9" // nothing listens on port 9
		a.completeCheck(unused + "/callbacks?token=secret")
		waitIdle(t, a.srv)
		a.srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Drop: true})
		a.completeCheck(unused)
		waitIdle(t, a.srv)
	})

	for _, want := range []string{
		"attempt 1 --- unreachable: the connection failed or was lost: connection refused ",
		"attempt 1 --- unreachable: the connection failed or was lost: dropped by an injected fault ",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("log does not contain %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "secret") || strings.Contains(log, "127.0.0.1") {
		t.Errorf("log contains the receiver's secret or address:\n%s", log)
	}
}

// writerFunc implements io.Writer.
type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
