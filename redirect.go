package idverify

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/idverify/idverify-go/signature"
)

// Redirect is a device that comes back from a Check URL (specification, section 5.3; version v0.2): with a code to exchange, or with what went wrong.
//
// Make sure that CheckID is of the session that began the check before you trust it: anybody can open a redirect URL that was made for somebody else.
type Redirect struct {
	CheckID          string
	Code             string     // for [PhoneCheckService.Complete] or [SubscriberCheckService.Complete], once; empty when ErrorCode is not
	ErrorCode        string     // why there is no code, for example "mno_timeout": the check has ended as ERROR
	ErrorDescription string     // for people; it came from the service, but escape it like any text
	Query            url.Values // all parameters but the signature's, those of your own redirect URL among them
}

// ParseRedirect reads a verified redirect: what [signature.Verifier.VerifyRedirect] returns. [RedirectHandler] does both.
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

// RedirectHandler returns the handler for your redirect URL: it verifies each redirect with v and passes it to handle, which answers the device: it compares r.CheckID with the session, exchanges r.Code, and shows a page.
// A redirect that does not verify is answered 400, one that cannot be verified now 503; the reason is logged to VerifierOptions.Logger. handle is called concurrently.
//
// Specification: section 5.3, "Redirect signature".
func RedirectHandler(v *signature.Verifier, handle func(http.ResponseWriter, *http.Request, *Redirect)) http.Handler {
	return v.RedirectHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, _ := signature.MessageFromContext(r.Context())
		redirect, err := ParseRedirect(m)
		if err != nil {
			v.Logger().WarnContext(r.Context(), "idverify: redirect rejected", slog.String("error", err.Error()))
			http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
			return
		}
		handle(w, r, redirect)
	}))
}
