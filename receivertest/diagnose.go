package receivertest

import (
	"cmp"
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

// firstValid is the rule that a valid message is accepted. If it is not, all other rules are not
// applicable.
func (e *examination) firstValid(ctx context.Context) (outcome, error) {
	s, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return outcome{}, err
	}
	// The receiver may not have fetched the key set yet.
	a, err := e.sendPatiently(ctx, s, e.signed)
	if err == nil && a.status == http.StatusTooManyRequests {
		a, err = e.sendValid(ctx, s, nil) // waits longer for a rate limit
	}
	if err != nil {
		return outcome{}, err
	}
	e.valid = a
	if e.Kind == KindRedirect && a.failure == responded && (a.status/100 == 2 || a.status/100 == 3) {
		return e.unsignedRedirect(ctx)
	}
	if e.accepted(a) {
		o := passed("")
		if n, _ := e.Keys.requested(); n == 0 {
			o.detail = "accepted, although the receiver has never requested the key set"
			o.causes = []Cause{{CauseKeySet, "The receiver verifies nothing, or with other keys."}}
		}
		return o, nil
	}
	e.stop("the receiver does not accept valid messages")
	o := failed("", a, notAccepted, describe(a.response)+excerpt(a.response))
	if o.causes, err = e.causes(ctx, a); err != nil {
		return outcome{}, err
	}
	if a.failure == unreachable {
		return o, unreachableError{a.cause}
	}
	return o, nil
}

// unsignedRedirect sends a redirect without a signature. If the response is the same as to a valid
// one, it does not depend on the signature.
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
		o := failed("", e.valid, "responded to a redirect without a signature as to a valid one", describe(e.valid.response)+": the receiver verifies nothing, or it requires a session")
		o.causes = e.unknownCheck(nil)
		return o, nil
	}
	return passed(""), nil
}

// causes returns the likely reasons why the receiver does not accept a valid message.
func (e *examination) causes(ctx context.Context, a attempt) ([]Cause, error) {
	path := oneLine(e.address.url.Path)
	switch {
	case a.failure == unreachable:
		return []Cause{{CauseUnreachable, "Start the receiver, and compare its address with the one that the examination connects to."}}, nil
	case a.failure != responded:
		return []Cause{{CauseConnection, "Compare the address and the scheme (http or https) with those that the examination connects to, and look for a panic in the log of the receiver."}}, nil
	case a.status/100 == 3 && isSignIn(a.response):
		return []Cause{{CauseSignIn, "The receiver redirects to a page for signing in. Exempt the path " + path + " from authentication."}}, nil
	case a.status/100 == 3:
		return []Cause{{CauseRedirect, "The service does not follow redirects. Register the URL that the receiver redirects to."}}, nil
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed, a.status == http.StatusNotImplemented:
		return e.unknownCheck([]Cause{{CauseHandler, fmt.Sprintf("The receiver has no handler for %s %s. Compare the path with the examined URL.", a.message.Method, path)}}), nil
	case a.status == http.StatusTooManyRequests:
		return []Cause{{CauseRateLimit, "The receiver limits the rate. Raise the limit for the examination."}}, nil
	case a.status/100 == 5:
		causes := []Cause{{CauseServerError, "Look for the reason in the log of the receiver: it may not reach its key set or its store."}}
		return e.unknownCheck(append(causes, e.keySetCause()...)), nil
	}
	causes, err := e.experiments(ctx, a)
	if len(causes) == 0 && err == nil {
		causes = e.unknownCheck(append(e.keySetCause(), e.verifierCauses(a)...))
	}
	return causes, err
}

// unknownCheck adds the cause that the backend does not know the check.
func (e *examination) unknownCheck(causes []Cause) []Cause {
	if e.Kind == KindCallback && e.Probe.Created == nil {
		causes = append(causes, Cause{CauseUnknownCheck, "If the receiver rejects callbacks about checks that it has not created, use a probe with Created (PUT)."})
	}
	if e.Kind == KindRedirect && e.Probe.Session == nil {
		causes = append(causes, Cause{CauseNoSession, "If the receiver requires a session that has started the check, use a probe with Session (POST)."})
	}
	return causes
}

// keySetCause returns the cause if the receiver has not requested the key set.
func (e *examination) keySetCause() []Cause {
	switch n, other := e.Keys.requested(); {
	case n > 0:
		return nil
	case other != "":
		return []Cause{{CauseKeySetPath, fmt.Sprintf("The receiver requested %q instead of the key set, whose path is %s.", other, KeySetPath)}}
	}
	return []Cause{{CauseKeySet, "The receiver has not requested the key set. Configure the URL of the key set of this examination, not that of the service, unless it rejects the message before it looks up the key, or it does not trust the certificate of the key set."}}
}

// verifierCauses returns the other reasons why a verifier rejects a valid message.
func (e *examination) verifierCauses(a attempt) []Cause {
	causes := []Cause{
		{CauseHost, fmt.Sprintf("The message is signed for the host %q. The receiver must allow this host, and a proxy must not change it.", oneLine(a.message.Host))},
		{CauseClock, "The message is dated " + a.date.UTC().Format(http.TimeFormat) + ". Compare the clock of the receiver."},
	}
	if e.Kind == KindCallback {
		name := cmp.Or(strings.ToLower(e.CallbackHeader), "x-service-callback")
		causes = append(causes, Cause{CauseCallbackHeader, "The kind is in the header " + name + ". The receiver must use this name."})
	}
	return causes
}

// experiments sends valid messages with other properties until one is accepted, which shows the
// cause.
func (e *examination) experiments(ctx context.Context, a attempt) ([]Cause, error) {
	type experiment struct {
		cause  Cause
		change func(*attack.Setup)
	}
	var all []experiment
	// The Date of a response is that of the receiver, or of a proxy in front of it.
	if date, err := http.ParseTime(a.response.header.Get("Date")); err == nil {
		if off := date.Sub(a.date).Round(time.Second); off.Abs() > 2*time.Second {
			all = append(all, experiment{
				Cause{CauseClock, fmt.Sprintf("The clock of the receiver differs by %s: its response is dated %s, the message %s.", seconds(off), date.Format(http.TimeFormat), a.date.UTC().Format(http.TimeFormat))},
				func(s *attack.Setup) { s.Now = s.Now.Add(off) },
			})
		}
	}
	if e.Kind == KindCallback {
		other, own := "base64", "hexadecimal"
		if e.Base64Digest {
			other, own = own, other
		}
		all = append(all, experiment{
			Cause{CauseDigest, fmt.Sprintf("The receiver accepts the message if its digest is in %s. The examination uses %s.", other, own)},
			func(s *attack.Setup) { s.Base64Digest = !e.Base64Digest },
		})
	}
	for _, host := range e.otherHosts() {
		all = append(all, experiment{
			Cause{CauseHost, fmt.Sprintf("The receiver accepts messages for the host %q, but the examined URL has the host %q.", oneLine(host), oneLine(a.message.Host))},
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
			return []Cause{x.cause}, nil
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
