package signature

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Signer signs callbacks and redirects like the service, with your own key, for tests of your
// handlers. It is safe for concurrent use.
type Signer struct {
	keyID    string
	key      *rsa.PrivateKey
	header   callbackHeader
	inBase64 bool
	now      func() time.Time
}

// SignerOptions configures [NewSigner]. The zero value of a field selects its default.
type SignerOptions struct {
	CallbackHeader string           // name of the header with the product of a callback; default x-service-callback
	Base64Digest   bool             // encode the digest in base64 instead of hexadecimal
	Now            func() time.Time // returns the date of messages; default time.Now
}

// NewSigner returns a signer for an RSA key of 2048 to 4096 bits. keyID is the ID of the key in the
// verifier's [KeySource]: 1 to 256 printable ASCII characters without quotes or backslashes. opts
// may be nil.
func NewSigner(keyID string, key *rsa.PrivateKey, opts *SignerOptions) (*Signer, error) {
	if opts == nil {
		opts = &SignerOptions{}
	}
	s := &Signer{keyID: keyID, key: key, header: newCallbackHeader(opts.CallbackHeader), inBase64: opts.Base64Digest, now: opts.Now}
	if s.now == nil {
		s.now = time.Now
	}
	switch {
	case !validKeyID(keyID):
		return nil, errors.New("signature: new signer: key ID must be 1 to 256 printable ASCII characters without quotes or backslashes")
	case key == nil || !usable(&key.PublicKey):
		return nil, errors.New("signature: new signer: key must be an RSA key of 2048 to 4096 bits")
	case !isToken(s.header.name):
		return nil, errors.New("signature: new signer: CallbackHeader must be a valid header name")
	}
	return s, nil
}

// SignCallback turns r into a signed callback with the given body. It sets Body, GetBody,
// ContentLength and the headers Date, Digest and Authorization, and Content-Type if it is missing.
//
// r must be a POST request, and its callback header must contain the product, for example
// phone_check. The request target is r.RequestURI, or r.URL.RequestURI() if that is empty, as in
// client requests. Sign each attempt again, because the date is part of the signature.
func (s *Signer) SignCallback(r *http.Request, body []byte) error {
	if r.Method != http.MethodPost {
		return errors.New("signature: sign callback: method must be POST")
	}
	if hostOf(r) == "" {
		return errors.New("signature: sign callback: request has no host")
	}
	if len(r.Header[s.header.key]) != 1 || r.Header.Get(s.header.key) == "" {
		return fmt.Errorf("signature: sign callback: request must have exactly one non-empty header %s (set it to the product of the callback)", s.header.name)
	}
	m := message{method: "post", host: hostOf(r), header: r.Header}
	var err error
	if m.target, err = requestTarget(uriOf(r), m.host); err != nil {
		return signError("callback", err)
	}
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	m.date = s.now().UTC().Format(http.TimeFormat)
	r.Header.Set("Date", m.date)
	r.Header.Set("Digest", formatDigest(body, s.inBase64))
	m.covered.set(s.header.coverage)
	authorization, err := s.sign(&m)
	if err != nil {
		return signError("callback", err)
	}
	r.Header.Set("Authorization", authorization)
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return nil
}

// SignRedirect appends the parameters authorization and date to u.RawQuery and does not change the
// existing query. u must be absolute, with the host that the device sends. Its query must contain
// exactly one check_id, no authorization and no date.
func (s *Signer) SignRedirect(u *url.URL) error {
	if u.Host == "" {
		return errors.New("signature: sign redirect: URL has no host")
	}
	if q := cutQuery(u.RawQuery); q.authorizations+q.dates > 0 || q.checkIDs != 1 {
		return errors.New("signature: sign redirect: query must contain exactly one check_id, no authorization and no date")
	}
	target, err := requestTarget(u.RequestURI(), u.Host)
	if err != nil {
		return signError("redirect", err)
	}
	m := message{method: "get", target: target, host: u.Host, date: s.now().UTC().Format(http.TimeFormat)}
	m.covered.set(redirectCoverage())
	authorization, err := s.sign(&m)
	if err != nil {
		return signError("redirect", err)
	}
	u.RawQuery += "&authorization=" + encodeParameter(authorization) + "&date=" + encodeParameter(m.date)
	return nil
}

// sign returns the Authorization for m.
func (s *Signer) sign(m *message) (string, error) {
	text, err := m.signingString(nil)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	signature, err := rsa.SignPKCS1v15(nil, s.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`Signature keyId="%s",algorithm="%s",headers="%s",signature="%s"`,
		s.keyID, algorithm, strings.Join(m.covered.slice(), " "), base64.StdEncoding.EncodeToString(signature)), nil
}

// signError adds the operation to the text of err, whose *Error has none yet.
func signError(kind string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return withOperation("sign."+kind, e)
	}
	return fmt.Errorf("signature: sign %s: %w", kind, err)
}

// encodeParameter returns s in base64 with '+', '/' and '=' escaped, because '+' means a space in a
// query.
func encodeParameter(s string) string {
	return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s)))
}
