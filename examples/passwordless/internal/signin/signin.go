// Package signin signs people in by their phone number, without a password or a text message. A web
// page asks for the number. The device's browser opens the Check URL of a PhoneCheck over the
// mobile data connection and returns through a signed redirect with a code. The backend exchanges
// the code for the result.
//
// These rules make the sign-in secure. Keep them when you copy the package:
//   - The redirect is verified and accepted once: the verifier has a replay store.
//   - The session of this browser must have started the check of the redirect. Otherwise the code
//     is not exchanged, and the session that started the check ends, even if its own browser has
//     opened the redirect URL before.
//   - The browser that opens the redirect URL gets a new session cookie, and only this cookie shows
//     the result.
//   - A callback verifies a session only after its browser has returned, and only for a PhoneCheck.
//
// The package keeps its sessions in memory, for one process. Several processes must share a session
// store and a replay store; see sessions and [Config].
package signin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

// Config configures [New]. All fields except Demo are required.
type Config struct {
	// Client must use version v0.2 of PhoneCheck; see idverify.WithVersions.
	Client *idverify.Client
	// Verifier verifies messages to the host of BaseURL. It must have a replay store, see
	// signature.VerifierOptions. Without one, anyone who learns a redirect URL can use it while its
	// date is valid. Several processes must share the store, for example with package
	// replaystore/redis. Otherwise each process accepts a copy of a redirect once.
	Verifier *signature.Verifier
	// BaseURL is the handler's public URL, for example "https://shop.example.com".
	BaseURL string
	// Log receives no phone numbers, codes or cookies.
	Log *slog.Logger
	// Demo shows the fake's test numbers on the pages.
	Demo bool
}

// New returns the handler of the pages, the redirect URL and the callback URL.
//
// Each POST / creates a check, which is charged in a live project. In production, limit these
// requests by address and by number.
func New(c Config) http.Handler {
	a := &app{Config: c, sessions: newSessions()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.ask)
	mux.HandleFunc("POST /{$}", a.begin)
	mux.HandleFunc("GET /check", a.check)
	mux.HandleFunc("GET /verified", a.redirect)
	mux.Handle("POST /callbacks", idverify.CallbackHandler(c.Verifier, a.callback))
	mux.Handle("GET /static/", http.FileServerFS(static))
	// Other sites must not make their visitors start checks. Callbacks pass, because they lack the
	// headers by which browsers are recognized.
	return http.NewCrossOriginProtection().Handler(mux)
}

type app struct {
	Config
	sessions *sessions
}

// ask shows the form.
func (a *app) ask(w http.ResponseWriter, _ *http.Request) {
	a.render(w, http.StatusOK, page{Title: "Sign in with your phone number", Form: true})
}

// begin creates a check and binds it to the browser's session.
func (a *app) begin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	number, err := idverify.NormalizePhoneNumber(r.PostFormValue("number"))
	if err != nil {
		a.render(w, http.StatusUnprocessableEntity, page{
			Title:  "Sign in with your phone number",
			Form:   true,
			Number: r.PostFormValue("number"),
			Wrong:  "Enter the full number with its country code, for example +44 7700 900 012.",
		})
		return
	}
	check, err := a.Client.PhoneChecks.Create(r.Context(), idverify.PhoneCheckParams{
		PhoneNumber: number,
		RedirectURL: a.BaseURL + "/verified",
		CallbackURL: a.BaseURL + "/callbacks",
	})
	if err != nil {
		a.Log.ErrorContext(r.Context(), "check not created", "error", err)
		a.render(w, http.StatusServiceUnavailable, later)
		return
	}
	http.SetCookie(w, cookie(a.sessions.begin(session{
		checkID:  check.CheckID,
		checkURL: check.CheckURL,
		digits:   number[len(number)-2:],
	})))
	http.Redirect(w, r, "/check", http.StatusSeeOther)
}

// check shows the progress of the session's check.
func (a *app) check(w http.ResponseWriter, r *http.Request) {
	s, ok := a.sessions.of(r)
	if !ok {
		a.render(w, http.StatusForbidden, noSession)
		return
	}
	a.render(w, http.StatusOK, pageOf(s))
}

// redirect handles the device's return from the Check URL.
func (a *app) redirect(w http.ResponseWriter, r *http.Request) {
	redirect, err := a.verifyRedirect(r)
	switch {
	case errors.Is(err, signature.ErrReplay):
		// The redirect is valid but was already accepted, for example because the user reloads the page.
		// A browser with a session sees the state of that session.
		a.sessions.replayed(r, r.URL.Query().Get("check_id"))
		if _, ok := a.sessions.of(r); ok {
			http.Redirect(w, r, "/check", http.StatusSeeOther)
			return
		}
		a.render(w, http.StatusBadRequest, badLink)
		return
	case unavailable(err):
		a.render(w, http.StatusServiceUnavailable, later)
		return
	case err != nil:
		a.render(w, http.StatusBadRequest, badLink)
		return
	}

	newID, own := a.sessions.claim(r, redirect.CheckID)
	if !own {
		a.Log.WarnContext(r.Context(), "redirect rejected: the browser's session did not start the check", "check_id", redirect.CheckID)
		a.render(w, http.StatusForbidden, notYours)
		return
	}
	if newID != "" {
		http.SetCookie(w, cookie(newID))
		a.complete(r.Context(), redirect)
	}
	// Redirect to a URL without the code: the code must not remain in the history, and the user may
	// reload the page.
	http.Redirect(w, r, "/check", http.StatusSeeOther)
}

// verifyRedirect verifies and parses a redirect. It logs failures.
func (a *app) verifyRedirect(r *http.Request) (*idverify.Redirect, error) {
	message, err := a.Verifier.VerifyRedirect(r)
	if err != nil {
		a.Log.WarnContext(r.Context(), "redirect rejected", "error", err)
		return nil, err
	}
	redirect, err := idverify.ParseRedirect(message)
	if err != nil {
		a.Log.ErrorContext(r.Context(), "redirect not parsed", "error", err)
	}
	return redirect, err
}

// unavailable reports whether verification was unavailable. The message may be valid.
func unavailable(err error) bool {
	e, ok := errors.AsType[*signature.Error](err)
	return ok && e.Retryable()
}

// complete exchanges the code of a redirect. If the check or code is not found, the session becomes
// expired. After any other error it stays pending until the callback arrives.
func (a *app) complete(ctx context.Context, redirect *idverify.Redirect) {
	if redirect.ErrorCode != "" {
		a.Log.InfoContext(ctx, "check ended", "check_id", redirect.CheckID, "error_code", redirect.ErrorCode)
		a.sessions.end(redirect.CheckID, failed)
		return
	}
	// The code works once. Complete the exchange even if the browser disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	check, err := a.Client.PhoneChecks.Complete(ctx, redirect.CheckID, redirect.Code)
	unknown := errors.Is(err, idverify.ErrOutcomeUnknown)
	if unknown {
		// This session owns the check and made the only exchange, so it may use the result of a
		// COMPLETED check.
		if read, readErr := a.Client.PhoneChecks.Get(ctx, redirect.CheckID); readErr == nil && read.Status == idverify.StatusCompleted {
			check, err = read, nil
		}
	}
	switch {
	case err == nil:
		a.sessions.end(redirect.CheckID, finalState(check.Match, check.Status))
	case errors.Is(err, idverify.ErrNotFound) && !unknown:
		a.sessions.end(redirect.CheckID, expired)
	default:
		a.Log.ErrorContext(ctx, "check not completed", "check_id", redirect.CheckID, "error", err)
	}
}

// callback records the result of a check. Only a callback reports that a check expired. callback
// ignores checks that have no session, and other products: this package creates only PhoneChecks,
// so a callback of another product belongs to another check, even if the IDs are equal.
func (a *app) callback(ctx context.Context, c *idverify.Callback) error {
	if c.Product != idverify.ProductPhoneCheck {
		a.Log.WarnContext(ctx, "callback of another product ignored", "product", c.Product)
		return nil
	}
	a.sessions.end(c.CheckID, finalState(c.Match, c.Status))
	return nil
}
