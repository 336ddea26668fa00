package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idverify/idverify-go"
)

// doctor checks the environment of a backend. It only reads, and creates no check.
func doctor(ctx context.Context, p *program, args []string) int {
	d := newDoctorRun(p)
	flags := newFlags("doctor", "")
	d.define(flags)
	if code, ok := p.parse(flags, args); !ok {
		return code
	}
	if err := d.configure(flags.Args()); err != nil {
		return p.misused("doctor", err)
	}
	d.started = d.now()
	for _, c := range d.plan() {
		d.examine(ctx, c)
	}
	if err := d.finish(); err != nil {
		fmt.Fprintf(p.stderr, "idverify: doctor: write the result: %v\n", err)
		return exitError
	}
	switch {
	case d.interrupted:
		fmt.Fprintln(p.stderr, "idverify: doctor: interrupted")
		return exitError
	case d.count(resultFailed) > 0 || d.warnings && d.count(resultWarning) > 0:
		return exitProblem
	}
	return exitOK
}

// doctorRun is one run of doctor. The checks share it, one after the other.
type doctorRun struct {
	*program

	// Flags.
	timeout              time.Duration
	callbacks, redirects stringList
	only, skip           stringList
	json, warnings       bool

	started     time.Time
	interrupted bool // at least one check did not run
	rows        []doctorRow
	failed      map[string]string // the failed check, by the name and target of each check that failed or depends on one
	secrets     []string          // texts that the output must not contain

	// Results of checks that later ones use.
	service *exchange // the request for the key set
	other   *exchange // a request to another endpoint, if there was no response to that one
	api     *idverify.Client
	scopes  []idverify.Scope
	keyID   string
}

func newDoctorRun(p *program) *doctorRun {
	return &doctorRun{program: p, failed: make(map[string]string)}
}

func (d *doctorRun) define(flags *flag.FlagSet) {
	flags.Var(&d.callbacks, "callback-url", "callback `URL` to check; repeatable")
	flags.Var(&d.redirects, "redirect-url", "redirect `URL` to check; repeatable")
	flags.Var(&d.only, "only", "run only the check with this `name`, or all whose names begin with it; repeatable")
	flags.Var(&d.skip, "skip", "do not run the check with this `name`, or all whose names begin with it; repeatable")
	flags.DurationVar(&d.timeout, "timeout", 10*time.Second, "timeout of each check")
	flags.BoolVar(&d.json, "json", false, "print one JSON document")
	flags.BoolVar(&d.warnings, "warnings", false, "exit with 1 if there is a warning")
}

// configure verifies the flags.
func (d *doctorRun) configure(arguments []string) error {
	switch {
	case len(arguments) > 0:
		return errors.New("unexpected argument (pass URLs with -callback-url or -redirect-url)")
	case d.timeout <= 0:
		return errors.New("-timeout must be positive")
	}
	if secret := d.getenv(clientSecretVariable); secret != "" {
		d.secrets = append(d.secrets, secret)
	}
	known := doctorChecks()
	for i, list := range []stringList{d.only, d.skip} {
		for j, name := range list {
			list[j] = strings.ReplaceAll(name, " ", "-")
			if !slices.ContainsFunc(known, func(check string) bool { return covers(list[j], check) }) {
				return &unknownNameError{[]string{"-only", "-skip"}[i], "check", name, known}
			}
		}
	}
	plan := d.plan()
	for _, c := range plan {
		for _, name := range c.needs {
			if provides(name) && d.skips(name) {
				return fmt.Errorf("-skip: %s needs the check %s (skip both, or none)", c.name, name)
			}
		}
	}
	if len(plan) == 0 {
		return errors.New("nothing to check: the flags select no check, or a check that needs -callback-url or -redirect-url")
	}
	return nil
}

// doctorCheck is a check.
type doctorCheck struct {
	name   string   // for example "callback-tls"
	target string   // the host, for checks of one of several URLs
	needs  []string // checks without which this one makes no sense
	run    func(context.Context) diagnosis
	twice  bool // sends up to two requests, each with the timeout
}

// key returns the name with the target.
func (c doctorCheck) key() string { return strings.TrimSpace(c.name + " " + c.target) }

// doctorChecks returns the names of all checks, in their order.
func doctorChecks() []string {
	url := []string{"https://localhost"}
	d := &doctorRun{callbacks: url, redirects: url}
	var names []string
	for _, c := range d.plan() {
		names = append(names, c.name)
	}
	return names
}

// plan returns the selected checks in their order, and those of the configuration and the
// credentials that they need.
func (d *doctorRun) plan() []doctorCheck {
	all := slices.Concat(d.configurationChecks(), d.serviceChecks(), d.credentialsChecks(), d.keySetChecks(),
		d.receiverChecks("callback", d.callbacks), d.receiverChecks("redirect", d.redirects))
	needed := make(map[string]bool)
	for _, c := range all {
		if d.selects(c.name) {
			for _, name := range c.needs {
				needed[name] = provides(name)
			}
		}
	}
	return slices.DeleteFunc(all, func(c doctorCheck) bool { return !d.selects(c.name) && (!needed[c.name] || d.skips(c.name)) })
}

// provides reports whether other checks use what the check finds.
func provides(name string) bool { return covers("config", name) || covers("credentials", name) }

// selects reports whether the flags select the check.
func (d *doctorRun) selects(name string) bool {
	only := len(d.only) == 0 || slices.ContainsFunc(d.only, func(prefix string) bool { return covers(prefix, name) })
	return only && !d.skips(name)
}

// skips reports whether -skip excludes the check.
func (d *doctorRun) skips(name string) bool {
	return slices.ContainsFunc(d.skip, func(prefix string) bool { return covers(prefix, name) })
}

// covers reports whether prefix is name, or names the group of checks that it belongs to.
func covers(prefix, name string) bool { return name == prefix || strings.HasPrefix(name, prefix+"-") }

// examine runs a check, unless one that it needs has failed.
func (d *doctorRun) examine(parent context.Context, c doctorCheck) {
	for _, name := range c.needs {
		cause := cmp.Or(d.failed[name], d.failed[name+" "+c.target])
		if cause != "" {
			d.failed[c.key()] = cause // skip what needs this one, too
			d.add(c, skipped("because %s failed", spaced(cause)), 0)
			return
		}
	}
	began := d.now()
	result := skipped("")
	if parent.Err() == nil {
		timeout := d.timeout
		if c.twice {
			timeout *= 2
		}
		ctx, cancel := d.withTimeout(parent, timeout)
		defer cancel()
		result = c.run(ctx)
	}
	// The interruption can be the cause of a problem, but not of a healthy result.
	if parent.Err() != nil && (result.skipped || result.problem != "") {
		d.interrupted = true
		result = skipped("because doctor was interrupted")
	}
	d.add(c, result, d.now().Sub(began))
}

// doctorResult is the result of a check.
type doctorResult string

const (
	resultOK      doctorResult = "ok"
	resultWarning doctorResult = "warning"
	resultFailed  doctorResult = "failed"
	resultSkipped doctorResult = "skipped"

	// resultInterrupted is a result of the run, not of a check.
	resultInterrupted doctorResult = "interrupted"
)

// diagnosis is the finding of a check.
type diagnosis struct {
	problem string // name of a problem in doctorProblems; empty if there is none
	skipped bool
	format  string // of the detail
	args    []any  // values in the detail; texts and errors can come from servers
}

// healthy returns the diagnosis of a check that has found no problem.
func healthy(format string, args ...any) diagnosis {
	return diagnosis{format: format, args: args}
}

// skipped returns the diagnosis of a check that could not run.
func skipped(format string, args ...any) diagnosis {
	return diagnosis{skipped: true, format: format, args: args}
}

// sick returns the diagnosis of a check that has found a problem.
func sick(problem, format string, args ...any) diagnosis {
	return diagnosis{problem: problem, format: format, args: args}
}

// doctorRow is the result of one check as it is printed. The names of its JSON fields are stable.
type doctorRow struct {
	Name     string       `json:"name"`
	Target   string       `json:"target,omitempty"`
	Result   doctorResult `json:"result"`
	Problem  string       `json:"problem,omitempty"`
	Detail   string       `json:"detail"`
	Remedy   string       `json:"remedy,omitempty"`
	Duration float64      `json:"duration_seconds"`
}

// add records the diagnosis of a check, and prints it unless the output is JSON.
func (d *doctorRun) add(c doctorCheck, found diagnosis, took time.Duration) {
	row := doctorRow{Name: c.name, Target: clean(c.target, lineLength), Result: resultOK, Problem: found.problem, Duration: took.Round(time.Millisecond).Seconds()}
	row.Detail = d.detail(found)
	switch {
	case found.skipped:
		row.Result = resultSkipped
	case found.problem != "":
		p := problemOf(c.name, found.problem)
		row.Result, row.Remedy = p.result, linked(p.remedy)
	}
	if row.Result == resultFailed {
		d.failed[c.key()] = c.name
	}
	d.rows = append(d.rows, row)
	if d.json {
		return
	}
	if row.Target != "" {
		row.Detail = row.Target + ": " + row.Detail
	}
	fmt.Fprintf(d.stdout, "%-8s %-21s %s\n", row.Result, spaced(row.Name), row.Detail)
	if row.Remedy != "" {
		fmt.Fprintf(d.stdout, "%-30s %s\n", "", row.Remedy)
	}
}

// spaced returns the name of a check for people.
func spaced(name string) string { return strings.ReplaceAll(name, "-", " ") }

// count returns the number of checks with a result.
func (d *doctorRun) count(result doctorResult) int {
	n := 0
	for _, row := range d.rows {
		if row.Result == result {
			n++
		}
	}
	return n
}

// finish prints the summary or the JSON document.
func (d *doctorRun) finish() error {
	numbers := make(map[doctorResult]int)
	for _, result := range []doctorResult{resultOK, resultWarning, resultFailed, resultSkipped} {
		numbers[result] = d.count(result)
	}
	if !d.json {
		_, err := fmt.Fprintf(d.stdout, "\n%d ok, %s, %d failed, %d skipped\n",
			numbers[resultOK], plural(numbers[resultWarning], "warning"), numbers[resultFailed], numbers[resultSkipped])
		return err
	}
	overall := resultOK
	for _, result := range []doctorResult{resultWarning, resultFailed} {
		if numbers[result] > 0 {
			overall = result
		}
	}
	if d.interrupted {
		overall = resultInterrupted
	}
	text, err := encode(struct {
		Result   doctorResult         `json:"result"`
		Started  time.Time            `json:"started"`
		Duration float64              `json:"duration_seconds"`
		Count    map[doctorResult]int `json:"count"`
		Checks   []doctorRow          `json:"checks"`
	}{overall, d.started.UTC().Truncate(time.Millisecond), d.now().Sub(d.started).Round(time.Millisecond).Seconds(), numbers, d.rows}, "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(d.stdout, text)
	return err
}

// maxDetail is the maximum length of the detail of a check, in characters.
const maxDetail = 300

// shortestSecret is the length of the shortest secret that is redacted, in characters. A shorter
// one is likely to be part of other words, and redacting these would disclose it.
const shortestSecret = 8

// detail returns the text of a diagnosis without the secrets of this run. Only texts from servers
// and libraries are redacted: a secret can be a word of the program's own text.
func (d *doctorRun) detail(found diagnosis) string {
	args := make([]any, len(found.args))
	for i, arg := range found.args {
		switch v := arg.(type) {
		case string:
			args[i] = d.redact(v)
		case error:
			args[i] = d.redact(v.Error())
		default:
			args[i] = v
		}
	}
	return clean(fmt.Sprintf(found.format, args...), maxDetail)
}

// redact replaces the secrets of this run.
func (d *doctorRun) redact(text string) string {
	for _, secret := range d.secrets {
		if utf8.RuneCountInString(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, secret, "[REDACTED]")
		}
	}
	return text
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// doctorProblem is a problem that a check can find, with what to do about it.
type doctorProblem struct {
	check, name string // the checks of redirect URLs have the problems of those of callback URLs, too
	result      doctorResult
	remedy      string
}

// problemOf returns the row of doctorProblems.
func problemOf(check, name string) doctorProblem {
	callback := strings.Replace(check, "redirect-", "callback-", 1)
	for _, candidate := range []string{check, callback} {
		for _, p := range doctorProblems {
			if p.check == candidate && p.name == name {
				return p
			}
		}
	}
	return doctorProblem{check, name, resultFailed, ""} // unreachable: a test compares the names with the code
}

// doctorProblems are all problems, in the order of docs/tools.md, which lists their names.
var doctorProblems = [...]doctorProblem{
	{"config-base-url", "missing", resultFailed, "Set IDVERIFY_BASE_URL to the base URL of the service."},
	{"config-base-url", "invalid", resultFailed, "Set IDVERIFY_BASE_URL to https:// and the host, with its port unless that is 443, and nothing else."},
	{"config-credentials", "missing", resultFailed, "Set IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET, or IDVERIFY_CREDENTIALS_FILE."},
	{"config-credentials", "ambiguous", resultFailed, "Unset the variables that your service does not use."},
	{"config-credentials", "invalid", resultFailed, "Copy the credentials again, without white space or a newline at the end."},
	{"config-credentials", "unreadable", resultFailed, "Check the path in IDVERIFY_CREDENTIALS_FILE, and that this user can read the file."},
	{"config-credentials", "readable", resultWarning, "Let only the user of your service read the file: chmod 600."},
	{"config-ca-file", "invalid", resultFailed, "Set IDVERIFY_CA_FILE to a PEM file with the root certificate, or unset it."},

	{"base-url-proxy", "invalid", resultFailed, "Set HTTPS_PROXY to a URL such as http://proxy.example.com:3128, or unset it."},
	{"base-url-proxy", "unreachable", resultFailed, "Check HTTPS_PROXY, or add the host of the service to NO_PROXY."},
	{"base-url-proxy", "rejected", resultFailed, "Let the proxy permit CONNECT to the host of the service, and check the user and password in HTTPS_PROXY."},
	{"base-url-proxy", "timeout", resultFailed, "Repeat later, and check that the proxy of HTTPS_PROXY is not overloaded and speaks HTTP on this port."},
	{"base-url-connection", "unresolved", resultFailed, "Check the host of IDVERIFY_BASE_URL and the DNS server of this machine."},
	{"base-url-connection", "closed-port", resultFailed, "Check the port of IDVERIFY_BASE_URL, and that the server runs: nothing listens on this port."},
	{"base-url-connection", "unreachable", resultFailed, "Permit outgoing connections to the service in your firewall, or set HTTPS_PROXY."},
	{"base-url-tls", "untrusted", resultFailed, "Set IDVERIFY_CA_FILE to this root certificate if you trust it. If a proxy replaces certificates, it is that of the proxy."},
	{"base-url-tls", "other-ca", resultFailed, "Set IDVERIFY_CA_FILE to the root certificate of this server, or of a proxy that replaces certificates, if you trust it. Each run of sandboxfake has another one, unless -fixed-keys is set."},
	{"base-url-tls", "expired", resultFailed, "Check the clock of this machine. If it is right, the operator of the server must renew the certificate."},
	{"base-url-tls", "wrong-host", resultFailed, "Check IDVERIFY_BASE_URL, DNS and any proxy: another server responds."},
	{"base-url-tls", "handshake", resultFailed, "Check the port of IDVERIFY_BASE_URL and any proxy: the server does not speak TLS, or ends the connection."},
	{"base-url-tls", "timeout", resultFailed, "Repeat later. If it lasts, check that a firewall or proxy does not block TLS, and the status page of the service."},
	{"base-url-tls", "expires-soon", resultWarning, "Check that the certificate is renewed in time."},
	{"base-url-response", "none", resultFailed, "Repeat later. If it lasts, check any proxy and the status page of the service."},
	{"base-url-response", "redirect", resultFailed, "Set IDVERIFY_BASE_URL to the host that the service documents. The client follows no redirects."},
	{"clock", "wrong", resultFailed, "Run NTP on this machine. The verifier rejects all callbacks and redirects (ErrSkew)."},
	{"clock", "skewed", resultWarning, "Run NTP on this machine. At 5 s, the verifier rejects all callbacks and redirects (ErrSkew)."},
	{"clock", "unknown", resultWarning, "Check that a proxy does not remove the header Date, and that NTP runs on this machine."},

	{"credentials-token", "rejected", resultFailed, "Copy the credentials again, or create new ones: secrets cannot be reset, and credentials can have been deleted."},
	{"credentials-token", "unavailable", resultFailed, "Look up the error in docs/errors.md, and repeat later if the service is unavailable."},
	{"credentials-scopes", "none", resultFailed, "Use the credentials of a project. Those of a workspace cannot use products."},
	{"credentials-scopes", "missing", resultWarning, "If your service uses these products, use the credentials of a project that has them."},
	{"credentials-scopes", "unavailable", resultFailed, "Look up the error in docs/errors.md, and repeat later if the service is unavailable."},
	{"credentials-mode", "free", resultWarning, "In production, use the credentials of a live project: a sandbox project approves invented numbers. Ignore this if your live price is 0."},
	{"credentials-mode", "unavailable", resultFailed, "Look up the error in docs/errors.md, and repeat later if the service is unavailable."},

	{"key-set", "unavailable", resultFailed, "Repeat later. Without a key set, your verifier responds to callbacks with 503. See docs/security.md, Key-set outage."},
	{"key-set", "unusable", resultFailed, "Check IDVERIFY_BASE_URL and any proxy: the response is not the key set of the service."},
	{"key-set", "ignored", resultWarning, "Inform the operator of the service: messages that are signed with these keys are rejected."},
	{"key-set", "cached", resultWarning, "Do not let your proxy cache the key set: a removed key is accepted for longer, and a new one is unknown."},

	{"callback-address", "invalid", resultFailed, "Pass the URL that is registered with the service."},
	{"callback-address", "unresolved", resultFailed, "Check the host of the URL and its DNS records."},
	{"callback-address", "closed-port", resultFailed, "Start the receiver, and check the port of the URL: nothing listens on it. If only the service can reach the receiver, skip these checks."},
	{"callback-address", "unreachable", resultFailed, "Start the receiver, and check its port and firewall. If only the service can reach it, skip these checks."},
	{"callback-address", "private", resultWarning, "Register a URL that is public. The service cannot reach this one, but a sandboxfake in your network can."},
	{"callback-tls", "unencrypted", resultWarning, "Use https, at least in production."},
	{"callback-tls", "untrusted", resultFailed, "Use a certificate of a public authority, and let the server send its intermediate certificates."},
	{"callback-tls", "private-ca", resultWarning, "Use a certificate of a public authority: the service does not know your CA file."},
	{"callback-tls", "expired", resultFailed, "Renew the certificate: the service cannot connect."},
	{"callback-tls", "wrong-host", resultFailed, "Use a certificate for the host of the URL: the service cannot connect."},
	{"callback-tls", "handshake", resultFailed, "Check the port: the server does not speak TLS, or ends the connection."},
	{"callback-tls", "timeout", resultFailed, "Check the load of the server, and that a firewall does not block TLS."},
	{"callback-tls", "expires-soon", resultWarning, "Renew the certificate."},
	{"callback-unsigned", "accepted", resultFailed, "CRITICAL: the receiver does not verify signatures, so anyone can forge results. Use signature.Verifier."},
	{"callback-unsigned", "redirect", resultFailed, "Register the final URL: the service does not follow redirects. Exclude it from any login page."},
	{"callback-unsigned", "not-found", resultFailed, "Check the path, and that your router accepts the method (POST for callbacks, GET for redirects)."},
	{"callback-unsigned", "error", resultFailed, "Look at the log of the receiver. It must reject an invalid message with 400: the service repeats a message after 5XX."},
	{"callback-unsigned", "none", resultFailed, "Look at the log of the receiver and its proxy. The service waits 10 s for a response."},
	{"callback-unsigned", "slow", resultWarning, "Verify before any other work. The service waits 10 s for a response."},
	{"callback-unsigned", "login", resultFailed, "Respond to an invalid message with 400, and exclude the URL from authentication and firewalls for web applications: the service cannot log in."},
	{"callback-unsigned", "other", resultWarning, "The receiver must reject it with 400. Exclude the URL from authentication, rate limits and firewalls for web applications."},
	{"redirect-unsigned", "accepted", resultWarning, "Make sure that the page does nothing, or respond with 400. To be certain, run idverify examine."},
	{"redirect-unsigned", "redirect", resultWarning, "Make sure that the target does nothing, or respond with 400. To be certain, run idverify examine."},
	{"redirect-unsigned", "login", resultWarning, "Respond to an invalid message with 400. Make sure that a customer reaches the URL without a new login."},
	{"callback-forged", "accepted", resultFailed, "CRITICAL: the receiver does not verify signatures, so anyone can forge results. Use signature.Verifier."},
	{"callback-forged", "unavailable", resultFailed, "The receiver cannot fetch the key set: check its base URL, CA file and proxy. See docs/security.md, Key-set outage."},
	{"callback-forged", "redirect", resultFailed, "Register the final URL: the service does not follow redirects. Exclude it from any login page."},
	{"callback-forged", "not-found", resultFailed, "Check the path, and that your router accepts the method (POST for callbacks, GET for redirects)."},
	{"callback-forged", "error", resultFailed, "Look at the log of the receiver. It must reject an invalid message with 400: the service repeats a message after 5XX."},
	{"callback-forged", "none", resultFailed, "Look at the log of the receiver and its proxy. The service waits 10 s for a response."},
	{"callback-forged", "slow", resultWarning, "Let the verifier reuse the key set. The service waits 10 s for a response."},
	{"callback-forged", "login", resultFailed, "Respond to an invalid message with 400, and exclude the URL from authentication and firewalls for web applications: the service cannot log in."},
	{"callback-forged", "other", resultWarning, "The receiver must reject it with 400. Exclude the URL from authentication, rate limits and firewalls for web applications."},
	{"redirect-forged", "accepted", resultWarning, "Make sure that the page does nothing, or respond with 400. To be certain, run idverify examine."},
	{"redirect-forged", "redirect", resultWarning, "Make sure that the target does nothing, or respond with 400. To be certain, run idverify examine."},
	{"redirect-forged", "login", resultWarning, "Respond to an invalid message with 400. Make sure that a customer reaches the URL without a new login."},
	{"callback-get", "accepted", resultWarning, "Accept only POST, so that a link that is opened by chance has no effect."},
	{"callback-get", "none", resultWarning, "Look at the log of the receiver: it ends the connection of a GET request."},
}
