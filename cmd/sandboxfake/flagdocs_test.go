package main

import (
	"flag"
	"io"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var want []string
	set := flag.NewFlagSet("sandboxfake", flag.ContinueOnError)
	new(flags).define(set)
	set.VisitAll(func(f *flag.Flag) { want = append(want, f.Name) }) // in lexical order
	comment, _, _ := strings.Cut(read("main.go"), "\npackage main")
	_, section, _ := strings.Cut(read("../../docs/sandbox.md"), "\n## Flags\n")
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
