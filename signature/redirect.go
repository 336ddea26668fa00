package signature

import (
	"net/http"
	"net/url"
	"strings"
)

// VerifyRedirect verifies the redirect of a device to one of the verifier's hosts and returns its
// query without the parameters authorization and date.
//
// A verified redirect shows that the service recently signed this URL. It does not show that the
// browser belongs to the session that started the check: compare its check_id with the check that
// the session started.
//
// VerifyRedirect returns the same errors as [Verifier.VerifyCallback]. With a replay store,
// reloading the page within the clock skew fails with [ErrReplay], so redirect the browser to
// another URL after handling it.
func (v *Verifier) VerifyRedirect(r *http.Request) (*Message, error) {
	return v.verify("redirect", r, (*Verifier).redirect)
}

// redirect runs the checks in the same order as callback.
func (v *Verifier) redirect(r *http.Request) (*Message, error) {
	var buf [signatureBuffer]byte
	var m message
	signature, query, err := v.receivedRedirect(&m, r, buf[:0])
	if err != nil {
		return nil, err
	}
	date, err := v.checkSent(&m, redirectCoverage())
	if err != nil {
		return nil, err
	}
	if err := v.checkSignature(r.Context(), &m, signature); err != nil {
		return nil, err
	}
	if err := v.accept(r.Context(), &m, signature, date); err != nil {
		return nil, err
	}
	parsed, _ := url.ParseQuery(query) // like url.URL.Query: malformed pairs are skipped
	return &Message{KeyID: m.keyID, Date: date, Query: parsed}, nil
}

// receivedRedirect sets m to the parts of the redirect r, appends the signature to buf, and returns
// the signed part of the query.
func (v *Verifier) receivedRedirect(m *message, r *http.Request, buf []byte) (signature []byte, query string, err error) {
	if r.Method != http.MethodGet {
		return nil, "", newError(ErrMalformed, "method must be GET")
	}
	if err = v.received(m, r, "get"); err != nil {
		return nil, "", err
	}
	path, raw, _ := strings.Cut(m.target, "?")
	q := cutQuery(raw)
	if q.authorizations != 1 || q.dates != 1 || q.checkIDs != 1 {
		return nil, "", newError(ErrMalformed, "query must contain exactly one authorization, one date and one check_id")
	}
	m.target = path + "?" + q.rest // q.rest contains the check_id, so it is not empty
	value, ok := decodeParameter(q.authorization)
	if !ok {
		return nil, "", newError(ErrMalformed, "authorization in the query is not base64-encoded printable ASCII")
	}
	if m.date, ok = decodeParameter(q.date); !ok {
		return nil, "", newError(ErrMalformed, "date in the query is not base64-encoded printable ASCII")
	}
	signature, err = m.authorization.parse(value, buf)
	return signature, q.rest, err
}

// redirectQuery contains the parts of a raw query. Parsing and encoding the query again would
// change the order and the escapes of the signed bytes, so cutQuery removes segments instead.
type redirectQuery struct {
	rest                string // all segments except authorization and date
	authorization, date string // their values, still escaped; the last value of a repeated parameter

	authorizations, dates, checkIDs int // number of occurrences
}

// cutQuery removes the segments whose decoded key is authorization or date from a raw query. It
// keeps all other bytes and their order.
func cutQuery(raw string) redirectQuery {
	var q redirectQuery
	if raw == "" {
		return q
	}
	var rest strings.Builder
	rest.Grow(len(raw) + 1)
	for segment := range strings.SplitSeq(raw, "&") {
		key, value, _ := strings.Cut(segment, "=")
		switch decodedKey(key) {
		case "authorization":
			q.authorization = value
			q.authorizations++
			continue
		case "date":
			q.date = value
			q.dates++
			continue
		case "check_id":
			q.checkIDs++
		}
		rest.WriteString(segment)
		rest.WriteByte('&')
	}
	q.rest = strings.TrimSuffix(rest.String(), "&")
	return q
}

// decodedKey returns the key as the application sees it, or "" if it cannot be decoded.
func decodedKey(key string) string {
	if decoded, err := url.QueryUnescape(key); err == nil {
		return decoded
	}
	return ""
}

// decodeParameter is the inverse of encodeParameter. It keeps '+', because some signers do not
// escape the base64.
func decodeParameter(s string) (string, bool) {
	unescaped, err := url.PathUnescape(s)
	if err != nil {
		return "", false
	}
	var buf [512]byte // for the authorization with a key of 2048 bits; a longer one is allocated
	decoded, ok := appendBase64(buf[:0], unescaped)
	if !ok || len(decoded) == 0 {
		return "", false
	}
	for _, c := range decoded {
		if c < ' ' || c > '~' {
			return "", false
		}
	}
	return string(decoded), true
}
