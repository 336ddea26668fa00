package signature

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
)

// VerifyCallback verifies a callback that the service posted to one of the verifier's hosts and returns what it says. r.Body is read and restored, so that a handler behind can read it again.
//
// Every error is an [*Error]. [Error.Retryable] distinguishes a message that cannot be verified now
// ([ErrKeySource], [ErrReplayStore], [ErrBody], [ErrTooLate]: respond with 503) from an invalid one
// (all others: respond with 400). [Verifier.CallbackHandler] does so. Respond to a valid message
// with 2XX. The service may still send it again, so process each check_id once.
//
// Specification: section 5.3, "Callback signature".
func (v *Verifier) VerifyCallback(r *http.Request) (*Message, error) {
	m, err := v.callback(r)
	if err != nil {
		return nil, withOperation("callback", err)
	}
	return m, nil
}

// callback takes the steps from the cheapest to the dearest: nothing is fetched, computed or read for a message that an earlier step refuses.
func (v *Verifier) callback(r *http.Request) (*Message, error) {
	m, err := v.receivedCallback(r)
	if err != nil {
		return nil, err
	}
	date, err := v.checkSent(&m, v.required)
	if err != nil {
		return nil, err
	}
	if m.kind == "" {
		return nil, newError(ErrMalformed, "the callback header is empty")
	}
	digest, ok := parseDigest(m.digest)
	if !ok {
		return nil, newError(ErrDigest, "the digest is not a SHA-256 in hexadecimal or base64")
	}
	if err := v.checkSignature(r.Context(), &m); err != nil {
		return nil, err
	}
	body, err := v.readBody(r)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(body); subtle.ConstantTimeCompare(sum[:], digest[:]) != 1 {
		// With an unknown length, a body that middleware has read is empty. Anyone on the path of the
		// message can also empty it, so the error is routine.
		if len(body) == 0 && r.ContentLength < 0 {
			return nil, asWarning(newError(ErrBody, "the body is empty, but the message was signed with one: "+bodyConsumed))
		}
		return nil, newError(ErrDigest, "the digest does not match the body (was it changed on its way, or rewritten by middleware in front of the verifier?)")
	}
	if err := v.accept(r.Context(), &m, date); err != nil {
		return nil, err
	}
	verified := &Message{KeyID: m.keyID, Date: date, Kind: m.kind, Body: body}
	if _, query, ok := strings.Cut(m.target, "?"); ok {
		verified.Query, _ = url.ParseQuery(query) // as url.URL.Query does, without what cannot be parsed
	}
	return verified, nil
}

// receivedCallback takes the parts of a callback out of r, each of which must be there once.
func (v *Verifier) receivedCallback(r *http.Request) (m message, err error) {
	if r.Method != http.MethodPost {
		return m, newError(ErrMalformed, "the method is not POST")
	}
	if r.ContentLength > v.maxBody {
		return m, newError(ErrTooLarge, "the body is larger than MaxBody")
	}
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return m, newError(ErrMalformed, "there is not exactly one Authorization header")
	}
	if m, err = v.received(r, "post"); err != nil {
		return m, err
	}
	if m.authorization, err = parseAuthorization(values[0]); err != nil {
		return m, err
	}
	if m.date, err = onlyValue(r.Header, "Date"); err != nil {
		return m, err
	}
	if m.kind, err = onlyValue(r.Header, v.headerKey); err != nil {
		return m, err
	}
	m.digest, err = onlyValue(r.Header, "Digest")
	return m, err
}
