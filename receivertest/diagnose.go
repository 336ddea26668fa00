package receivertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
)

// unreachableError ends the examination of a receiver that is unreachable.
type unreachableError struct{ cause string }

func (e unreachableError) Error() string {
	return "cannot connect to the receiver: " + e.cause + " (is it running, and at this port?)"
}

// notAccepted describes a receiver that rejects a valid message, or does not respond.
const notAccepted = "did not accept a valid message"

// withoutKeySet is the detail of a valid message that the receiver cannot have verified.
const withoutKeySet = "accepted, although the receiver has never requested the key set"

// firstValid is the rule that a valid message is accepted. If it is not, all other rules are not
// applicable.
func (e *examination) firstValid(ctx context.Context) (outcome, error) {
	s, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return outcome{}, err
	}
	a, err := e.sendValid(ctx, s, nil)
	if err != nil {
		return outcome{}, err
	}
	e.valid = a
	if e.Kind == Redirect && a.failure == responded && (a.status/100 == 2 || a.status/100 == 3) {
		return e.unsignedRedirect(ctx)
	}
	if e.accepted(a) {
		if n, _ := e.Keys.requested(); n == 0 {
			return passed(withoutKeySet), nil
		}
		return passed(""), nil
	}
	e.stop("the receiver does not accept valid messages")
	var detail strings.Builder
	detail.WriteString(describe(a.response) + excerpt(a.response))
	causes, err := e.causes(ctx, a)
	if err != nil {
		return outcome{}, err
	}
	for _, cause := range causes {
		detail.WriteString("\n" + cause)
	}
	o := failed("", a, notAccepted, detail.String())
	if a.failure == unreachable {
		return o, unreachableError{a.cause}
	}
	return o, nil
}

// unsignedRedirect sends a redirect without a signature. A receiver that treats it like the valid
// one has another reason for its response.
func (e *examination) unsignedRedirect(ctx context.Context) (outcome, error) {
	s, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return outcome{}, err
	}
	setup := e.setup(s)
	if e.unsigned, err = e.send(ctx, setup.Redirect(), s, setup.Now); err != nil {
		return outcome{}, err
	}
	if e.Probe.Session == nil && location(e.valid) == location(e.unsigned) {
		e.stop("a redirect without a signature gets the same response as a valid one")
		return failed("", e.valid, "responded to a redirect without a signature as to a valid one", describe(e.valid.response)+
			": the receiver verifies nothing, or it requires a session (set Probe.Session)"), nil
	}
	return passed(""), nil
}

// causes returns the likely reasons why the receiver does not accept a valid message.
func (e *examination) causes(ctx context.Context, a attempt) ([]string, error) {
	path := oneLine(e.address.url.Path)
	switch {
	case a.failure == unreachable:
		return []string{"Start the receiver, and compare its address with Receiver.URL and Receiver.Addr."}, nil
	case a.failure != responded:
		return []string{"Compare the address and the scheme (http or https) with Receiver.URL and Receiver.Addr, and look for a panic in the log of the receiver."}, nil
	case a.status/100 == 3 && isSignIn(a.response):
		return []string{"The receiver redirects to a page for signing in. Exempt the path " + path + " from authentication."}, nil
	case a.status/100 == 3:
		return []string{"The service does not follow redirects. Register the URL that the receiver redirects to."}, nil
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed, a.status == http.StatusNotImplemented:
		causes := []string{fmt.Sprintf("The receiver has no handler for %s %s. Compare the path with Receiver.URL.", a.message.Method, path)}
		return e.unknownCheck(causes), nil
	case a.status == http.StatusTooManyRequests:
		return []string{"The receiver limits the rate. Raise the limit for the examination."}, nil
	case a.status/100 == 5:
		causes := []string{"Look for the reason in the log of the receiver: it may not reach its key set or its store."}
		return e.unknownCheck(append(causes, e.keySetCause()...)), nil
	}
	causes, err := e.experiments(ctx, a)
	if len(causes) == 0 && err == nil {
		causes = e.unknownCheck(append(e.keySetCause(), e.verifierCauses(a)...))
	}
	return causes, err
}

// unknownCheck adds the cause that the backend does not know the check.
func (e *examination) unknownCheck(causes []string) []string {
	if e.Kind == Callback && e.Probe.Created == nil {
		causes = append(causes, "If the receiver rejects callbacks about checks that it has not created, set Probe.Created.")
	}
	if e.Kind == Redirect && e.Probe.Session == nil {
		causes = append(causes, "If the receiver requires a session that has started the check, set Probe.Session.")
	}
	return causes
}

// keySetCause returns what the requests for the key set reveal.
func (e *examination) keySetCause() []string {
	switch n, other := e.Keys.requested(); {
	case n > 0:
		return nil
	case other != "":
		return []string{fmt.Sprintf("The receiver requested %q instead of the key set, whose path is %s.", other, KeySetPath)}
	}
	return []string{"The receiver has not requested the key set. Configure the URL of the key set of this examination (Keys), not that of the service, unless it rejects the message before it looks up the key, or it does not trust the certificate of the key set."}
}

// verifierCauses returns the other reasons why a verifier rejects a valid message.
func (e *examination) verifierCauses(a attempt) []string {
	causes := []string{
		fmt.Sprintf("The message is signed for the host %q. The receiver must allow this host, and a proxy must not change it.", oneLine(a.message.Host)),
		"The message is dated " + a.date.UTC().Format(http.TimeFormat) + ". Compare the clock of the receiver.",
	}
	if e.Kind == Callback {
		causes = append(causes, "The kind is in the header "+e.callbackHeader()+". The receiver must use this name.")
	}
	return causes
}

func (e *examination) callbackHeader() string {
	if e.CallbackHeader == "" {
		return "x-service-callback"
	}
	return strings.ToLower(e.CallbackHeader)
}

// experiments sends valid messages with other properties until one is accepted, which shows the
// cause.
func (e *examination) experiments(ctx context.Context, a attempt) ([]string, error) {
	type experiment struct {
		cause  string
		change func(*attack.Setup)
	}
	var all []experiment
	// The Date of a response is that of the receiver, or of a proxy in front of it.
	if date, err := http.ParseTime(a.response.header.Get("Date")); err == nil {
		if off := date.Sub(a.date).Round(time.Second); off.Abs() > 2*time.Second {
			all = append(all, experiment{
				fmt.Sprintf("The clock of the receiver differs by %s: its response is dated %s, the message %s.", seconds(off), date.Format(http.TimeFormat), a.date.UTC().Format(http.TimeFormat)),
				func(s *attack.Setup) { s.Now = s.Now.Add(off) },
			})
		}
	}
	if e.Kind == Callback {
		name := "hexadecimal (Base64Digest must be false)"
		if !e.Base64Digest {
			name = "base64 (Receiver.Base64Digest)"
		}
		all = append(all, experiment{"The receiver accepts the message if its digest is in " + name + ".", func(s *attack.Setup) { s.Base64Digest = !e.Base64Digest }})
	}
	for _, host := range e.otherHosts() {
		all = append(all, experiment{
			fmt.Sprintf("The receiver accepts messages for the host %q, but Receiver.URL has the host %q.", oneLine(host), oneLine(a.message.Host)),
			func(s *attack.Setup) { u := *s.URL; u.Host = host; s.URL = &u },
		})
	}
	for _, x := range all {
		s, err := e.newSubject(ctx, phoneCheck)
		if err != nil {
			return nil, err
		}
		b, err := e.sendValid(ctx, s, x.change)
		if err != nil {
			return nil, err
		}
		if b.failure == responded && b.status/100 == 2 {
			return []string{x.cause}, nil
		}
	}
	return nil, nil
}

// otherHosts returns hosts that a receiver may allow by mistake instead of that of URL.
func (e *examination) otherHosts() []string {
	name, port, _ := net.SplitHostPort(e.address.hostPort)
	own := e.address.url
	var hosts []string
	for _, host := range []string{e.address.hostPort, name, own.Hostname(), net.JoinHostPort("localhost", port), "localhost"} {
		for _, standard := range []string{":443", ":80"} {
			host = strings.TrimSuffix(host, standard)
		}
		if host != own.Host && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// isSignIn reports whether a response redirects to a page for signing in.
func isSignIn(r response) bool {
	location := strings.ToLower(r.header.Get("Location"))
	return slices.ContainsFunc([]string{"login", "signin", "sign-in", "sign_in", "auth", "sso"}, func(word string) bool { return strings.Contains(location, word) })
}
