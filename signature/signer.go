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

// Signer signs callbacks and redirects as the service does: for tests of your own handlers, with a key of your own. The service's keys stay with the service.
// It may be used from many goroutines at once.
type Signer struct {
	keyID    string
	key      *rsa.PrivateKey
	header   string
	inBase64 bool
	now      func() time.Time
}

// SignerOptions are the choices of [NewSigner]. Zero fields mean the defaults.
type SignerOptions struct {
	CallbackHeader string           // the header that names the kind of a callback; default x-service-callback
	Base64Digest   bool             // write the digest in base64 in place of hexadecimal
	Now            func() time.Time // the clock that dates messages; default time.Now
}

// NewSigner returns a signer with an RSA key of 2048 to 4096 bits and the id that a [KeySource] knows it by, 1 to 256 printable ASCII characters. opts may be nil.
func NewSigner(keyID string, key *rsa.PrivateKey, opts *SignerOptions) (*Signer, error) {
	if opts == nil {
		opts = &SignerOptions{}
	}
	s := &Signer{keyID: keyID, key: key, header: callbackHeaderName(opts.CallbackHeader), inBase64: opts.Base64Digest, now: opts.Now}
	if s.now == nil {
		s.now = time.Now
	}
	switch {
	case !validKeyID(keyID):
		return nil, errors.New("signature: new signer: the key id is not 1 to 256 printable ASCII characters without quote and backslash")
	case key == nil || !usable(&key.PublicKey):
		return nil, errors.New("signature: new signer: the key is not an RSA key of 2048 to 4096 bits")
	case !isToken(s.header):
		return nil, errors.New("signature: new signer: the callback header is not a header name")
	}
	return s, nil
}

// SignCallback makes r the signed callback with that body: it sets Body, GetBody, ContentLength, the headers Date, Digest and Authorization, and Content-Type where it is absent.
// r must be a POST, and its callback header must name the kind, for example phone_check. The request target is r.RequestURI or, where that is empty as in a client's request, r.URL.RequestURI(). Sign again for each attempt: the date is part of the signature.
//
// Specification: section 5.3, "Callback signature".
func (s *Signer) SignCallback(r *http.Request, body []byte) error {
	if r.Method != http.MethodPost {
		return errors.New("signature: sign callback: the method is not POST")
	}
	if hostOf(r) == "" {
		return errors.New("signature: sign callback: the request has no host")
	}
	if len(r.Header.Values(s.header)) != 1 || r.Header.Get(s.header) == "" {
		return fmt.Errorf("signature: sign callback: set the header %s to the kind of the callback first, once", s.header)
	}
	m := message{method: "post", host: hostOf(r), header: r.Header}
	var err error
	if m.target, err = requestTarget(uriOf(r), m.host); err != nil {
		return fmt.Errorf("signature: sign callback: %w", err)
	}
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	m.date = s.now().UTC().Format(http.TimeFormat)
	r.Header.Set("Date", m.date)
	r.Header.Set("Digest", formatDigest(body, s.inBase64))
	m.covered = callbackCoverage(s.header)
	authorization, err := s.sign(&m)
	if err != nil {
		return fmt.Errorf("signature: sign callback: %w", err)
	}
	r.Header.Set("Authorization", authorization)
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return nil
}

// SignRedirect appends the parameters authorization and date to u.RawQuery, whose other bytes it leaves alone. u must be absolute, as the device will ask for it, and hold one check_id and neither authorization nor date.
//
// Specification: section 5.3, "Redirect signature".
func (s *Signer) SignRedirect(u *url.URL) error {
	if u.Host == "" {
		return errors.New("signature: sign redirect: the URL has no host")
	}
	if q := cutQuery(u.RawQuery); q.authorizations+q.dates > 0 || q.checkIDs != 1 {
		return errors.New("signature: sign redirect: the query must hold one check_id, no authorization and no date")
	}
	target, err := requestTarget(u.RequestURI(), u.Host)
	if err != nil {
		return fmt.Errorf("signature: sign redirect: %w", err)
	}
	m := message{method: "get", target: target, host: u.Host, date: s.now().UTC().Format(http.TimeFormat)}
	m.covered = redirectCoverage()
	authorization, err := s.sign(&m)
	if err != nil {
		return fmt.Errorf("signature: sign redirect: %w", err)
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
		s.keyID, algorithm, strings.Join(m.covered, " "), base64.StdEncoding.EncodeToString(signature)), nil
}

// encodeParameter is base64 with its '+', '/' and '=' escaped, so that no reader of the query takes them for something else.
func encodeParameter(s string) string {
	return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s)))
}
