package signature

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
)

// VerifyCallback verifies a callback that the service sent to one of the verifier's hosts and
// returns its content. It reads r.Body and restores it, so that the body can be read again.
//
// Every error is an [*Error]. If [Error.Retryable] returns true, the message cannot be verified
// now: respond with 503. All other errors mean that the message is invalid: respond with 400.
// [Verifier.RequireCallback] sends these responses. Respond to a valid message with 2XX. The
// service may still send it again, so process each check_id once.
func (v *Verifier) VerifyCallback(r *http.Request) (*Message, error) {
	return v.verify("callback", r, (*Verifier).callback)
}

// callback runs cheap checks first. If one fails, it does not look up a key or read the body.
func (v *Verifier) callback(r *http.Request) (*Message, error) {
	var buf [signatureBuffer]byte
	var m message
	signature, err := v.receivedCallback(&m, r, buf[:0])
	if err != nil {
		return nil, err
	}
	date, err := v.checkSent(&m, v.header.coverage)
	if err != nil {
		return nil, err
	}
	if m.product == "" {
		return nil, newError(ErrMalformed, "callback header is empty")
	}
	digest, ok := parseDigest(m.digest)
	if !ok {
		return nil, newError(ErrDigest, "digest is not a SHA-256 hash in hexadecimal or base64")
	}
	if err := v.checkSignature(r.Context(), &m, signature); err != nil {
		return nil, err
	}
	result := new(struct { // one allocation for both
		Message
		buf [usualBuffer]byte
	})
	body, err := v.readBody(r, result.buf[:0])
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(body); subtle.ConstantTimeCompare(sum[:], digest[:]) != 1 {
		// If the length is unknown, an empty body usually means that middleware has read it. Anyone on
		// the network path can also remove the body, so the error is logged as a warning.
		if len(body) == 0 && r.ContentLength < 0 {
			return nil, asWarning(newError(ErrBody, "body is empty, but the signed body is not: "+bodyConsumed))
		}
		return nil, newError(ErrDigest, "digest does not match the body (does middleware change it?)")
	}
	if err := v.accept(r.Context(), &m, signature, date); err != nil {
		return nil, err
	}
	result.Message = Message{KeyID: m.keyID, Date: date, Product: m.product, Body: body}
	if _, query, ok := strings.Cut(m.target, "?"); ok {
		result.Query, _ = url.ParseQuery(query) // like url.URL.Query: malformed pairs are skipped
	}
	return &result.Message, nil
}

const proxyAdvice = "does a proxy remove or repeat it?"

// requiredValue is like onlyValue, for a header that every callback has. The error contains the
// name of the header, which the sender does not choose, and the advice.
func requiredValue(header http.Header, key, advice string) (string, error) {
	values := header[key]
	if len(values) != 1 {
		return "", newError(ErrCoverage, "required header "+strings.ToLower(key)+" must occur exactly once ("+advice+")")
	}
	return onlyValue(values)
}

// receivedCallback sets m to the parts of the callback r, each of which must occur exactly once,
// and appends the signature to buf.
func (v *Verifier) receivedCallback(m *message, r *http.Request, buf []byte) (signature []byte, err error) {
	if r.Method != http.MethodPost {
		return nil, newError(ErrMalformed, "method must be POST")
	}
	if r.ContentLength > v.maxBody {
		return nil, newError(ErrTooLarge, "body is larger than MaxBody")
	}
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return nil, newError(ErrMalformed, "request must have exactly one Authorization header")
	}
	if err = v.received(m, r, "post"); err != nil {
		return nil, err
	}
	if signature, err = m.authorization.parse(values[0], buf); err != nil {
		return nil, err
	}
	if m.date, err = requiredValue(r.Header, "Date", proxyAdvice); err != nil {
		return nil, err
	}
	m.productHeader = v.header.name
	if m.product, err = requiredValue(r.Header, v.header.key, "check VerifierOptions.CallbackHeader and your proxy"); err != nil {
		return nil, err
	}
	m.digest, err = requiredValue(r.Header, "Digest", proxyAdvice)
	return signature, err
}
