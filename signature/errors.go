package signature

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
)

// Why a message was refused, for [errors.Is]. An [*Error] is exactly one of these, or one of the undecided below.
var (
	ErrMalformed  = errors.New("malformed message")             // a part of it cannot be read: the Authorization, the date, the request target, the query
	ErrAlgorithm  = errors.New("algorithm not allowed")         // not rsa-sha256, or a key that is too weak for it
	ErrCoverage   = errors.New("insufficient coverage")         // the signature leaves out what it must cover, or covers what does not occur exactly once
	ErrSkew       = errors.New("date outside the allowed skew") // too old, too new, or a clock is wrong
	ErrHost       = errors.New("host not allowed")              // meant for another host than those given to NewVerifier
	ErrUnknownKey = errors.New("unknown key")                   // the service has no key of this id
	ErrSignature  = errors.New("signature does not verify")     // forged, or changed on its way
	ErrDigest     = errors.New("digest does not match")         // the body is not the one that was signed, or the digest is no SHA-256
	ErrReplay     = errors.New("message replayed")              // this very message was accepted before
	ErrTooLarge   = errors.New("message too large")             // a body above VerifierOptions.MaxBody
)

// Reasons why a message cannot be verified now. The message may be valid: respond with 503, so that
// the service sends it again, and never with 400.
var (
	ErrKeySource   = errors.New("keys out of reach")         // the key is not at hand, and whether it exists cannot be found out now
	ErrReplayStore = errors.New("replay store out of reach") // it failed or is full
	ErrBody        = errors.New("body cut off")              // the signature verified, but the body could not be read to its end, or middleware had read it before
	ErrTooLate     = errors.New("message verified too late") // the date was valid when the message arrived, but no longer when its key and body had been read
)

// Error is what every verification error is. It wraps one of the sentinels above and, where another error caused it, that one too, so that errors.Is also finds context.Canceled.
// Its text is for the log of the receiver: it holds nothing of the message, and nothing in it should be answered to the sender, who may be an attacker.
type Error struct {
	Operation string // "callback", "redirect", or "key lookup" of a [JWKS] that was asked directly
	Reason    error  // the sentinel

	detail  string
	cause   error
	routine bool // see routine
}

// Error says which operation failed and why: "signature: callback refused: the digest does not match the body".
func (e *Error) Error() string {
	if e.Undecided() {
		return "signature: " + e.Operation + " undecided: " + e.detail + " (answer 503, so that it is tried again)"
	}
	return "signature: " + e.Operation + " refused: " + e.detail
}

// Unwrap gives [errors.Is] and [errors.As] the sentinel and the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.cause}
}

// Undecided reports whether the message may be valid and cannot be verified now. Respond to it with
// 503, and to a message with any other error with 400.
func (e *Error) Undecided() bool {
	return e.Reason == ErrKeySource || e.Reason == ErrReplayStore || e.Reason == ErrBody || e.Reason == ErrTooLate
}

func refuse(reason error, detail string) error { return &Error{Reason: reason, detail: detail} }

// routine marks an error that any sender can cause. It is logged at level warn even if the message
// may be valid, so that alerts on level error report outages alone.
func routine(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		marked := *e
		marked.routine = true
		return &marked
	}
	return err
}

// because is a refusal with a cause. A cause of our own, from a JWKS or a MemoryReplayStore, says it all already.
func because(reason error, detail string, cause error) error {
	if e, ok := errors.AsType[*Error](cause); ok && e.Reason == reason {
		return e
	}
	return &Error{Reason: reason, detail: detail + ": " + causeText(cause), cause: withoutURL(cause)}
}

// during names the operation that err belongs to. The error is copied, because a key set hands one error to many waiters.
func during(operation string, err error) error {
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
