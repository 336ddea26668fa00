package signature

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
)

// Reasons why a message is invalid, for [errors.Is]. An [*Error] has exactly one of these reasons, or
// one of those below.
var (
	// ErrMalformed means that the Authorization, the date, the request target or the query cannot be
	// parsed.
	ErrMalformed = errors.New("malformed message")

	// ErrAlgorithm means that the algorithm is not rsa-sha256, or that the key is too weak for it.
	ErrAlgorithm = errors.New("algorithm not allowed")

	// ErrCoverage means that the signature does not cover a required part of the message, or covers a
	// header that does not occur exactly once.
	ErrCoverage = errors.New("insufficient coverage")

	// ErrSkew means that the date is too old or in the future, or that a clock is wrong.
	ErrSkew = errors.New("date outside the allowed skew")

	// ErrHost means that the message was sent to a host that was not given to NewVerifier.
	ErrHost = errors.New("host not allowed")

	// ErrUnknownKey means that the service has no usable key of this ID.
	ErrUnknownKey = errors.New("unknown key")

	// ErrSignature means that the message was forged or changed on its way.
	ErrSignature = errors.New("signature does not verify")

	// ErrDigest means that the body is not the one that was signed, or that the digest is not a SHA-256.
	ErrDigest = errors.New("digest does not match")

	// ErrReplay means that the same message was accepted before.
	ErrReplay = errors.New("message replayed")

	// ErrTooLarge means that the body is larger than VerifierOptions.MaxBody.
	ErrTooLarge = errors.New("message too large")
)

// Reasons why a message cannot be verified now. The message may be valid: respond with 503, so that
// the service sends it again, and never with 400.
var (
	// ErrKeySource means that the key is not available, and that it is not known whether it exists.
	ErrKeySource = errors.New("keys out of reach")

	// ErrReplayStore means that the replay store failed or is full.
	ErrReplayStore = errors.New("replay store out of reach")

	// ErrBody means that the signature verified, but the body could not be read to its end, or
	// middleware had read it before.
	ErrBody = errors.New("body incomplete")

	// ErrTooLate means that the date expired while the key or the body was being read.
	ErrTooLate = errors.New("message verified too late")
)

// Error is what every verification error is. It wraps one of the sentinels above and, where another error caused it, that one too, so that errors.Is also finds context.Canceled.
// Its text is for the log of the receiver: it holds nothing of the message, and nothing in it should be answered to the sender, who may be an attacker.
type Error struct {
	Operation string // "callback", "redirect", or "key lookup" of a [JWKS] that was asked directly
	Reason    error  // the sentinel

	detail string
	cause  error
	warn   bool // see asWarning
}

// Error returns the operation and the cause, for example
// "signature: callback rejected: digest does not match the body".
func (e *Error) Error() string {
	text := "signature: " + e.Operation
	switch {
	case e.Retryable():
		return text + ": verification unavailable: " + e.detail + e.hint()
	case e.Operation == "callback" || e.Operation == "redirect":
		return text + " rejected: " + e.detail
	}
	return text + ": " + e.detail
}

// hint returns what to do with a message that cannot be verified now.
func (e *Error) hint() string {
	switch e.Operation {
	case "callback":
		return " (respond with 503: the service sends it again)"
	case "redirect":
		return " (respond with 503: the service does not send a redirect again; the user can reload the page within the clock skew, or start over)"
	}
	return ""
}

// Unwrap gives [errors.Is] and [errors.As] the sentinel and the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.cause}
}

// Retryable reports whether the message may be valid and cannot be verified now. Respond to it with
// 503, and to a message with any other error with 400.
func (e *Error) Retryable() bool {
	return e.Reason == ErrKeySource || e.Reason == ErrReplayStore || e.Reason == ErrBody || e.Reason == ErrTooLate
}

func newError(reason error, detail string) error { return &Error{Reason: reason, detail: detail} }

// asWarning marks an error that a sender can cause. It is logged at level warn even if the message may
// be valid, so that level error is left to an unavailable key source or replay store and to
// middleware that has consumed the body.
func asWarning(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		marked := *e
		marked.warn = true
		return &marked
	}
	return err
}

// wrapError returns an error with a cause. It returns an [*Error] with the same reason, from a JWKS
// or a MemoryReplayStore, unchanged.
func wrapError(reason error, detail string, cause error) error {
	if e, ok := errors.AsType[*Error](cause); ok && e.Reason == reason {
		return e
	}
	return &Error{Reason: reason, detail: detail + ": " + causeText(cause), cause: withoutURL(cause)}
}

// withOperation names the operation that err belongs to. The error is copied, because a key set hands one error to many waiters.
func withOperation(operation string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		named := *e
		named.Operation = operation
		return &named
	}
	return err
}

// withoutURL takes off the wrapping that holds the URL.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// causeText says what went wrong without the names and addresses that packages net and x509 put into their errors.
func causeText(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return "look up host: " + e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Err != nil {
		return e.Op + ": " + e.Err.Error()
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another host"
	}
	return withoutURL(err).Error()
}
