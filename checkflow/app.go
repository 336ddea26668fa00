package checkflow

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/idverify/idverify-go/internal/redact"
)

// App binds checks to the sessions of an app, by a token. It is safe for concurrent use.
type App struct{ b *binder }

// AppCheck contains the values with which an app opens a Check URL and exchanges its code. Packages
// fmt and slog print it without the token; its JSON is for the app.
type AppCheck struct {
	CheckID  string `json:"check_id"`
	CheckURL string `json:"check_url"`
	Token    string `json:"token"` // for Exchange
}

// Format implements [fmt.Formatter]. It prints a placeholder for the token.
func (c AppCheck) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), c.redacted())
}

// LogValue implements [slog.LogValuer]. It contains a placeholder for the token.
func (c AppCheck) LogValue() slog.Value { return slog.AnyValue(c.redacted()) }

// redacted returns c without the token and without methods.
func (c AppCheck) redacted() any {
	type appCheck AppCheck
	c.Token = redact.Placeholder
	return appCheck(c)
}

// ExchangeParams contains what the app sends for [App.Exchange]. Packages fmt and slog print it
// without the token and the code.
type ExchangeParams struct {
	Token   string `json:"token"`    // of the session: that of AppCheck
	CheckID string `json:"check_id"` // of AppCheck
	Code    string `json:"code"`     // from the response to the Check URL
}

// Format implements [fmt.Formatter]. It prints placeholders for the token and the code.
func (p ExchangeParams) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), p.redacted())
}

// LogValue implements [slog.LogValuer]. It contains placeholders for the token and the code.
func (p ExchangeParams) LogValue() slog.Value { return slog.AnyValue(p.redacted()) }

// redacted returns p without the token, the code and methods.
func (p ExchangeParams) redacted() any {
	type exchangeParams ExchangeParams
	p.Token, p.Code = redact.Placeholder, redact.Placeholder
	return exchangeParams(p)
}

// minToken is the minimum length of a session's token: that of 64 random bits in hexadecimal.
const minToken = 16

// NewApp returns an App. An error names the field of c to change. The fields for a Web must be
// zero: a check of an app has no redirect URL, so that the app gets the code in the response to the
// Check URL. The project must have none either, unless it is an app link or a universal link, at
// another path than that of a Web. If the link opens in a browser, [Web.Return] revokes the flow.
func NewApp(c Config) (*App, error) {
	b, err := newBinder("app", c)
	switch {
	case err != nil:
		return nil, fmt.Errorf("checkflow: new app: %w", err)
	case c.Verifier != nil || c.RedirectURL != "" || c.StartPage != "":
		return nil, errors.New("checkflow: new app: Config.Verifier, Config.RedirectURL or Config.StartPage is set (leave them zero: they are for NewWeb)")
	}
	return &App{b}, nil
}

// Start creates a check of p.Check.PhoneNumber and binds it to the session with token, the secret
// token of the app's own session. If token is empty, as before a login, the result has a new random
// token. If token has fewer than 16 bytes, the error is [ErrNotAllowed].
//
// Start requires a POST request. It rejects a request that a page of another origin sent: see
// [http.CrossOriginProtection]. Start logs its error. To respond to it, use [StatusCode].
func (a *App) Start(r *http.Request, token string, p StartParams) (*AppCheck, error) {
	token = cmp.Or(token, rand.Text())
	if len(token) < minToken {
		return nil, a.b.notStarted(r, fmt.Errorf("%w: the token is shorter than %d bytes", ErrNotAllowed, minToken))
	}
	check, _, err := a.b.start(r, token, p)
	if err != nil {
		return nil, err
	}
	return &AppCheck{CheckID: check.CheckID, CheckURL: check.CheckURL, Token: token}, nil
}

// Exchange exchanges the code that the app received from the Check URL, for the session with
// p.Token. Only one call for a check has a verdict, and only with the token of its Start. Every
// other call returns a Result with only a Reason. A call with another session's token does not
// change the flow. A wrong code ends the flow.
//
// Exchange rejects requests that Start would reject. Use Result.PhoneNumber: a number in the
// request may be another one.
func (a *App) Exchange(r *http.Request, p ExchangeParams) Result {
	if err := a.b.checkRequest(r); err != nil {
		a.b.log(r.Context(), "checkflow: exchange rejected", "", ReasonInvalid, err)
		return Result{Reason: ReasonInvalid}
	}
	f, reason := a.b.claim(detach(r), "checkflow: exchange rejected", p, false, false)
	if reason != "" {
		return Result{Reason: reason}
	}
	result, _ := a.b.complete(r, f, p.Code, "")
	return result
}
