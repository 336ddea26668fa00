package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// runProgram runs the program until it exits.
func runProgram(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := startEnv(t, env, args...)
	text, err := io.ReadAll(p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode(), string(text), p.log.String()
}

func TestProgram_VersionFlag(t *testing.T) {
	t.Parallel()

	code, built, log := runProgram(t, nil, "-version", "-addr", "invalid")
	run, err := exec.CommandContext(t.Context(), "go", "run", ".", "-version").Output()

	if code != 0 || log != "" || err != nil {
		t.Fatalf("exit code = %d with %q, go run: %v, want 0 without other output", code, log, err)
	}
	for _, line := range []string{built, string(run)} {
		if !strings.HasPrefix(line, "sandboxfake ") || !strings.HasSuffix(line, " "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+"\n") || strings.Count(line, "\n") != 1 {
			t.Errorf("version = %q, want one line with the version of Go and the platform", line)
		}
	}
}

func TestProgram_HealthcheckFlag(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]string{
		"loopback":      "127.0.0.1:0",
		"host name":     "localhost:0",
		"every address": ":0",
		"IPv4":          "0.0.0.0:0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, a := startJSON(t, "-addr", listen)
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(a.URL, "https://"))
			host, _, _ := net.SplitHostPort(listen)
			addr := net.JoinHostPort(host, port)

			byFlag, _, flagLog := runProgram(t, nil, "-healthcheck", "-addr", addr)
			byEnv, stdout, log := runProgram(t, []string{"SANDBOXFAKE_ADDR=" + addr}, "-healthcheck")

			if byFlag != 0 || byEnv != 0 {
				t.Errorf("exit codes = %d (%s) and %d (%s), want 0", byFlag, flagLog, byEnv, log)
			}
			if log != "sandboxfake: ready\n" || stdout != "" {
				t.Errorf("output = %q and %q, want one line on standard error", stdout, log)
			}
		})
	}
}

func TestProgram_AddrEnvironment(t *testing.T) {
	t.Parallel()

	_, a := startJSONEnv(t, []string{"SANDBOXFAKE_ADDR=localhost:0"}, "-fixed-keys")
	_, overridden := startJSONEnv(t, []string{"SANDBOXFAKE_ADDR=localhost:0"}, "-fixed-keys", "-addr", "127.0.0.1:0")

	if !strings.HasPrefix(a.URL, "https://localhost:") || !strings.HasPrefix(overridden.URL, "https://127.0.0.1:") {
		t.Errorf("url = %s, and %s with -addr, want the host of the variable, and of the flag", a.URL, overridden.URL)
	}
}

func TestProgram_HealthcheckFailure(t *testing.T) {
	t.Parallel()
	serve := func(handler http.HandlerFunc) string {
		server := httptest.NewUnstartedServer(handler)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	respond := func(status int, body string) string {
		return serve(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	_, ready := startJSON(t, "-fixed-keys")
	for _, row := range []struct{ name, addr, says string }{
		{"nothing listens", "127.0.0.1:9", "refused"},
		{"free port", "127.0.0.1:0", "the port of the server is unknown"},
		{"no port", "127.0.0.1:", "the port of the server is unknown"},
		{"malformed address", "127.0.0.1", "missing port"},
		{"unknown port name", "127.0.0.1:none", "unknown port"},
		{"error status", respond(http.StatusServiceUnavailable, `{"status":"ok"}`), "status 503"},
		{"other status field", respond(http.StatusOK, `{"status":"starting"}`), "status 200"},
		{"other server", respond(http.StatusOK, "<html>"), "status 200"},
		{"redirect to a ready server", serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, ready.URL+r.URL.Path, http.StatusFound)
		}), "status 302"},
		{"no response", silent.Addr().String(), "no response within 3s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			code, stdout, log := runProgram(t, []string{"SANDBOXFAKE_ADDR="}, "-healthcheck", "-addr", row.addr)

			if code != 1 || stdout != "" || strings.Count(log, "\n") != 1 {
				t.Errorf("exit code = %d with output %q and %q, want 1 with one line on standard error", code, stdout, log)
			}
			if !strings.HasPrefix(log, "sandboxfake: health check: ") || !strings.Contains(log, row.says) {
				t.Errorf("error = %q, want it to contain %q", log, row.says)
			}
		})
	}
}

func TestProgram_HealthcheckAfterStop(t *testing.T) {
	t.Parallel()
	// No other test listens on this address, so that the port remains free.
	listener, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		t.Skipf("only Linux has more than one IPv4 loopback address: %v", err)
	}
	listener.Close()
	p, a := startJSON(t, "-addr", "127.0.0.3:0")
	addr := strings.TrimPrefix(a.URL, "https://")

	before, _, _ := runProgram(t, nil, "-healthcheck", "-addr", addr)
	p.stop(os.Interrupt)
	after, _, _ := runProgram(t, nil, "-healthcheck", "-addr", addr)

	if before != 0 || after != 1 {
		t.Errorf("exit codes = %d while the server runs and %d after it, want 0 and 1", before, after)
	}
}
