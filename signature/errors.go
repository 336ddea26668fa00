package signature

import (
	"errors"
	"strings"

	"github.com/idverify/idverify-go/internal/redact"
)

// Reasons for rejecting a message: respond with 400. Error.Reason is one of these errors or one of
// the retryable errors below.
var (
	// ErrMalformed means that the method, the request target, the query, the Authorization header or
	// parameter, the date or a covered header is invalid.
	ErrMalformed = errors.New("malformed message")

	// ErrAlgorithm means that the algorithm is not rsa-sha256, or that the key is not an RSA key of
	// 2048 to 4096 bits.
	ErrAlgorithm = errors.New("algorithm not allowed")

	// ErrCoverage means that the signature does not cover a required part of the message, or covers a
	// name twice or an unsupported special name. It also means that a covered or required header does
	// not occur exactly once.
	ErrCoverage = errors.New("insufficient coverage")

	// ErrSkew means that the date differs from the clock by more than VerifierOptions.ClockSkew. The
	// message is old, or one of the clocks is wrong.
	ErrSkew = errors.New("date outside the allowed skew")

	// ErrHost means that the message was sent to a host that was not given to NewVerifier, or that
	// its request target contains another host.
	ErrHost = errors.New("host not allowed")

	// ErrUnknownKey means that the key source has no usable key with this ID.
	ErrUnknownKey = errors.New("unknown key")

	// ErrSignature means that the message was forged or changed in transit.
	ErrSignature = errors.New("signature does not verify")

	// ErrDigest means that the body does not match the signed digest, or that the digest is not a
	// valid SHA-256 digest.
	ErrDigest = errors.New("digest does not match")

	// ErrReplay means that the same message was accepted before.
	ErrReplay = errors.New("message replayed")

	// ErrTooLarge means that the body is larger than VerifierOptions.MaxBody or a limit that
	// middleware set with http.MaxBytesReader.
	ErrTooLarge = errors.New("message too large")
)

// Reasons why a message cannot be verified now. The message may be valid: respond with 503, so that
// the service retries, and not with 400.
var (
	// ErrKeySource means that the key could not be looked up now, so it is unknown whether it exists.
	// The key source failed, or a [JWKS] has not fetched the key set again yet.
	ErrKeySource = errors.New("key source unavailable")

	// ErrReplayStore means that the replay store failed or is full.
	ErrReplayStore = errors.New("replay store unavailable")

	// ErrBody means that the signature is valid, but the body could not be read completely, or
	// middleware had already read it.
	ErrBody = errors.New("body incomplete")

	// ErrTooLate means that the date expired while the key or the body was being read.
	ErrTooLate = errors.New("message verified too late")
)

// reasonNames contains the names of the reasons, for logs and metrics.
var reasonNames = []struct {
	reason error
	name   string
}{
	{ErrMalformed, "ErrMalformed"},
	{ErrAlgorithm, "ErrAlgorithm"},
	{ErrCoverage, "ErrCoverage"},
	{ErrSkew, "ErrSkew"},
	{ErrHost, "ErrHost"},
	{ErrUnknownKey, "ErrUnknownKey"},
	{ErrSignature, "ErrSignature"},
	{ErrDigest, "ErrDigest"},
	{ErrReplay, "ErrReplay"},
	{ErrTooLarge, "ErrTooLarge"},
	{ErrKeySource, "ErrKeySource"},
	{ErrReplayStore, "ErrReplayStore"},
	{ErrBody, "ErrBody"},
	{ErrTooLate, "ErrTooLate"},
}

// Error is the type of all verification errors. By errors.Is and errors.As, it matches its Reason
// and the underlying error, if any, for example context.Canceled or *net.OpError.
//
// The text and the texts of the errors that it wraps are meant for logs and contain no part of the
// message. Do not include them in a response: the sender may be an attacker.
type Error struct {
	Operation string // "callback" or "redirect"; "key.lookup", "key_set.refresh", "replay.claim", "sign.callback" or "sign.redirect" after a direct call to a key source, store or signer
	Reason    error  // one of the errors above

	detail string
	cause  error
	warn   bool // see asWarning
}

// Error returns the operation and what went wrong, for example
// "signature: callback rejected: digest does not match the body".
func (e *Error) Error() string {
	text := "signature: " + strings.NewReplacer(".", " ", "_", " ").Replace(e.Operation)
	switch {
	case e.Operation == refreshOperation: // the old key set may still be usable
		return text + ": " + e.detail
	case e.Retryable():
		return text + ": verification unavailable: " + e.detail + e.hint()
	case e.Operation == "callback" || e.Operation == "redirect":
		return text + " rejected: " + e.detail
	}
	return text + ": " + e.detail
}

// hint returns advice for a retryable error.
func (e *Error) hint() string {
	switch e.Operation {
	case "callback":
		return " (respond with 503: the service retries)"
	case "redirect":
		return " (respond with 503: the service does not retry a redirect; the user can reload the page within the clock skew, or start over)"
	}
	return ""
}

// Unwrap returns Reason and the underlying error, if any, in redacted form.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.cause}
}

// ReasonName returns the name of Reason for a log or a metric, such as "ErrHost". It is empty if
// Reason is not one of the errors above.
func (e *Error) ReasonName() string {
	for _, row := range reasonNames {
		if row.reason == e.Reason {
			return row.name
		}
	}
	return ""
}

// Retryable reports whether the message may be valid but cannot be verified now. Respond with 503
// if so, and with 400 otherwise.
func (e *Error) Retryable() bool {
	return e.Reason == ErrKeySource || e.Reason == ErrReplayStore || e.Reason == ErrBody || e.Reason == ErrTooLate
}

func newError(reason error, detail string) error { return &Error{Reason: reason, detail: detail} }

// asWarning returns err, marked to be logged at level warn even if it is retryable, because a
// sender can cause it. Level error is reserved for faults that a sender cannot cause: an
// unavailable key source or replay store, and middleware that has consumed the body.
func asWarning(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		marked := *e
		marked.warn = true
		return &marked
	}
	return err
}

// wrapError returns an [*Error] with a redacted cause. If cause already wraps an [*Error] with the
// same reason, as from a JWKS or a MemoryReplayStore, wrapError returns that error.
func wrapError(reason error, detail string, cause error, secrets ...string) error {
	if e, ok := errors.AsType[*Error](cause); ok && e.Reason == reason {
		return e
	}
	redacted := redact.Error(cause, secrets...)
	return &Error{Reason: reason, detail: detail + ": " + redacted.Error(), cause: redacted}
}

// withOperation returns a copy of err with the given operation. It does not modify err, because
// callers that wait for the same fetch share its error.
func withOperation(operation string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		named := *e
		named.Operation = operation
		return &named
	}
	return err
}
