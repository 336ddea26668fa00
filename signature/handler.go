package signature

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// retryAfter is what a 503 advises, in seconds: the service's own first wait.
const retryAfter = "10"

// CallbackHandler returns a handler that passes only verified callbacks on to next, which finds the message by [MessageFromContext] and, as always, in r.Body.
// A bad message gets 400 with a body that is always the same; one that cannot be judged now gets 503 with Retry-After, upon which the service tries again. It works behind http.StripPrefix and http.MaxBytesHandler; behind a proxy that changes host or path, see VerifierOptions.Target.
//
// Why a message is not passed on stands in the log of VerifierOptions.Logger.
func (v *Verifier) CallbackHandler(next http.Handler) http.Handler {
	return v.handler(v.VerifyCallback, next)
}

// RedirectHandler is [Verifier.CallbackHandler] for redirects: next gets only verified ones. A device that gets 503 may be reloaded by its user.
func (v *Verifier) RedirectHandler(next http.Handler) http.Handler {
	return v.handler(v.VerifyRedirect, next)
}

// Logger returns that of VerifierOptions, for handlers built on these; it is never nil.
func (v *Verifier) Logger() *slog.Logger { return v.logger }

func (v *Verifier) handler(verify func(*http.Request) (*Message, error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, err := verify(r)
		if err != nil {
			v.logger.LogAttrs(r.Context(), severity(r.Context(), err), "signature: message not passed on", slog.String("error", err.Error()))
			answer(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), messageKey{}, m)))
	})
}

// severity is the level at which a rejected message is logged: error if the key source or the
// replay store is unavailable or the receiver is set up wrongly, warn for everything that a sender
// can cause.
func severity(ctx context.Context, err error) slog.Level {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || !e.Undecided() || e.routine:
		return slog.LevelWarn
	case errors.Is(ctx.Err(), context.Canceled): // the sender closed the connection
		return slog.LevelWarn
	}
	return slog.LevelError
}

// answer tells the sender nothing but whether it is worth trying again: anything more would help an attacker to find out what is still wrong.
func answer(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*Error](err); ok && e.Undecided() {
		w.Header().Set("Retry-After", retryAfter)
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
