package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/receivertest"
)

// examine examines a receiver of callbacks or redirects in another process. It serves the key set,
// waits until the receiver listens, sends the messages and prints the report.
func examine(ctx context.Context, p *program, args []string) int {
	e := &examination{program: p}
	flags := newFlags("examine", "URL")
	e.define(flags)
	arguments, code, ok := p.parseArguments(flags, args, 0, 1)
	if !ok {
		return code
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := e.check(arguments, given); err != nil {
		return e.misused("examine", err)
	}
	if e.list {
		e.printRules(e.rules())
		return exitOK
	}
	if err := e.requireLocal(ctx); err != nil {
		return e.misused("examine", err)
	}
	return e.run(ctx)
}

// run examines the receiver and writes the report.
func (e *examination) run(ctx context.Context) int {
	if err := e.report.prepare(); err != nil {
		return e.unable("examine", err)
	}
	receiver, err := e.newReceiver()
	if err != nil {
		return e.unable("examine", err)
	}
	if err := receiver.Validate(); err != nil {
		return e.misused("examine", forCommand(err))
	}
	server, err := serveKeys(keyServerConfig{addr: e.keys, names: e.keysNames, plain: e.keysHTTP, caFile: e.caFile, now: e.now()}, receiver.Keys)
	if err != nil {
		return e.unable("examine", err)
	}
	defer server.close()
	e.announce(server)

	progress := newProgress(e.stderr)
	connected, err := waitFor(ctx, e.target.addresses(), e.timeout, progress)
	progress.clear()
	if err != nil {
		return e.unable("examine", err)
	}
	if !e.remote {
		// Another lookup of the host could return another machine.
		receiver.Addr = e.target.scheme + "://" + connected
	}
	receiver.Progress = progress.rule
	report, err := receivertest.Examine(ctx, receiver)
	progress.clear()
	switch {
	case err != nil && len(report.Findings) == 0:
		return e.unable("examine", forCommand(err))
	case err != nil:
		fmt.Fprintf(e.stderr, "The examination ended early: %v\n", forCommand(err))
	}
	// The examination may have been interrupted, which must not change the causes in its report.
	settled, cancel := e.withTimeout(context.WithoutCancel(ctx), handshakePatience)
	defer cancel()
	if err := e.writeReport(e.report, withHandshakes(report, server.untrusted(settled))); err != nil {
		return e.unable("examine", fmt.Errorf("write the report: %w", err))
	}
	switch {
	case err != nil:
		return exitError
	case slices.ContainsFunc(report.Failed(), func(f receivertest.Finding) bool { return atLeast(f.Severity, e.fail) }):
		return exitProblem
	}
	return exitOK
}

// forCommand returns an error of receivertest as one of the command.
func forCommand(err error) error {
	return errors.New(strings.NewReplacer(
		"receivertest: examine: ", "", "invalid receiver: ", "",
		"Header must", "-header must", "Header contains", "-header contains", " in Header ", " in -header ",
		"probe Created: ", "-probe: ", "probe Effects: ", "-probe: ", "probe SlowStore: ", "-probe: ", "probe Session: ", "-probe: ",
	).Replace(err.Error()))
}

// announce prints the configuration of the receiver.
func (e *examination) announce(server *keyServer) {
	w := e.stderr
	fmt.Fprintln(w, "Configure the receiver and start it. If it runs already, start it again:")
	fmt.Fprintf(w, "  key set   %s%s\n", server.base, receivertest.KeySetPath)
	if server.caFile != "" {
		fmt.Fprintf(w, "  CA file   %s\n", server.caFile)
		fmt.Fprintln(w, "            Node.js: NODE_EXTRA_CA_CERTS; Python, and Go on Linux: SSL_CERT_FILE;")
		fmt.Fprintln(w, "            Go in code: signature.JWKSOptions.HTTPClient")
	}
	fmt.Fprintf(w, "  host      %s (messages are signed for it)\n", e.url.Host)
	if !e.redirect {
		fmt.Fprintf(w, "  header    %s (contains the product of a callback)\n", e.callbackHeader)
	}
}

// examination contains the flags and arguments of examine.
type examination struct {
	*program

	// The receiver.
	url            *url.URL
	addr           string
	target         target
	redirect       bool
	headers        stringList // "Name: value"
	header         http.Header
	probe          string
	callbackHeader string
	digest         string
	receiverCA     string
	remote         bool
	timeout        time.Duration

	// The key set.
	keys      string
	keysNames stringList
	keysHTTP  bool
	caFile    string

	// The rules and the report.
	strict bool
	only   stringList
	fail   string
	list   bool
	report reportFlags
}

// hexDigest is the default of -digest.
const hexDigest = "hex"

// defaultKeys is the default of -keys. The port is fixed, so that a receiver has to be configured
// only once.
const defaultKeys = "127.0.0.1:8446"

func (e *examination) define(flags *flag.FlagSet) {
	flags.BoolVar(&e.redirect, "redirect", false, "examine a receiver of redirects; by default of callbacks")
	flags.StringVar(&e.addr, "addr", "", "connect to this `host:port` in place of that of URL, with http:// or https:// in front if the scheme differs, too")
	flags.Var(&e.headers, "header", "add this header, as `'Name: value'`, to each message; repeatable; the value is never printed")
	flags.StringVar(&e.probe, "probe", "", "`URL` of a probe, for the rules that observe what the receiver does")
	flags.StringVar(&e.callbackHeader, "callback-header", "x-service-callback", "`name` of the header with the product of a callback")
	flags.StringVar(&e.digest, "digest", hexDigest, "`encoding` of the Digest of callbacks, hex or base64")
	flags.StringVar(&e.receiverCA, "receiver-ca", "", "trust the CA certificates in the file at this `path` for a receiver over https")
	flags.BoolVar(&e.remote, "remote", false, "examine a receiver on another machine, which must be yours: it gets forged messages")
	flags.DurationVar(&e.timeout, "timeout", 2*time.Minute, "stop if the receiver does not listen within this `duration`")

	flags.StringVar(&e.keys, "keys", defaultKeys, "serve the key set on this `host:port`")
	flags.Var(&e.keysNames, "keys-name", "another `name` by which the receiver reaches the key set, such as host.docker.internal; repeatable")
	flags.BoolVar(&e.keysHTTP, "keys-http", false, "serve the key set over http; signature.JWKS requires https")
	flags.StringVar(&e.caFile, "ca-file", "", "write the CA certificate of the key set to this `path` and keep it; by default a temporary file")

	flags.BoolVar(&e.strict, "strict", false, "also send messages that only package signature must reject")
	flags.Var(&e.only, "only", "examine only this `rule`, or those of a pattern such as 'callback/key-*'; repeatable")
	flags.StringVar(&e.fail, "fail", string(receivertest.SeverityLow), "lowest `severity` that makes the exit code 1: critical, high, medium or low")
	flags.BoolVar(&e.list, "list", false, "print the rules with their severities and reasons, and examine nothing")
	e.report.define(flags)
}

// atLeast reports whether s is as severe as lowest, or more.
func atLeast(s receivertest.Severity, lowest string) bool {
	return slices.Index(severities, s) <= slices.Index(severities, receivertest.Severity(lowest))
}

// check verifies the arguments and flags, and parses them. given contains the names of the flags on
// the command line.
func (e *examination) check(arguments []string, given map[string]bool) error {
	switch {
	case e.list && len(arguments) > 0:
		return errors.New("-list needs no URL")
	case !e.list && len(arguments) == 0:
		return errors.New("the URL of the receiver is missing")
	case e.list && slices.ContainsFunc(slices.Collect(maps.Keys(given)), notForList):
		return errors.New("with -list, only -redirect, -strict and -only have an effect")
	case e.redirect && (given["digest"] || given["callback-header"]):
		return errors.New("-digest and -callback-header are for callbacks, not for -redirect")
	case e.keysHTTP && given["ca-file"]:
		return errors.New("-ca-file has no effect with -keys-http")
	case e.digest != hexDigest && e.digest != "base64":
		return errors.New("-digest must be hex or base64")
	case !slices.Contains(severities, receivertest.Severity(e.fail)):
		return errors.New("-fail must be critical, high, medium or low")
	case e.timeout < 0:
		return errors.New("-timeout must not be negative")
	}
	if err := e.report.check(); err != nil {
		return err
	}
	for _, pattern := range e.only {
		if err := e.checkPattern(pattern); err != nil {
			return err
		}
	}
	if e.list {
		return nil
	}
	return e.checkReceiver(arguments[0])
}

// checkPattern verifies that a pattern of -only matches a rule.
func (e *examination) checkPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("-only: the pattern %s is malformed", pattern)
	}
	own, other, advice := e.kind(), receivertest.KindRedirect, "set -redirect"
	if e.redirect {
		other, advice = receivertest.KindCallback, "omit -redirect"
	}
	full := string(own) + "/" + pattern
	switch {
	case matchesRule(pattern, receivertest.Rules(own, e.strict)):
		return nil
	case matchesRule(full, receivertest.Rules(own, e.strict)):
		return fmt.Errorf("-only: there is no rule %q: use %s", pattern, full)
	case matchesRule(pattern, receivertest.Rules(own, true)):
		return fmt.Errorf("-only: there is no rule %q without -strict", pattern)
	case matchesRule(pattern, receivertest.Rules(other, true)):
		return fmt.Errorf("-only: there is no rule %q for receivers of %ss: %s", pattern, own, advice)
	}
	var known []string
	for _, r := range receivertest.Rules(own, e.strict) {
		known = append(known, r.Name)
	}
	return &unknownNameError{"-only", "rule", pattern, known}
}

// matchesRule reports whether a pattern matches one of rules.
func matchesRule(pattern string, rules []receivertest.Rule) bool {
	return slices.ContainsFunc(rules, func(r receivertest.Rule) bool { ok, _ := path.Match(pattern, r.Name); return ok })
}

// notForList reports whether a flag has no effect with -list.
func notForList(name string) bool {
	return !slices.Contains([]string{"list", "redirect", "strict", "only"}, name)
}

// checkReceiver parses the URL and the flags about the receiver.
func (e *examination) checkReceiver(text string) (err error) {
	if e.url, err = parseURL("the URL of the receiver", text); err != nil {
		return err
	}
	if e.target, err = newTarget(e.url, e.addr); err != nil {
		return err
	}
	if e.probe != "" {
		if _, err := parseURL("-probe", e.probe); err != nil {
			return err
		}
	}
	if _, _, err := net.SplitHostPort(e.keys); err != nil {
		return errors.New("-keys must be host:port, such as " + defaultKeys)
	}
	e.header = make(http.Header)
	for i, field := range e.headers {
		// The error must not contain the field, because its value can be a secret.
		name, value, ok := strings.Cut(field, ":")
		if !ok || strings.ContainsAny(name, " \t") || name == "" {
			return fmt.Errorf("-header number %d must be 'Name: value'", i+1)
		}
		e.header.Add(name, textproto.TrimString(value))
	}
	return nil
}

// parseURL returns the URL of a flag or argument.
func parseURL(name, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New(name + " must begin with https:// or http:// and a host")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New(name + " must contain neither a user nor a fragment")
	}
	return u, nil
}

// target is the address that an examination connects to.
type target struct {
	scheme, host, port string
	local              []netip.Addr // of host, if they were checked
}

// addresses returns the addresses to connect to, each with a port.
func (t target) addresses() []string {
	if len(t.local) == 0 {
		return []string{net.JoinHostPort(t.host, t.port)}
	}
	var all []string
	for _, a := range t.local {
		all = append(all, net.JoinHostPort(a.Unmap().String(), t.port))
	}
	return all
}

func newTarget(u *url.URL, addr string) (target, error) {
	if addr != "" {
		if !strings.Contains(addr, "://") {
			addr = u.Scheme + "://" + addr
		}
		var err error
		if u, err = parseURL("-addr", addr); err != nil || strings.Trim(u.Path, "/")+u.RawQuery != "" {
			return target{}, errors.New("-addr must be host:port, such as 127.0.0.1:3000")
		}
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return target{scheme: u.Scheme, host: u.Hostname(), port: port}, nil
}

// requireLocal returns an error if the receiver or the probe is on another machine and -remote is
// not set.
func (e *examination) requireLocal(ctx context.Context) (err error) {
	if e.remote {
		return nil
	}
	if e.target.local, err = lookup(ctx, e.target.host); err != nil {
		return fmt.Errorf("the host of the receiver is unknown: %w (set -addr to its address)", err)
	}
	if ok, err := ownAddresses(e.target.local); err != nil {
		return err
	} else if !ok {
		return fmt.Errorf("%s is not this machine: an examination sends forged messages, so only the owner of a receiver may examine it; if it is yours, set -remote, or -addr to its local address", e.target.host)
	}
	if e.probe == "" {
		return nil
	}
	u, err := parseURL("-probe", e.probe)
	if err != nil {
		return err
	}
	addresses, err := lookup(ctx, u.Hostname())
	if err != nil {
		return fmt.Errorf("the host of -probe is unknown: %w", err)
	}
	if ok, err := ownAddresses(addresses); err != nil || ok {
		return err
	}
	return fmt.Errorf("%s is not this machine: a probe changes the backend, so only its owner may use it; if it is yours, set -remote", u.Hostname())
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// ownAddresses reports whether all addresses are those of this machine.
func ownAddresses(addresses []netip.Addr) (bool, error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	for _, a := range addresses {
		local := a.Unmap().IsLoopback() || slices.ContainsFunc(own, func(o net.Addr) bool {
			prefix, err := netip.ParsePrefix(o.String())
			return err == nil && prefix.Addr().Unmap() == a.Unmap()
		})
		if !local {
			return false, nil
		}
	}
	return true, nil
}

func (e *examination) kind() receivertest.Kind {
	if e.redirect {
		return receivertest.KindRedirect
	}
	return receivertest.KindCallback
}

// rules returns the rules of -list.
func (e *examination) rules() []receivertest.Rule {
	return slices.DeleteFunc(receivertest.Rules(e.kind(), e.strict), func(r receivertest.Rule) bool {
		return len(e.only) > 0 && !slices.ContainsFunc(e.only, func(pattern string) bool { return matchesRule(pattern, []receivertest.Rule{r}) })
	})
}

// newReceiver returns the receiver of the flags, with new keys.
func (e *examination) newReceiver() (r receivertest.Receiver, err error) {
	r = receivertest.Receiver{
		Kind: e.kind(), URL: e.url.String(), Addr: e.addr, Header: e.header,
		Strict: e.strict, Only: e.only, Now: e.now,
	}
	if !e.redirect {
		r.CallbackHeader, r.Base64Digest = e.callbackHeader, e.digest != hexDigest
	}
	client := http.DefaultClient
	if e.receiverCA != "" {
		roots, err := certPool("-receiver-ca", e.receiverCA)
		if err != nil {
			return r, err
		}
		r.TLSConfig = &tls.Config{RootCAs: roots}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = r.TLSConfig.Clone()
		client = &http.Client{Transport: transport}
	}
	if e.probe != "" {
		r.Probe = receivertest.HTTPProbe(e.probe, client)
	}
	r.Keys, err = receivertest.NewKeys()
	return r, err
}

// withHandshakes replaces the text of CauseKeySet if a client of the key server did not trust its
// certificate.
func withHandshakes(report receivertest.Report, untrusted int) receivertest.Report {
	if untrusted == 0 {
		return report
	}
	for _, f := range report.Failed() {
		for i := range f.Causes {
			if c := &f.Causes[i]; c.Code == receivertest.CauseKeySet {
				c.Text = "The receiver connected to the key set, but does not trust its certificate. Start it with the CA file (Node.js: NODE_EXTRA_CA_CERTS; Python, and Go on Linux: SSL_CERT_FILE), and if it reaches the key set by another name, set -keys-name."
			}
		}
	}
	return report
}

// connectInterval is the time between two connections to a receiver that does not listen.
const connectInterval = 200 * time.Millisecond

// waitFor waits until a server listens at one of addrs, and returns this address. It closes the
// connection without sending anything.
func waitFor(ctx context.Context, addrs []string, limit time.Duration, progress *progress) (string, error) {
	end := time.Now().Add(limit)
	for first := true; ; first = false {
		dialer := net.Dialer{Timeout: 5 * time.Second}
		var err error
		for _, addr := range addrs {
			var conn net.Conn
			if conn, err = dialer.DialContext(ctx, "tcp", addr); err == nil {
				return addr, conn.Close()
			}
		}
		left := time.Until(end)
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("interrupted before the receiver listened at %s", strings.Join(addrs, " or "))
		case left <= 0:
			return "", fmt.Errorf("the receiver does not listen: %w (start it, compare its port with that of the URL or -addr, or set a longer -timeout)", err)
		}
		progress.waiting(first, left)
		select {
		case <-ctx.Done():
		case <-time.After(min(connectInterval, left)):
		}
	}
}
