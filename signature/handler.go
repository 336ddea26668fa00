package signature

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// retryAfter is the Retry-After of a 503 to a callback, in seconds: the service's own first wait. A
// redirect has none, because its date expires before that.
const retryAfter = "10"

// CallbackHandler returns a handler that passes only verified callbacks on to next, which finds the message by [MessageFromContext] and, as always, in r.Body.
// It responds to an invalid message with 400 and a body that is always the same. It responds to a
// message that cannot be verified now with 503 and Retry-After, and the service sends it again. It
// works behind http.StripPrefix and http.MaxBytesHandler; behind a proxy that changes host or path,
// see VerifierOptions.Target.
//
// VerifierOptions.Logger logs why a message is not passed on.
func (v *Verifier) CallbackHandler(next http.Handler) http.Handler {
	return v.handler(v.VerifyCallback, next)
}

// RedirectHandler is [Verifier.CallbackHandler] for redirects: next gets only verified ones. The
// service does not send a redirect again, so a 503 has no Retry-After: the user can reload the page
// within the clock skew.
func (v *Verifier) RedirectHandler(next http.Handler) http.Handler {
	return v.handler(v.VerifyRedirect, next)
}

// Logger returns that of VerifierOptions, for handlers built on these; it is never nil.
func (v *Verifier) Logger() *slog.Logger { return v.logger }

func (v *Verifier) handler(verify func(*http.Request) (*Message, error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, err := verify(r)
		if err != nil {
			v.logger.LogAttrs(r.Context(), logLevel(r.Context(), err), "signature: message not passed on", slog.String("error", err.Error()))
			respond(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), messageKey{}, m)))
	})
}

// logLevel returns the level for a rejected message: error if the key source or the replay store is
// unavailable, or if middleware has consumed the body; warn for everything else, including a request
// whose context was canceled.
func logLevel(ctx context.Context, err error) slog.Level {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || !e.Retryable() || e.warn:
		return slog.LevelWarn
	case errors.Is(ctx.Err(), context.Canceled): // the sender closed the connection
		return slog.LevelWarn
	}
	return slog.LevelError
}

// respond discloses only whether the message may be sent again. Anything else would help an attacker
// to find out what is still wrong.
func respond(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*Error](err); ok && e.Retryable() {
		if e.Operation == "callback" {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		return
	}
	http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
}

type messageKey struct{}

// MessageFromContext returns the message that [Verifier.CallbackHandler] or [Verifier.RedirectHandler] verified. It reports false outside of them.
func MessageFromContext(ctx context.Context) (*Message, bool) {
	m, ok := ctx.Value(messageKey{}).(*Message)
	return m, ok
}
