package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestProgram_StopsOnSignal(t *testing.T) {
	t.Parallel()
	for _, signal := range signals {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p, a := startJSON(t, "-fixed-keys")
			a.token(t, a.client(t))

			code, rest := p.stop(signal)

			if code != 0 {
				t.Errorf("exit code = %d, want 0", code)
			}
			if rest != "" {
				t.Errorf("stdout after the first line = %q, want nothing: scripts read one line", rest)
			}
			if _, err := os.Stat(filepath.Dir(a.CAFile)); !os.IsNotExist(err) {
				t.Errorf("the temporary CA file was not removed: %v", err)
			}
		})
	}
}

func TestProgram_FixedKeysAndSeedFlags(t *testing.T) {
	t.Parallel()
	start := func(args ...string) (announced, string) {
		_, a := startJSON(t, args...)
		return a, readFile(t, a.CAFile)
	}

	first, _ := start("-seed", "7")
	second, _ := start("-fixed-keys", "-seed", "7")
	other, fixed := start("-fixed-keys")
	another, fixedToo := start("-fixed-keys")
	random, fresh := start()
	randomToo, freshToo := start()

	if first.Project != second.Project || first.Workspace != second.Workspace {
		t.Error("two runs with the same seed have different credentials: configured clients would stop working")
	}
	if first.Token == second.Token {
		t.Error("two runs with the same seed share a control token: it could be guessed")
	}
	if other.Project == another.Project || other.Workspace == another.Workspace || random.Project == randomToo.Project || random.Workspace == randomToo.Workspace {
		t.Error("two runs without a seed share credentials, want random ones")
	}
	if fixed != fixedToo {
		t.Error("the fixed keys differ between runs: clients could not keep the CA file")
	}
	if fresh == freshToo || fresh == fixed {
		t.Error("two runs share a CA whose private key may be public")
	}
}

func TestProgram_CAFileFlag(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "it's the CA.pem")

	p, a := startJSON(t, "-fixed-keys", "-ca-file", path)
	a.token(t, a.client(t))
	p.stop(os.Interrupt)

	if a.CAFile != path {
		t.Errorf("ca_file = %s, want the path of the flag", a.CAFile)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the CA file named by the flag was removed: %v", err)
	}
}

func TestProgram_ExitCode(t *testing.T) {
	t.Parallel()
	taken := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { taken.Close() }) // after the parallel subtests
	for _, row := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"unknown flag", []string{"-port", "1"}, 2, "flag provided but not defined: -port"},
		{"seed that is not a number", []string{"-seed", "x"}, 2, "must be a whole number"},
		{"negative seed", []string{"-seed", "-1"}, 2, "must be a whole number"},
		{"unknown digest encoding", []string{"-digest", "md5"}, 2, "must be hex or base64"},
		{"unknown signature dates", []string{"-signature-dates", "utc"}, 2, "must be system or sandbox"},
		{"frozen clock without time and zone", []string{"-frozen-clock", "2026-01-02"}, 2, "-frozen-clock: must be a time such as 2026-01-02T03:04:05Z"},
		{"price without amount", []string{"-price", "phone_check"}, 2, "must be product=amount"},
		{"price of an unknown product", []string{"-price", "phone=1", "-fixed-keys"}, 1, "(use phone_check, sim_check or subscriber_check)"},
		{"negative rate limit", []string{"-rate-limit", "-1", "-fixed-keys"}, 1, "rate limit"},
		{"empty journal", []string{"-journal-limit", "0", "-fixed-keys"}, 1, "journal"},
		{"invalid callback header", []string{"-callback-header", "a b", "-fixed-keys"}, 1, "sandboxfake: the name of the callback header is not valid"},
		{"short control token", []string{"-control-token", "short", "-fixed-keys"}, 1, "control token"},
		{"client ID without secret", []string{"-client-id", "my-app", "-fixed-keys"}, 1, "sandboxfake: project credentials: the client ID or the client secret is missing"},
		{"client ID with a colon", []string{"-client-id", "my:app", "-client-secret", "s", "-fixed-keys"}, 1, "contains a colon"},
		{"empty extra scope", []string{"-extra-scopes", "orders,", "-fixed-keys"}, 1, "sandboxfake: additional scopes: "},
		{"malformed caller IP", []string{"-caller-ip", "192.0.2"}, 2, "caller-ip"},
		{"caller IP with a zone", []string{"-caller-ip", "fe80::2%eth0", "-fixed-keys"}, 1, "have no zone"},
		{"missing receiver CA", []string{"-receiver-ca", filepath.Join(t.TempDir(), "none.pem"), "-fixed-keys"}, 1, "receiver CA"},
		{"fixed keys for another name", []string{"-addr", "127.0.0.2:0", "-fixed-keys"}, 1, "test certificate is valid only for localhost"},
		{"public URL without TLS", []string{"-public-url", "http://sandbox.example.com"}, 1, "sandboxfake: public URL: must be https://host"},
		{"fixed keys for a public host", []string{"-public-url", "https://sandbox.example.com", "-fixed-keys"}, 1, "test certificate is valid only for localhost"},
		{"LAN with fixed keys", []string{"-lan", "-fixed-keys"}, 1, "-lan requires new keys"},
		{"LAN with a host", []string{"-lan", "-addr", "localhost:0"}, 1, "-addr must have no host"},
		{"map without address", []string{"-map", "shop.example.com"}, 2, "-map: must be host=address, such as shop.example.com=127.0.0.1:3000"},
		{"map to a path", []string{"-map", "shop.example.com=http://127.0.0.1:3000/callbacks"}, 2, "without a path"},
		{"map to a port", []string{"-map", "shop.example.com=3000"}, 2, "the address must be host:port"},
		{"map of an address", []string{"-map", "192.0.2.1=127.0.0.1:3000"}, 2, "must be a DNS name, not an IP address"},
		{"map of a port", []string{"-map", "shop.example.com:8443=127.0.0.1:3000"}, 2, "the host must have no port"},
		{"map of a wildcard", []string{"-map", "*.example.com=127.0.0.1:3000"}, 2, "must be a DNS name"},
		{"map of this machine", []string{"-map", "localhost=127.0.0.1:3000"}, 2, "localhost cannot be mapped"},
		{"map of a reserved host", []string{"-map", "idverify.sandbox.test=127.0.0.1:3000"}, 2, "cannot be mapped"},
		{"map of one host twice", []string{"-map", "shop.example.com=127.0.0.1:3000", "-map", "Shop.example.com=127.0.0.1:3001"}, 2, "already mapped"},
		{"map of the public host", []string{"-map", "sandbox.example.com=127.0.0.1:3000", "-public-url", "https://Sandbox.example.com"}, 1, "-map: sandbox.example.com is the service itself"},
		{"map of the listen address", []string{"-map", "sandbox=127.0.0.1:3000", "-addr", "sandbox:8443"}, 1, "-map: sandbox is the service itself"},
		{"argument", []string{"start"}, 2, "unexpected argument: write the value of a flag as -flag=value"},
		{"address taken", []string{"-addr", taken.Addr().String(), "-fixed-keys"}, 1, "address already in use"},
		{"address without port", []string{"-addr", "127.0.0.1", "-fixed-keys"}, 1, "missing port"},
		{"CA file in a missing directory", []string{"-ca-file", filepath.Join(t.TempDir(), "none", "ca.pem"), "-fixed-keys"}, 1, filepath.Join("none", "ca.pem") + " (-ca-file): no such file or directory (use the path of a file"},
		{"directory as CA file", []string{"-ca-file", t.TempDir(), "-fixed-keys"}, 1, "exists and is not a regular file (use the path of a file"},
		{"version and health check", []string{"-version", "-healthcheck"}, 2, "cannot be used together"},
		{"version and description", []string{"-version", "-openapi"}, 2, "cannot be used together"},
		{"description of something else", []string{"-openapi=other"}, 2, "must be -openapi or -openapi=control"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			code, stdout, log := runToEnd(t, nil, row.args...)

			if code != row.code || stdout != "" || !strings.Contains(log, row.says) {
				t.Errorf("exit code = %d, stdout %q, output %q, want %d and %q", code, stdout, log, row.code, row.says)
			}
			if row.name == "unknown flag" || row.name == "address taken" { // the process has the same exit code
				if code, _ := start(t, row.args...).wait(); code != row.code {
					t.Errorf("exit code of the process = %d, want %d", code, row.code)
				}
			}
		})
	}
}

func TestProgram_PrintsOpenAPI(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"-openapi": string(sandboxfake.OpenAPI()), "-openapi=control": readFile(t, "openapi.json")} {
		code, text, log := runToEnd(t, nil, arg)

		if code != 0 || text != want || log != "" {
			t.Errorf("%s: exit code %d with %d bytes and %q, want 0 with the description of %d bytes", arg, code, len(text), log, len(want))
		}
	}
}

func TestProgram_PrintedCommands(t *testing.T) {
	t.Parallel()
	p := start(t, "-ca-file", filepath.Join(t.TempDir(), "it's the CA.pem"))

	p.runPrinted()
}

// runPrinted runs the commands that the program prints, and returns the lines before them.
func (p *program) runPrinted() string {
	t := p.t
	t.Helper()
	tooltest.Require(t, tooltest.Installed("sh", "curl", "sed"), "run script/setup interop, which installs curl")
	var commands []string
	var text strings.Builder
	for len(commands) < 3 {
		line, err := p.stdout.ReadString('\n')
		if err != nil {
			t.Fatalf("the output has %d commands, want 3: %v", len(commands), err)
		}
		if strings.Contains(line, "curl ") {
			commands = append(commands, line)
		} else {
			text.WriteString(line)
		}
	}

	output, err := exec.CommandContext(t.Context(), "sh", "-ec", strings.Join(commands, "")).CombinedOutput()

	if err != nil {
		t.Fatalf("the printed commands fail: %v\n%s", err, output)
	}
	if !strings.Contains(string(output), `"status":"ACCEPTED"`) || !strings.Contains(string(output), `"check_url"`) {
		t.Errorf("the commands return %s, want an ACCEPTED check with its Check URL", output)
	}
	if !strings.Contains(string(output), `"operation":"phone_check.create"`) {
		t.Errorf("the commands return %s, want the journal of requests", output)
	}
	return text.String()
}

func TestProgram_RequestLog(t *testing.T) {
	t.Parallel()
	p, a := startJSON(t, "-fixed-keys")
	client := a.client(t)
	token := a.token(t, client)
	for _, path := range []string{
		"/phone_check/v0.1/checks?search=phone_number%3D%3D447700900012",
		"/phone_check/v0.1/checks/447700900012",
		"/coverage/v0.1/device_ips/192.0.2.10",
		"/coverage/v0.1/device_ips/2001:db8::a",
		"/coverage/v0.1/device_ip?ip=192.0.2.10",
		"/phone-check/v0.1/checks",
		"/" + token,
		"/a%0Ab",
	} {
		request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+path, nil))(t)
		request.Header.Set("Authorization", "Bearer "+token)
		do(t, client, request)
	}

	p.stop(os.Interrupt)

	want := []string{
		`POST   /oauth2/v1/token token\.create 200`,
		`GET    /phone_check/v0\.1/checks phone_check\.list 200`,
		`GET    /phone_check/v0\.1/checks/\[REDACTED\] phone_check\.get 404`,
		`GET    /coverage/v0\.1/device_ips/\[REDACTED\] reachability\.device_ip 200`,
		`GET    /coverage/v0\.1/device_ips/\[REDACTED\] reachability\.device_ip 200`,
		`GET    /coverage/v0\.1/device_ip reachability\.device_ip 200`,
		`GET    /phone-check/v0\.1/checks - 404`,
		`GET    /\[REDACTED\] - 404`,
		`GET    /\[REDACTED\] - 404`,
	}
	lines := strings.Split(strings.TrimSuffix(p.log.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d log lines, want %d:\n%s", len(lines), len(want), p.log.String())
	}
	for i, line := range lines {
		pattern := `^\d\d:\d\d:\d\d\.\d{3} ` + want[i] + ` \d+\.\dms$`
		if !regexp.MustCompile(pattern).MatchString(line) {
			t.Errorf("log line = %q, want %s", line, pattern)
		}
	}
	for _, secret := range []string{"447700900012", "192.0.2.10", "2001:db8", "127.0.0.1", token, a.Project.ClientSecret} {
		if strings.Contains(p.log.String(), secret) {
			t.Errorf("the log contains %q", secret)
		}
	}
}

func TestProgram_QuietFlag(t *testing.T) {
	t.Parallel()
	p, a := startJSON(t, "-quiet", "-fixed-keys")
	a.token(t, a.client(t))

	p.stop(os.Interrupt)

	if p.log.String() != "" {
		t.Errorf("log with -quiet = %q, want nothing", p.log.String())
	}
}

func TestProgram_VersionFlag(t *testing.T) {
	t.Parallel()

	program := start(t, "-version", "-addr", "invalid")
	code, built := program.wait()
	run, err := exec.CommandContext(t.Context(), "go", "run", ".", "-version").Output()

	if code != 0 || program.log.String() != "" || err != nil {
		t.Fatalf("exit code = %d with %q, go run: %v, want 0 without other output", code, program.log.String(), err)
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
			_, a := startJSON(t, "-fixed-keys", "-addr", listen)
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(a.URL, "https://"))
			host, _, _ := net.SplitHostPort(listen)
			addr := net.JoinHostPort(host, port)

			byFlag, _, flagLog := runToEnd(t, nil, "-healthcheck", "-addr", addr)
			byEnv, stdout, log := runToEnd(t, map[string]string{"SANDBOXFAKE_ADDR": addr}, "-healthcheck")

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
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			code, stdout, log := runToEnd(t, nil, "-healthcheck", "-addr", row.addr)

			if code != 1 || stdout != "" || strings.Count(log, "\n") != 1 {
				t.Errorf("exit code = %d with output %q and %q, want 1 with one line on standard error", code, stdout, log)
			}
			if !strings.HasPrefix(log, "sandboxfake: health check: ") || !strings.Contains(log, row.says) {
				t.Errorf("error = %q, want it to contain %q", log, row.says)
			}
		})
	}
}

func TestCheckHealth_Timeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()

		err := checkHealth(t.Context(), "127.0.0.1:8443", silentServer(t, func() {}))

		if waited := time.Since(began); err == nil || err.Error() != "sandboxfake: health check: no response within 3s" || waited != 3*time.Second {
			t.Errorf("error = %v after %v, want one after 3 s", err, waited)
		}
	})
}

// silentServer returns a function that connects to a server that responds nothing. It calls
// disconnected when a client has closed its connection.
func silentServer(t *testing.T, disconnected func()) dialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close() })
		go func() {
			io.Copy(io.Discard, server)
			disconnected()
		}()
		return client, nil
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

	before, _, _ := runToEnd(t, nil, "-healthcheck", "-addr", addr)
	p.stop(os.Interrupt)
	after, _, _ := runToEnd(t, nil, "-healthcheck", "-addr", addr)

	if before != 0 || after != 1 {
		t.Errorf("exit codes = %d while the server runs and %d after it, want 0 and 1", before, after)
	}
}

func TestVersion_Line(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "4bfda16"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "false"}}
	modified := append(commit[:2:2], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, row := range []struct {
		name  string
		build *debug.BuildInfo
		want  string
	}{
		{"release", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: commit}, "v1.2.3 (commit 4bfda16, 2026-01-02T03:04:05Z)"},
		{"uncommitted changes", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3+dirty"}, Settings: modified}, "v1.2.3+dirty (commit 4bfda16, 2026-01-02T03:04:05Z, modified)"},
		{"module from the proxy", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"go run", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "(devel)"},
		{"no module", &debug.BuildInfo{}, "(unknown version)"},
		{"no build information", nil, "(unknown version)"},
	} {
		got := versionLine(row.build)

		if want := "sandboxfake " + row.want + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"; got != want {
			t.Errorf("%s: line = %q, want %q", row.name, got, want)
		}
	}
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
