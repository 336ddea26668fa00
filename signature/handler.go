package signature

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/verifierlog"
)

// retryAfter is the Retry-After header of a 503 response to a callback, in seconds. It equals the
// delay of the service's first retry. Responses to redirects do not have the header, because the
// date of a redirect expires earlier.
const retryAfter = "10"

// RequireCallback returns a handler that calls next only for verified callbacks. In next,
// [MessageFromContext] returns the message, and r.Body can be read again.
//
// The handler responds to an invalid message with 400 and a constant body. It responds to a message
// that cannot be verified now with 503 and Retry-After, and the service retries. The reason is
// logged to VerifierOptions.Logger. It responds with 500 if the verification panics; the panic
// continues.
//
// The handler works behind http.StripPrefix and http.MaxBytesHandler. Behind a proxy that changes
// the host or the path, set VerifierOptions.Target.
func (v *Verifier) RequireCallback(next http.Handler) http.Handler {
	return v.handler(v.VerifyCallback, next)
}

// RequireRedirect is like [Verifier.RequireCallback], for redirects. Its 503 responses have no
// Retry-After, because the service does not retry a redirect. The user can reload the page within
// the clock skew.
func (v *Verifier) RequireRedirect(next http.Handler) http.Handler {
	return v.handler(v.VerifyRedirect, next)
}

func (v *Verifier) handler(verify func(*http.Request) (*Message, error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := v.verified(w, r, verify); m != nil {
			ctx := verifierlog.NewContext(r.Context(), v.logger)
			next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, messageKey{}, m)))
		}
	})
}

// verified returns the message in r. If it is not verified, verified responds and returns nil.
func (v *Verifier) verified(w http.ResponseWriter, r *http.Request, verify func(*http.Request) (*Message, error)) *Message {
	panicked := true
	defer func() {
		if panicked {
			redact.RespondToPanic(w)
		}
	}()

	m, err := verify(r)
	if err != nil {
		v.logRejection(r.Context(), err)
		respond(w, err)
	}
	panicked = false
	return m
}

// logRejection logs why a message is not passed to the next handler.
func (v *Verifier) logRejection(ctx context.Context, err error) {
	var operation, reason string
	if e, ok := errors.AsType[*Error](err); ok {
		operation, reason = e.Operation, e.ReasonName()
	}
	v.logger.LogAttrs(ctx, logLevel(err), "signature: message not verified",
		slog.String("operation", operation),
		slog.String("reason", reason),
		slog.String("error", err.Error()))
}

// logLevel returns error if the key source or the replay store is unavailable, or if middleware has
// consumed the body. It returns warn for everything else, and if err is marked as a warning.
func logLevel(err error) slog.Level {
	if e, ok := errors.AsType[*Error](err); ok && e.Retryable() && !e.warn {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// respond responds with 503 to a message that cannot be verified now, and with 400 to an invalid
// one. It discloses nothing else, because details would help an attacker to forge messages.
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

// MessageFromContext returns the message that [Verifier.RequireCallback] or
// [Verifier.RequireRedirect] verified. It reports false outside these handlers.
func MessageFromContext(ctx context.Context) (*Message, bool) {
	m, ok := ctx.Value(messageKey{}).(*Message)
	return m, ok
}
