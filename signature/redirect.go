package signature

import (
	"net/http"
	"net/url"
	"strings"
)

// VerifyRedirect verifies the redirect that brought a device to one of the verifier's hosts and returns its query, without the parameters authorization and date.
// It says that the service sent this device, or someone who has its URL, here just now; whether it belongs to the session that began the check is for the application to tell, by the check_id.
//
// Errors are as those of [Verifier.VerifyCallback]. With a replay store, a page that is reloaded within the skew is refused with [ErrReplay]: send the browser on to another URL once the redirect is handled.
//
// Specification: section 5.3, "Redirect signature".
func (v *Verifier) VerifyRedirect(r *http.Request) (*Message, error) {
	m, err := v.redirect(r)
	if err != nil {
		return nil, withOperation("redirect", err)
	}
	return m, nil
}

// redirect takes the same steps as callback, in the same order.
func (v *Verifier) redirect(r *http.Request) (*Message, error) {
	m, query, err := v.receivedRedirect(r)
	if err != nil {
		return nil, err
	}
	date, err := v.checkSent(&m, redirectCoverage())
	if err != nil {
		return nil, err
	}
	if err := v.checkSignature(r.Context(), &m); err != nil {
		return nil, err
	}
	if err := v.accept(r.Context(), &m, date); err != nil {
		return nil, err
	}
	parsed, _ := url.ParseQuery(query) // as url.URL.Query does, without what cannot be parsed
	return &Message{KeyID: m.keyID, Date: date, Query: parsed}, nil
}

// receivedRedirect takes the parts of a redirect out of r, and returns what is left of its query.
func (v *Verifier) receivedRedirect(r *http.Request) (m message, query string, err error) {
	if r.Method != http.MethodGet {
		return m, "", newError(ErrMalformed, "the method is not GET")
	}
	if m, err = v.received(r, "get"); err != nil {
		return m, "", err
	}
	path, raw, _ := strings.Cut(m.target, "?")
	q := cutQuery(raw)
	if q.authorizations != 1 || q.dates != 1 || q.checkIDs != 1 {
		return m, "", newError(ErrMalformed, "the query does not hold exactly one authorization, one date and one check_id")
	}
	m.target = path + "?" + q.rest // never empty, for it holds the check_id
	value, ok := decodeParameter(q.authorization)
	if !ok {
		return m, "", newError(ErrMalformed, "the authorization in the query is not printable text in base64")
	}
	if m.date, ok = decodeParameter(q.date); !ok {
		return m, "", newError(ErrMalformed, "the date in the query is not printable text in base64")
	}
	m.authorization, err = parseAuthorization(value)
	return m, q.rest, err
}

// redirectQuery is a raw query taken apart. The bytes that were signed cannot be had by parsing and encoding again, which would reorder and respell them, so segments are cut out instead.
type redirectQuery struct {
	rest                string // every segment but those of authorization and date
	authorization, date string // their values, still escaped; of several the last

	authorizations, dates, checkIDs int // how often each occurs
}

// cutQuery cuts the segments of authorization and date out of a raw query, by decoded key, and leaves every other byte and the order.
func cutQuery(raw string) redirectQuery {
	var q redirectQuery
	if raw == "" {
		return q
	}
	rest := make([]byte, 0, len(raw)+1)
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
		rest = append(rest, segment...)
		rest = append(rest, '&')
	}
	if len(rest) > 0 {
		q.rest = string(rest[:len(rest)-1])
	}
	return q
}

// decodedKey is the key as a reader of the query will see it; one that cannot be decoded is none that we look for.
func decodedKey(key string) string {
	if decoded, err := url.QueryUnescape(key); err == nil {
		return decoded
	}
	return ""
}

// decodeParameter is the other way round of encodeParameter. A '+' stays one, because some signers leave the base64 unescaped.
func decodeParameter(s string) (string, bool) {
	unescaped, err := url.PathUnescape(s)
	if err != nil {
		return "", false
	}
	decoded, ok := decodeBase64(unescaped)
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
