package checkflow_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// TestWeb_SignIn is the sign-in without an attack.
func TestWeb_SignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser()

	b.open(b.start("+44 7700 900-012"))

	b.wantUser(t, "the person", victims)
	if b.cookie() != "" {
		t.Error("the flow cookie was not deleted")
	}
	got := s.wantResult(t, checkflow.Result{Verdict: idverify.VerdictYes})
	want := checkflow.Result{Verdict: idverify.VerdictYes, CheckID: got.CheckID, PhoneNumber: victims, Data: "order 17"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// TestWeb_OtherBrowserFirst: a browser without the cookie opens the redirect URL before the owner
// does. The attacker owns the flow and has sent the victim the Check URL, or the victim owns it and
// the attacker has learned the Check URL or the redirect URL.
func TestWeb_OtherBrowserFirst(t *testing.T) {
	t.Parallel()
	for _, opensCheckURL := range []bool{true, false} {
		s := newSite(t)
		owner, other := s.browser(), s.browser()
		device := owner
		if opensCheckURL {
			device = other
		}
		redirect := device.redirectOf(owner.start(victims))

		other.open(redirect).wantReason(t, checkflow.ReasonOtherSession)
		owner.open(redirect).wantReason(t, checkflow.ReasonRevoked)

		other.wantUser(t, "the other person", "")
		owner.wantUser(t, "the owner", "")
		if n := s.calls("phone_check.complete"); n != 0 {
			t.Errorf("%d exchanges, want 0", n)
		}
		owner.open(owner.start(victims))
		owner.wantUser(t, "the owner, after a new start", victims)
	}
}

// TestWeb_RedirectOpenedDuring: the attacker owns the flow of the victim's number, and the victim's
// browser opens the redirect URL while the code is exchanged. To a verifier with a replay store,
// its redirect is a copy.
func TestWeb_RedirectOpenedDuring(t *testing.T) {
	t.Parallel()
	for _, replayStore := range []bool{false, true} {
		s := newSite(t)
		if replayStore {
			s.useVerifier(&signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)})
		}
		victim, attacker := s.browser(), s.browser()
		redirect := victim.redirectOf(attacker.start(victims))
		var once sync.Once
		s.store.setHook("finish", func() error {
			once.Do(func() { victim.open(redirect).wantReason(t, checkflow.ReasonOtherSession) })
			return nil
		})

		attacker.open(redirect).wantReason(t, checkflow.ReasonRevoked)

		attacker.wantUser(t, "the attacker", "")
		if n := len(s.reported()); n != 0 {
			t.Errorf("%d results, want 0", n)
		}
	}
}

// TestWeb_RedirectOpenedAfter: another browser opens a copy of the redirect URL after the right
// one, and the owner reloads it, or goes back.
func TestWeb_RedirectOpenedAfter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	victim, attacker := s.browser(), s.browser()
	redirect := victim.redirectOf(victim.start(victims))
	cookie := victim.cookie()
	victim.open(redirect)

	attacker.open(redirect).wantReason(t, checkflow.ReasonRepeated)
	victim.open(redirect).wantReason(t, checkflow.ReasonRepeated)
	victim.setCookie(cookie) // the first response was lost
	victim.open(redirect).wantReason(t, checkflow.ReasonRepeated)

	attacker.wantUser(t, "the attacker", "")
	victim.wantUser(t, "the victim", victims)
	if n := len(s.reported()); n != 1 {
		t.Errorf("%d results, want 1", n)
	}
	if log := s.log.String(); strings.Count(log, "reason=repeated check_id=") != 3 {
		t.Errorf("log = %q, want three records with reason=repeated and the check", log)
	}
}

// TestWeb_PlantedCookie: the attacker starts with the victim's number and plants the cookie in the
// victim's browser, so that the victim completes the attacker's flow.
func TestWeb_PlantedCookie(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	victim, attacker := s.browser(), s.browser()
	checkURL := attacker.start(victims)
	planted := attacker.cookie()
	victim.setCookie(planted)

	redirect := victim.redirectOf(checkURL)
	victim.open(redirect)

	victim.wantUser(t, "the victim", victims)
	attacker.open(redirect).wantReason(t, checkflow.ReasonRepeated)
	attacker.wantUser(t, "the attacker, who knows the cookie", "")
	if victim.cookie() != "" {
		t.Error("the victim's browser keeps the planted cookie")
	}
}

// TestWeb_PlantedCookieAtStart: the attacker plants a cookie before the victim starts.
func TestWeb_PlantedCookieAtStart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	victim, attacker := s.browser(), s.browser()
	attacker.start(attackers)
	victim.setCookie(attacker.cookie())

	redirect := victim.redirectOf(victim.start(victims))

	if victim.cookie() == attacker.cookie() {
		t.Error("the flow uses the planted cookie, want a new one")
	}
	attacker.open(redirect).wantReason(t, checkflow.ReasonOtherSession)
	attacker.wantUser(t, "the attacker", "")
}

// TestWeb_StolenCookie: the attacker knows the victim's cookie, but not the redirect URL.
func TestWeb_StolenCookie(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	victim, attacker := s.browser(), s.browser()
	redirect := victim.redirectOf(victim.start(victims))
	own := attacker.redirectOf(attacker.start(attackers))
	attacker.setCookie(victim.cookie())

	attacker.open(own).wantReason(t, checkflow.ReasonOtherSession)
	forged := attacker.open(strings.Replace(own, parameter(t, own, "check_id"), parameter(t, redirect, "check_id"), 1))

	if forged.status != http.StatusBadRequest {
		t.Errorf("forged redirect: status %d, want 400", forged.status)
	}
	attacker.wantUser(t, "the attacker", "")
	victim.open(redirect)
	victim.wantUser(t, "the victim", victims)
}

// TestWeb_TwoTabs checks that the last start of a browser counts, whichever tab returns first.
func TestWeb_TwoTabs(t *testing.T) {
	t.Parallel()
	for _, firstReturnsFirst := range []bool{true, false} {
		s := newSite(t)
		b := s.browser()
		first := b.redirectOf(b.start(attackers))
		second := b.redirectOf(b.start(victims))

		if firstReturnsFirst {
			b.open(first).wantReason(t, checkflow.ReasonOtherSession)
			b.open(second)
		} else {
			b.open(second)
			b.open(first).wantReason(t, checkflow.ReasonOtherSession)
		}

		b.wantUser(t, "the person", victims)
		if n := len(s.reported()); n != 1 {
			t.Errorf("%d results, want 1", n)
		}
	}
}

// TestWeb_OtherChecks opens valid redirects of checks that the site has not started for this
// browser.
func TestWeb_OtherChecks(t *testing.T) {
	t.Parallel()
	versions := idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"})
	for name, create := range map[string]func(*testing.T, *site) string{
		"of another product": func(t *testing.T, s *site) string {
			return must(s.service.Client(versions).SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: attackers, RedirectURL: s.url + "/return"}))(t).CheckURL
		},
		"of another project": func(t *testing.T, s *site) string {
			project := s.service.NewWorkspace("attacker").NewProject(idverify.ProjectParams{Name: "attacker", Mode: idverify.ModeSandbox})
			return must(project.Client(versions).PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: attackers, RedirectURL: s.url + "/return"}))(t).CheckURL
		},
		"of another session": func(_ *testing.T, s *site) string { return s.browser().start(attackers) },
		"without a session": func(t *testing.T, s *site) string {
			return must(s.service.Client(versions).PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: attackers, RedirectURL: s.url + "/return"}))(t).CheckURL
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.browser()
			own := b.start(victims)

			reason := checkflow.ReasonNotFound
			if name == "of another session" {
				reason = checkflow.ReasonOtherSession
			}
			b.open(create(t, s)).wantReason(t, reason)

			b.wantUser(t, "the person", "")
			b.open(own)
			b.wantUser(t, "the person, whose own check goes on", victims)
		})
	}
}

// TestWeb_InvalidRedirects checks that an invalid redirect does not reach the store, and leads to
// the start page.
func TestWeb_InvalidRedirects(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*site, string) string{
		"other code": func(_ *site, redirect string) string { return strings.Replace(redirect, "code=", "code=x", 1) },
		"no signature": func(_ *site, redirect string) string {
			before, _, _ := strings.Cut(redirect, "&authorization=")
			return before
		},
		"second code": func(_ *site, redirect string) string { return redirect + "&code=x" },
		"other key": func(s *site, _ string) string {
			s.service.Inject(sandboxfake.Match{Operation: "phone_check.open"}, sandboxfake.Fault{WrongKey: true})
			b := s.browser()
			return b.redirectOf(b.start(victims))
		},
		"too old": func(s *site, redirect string) string {
			noError(s.t, s.service.Advance(s.t.Context(), 6*time.Second))
			return redirect
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			owner, other := s.browser(), s.browser()
			redirect := owner.redirectOf(owner.start(victims))

			for _, b := range []*browser{other, owner} {
				p := b.open(change(s, redirect))
				if p.status != http.StatusBadRequest || p.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(p.body, `url=/?reason=invalid"`) {
					t.Errorf("response = %d %v %q, want 400 and an HTML page with a link to the start page", p.status, p.header, p.body)
				}
			}

			if n := s.store.count("claim"); n != 0 {
				t.Errorf("%d claims, want 0", n)
			}
			if name != "too old" {
				owner.open(redirect)
				owner.wantUser(t, "the person, with the right redirect", victims)
			}
		})
	}
}

// TestWeb_InvalidCode returns with signed redirects whose code cannot be sent to the service.
func TestWeb_InvalidCode(t *testing.T) {
	t.Parallel()
	key := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	signer := must(signature.NewSigner("k1", key, nil))(t)
	verifier := must(signature.NewVerifier(signature.StaticKeys{"k1": &key.PublicKey}, []string{host}, &signature.VerifierOptions{ClockSkew: time.Hour}))(t)
	s := newSite(t, func(c *checkflow.Config) { c.Verifier = verifier })
	b := s.browser()
	segments := strings.Split(b.start(victims), "/")

	for _, code := range []string{strings.Repeat("c", 1025), "c d", "\u00e9"} {
		u := s.base()
		u.Path, u.RawQuery = "/return", url.Values{"check_id": {segments[len(segments)-2]}, "code": {code}}.Encode()
		noError(t, signer.SignRedirect(u))
		b.open(u.String()).wantReason(t, checkflow.ReasonCodeRejected)
	}

	if n := s.store.count("claim"); n != 0 || b.cookie() == "" {
		t.Errorf("%d claims and cookie %q, want 0 and the cookie of the flow, which goes on", n, b.cookie())
	}
}

// TestWeb_Prefetch: a page of the attacker makes the victim's browser load the Check URL in
// advance. The attacker reads the redirect URL, for example in a log, and opens it. The same header
// changes nothing for the browser that started the check.
func TestWeb_Prefetch(t *testing.T) {
	t.Parallel()
	for _, purpose := range []string{"prefetch", "prefetch;prerender", "prefetch;anonymous-client-ip"} {
		s := newSite(t)
		attacker, victim := s.browser(), s.browser()
		redirect := victim.redirectOf(attacker.start(victims))

		victim.send(t.Context(), true, http.MethodGet, redirect, "", http.Header{"Sec-Purpose": {purpose}}).wantReason(t, checkflow.ReasonOtherSession)
		attacker.open(redirect).wantReason(t, checkflow.ReasonRevoked)
		attacker.wantUser(t, "the attacker", "")

		victim.send(t.Context(), true, http.MethodGet, victim.redirectOf(victim.start(victims)), "", http.Header{"Sec-Purpose": {purpose}})
		victim.wantUser(t, "the victim, after an own start", victims)
	}
}

// TestWeb_OtherMethodFirst: a page of the attacker makes the victim's browser open the Check URL
// with HEAD, or send a CORS preflight, so that the browser sends no GET to Return. As in
// TestWeb_Prefetch, the attacker reads the redirect URL.
func TestWeb_OtherMethodFirst(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodPost} {
		s := newSite(t)
		attacker, victim := s.browser(), s.browser()
		redirect := victim.redirectOf(attacker.start(victims))

		victim.send(t.Context(), true, method, redirect, "", nil)
		attacker.open(redirect).wantReason(t, checkflow.ReasonRevoked)

		attacker.wantUser(t, "the attacker, after "+method, "")
	}
}

// TestWeb_RejectsStarts sends requests that must not cause a check.
func TestWeb_RejectsStarts(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *checkflow.Config) {
		c.Allow = func(_ *http.Request, number string) error {
			if number == attackers {
				return fmt.Errorf("%w: alice@shop.sandbox.test has no checks left", checkflow.ErrNotAllowed)
			}
			return nil
		}
	})
	b := s.browser()

	for name, p := range map[string]page{
		"page of another site":   b.post(victims, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://attacker.sandbox.test"}}),
		"page of a sister site":  b.post(victims, http.Header{"Sec-Fetch-Site": {"same-site"}}),
		"old browser":            b.post(victims, http.Header{"Sec-Fetch-Site": {""}, "Origin": {"https://attacker.sandbox.test"}}),
		"GET":                    b.open(s.url + "/start?number=" + victims),
		"rejected by the option": b.post("+44 7700 900-014", nil),
	} {
		if p.status != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", name, p.status)
		}
	}
	if p := b.post("12", nil); p.status != http.StatusUnprocessableEntity {
		t.Errorf("malformed number: status %d, want 422", p.status)
	}
	if n, reached := s.calls("phone_check.create"), s.store.count("available"); n != 0 || reached != 0 || b.cookie() != "" {
		t.Errorf("%d checks, %d calls of the store and cookie %q, want none", n, reached, b.cookie())
	}
	if log := s.log.String(); strings.Count(log, "not allowed: rejected by Config.Allow") != 1 || strings.Contains(log, "alice") || strings.Contains(log, "level=ERROR") || strings.Count(log, "level=WARN ") != 6 {
		t.Errorf("log = %q, want 6 records at level warn, one of them that Allow rejected the check, without the text of its error", log)
	}
}

// TestWeb_AllowFails checks that a limiter that fails does not look like a rejected person.
func TestWeb_AllowFails(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err   error
		level string
	}{
		{errors.New("alice@shop.sandbox.test: connection refused"), "ERROR"},
		{idverify.ErrNotMobileIP, "ERROR"},                                    // a reason for 422, but not from the service
		{fmt.Errorf("alice@shop.sandbox.test: %w", context.Canceled), "WARN"}, // the browser disconnected
	} {
		s := newSite(t, func(c *checkflow.Config) { c.Allow = func(*http.Request, string) error { return row.err } })

		_, err := s.startOf(t, victims)

		if text := "checkflow: start: Config.Allow failed (log its error in Allow)"; err == nil || err.Error() != text {
			t.Errorf("error = %v, want %s", err, text)
		}
		if !errors.Is(err, row.err) || checkflow.StatusCode(err) != http.StatusServiceUnavailable || s.calls("phone_check.create") != 0 {
			t.Errorf("error = %v, status %d, %d checks; want one that matches %v, 503 and 0", err, checkflow.StatusCode(err), s.calls("phone_check.create"), row.err)
		}
		if log := s.log.String(); strings.Contains(log+err.Error(), "alice") || !strings.Contains(log, "level="+row.level+" ") {
			t.Errorf("error %q, log %q; want level %s without the text of the error of Allow", err, log, row.level)
		}
	}
}

// TestWeb_OtherRedirectURL returns to a Web with another redirect URL and the same store.
func TestWeb_OtherRedirectURL(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser()
	redirect := b.redirectOf(b.start(victims))
	s.config.RedirectURL += "?purpose=attach"
	s.restart()

	b.open(redirect).wantReason(t, checkflow.ReasonOtherSession)

	b.wantUser(t, "the person", "")
}

// TestWeb_OtherNumber creates a check of another number than Start got, and reports its number or
// none.
func TestWeb_OtherNumber(t *testing.T) {
	t.Parallel()
	for name, reported := range map[string]func(string) string{
		"at the start":    func(number string) string { return number },
		"at the exchange": func(string) string { return "" },
		"never":           func(string) string { return "+" + victims },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(c *checkflow.Config) {
				c.Create = func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
					if name != "never" {
						p.PhoneNumber = attackers
					}
					check, err := client.PhoneChecks.Create(ctx, p)
					if err == nil {
						check.PhoneNumber = reported(check.PhoneNumber)
					}
					return check, err
				}
			})
			b := s.browser()

			p := b.post(victims, nil)

			want := ""
			switch name {
			case "at the start":
				if p.status != http.StatusServiceUnavailable || b.cookie() != "" || !strings.Contains(s.log.String(), "level=ERROR") {
					t.Errorf("status %d, cookie %q, log %q; want 503, none, and level error", p.status, b.cookie(), s.log.String())
				}
			case "at the exchange":
				b.open(p.location).wantReason(t, checkflow.ReasonUnavailable)
			default:
				b.open(p.location)
				want = victims
			}
			b.wantUser(t, "the person", want)
			if strings.Contains(s.log.String(), attackers) {
				t.Errorf("log = %q, which contains a number", s.log.String())
			}
		})
	}
}

// TestWeb_RejectsMethods checks that another method does not change the flow of its owner.
func TestWeb_RejectsMethods(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser()
	redirect := b.redirectOf(b.start(victims))

	for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodOptions} {
		if p := b.send(t.Context(), true, method, redirect, "", nil); p.status != http.StatusMethodNotAllowed || p.header.Get("Allow") != "GET" {
			t.Errorf("%s: status %d, Allow %q, want 405 and GET", method, p.status, p.header.Get("Allow"))
		}
	}
	b.open(redirect)
	b.wantUser(t, "the person", victims)
}

// TestWeb_AccountChanged: an account starts a check, and another one is signed in at the return.
func TestWeb_AccountChanged(t *testing.T) {
	t.Parallel()
	for now, want := range map[string]checkflow.Result{
		"alice":   {Verdict: idverify.VerdictYes},
		"mallory": {Reason: checkflow.ReasonAccountChanged},
		"":        {Reason: checkflow.ReasonAccountChanged},
	} {
		t.Run(now, func(t *testing.T) {
			t.Parallel()
			var account atomic.Value
			account.Store("alice")
			s := newSite(t, func(c *checkflow.Config) { c.Account = func(*http.Request) string { return account.Load().(string) } })
			b := s.browser()
			redirect := b.redirectOf(b.start(victims))
			account.Store(now)

			b.open(redirect)

			if got := s.wantResult(t, want); got.Account != "alice" {
				t.Errorf("Result.Account = %q, want the account that started", got.Account)
			}
			if n := s.calls("phone_check.complete"); now != "alice" && n != 0 {
				t.Errorf("%d exchanges, want 0: the account is compared before", n)
			}
		})
	}
}

func TestWeb_StartNeedsAccount(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]int{0: http.StatusForbidden, 1: http.StatusSeeOther, 256: http.StatusSeeOther, 257: http.StatusForbidden} {
		s := newSite(t, func(c *checkflow.Config) {
			c.Account = func(*http.Request) string { return strings.Repeat("a", length) }
		})

		if p := s.browser().post(victims, nil); p.status != want || (s.calls("phone_check.create") == 0) != (want == http.StatusForbidden) {
			t.Errorf("account of %d bytes: status %d and %d checks, want %d", length, p.status, s.calls("phone_check.create"), want)
		}
	}
}

// TestWeb_Callbacks: the result of a check arrives by callback before, after or instead of the
// return. It signs nobody in.
func TestWeb_Callbacks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		end     func(*testing.T, *site, string) // ends the check before the return
		verdict idverify.Verdict
		reason  checkflow.Reason
		user    string
	}{
		"after": {func(*testing.T, *site, string) {}, idverify.VerdictYes, "", victims},
		"before, with a match": {func(t *testing.T, s *site, redirect string) {
			client := s.service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
			must(client.PhoneChecks.Complete(t.Context(), parameter(t, redirect, "check_id"), parameter(t, redirect, "code")))(t)
		}, idverify.VerdictUnknown, checkflow.ReasonCodeRejected, ""},
		"before, without a result": {func(t *testing.T, s *site, redirect string) {
			s.service.Expire(parameter(t, redirect, "check_id"))
		}, idverify.VerdictUnknown, checkflow.ReasonCodeRejected, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var callbacks atomic.Int32
			service := newService(t)
			service.Handle("callbacks.sandbox.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { callbacks.Add(1) }))
			s := newSiteOf(t, service, func(c *checkflow.Config) { c.CallbackURL = "https://callbacks.sandbox.test/" })
			owner, other := s.browser(), s.browser()
			redirect := owner.redirectOf(owner.start(victims))
			row.end(t, s, redirect)
			noError(t, service.WaitIdle(t.Context()))
			owner.wantUser(t, "the person before the return", "")

			owner.open(redirect)
			noError(t, service.WaitIdle(t.Context()))

			owner.wantUser(t, "the person", row.user)
			other.wantUser(t, "another person", "")
			s.wantResult(t, checkflow.Result{Verdict: row.verdict, Reason: row.reason})
			if n := callbacks.Load(); n != 1 {
				t.Errorf("%d callbacks, want 1", n)
			}
		})
	}
}

// TestWeb_TwoProcesses returns to two processes at once, with the same session.
func TestWeb_TwoProcesses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	second := must(checkflow.NewWeb(s.config))(t)
	first := s.handler()
	var n atomic.Int32
	s.service.Handle(host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/return" && n.Add(1)%2 == 0 {
			second.Return(s.report).ServeHTTP(w, r)
			return
		}
		first.ServeHTTP(w, r)
	}))
	b := s.browser()
	redirect := b.redirectOf(b.start(victims))

	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { b.open(redirect) })
	}
	wg.Wait()

	if n, exchanges := len(s.reported()), s.calls("phone_check.complete"); n != 1 || exchanges != 1 {
		t.Errorf("%d results and %d exchanges, want 1 and 1", n, exchanges)
	}
}
