package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgram_CallbackFlags(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, header string
		args         []string
		encode       func([]byte) string
	}{
		{"by default", "X-Service-Callback", nil, hex.EncodeToString},
		{"hex", "X-Service-Callback", []string{"-digest", "hex"}, hex.EncodeToString},
		{"others", "X-Acme-Callback", []string{"-digest", "base64", "-callback-header", "X-Acme-Callback"}, base64.StdEncoding.EncodeToString},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, a := startJSON(t, append(row.args, "-fixed-keys")...)
			url, got := receive(t)

			a.deliver(t, url)

			callback := <-got
			sum := sha256.Sum256(callback.body)
			if got, want := callback.header.Get("Digest"), "SHA-256="+row.encode(sum[:]); got != want {
				t.Errorf("Digest = %q, want %q", got, want)
			}
			if callback.header.Get(row.header) != "phone_check" || !strings.Contains(callback.header.Get("Authorization"), " "+strings.ToLower(row.header)+" ") {
				t.Errorf("header of the callback = %v, want a signed %s", callback.header, row.header)
			}
		})
	}
}

func TestProgram_RateLimitFlag(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys", "-rate-limit", "2")
	token := a.token(t, a.client(t))

	var statuses []int
	for range 3 {
		status, _ := a.call(t, token, http.MethodGet, "/phone_check/v0.1/checks", "")
		statuses = append(statuses, status)
	}

	if fmt.Sprint(statuses) != "[200 200 429]" {
		t.Errorf("statuses = %v, want 429 for the third request", statuses)
	}
}

func TestProgram_PriceFlag(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys", "-price", "phone_check=2.5", "-price", "sim_check=0.25")
	workspace := announced{URL: a.URL, CAFile: a.CAFile, Project: a.Workspace}
	_, project := a.call(t, workspace.tokenFor(t, a.client(t), "projects"), http.MethodPost, "/console/v0.1/projects", `{"name":"Live"}`)
	pair := project["_embedded"].(map[string]any)["credentials"].([]any)[0].(map[string]any)
	live := announced{URL: a.URL, CAFile: a.CAFile, Project: announcedCredentials{pair["client_id"].(string), pair["client_secret"].(string)}}
	token := live.tokenFor(t, a.client(t), "phone_check sim_check")

	phone := live.create(t, token, "https://shop.example.com/callbacks")
	_, sim := live.call(t, token, http.MethodPost, "/sim_check/v0.1/checks", `{"phone_number":"447700900012"}`)

	if phone["charge_amount"] != 2.5 || sim["charge_amount"] != 0.25 {
		t.Errorf("charge amounts = %v and %v, want 2.5 and 0.25", phone["charge_amount"], sim["charge_amount"])
	}
}

func TestProgram_LiveFlag(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys", "-live")
	if check := a.create(t, a.token(t, a.client(t)), "https://shop.example.com/callbacks"); check["charge_amount"] != 1.0 {
		t.Errorf("charge amount = %v, want 1", check["charge_amount"])
	}
	for want, args := range map[string][]string{"\n  project (live)   client ID ": {"-live", "-fixed-keys"}, "\n  project          client ID ": {"-fixed-keys"}} {
		if text := start(t, args...).readUntil("workspace "); !strings.Contains(text, want) {
			t.Errorf("%v: output = %q, want the line of the project to begin with %q", args, text, want)
		}
	}
}

func TestProgram_FrozenClockFlag(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys", "-frozen-clock", "2026-01-02T03:04:05+01:00")

	before := a.control(t, http.MethodGet, "time", "")["now"]
	check := a.create(t, a.token(t, a.client(t)), "https://shop.example.com/callbacks")
	after := a.control(t, http.MethodPost, "advance", `{"seconds":60}`)["now"]

	if before != "2026-01-02T02:04:05Z" || check["created_at"] != "2026-01-02T02:04:05+0000" || after != "2026-01-02T02:05:05Z" {
		t.Errorf("clock = %v, created_at = %v, clock after a minute = %v", before, check["created_at"], after)
	}
}

func TestProgram_SignatureDatesFlag(t *testing.T) {
	t.Parallel()
	const advanced = 10 * time.Hour
	for _, row := range []struct {
		name  string
		args  []string
		ahead time.Duration // difference from the system clock
	}{
		{"by default", nil, 0},
		{"system", []string{"-signature-dates", "system"}, 0},
		{"sandbox", []string{"-signature-dates", "sandbox"}, advanced},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, a := startJSON(t, append(row.args, "-fixed-keys")...)
			url, got := receive(t)
			a.control(t, http.MethodPost, "advance", fmt.Sprintf(`{"seconds":%v}`, advanced.Seconds()))

			a.deliver(t, url)

			callback := <-got
			date := must(http.ParseTime(callback.header.Get("Date")))(t)
			if ahead := time.Until(date).Round(time.Hour); ahead != row.ahead {
				t.Errorf("Date is %v ahead of the system clock, want %v", ahead, row.ahead)
			}
			var payload struct {
				CreatedAt string `json:"created_at"`
			}
			noError(t, json.Unmarshal(callback.body, &payload))
			created := must(time.Parse("2006-01-02T15:04:05-0700", payload.CreatedAt))(t)
			if ahead := time.Until(created).Round(time.Hour); ahead != advanced {
				t.Errorf("created_at is %v ahead of the system clock, want that of the advanced clock", ahead)
			}
		})
	}
}

func TestProgram_NewIDsAfterResetFlag(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		args []string
		same bool
	}{{"without", nil, true}, {"with", []string{"-new-ids-after-reset"}, false}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, a := startJSON(t, append(row.args, "-fixed-keys")...)
			create := func() any {
				return a.create(t, a.token(t, a.client(t)), "https://shop.example.com/callbacks")["check_id"]
			}

			before := create()
			a.control(t, http.MethodPost, "reset", "")
			after := create()

			if (before == after) != row.same {
				t.Errorf("check IDs = %v and %v, want equal: %v", before, after, row.same)
			}
		})
	}
}

func TestProgram_ReceiverCAFlag(t *testing.T) {
	t.Parallel()
	receiver := tlsReceiver(t)
	path := writePEM(t, "CERTIFICATE", receiver.Certificate().Raw)
	_, without := startJSON(t, "-fixed-keys")
	_, with := startJSON(t, "-fixed-keys", "-receiver-ca", path)

	rejected, accepted := without.deliver(t, receiver.URL), with.deliver(t, receiver.URL)

	if rejected["acknowledged"] != false || accepted["acknowledged"] != true {
		t.Errorf("acknowledged = %v without the CA and %v with it, want false and true", rejected["acknowledged"], accepted["acknowledged"])
	}
}

func TestProgram_CallerIPFlag(t *testing.T) {
	t.Parallel()
	_, without := startJSON(t, "-fixed-keys")
	_, with := startJSON(t, "-fixed-keys", "-caller-ip", "192.0.2.1")

	mobile, _ := without.call(t, "", http.MethodGet, "/public/coverage/v0.1/device_ip", "")
	fixed, _ := with.call(t, "", http.MethodGet, "/public/coverage/v0.1/device_ip", "")

	if mobile != http.StatusOK || fixed != http.StatusPreconditionFailed {
		t.Errorf("reachability from loopback = %d by default, with -caller-ip 192.0.2.1 = %d, want 200 and 412", mobile, fixed)
	}
}

func TestProgram_PhoneIPCheckFlag(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		args []string
		want string
	}{{"without", nil, "COMPLETED"}, {"with", []string{"-phone-ip-check"}, "ERROR"}} {
		_, a := startJSON(t, append(row.args, "-fixed-keys")...)
		_, check := a.call(t, a.token(t, a.client(t)), http.MethodPost, "/phone_check/v0.1/checks", `{"phone_number":"447700900012","phone_ip":"192.0.2.10"}`)
		id := check["check_id"].(string)

		a.control(t, http.MethodPost, "open", `{"check_id":"`+id+`"}`)

		got := a.control(t, http.MethodGet, "timeline?check_id="+id, "")["check"].(map[string]any)
		if got["status"] != row.want || row.want == "ERROR" && got["error_code"] != "ip_mismatch" {
			t.Errorf("%s: check = %v, want status %s", row.name, got, row.want)
		}
	}
}

func TestProgram_ExtraScopesFlag(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys", "-extra-scopes", "orders,profile")

	token := a.tokenFor(t, a.client(t), "phone_check profile orders") // fails the test if a scope is not granted

	if status, body := a.call(t, token, http.MethodGet, "/phone_check/v0.1/checks", ""); status != http.StatusOK {
		t.Errorf("list = %d %v, want 200", status, body)
	}
}

func TestProgram_JournalLimitFlag(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys", "-journal-limit", "2")
	token := a.token(t, a.client(t))
	for range 3 {
		a.create(t, token, "https://shop.example.com/callbacks")
	}

	got := a.control(t, http.MethodGet, "requests", "")

	if kept := got["requests"].([]any); len(kept) != 2 || got["dropped"] != 2.0 {
		t.Errorf("the journal contains %d requests and dropped %v, want 2 and 2", len(kept), got["dropped"])
	}
}

func TestProgram_ControlToken(t *testing.T) {
	t.Parallel()
	const flagged, inEnvironment = "control-token-of-the-flag", "control-token-of-the-environment"
	env := []string{"SANDBOXFAKE_CONTROL_TOKEN=" + inEnvironment}
	for _, row := range []struct {
		name  string
		env   []string
		args  []string
		token string // empty: random
	}{
		{"by default", nil, nil, ""},
		{"flag", nil, []string{"-control-token", flagged}, flagged},
		{"environment", env, nil, inEnvironment},
		{"flag and environment", env, []string{"-control-token", flagged}, flagged},
	} {
		_, a := startJSONEnv(t, row.env, append(row.args, "-fixed-keys", "-seed", "1")...)

		without, _ := a.call(t, "", http.MethodGet, "/_sandbox/requests", "")
		with, _ := a.call(t, a.Token, http.MethodGet, "/_sandbox/requests", "")
		health, _ := a.call(t, "", http.MethodGet, "/_sandbox/health", "")

		if row.token != "" && a.Token != row.token || a.Token == "" {
			t.Errorf("%s: control token = %q, want %q", row.name, a.Token, row.token)
		}
		if without != http.StatusUnauthorized || with != http.StatusOK || health != http.StatusOK {
			t.Errorf("%s: status without token = %d, with token = %d, health = %d, want 401, 200 and 200", row.name, without, with, health)
		}
	}
	if _, help, _ := runToEnd(t, map[string]string{"SANDBOXFAKE_CONTROL_TOKEN": inEnvironment}, "-h"); help == "" || strings.Contains(help, inEnvironment) {
		t.Errorf("the help text must not contain the control token: %s", help)
	}
}

func TestProgram_CredentialsFlags(t *testing.T) {
	t.Parallel()
	want := announcedCredentials{"my app", "it's $HOME; a+secret/="}
	env := []string{"SANDBOXFAKE_CLIENT_ID=" + want.ClientID, "SANDBOXFAKE_CLIENT_SECRET=" + want.ClientSecret}
	p, a := startJSONEnv(t, env, "-fixed-keys")
	before := a.token(t, a.client(t))
	a.control(t, http.MethodPost, "reset", `{"seed":7}`)

	after := a.token(t, a.client(t))

	if a.Project != want || before == after {
		t.Errorf("credentials = %v, want those of the variables, also after a reset", a.Project)
	}
	state := a.control(t, http.MethodGet, "state", "")["credentials"].(map[string]any)["project"].(map[string]any)
	if state["client_id"] != want.ClientID || state["client_secret"] != want.ClientSecret {
		t.Errorf("state has the credentials %v, want those of the variables", state)
	}
	p.stop(os.Interrupt)
	startEnv(t, env, "-fixed-keys").runPrinted()
}

// The program warns if other machines may know what protects it.
func TestProgram_WarnsAboutPublicSecrets(t *testing.T) {
	t.Parallel()
	const seed, secret, keys = "anyone who knows the seed has the credentials", "anyone who knows the secret can create checks", "the private keys are public"
	for _, row := range []struct {
		name string
		args []string
		want []string
	}{
		{"local network", []string{"-lan", "-addr", ":0", "-public-url", "https://sandbox.test:0", "-seed", "1"}, []string{seed}},
		{"public URL", []string{"-public-url", "https://sandbox.test:0", "-seed", "1"}, []string{seed}},
		{"all addresses", []string{"-addr", "0.0.0.0:0", "-seed", "1"}, []string{seed}},
		{"all addresses, no seed", []string{"-addr", ":0"}, nil},
		{"all addresses, fixed credentials", []string{"-addr", ":0", "-client-id", "shop", "-client-secret", "secret"}, []string{secret}},
		{"all addresses, fixed keys", []string{"-addr", ":0", "-fixed-keys"}, []string{keys}},
		{"all addresses, both", []string{"-addr", ":0", "-fixed-keys", "-seed", "1"}, []string{seed, keys}},
		{"loopback", []string{"-addr", "127.0.0.1:0", "-fixed-keys", "-seed", "1"}, nil},
		{"localhost", []string{"-addr", "localhost:0", "-public-url", "https://localhost:0", "-fixed-keys", "-seed", "1"}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, _ := startJSON(t, append(row.args, "-quiet")...)

			p.stop(os.Interrupt)

			if n := strings.Count(p.log.String(), "sandboxfake: warning: "); n != len(row.want) {
				t.Errorf("%d warnings, want %d: %s", n, len(row.want), p.log.String())
			}
			for _, want := range row.want {
				if !strings.Contains(p.log.String(), want) {
					t.Errorf("output = %q, want it to contain %q", p.log.String(), want)
				}
			}
		})
	}
}

// submatches returns the sorted first groups of all matches of an expression.
func submatches(expression, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}

// TestParseFlags_Usage requires the usage on stdout, so that "sandboxfake -h | less" shows it, and
// errors in one line.
func TestParseFlags_Usage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		arg            string
		code           int
		stdout, stderr string
	}{
		{"-h", exitOK, "Usage of sandboxfake:\n  -addr host:port\n", ""},
		{"-x", exitUsage, "", "sandboxfake: flag provided but not defined: -x (\"sandboxfake -h\" lists the flags)\n"},
		{"start", exitUsage, "", "sandboxfake: unexpected argument: write the value of a flag as -flag=value (\"sandboxfake -h\" lists the flags)\n"},
	} {
		var stdout, stderr strings.Builder

		f, code := parseFlags([]string{row.arg}, noEnv, &stdout, &stderr)

		if f != nil || code != row.code || !strings.HasPrefix(stdout.String(), row.stdout) || (row.stdout == "") != (stdout.Len() == 0) || stderr.String() != row.stderr {
			t.Errorf("%s: exit code %d, want %d\nstdout: %s\nstderr: %s", row.arg, code, row.code, &stdout, &stderr)
		}
	}
}

func noEnv(string) string { return "" }

// samples are a value of each flag that is not boolean, other than its default.
var samples = map[string]string{
	"addr": ":9443", "ca-file": "ca.pem", "seed": "7", "control-token": "token-of-the-control-plane", "client-id": "my-app", "client-secret": "my-secret",
	"public-url": "https://sandbox.example.com", "tls-cert": "cert.pem", "tls-key": "key.pem", "receiver-ca": "ca.pem",
	"map":    "shop.example.com=127.0.0.1:3000,app.example.com=127.0.0.1:3001",
	"digest": "base64", "callback-header": "X-Acme-Callback", "rate-limit": "100", "price": "phone_check=0.05,sim_check=2",
	"frozen-clock": "2026-01-02T03:04:05Z", "signature-dates": "sandbox", "caller-ip": "192.0.2.2", "journal-limit": "10", "extra-scopes": "orders,profile",
}

// Each flag has an environment variable with the same effect, and takes precedence over it.
func TestParseFlags_Environment(t *testing.T) {
	t.Parallel()
	parsed := func(env map[string]string, args ...string) *flags {
		t.Helper()
		var stderr strings.Builder
		f, _ := parseFlags(args, func(name string) string { return env[name] }, io.Discard, &stderr)
		if f == nil {
			t.Fatalf("%v in %v: %s", args, env, &stderr)
		}
		if !f.seedSet {
			f.seed = 0 // random
		}
		return f
	}
	options := cmp.Options{cmp.AllowUnexported(flags{}, mapping{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}
	set := flag.NewFlagSet("sandboxfake", flag.ContinueOnError)
	new(flags).define(set)
	set.VisitAll(func(f *flag.Flag) {
		value, ok := samples[f.Name]
		if boolean, _ := f.Value.(interface{ IsBoolFlag() bool }); boolean != nil && boolean.IsBoolFlag() {
			value, ok = "true", true
		}
		if !ok {
			t.Errorf("-%s: no value in samples", f.Name)
			return
		}
		name := "SANDBOXFAKE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		env := map[string]string{name: value}

		byFlag, byEnv, byBoth := parsed(nil, "-"+f.Name+"="+value), parsed(env), parsed(map[string]string{name: "x"}, "-"+f.Name+"="+value)

		if diff := cmp.Diff(byFlag, byEnv, options); diff != "" {
			t.Errorf("-%s and %s (-flag +variable):\n%s", f.Name, name, diff)
		}
		if diff := cmp.Diff(byFlag, byBoth, options); diff != "" {
			t.Errorf("-%s does not take precedence over %s (-want +got):\n%s", f.Name, name, diff)
		}
		if diff := cmp.Diff(parsed(nil), byEnv, options); diff == "" {
			t.Errorf("%s has no effect", name)
		}
		if diff := cmp.Diff(parsed(nil), parsed(map[string]string{name: ""}), options); diff != "" {
			t.Errorf("empty %s has an effect:\n%s", name, diff)
		}
	})
}

// The usage lists each flag with its variable, and contains no value.
func TestParseFlags_UsageWithEnvironment(t *testing.T) {
	t.Parallel()
	set := flag.NewFlagSet("sandboxfake", flag.ContinueOnError)
	new(flags).define(set)
	env := make(map[string]string)
	set.VisitAll(func(f *flag.Flag) { env[envName(f.Name)] = "value-of-" + f.Name })
	var stdout strings.Builder

	_, code := parseFlags([]string{"-client-secret", "value-of-flag", "-h"}, func(name string) string { return env[name] }, &stdout, io.Discard)

	for name := range env {
		if n := strings.Count(stdout.String(), "[$"+name+"]"); n != 1 {
			t.Errorf("the usage contains %s %d times, want once", name, n)
		}
	}
	if code != exitOK || strings.Contains(stdout.String(), "value-of") {
		t.Errorf("exit code %d, and the usage must contain no values:\n%s", code, &stdout)
	}
}

// An error names the variable, and never contains a secret.
func TestParseFlags_InvalidEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SANDBOXFAKE_RATE_LIMIT": "many", "SANDBOXFAKE_CLIENT_SECRET": "my-secret"}
	var stderr strings.Builder

	f, code := parseFlags(nil, func(name string) string { return env[name] }, io.Discard, &stderr)

	want := "sandboxfake: invalid value of SANDBOXFAKE_RATE_LIMIT: parse error (\"sandboxfake -h\" lists the flags)\n"
	if f != nil || code != exitUsage || stderr.String() != want {
		t.Errorf("exit code %d, %q, want %d, %q", code, &stderr, exitUsage, want)
	}
}

func TestFlags_Documented(t *testing.T) {
	t.Parallel()
	var want []string
	set := flag.NewFlagSet("sandboxfake", flag.ContinueOnError)
	new(flags).define(set)
	set.VisitAll(func(f *flag.Flag) { want = append(want, f.Name) }) // in lexical order
	comment, _, _ := strings.Cut(readFile(t, "main.go"), "\npackage main")
	_, section, _ := strings.Cut(readFile(t, "../../docs/sandbox.md"), "\n## Flags\n")
	section, _, _ = strings.Cut(section, "\n## ")
	// The first cell of a row can contain several flags.
	cells := strings.Join(submatches(`(?m)^\| (.*?) \|`, section), "\n")

	inComment := submatches(`(?m)^//\t-([a-z-]+)`, comment)
	inTable := submatches("`-([a-z-]+)", cells)

	if diff := cmp.Diff(want, inComment); diff != "" {
		t.Errorf("flags in the package comment (-program +comment):\n%s", diff)
	}
	if diff := cmp.Diff(want, inTable); diff != "" {
		t.Errorf("flags in the table of docs/sandbox.md (-program +table):\n%s", diff)
	}
}
