package idverify

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/verifierlog"
	"github.com/idverify/idverify-go/signature"
)

// Redirect is a request from a device that returns from a Check URL, with a code to exchange or
// with an error. It requires version v0.2.
//
// Before you use it, make sure that CheckID belongs to the session that started the check: anyone
// can open a redirect URL that was created for somebody else.
//
// Packages fmt and slog print it without the code.
type Redirect struct {
	CheckID          string
	Code             string     // for one call of Complete; empty if ErrorCode is set
	ErrorCode        string     // why there is no code, for example ErrorCodeMNOTimeout; the check has ended as ERROR
	ErrorDescription string     // explanation for people; escape it in HTML
	Query            url.Values // all parameters except those of the signature, including those of your redirect URL
}

// Format implements [fmt.Formatter]. It prints placeholders for the code.
func (r Redirect) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), r.redacted())
}

// LogValue implements [slog.LogValuer]. It contains placeholders for the code.
func (r Redirect) LogValue() slog.Value { return slog.AnyValue(r.redacted()) }

// redacted returns r without the code and without methods.
func (r Redirect) redacted() any {
	type redirect Redirect
	if r.Code != "" {
		r.Code = redacted
	}
	r.Query = redact.Query(r.Query)
	return redirect(r)
}

// ParseRedirect decodes a message that [signature.Verifier.VerifyRedirect] returned. It returns an
// error if m is nil, if check_id is missing, or if m does not contain exactly one of code and
// error. [RedirectHandler] verifies and decodes.
func ParseRedirect(m *signature.Message) (*Redirect, error) {
	if m == nil {
		return nil, errors.New("idverify: parse redirect: the message is nil")
	}
	r := &Redirect{
		CheckID:          m.Query.Get("check_id"),
		Code:             m.Query.Get("code"),
		ErrorCode:        m.Query.Get("error"),
		ErrorDescription: m.Query.Get("error_description"),
		Query:            m.Query,
	}
	switch {
	case r.CheckID == "":
		return nil, errors.New("idverify: parse redirect: missing check_id")
	case r.Code == "" && r.ErrorCode == "":
		return nil, errors.New("idverify: parse redirect: missing code and error")
	case r.Code != "" && r.ErrorCode != "":
		return nil, errors.New("idverify: parse redirect: both code and error are present")
	}
	return r, nil
}

// RedirectHandler returns the handler for your redirect URL. It verifies each redirect with v and
// calls handle, which must compare the CheckID of redirect with the check that the session started,
// and respond to the device. If redirect has an ErrorCode, the check has ended without a result.
// Otherwise handle exchanges its Code with [PhoneCheckService.Complete]. To sign in people, use
// package checkflow instead.
//
// It responds with 400 to an invalid redirect and with 503 to one that cannot be verified now. The
// reason is logged to VerifierOptions.Logger. handle may be called concurrently.
func RedirectHandler(v *signature.Verifier, handle func(w http.ResponseWriter, r *http.Request, redirect *Redirect)) http.Handler {
	return v.RequireRedirect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, _ := signature.MessageFromContext(r.Context())
		redirect, err := ParseRedirect(m)
		if err != nil {
			verifierlog.FromContext(r.Context()).WarnContext(r.Context(), "idverify: redirect rejected", slog.String("error", err.Error()))
			http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
			return
		}
		handle(w, r, redirect)
	}))
}
