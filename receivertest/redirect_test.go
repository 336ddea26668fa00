package receivertest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

const redirectURL = "https://shop.example.com/back?tenant=7"

// signIn is a backend that signs users in with redirects.
type signIn struct {
	fault string

	mu       sync.Mutex // guards the fields below
	sessions map[string]string
	signedIn map[string]int
}

// Mistakes of signIn.
const (
	anySession     = "signs any session in"
	signsInAgain   = "signs in again"
	sessionFirst   = "checks the session first"
	sendsToError   = "sends the browser to a page for errors"
	unavailable    = "responds to invalid redirects with 503"
	locationWithID = "sends the browser to a page with the check" // not a mistake
)

func newSignIn(fault string) *signIn {
	return &signIn{fault: fault, sessions: map[string]string{}, signedIn: map[string]int{}}
}

func (s *signIn) probe() receivertest.Probe {
	return receivertest.Probe{
		Session: func(context.Context) (receivertest.Session, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			n := len(s.sessions)
			session, check := fmt.Sprintf("secret-%d", n), fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
			s.sessions[session] = check
			return receivertest.Session{CheckID: check, Header: http.Header{"Cookie": {"session=" + session}}}, nil
		},
		Effects: func(_ context.Context, id string) (int, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.signedIn[id], nil
		},
	}
}

func (s *signIn) handle(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.fault == anySession
	if cookie, err := r.Cookie("session"); err == nil && s.sessions[cookie.Value] == redirect.CheckID {
		own = true
	}
	switch {
	case !own:
		http.Error(w, "another session", http.StatusForbidden)
	case s.signedIn[redirect.CheckID] > 0 && s.fault != signsInAgain:
		http.Redirect(w, r, "/", http.StatusSeeOther)
	default:
		s.signedIn[redirect.CheckID]++
		location := "/welcome"
		if s.fault == locationWithID {
			location += "/" + redirect.CheckID + "?check_id=" + url.QueryEscape(redirect.CheckID)
		}
		http.Redirect(w, r, location, http.StatusSeeOther)
	}
}

// handler returns the receiver of redirects.
func (s *signIn) handler(v *signature.Verifier) http.Handler {
	next := idverify.RedirectHandler(v, s.handle)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch s.fault {
		case sessionFirst:
			if _, err := r.Cookie("session"); err != nil {
				http.Redirect(w, r, "/login?return="+url.QueryEscape(r.RequestURI), http.StatusFound)
				return
			}
		case unavailable:
			if _, err := v.VerifyRedirect(r); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		case sendsToError:
			if _, err := v.VerifyRedirect(r); err != nil && !strings.Contains(err.Error(), "unavailable") {
				http.Redirect(w, r, "/welcome?error=invalid", http.StatusFound)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func redirectReceiver(t *testing.T, s *signIn, opts *signature.VerifierOptions) receivertest.Receiver {
	t.Helper()
	keys := newKeys(t)
	v := newVerifier(t, keys, "shop.example.com", opts)
	return receivertest.Receiver{Kind: receivertest.KindRedirect, Keys: keys, URL: redirectURL, Handler: s.handler(v), Probe: s.probe()}
}

func TestExamine_RedirectHandler(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"", sessionFirst, sendsToError, locationWithID} {
		bubble(t, variant, func(t *testing.T) {
			var opts *signature.VerifierOptions
			if variant == "" {
				opts = &signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)}
			}
			r := redirectReceiver(t, newSignIn(variant), opts)
			r.Strict = true

			report := examine(t, r)

			wantAllPassed(t, report, 60)
		})
	}
}

func TestExamine_RedirectMistakes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault string
		only  []string // rules, without the probe Effects; nil for all rules
		want  string
	}{
		"any session":             {anySession, nil, "redirect/other-session: acted on a redirect in the session of another user: "},
		"any session, no effects": {anySession, []string{"redirect/other-session"}, "redirect/other-session: accepted a redirect in the session of another user: "},
		"replay":                  {signsInAgain, nil, "redirect/replay: acted again on the check (2 effects): "},
		"503, which is right for unknown keys only": {unavailable, []string{"redirect/zero-signature", "redirect/unpublished-key"}, "redirect/zero-signature: "},
	} {
		bubble(t, name, func(t *testing.T) {
			r := redirectReceiver(t, newSignIn(row.fault), nil)
			if row.only != nil {
				r.Only, r.Probe.Effects = row.only, nil
			}

			report := examine(t, r)

			var failed []string
			for _, f := range report.Failed() {
				failed = append(failed, f.Rule+": "+f.Detail)
			}
			if len(failed) != 1 || !strings.HasPrefix(failed[0], row.want) {
				t.Errorf("failed rules = %q, want %s", failed, row.want)
			}
		})
	}
}

// TestExamine_RedirectWithoutVerifier examines receivers that ignore the signature.
func TestExamine_RedirectWithoutVerifier(t *testing.T) {
	t.Parallel()
	s := newSignIn("")
	unverified := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handle(w, r, &idverify.Redirect{CheckID: r.URL.Query().Get("check_id")})
	})
	r := receivertest.Receiver{
		Kind: receivertest.KindRedirect, Keys: newKeys(t), URL: redirectURL, Handler: unverified, Probe: s.probe(),
		Only: []string{"redirect/no-authorization", "redirect/signed-for-another-customer", "redirect/zero-signature", "redirect/other-check"},
	}

	withSession := examine(t, r)
	r.Probe.Effects = nil
	withoutEffects := examine(t, r)
	r.Probe = receivertest.Probe{}
	s.fault = anySession
	without := examine(t, r)

	if got := failures(withSession); len(withSession.Failed()) != 4 {
		t.Errorf("failed rules = %q, want all four", got)
	}
	wantFinding(t, withSession, "redirect/other-check", receivertest.ResultFail, "acted on a check that the service did not sign")
	wantFinding(t, withoutEffects, "redirect/other-check", receivertest.ResultFail, "accepted a check that the service did not sign")
	if got := failures(without); got != "valid" {
		t.Errorf("failed rules without a probe = %q, want valid", got)
	}
	if f := without.Findings[0]; !strings.Contains(f.Detail, "the receiver verifies nothing, or it requires a session") {
		t.Errorf("detail = %q, want both causes", f.Detail)
	}
}
