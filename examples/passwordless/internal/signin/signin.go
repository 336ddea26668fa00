// Package signin signs people in by their phone number, without a password and without a text message: a web page asks for the number, the device's browser opens the Check URL of a PhoneCheck over the mobile data connection,
// and comes back by a signed redirect with a code, which the backend exchanges for the result.
//
// What makes it safe: the redirect is verified, its check must be the one that this browser's session began, and only then is its code exchanged. A callback verifies nobody whose browser did not come back so.
// So a redirect that was made for somebody else, or that somebody was tricked into opening, leads nowhere.
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

// Config is what [New] needs. All fields but Demo must be set.
type Config struct {
	Client   *idverify.Client    // with version v0.2 of PhoneCheck, see idverify.WithVersions
	Verifier *signature.Verifier // for the host of BaseURL
	BaseURL  string              // where browsers and the service reach the handler, for example "https://shop.example.com"
	Log      *slog.Logger        // gets no phone number, no code and no cookie
	Demo     bool                // tell people which numbers to try
}

// New returns the handler of the pages, the redirect URL and the callback URL.
//
// Each POST / creates a check, which costs money on a live project: in production put a limit on them in front, by address and by number.
func New(c Config) http.Handler {
	a := &app{Config: c, sessions: newSessions()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.ask)
	mux.HandleFunc("POST /{$}", a.begin)
	mux.HandleFunc("GET /check", a.check)
	mux.HandleFunc("GET /verified", a.redirect)
	mux.Handle("POST /callbacks", idverify.CallbackHandler(c.Verifier, a.callback))
	mux.Handle("GET /static/", http.FileServerFS(static))
	// Other sites cannot have their visitors begin checks. The service is no browser and passes.
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

// begin creates the check and binds it to the browser.
func (a *app) begin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	number, err := idverify.NormalizePhoneNumber(r.PostFormValue("number"))
	if err != nil {
		a.render(w, http.StatusUnprocessableEntity, page{
			Title:  "Sign in with your phone number",
			Form:   true,
			Number: r.PostFormValue("number"),
			Wrong:  "Enter the whole number with its country code, for example +44 7700 900 012.",
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

// check shows how far the check of this browser's session is.
func (a *app) check(w http.ResponseWriter, r *http.Request) {
	s, ok := a.sessions.of(r)
	if !ok {
		a.render(w, http.StatusForbidden, noSession)
		return
	}
	a.render(w, http.StatusOK, pageOf(s))
}

// redirect takes the device back from the Check URL.
func (a *app) redirect(w http.ResponseWriter, r *http.Request) {
	message, err := a.Verifier.VerifyRedirect(r)
	if err != nil {
		a.Log.WarnContext(r.Context(), "redirect not accepted", "error", err)
		if e, ok := errors.AsType[*signature.Error](err); ok && e.Undecided() {
			a.render(w, http.StatusServiceUnavailable, later)
			return
		}
		a.render(w, http.StatusBadRequest, badLink)
		return
	}
	came, err := idverify.ParseRedirect(message)
	if err != nil {
		a.Log.ErrorContext(r.Context(), "redirect not read", "error", err)
		a.render(w, http.StatusBadRequest, badLink)
		return
	}

	own, first := a.sessions.claim(r, came.CheckID)
	if !own {
		a.Log.WarnContext(r.Context(), "redirect of another session", "check_id", came.CheckID)
		a.render(w, http.StatusForbidden, notYours)
		return
	}
	if first {
		a.complete(r.Context(), came)
	}
	// On to a URL without the code: nothing to leak from the history, and nothing to break by reloading.
	http.Redirect(w, r, "/check", http.StatusSeeOther)
}

// complete exchanges the code that the device brought. When no answer is had the session stays pending, and the callback tells the result.
func (a *app) complete(ctx context.Context, came *idverify.Redirect) {
	if came.ErrorCode != "" {
		a.Log.InfoContext(ctx, "check ended", "check_id", came.CheckID, "error_code", came.ErrorCode)
		a.sessions.end(came.CheckID, failed)
		return
	}
	// The code works once: a browser that gives up now must not cost the result.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	check, err := a.Client.PhoneChecks.Complete(ctx, came.CheckID, came.Code)
	switch {
	case err == nil:
		a.sessions.end(came.CheckID, outcome(check.Status, check.Match))
	case errors.Is(err, idverify.ErrNotFound):
		a.sessions.end(came.CheckID, expired)
	default:
		a.Log.ErrorContext(ctx, "check not completed", "check_id", came.CheckID, "error", err)
	}
}

// callback records the end of a check, which for an expired one is told nowhere else. It finds the session by its check, so one about a check that was not begun here changes nothing; and it verifies nobody whose browser did not come back, see end.
func (a *app) callback(_ context.Context, c *idverify.Callback) error {
	a.sessions.end(c.CheckID, outcome(c.Status, c.Match))
	return nil
}
