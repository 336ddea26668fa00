package attack

import (
	"cmp"
	"crypto"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Setup contains the values of valid messages. The rows of the table work with any Setup. URL,
// KeyID, Key, Unpublished, Now and CheckID are required.
type Setup struct {
	URL         *url.URL      // callback or redirect URL with a host; an empty path means "/"
	KeyID       string        // ID under which the key is published, without quotes and backslashes
	Key         crypto.Signer // published RSA key, of 2048 bits
	Unpublished crypto.Signer // RSA key of the attacker, of 2048 bits
	Now         time.Time     // date of the messages, truncated to seconds
	CheckID     string

	CallbackHeader string    // default x-service-callback
	Base64Digest   bool      // the digest is in base64 instead of hexadecimal
	Product        string    // "phone_check" (default) or "subscriber_check"
	Status         string    // "COMPLETED" (default), "EXPIRED" or "ERROR"
	ReferenceID    string    // default none
	Created        time.Time // creation of the check; default 10 s before Now
	Code           string    // code of a redirect; default "a+b"
}

// Callback returns a valid callback that is not signed yet.
func (s Setup) Callback() *Message {
	body := s.body()
	return &Message{
		Method: http.MethodPost, Target: s.target(), Host: s.host(), Body: body,
		Fields: []Field{
			{"Content-Type", "application/json"},
			{"Content-Length", strconv.Itoa(len(body))},
			{"Date", s.date(0)},
			{s.header(), s.product()},
			{"Digest", s.digest(body)},
		},
		KeyID: s.KeyID, Key: s.Key, Algorithm: "rsa-sha256", Hash: crypto.SHA256,
		Covered: s.covered(""),
	}
}

// Redirect returns a valid redirect that is not signed yet. Until then, its date is a header field.
func (s Setup) Redirect() *Message {
	target := s.target()
	join := "?"
	if strings.Contains(target, "?") {
		join = "&"
	}
	if strings.HasSuffix(target, "?") {
		join = ""
	}
	target += join + s.expand("check_id={checkID}&code={code}")
	return &Message{
		Method: http.MethodGet, Target: target, Host: s.host(),
		Fields:   []Field{{"Date", s.date(0)}},
		Redirect: true, KeyID: s.KeyID, Key: s.Key, Algorithm: "rsa-sha256", Hash: crypto.SHA256,
		Covered: "(request-target) host date",
	}
}

// host returns the host in the form in which the service sends it: in lower case, without a default
// port.
func (s Setup) host() string {
	host := strings.ToLower(s.URL.Host)
	switch s.URL.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return host
}

// path returns the path of URL, at least "/".
func (s Setup) path() string { return cmp.Or(s.URL.EscapedPath(), "/") }

// target returns the path and query of URL.
func (s Setup) target() string {
	if s.URL.RawQuery == "" && !s.URL.ForceQuery {
		return s.path()
	}
	return s.path() + "?" + s.URL.RawQuery
}

// header returns the name of the callback header in lower case.
func (s Setup) header() string {
	return strings.ToLower(cmp.Or(s.CallbackHeader, "x-service-callback"))
}

func (s Setup) product() string { return cmp.Or(s.Product, "phone_check") }

// otherProduct returns the other product with callbacks.
func (s Setup) otherProduct() string {
	if s.product() == "phone_check" {
		return "subscriber_check"
	}
	return "phone_check"
}

// covered returns the names that a callback must cover, with more names appended.
func (s Setup) covered(names string) string {
	return "(request-target) host date " + s.header() + " digest" + names
}

// checkID and code return values as they appear in the query of a redirect.
func (s Setup) checkID() string { return url.QueryEscape(s.CheckID) }
func (s Setup) code() string    { return url.QueryEscape(cmp.Or(s.Code, "a+b")) }

// otherID returns an ID that differs from the check ID in its last digit.
func (s Setup) otherID() string {
	if head, ok := strings.CutSuffix(s.checkID(), "2"); ok {
		return head + "1"
	}
	return s.checkID()[:len(s.checkID())-1] + "2"
}

// digest returns the value of the Digest header field for body.
func (s Setup) digest(body string) string {
	if s.Base64Digest {
		return Base64Digest(body)
	}
	return Digest(body)
}

// date returns the value of a Date header field. A fraction of a second is rounded away from Now,
// so that the date differs from Now by d or more.
func (s Setup) date(d time.Duration) string {
	t := s.Now.Add(d)
	if truncated := t.Truncate(time.Second); d > 0 && truncated.Before(t) {
		t = truncated.Add(time.Second)
	}
	return t.UTC().Format(http.TimeFormat)
}

// body returns the body of a callback.
func (s Setup) body() string {
	const layout = "2006-01-02T15:04:05-0700"
	created := s.Created
	if created.IsZero() {
		created = s.Now.Add(-10 * time.Second)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"check_id":%s`, quote(s.CheckID))
	if s.ReferenceID != "" {
		fmt.Fprintf(&b, `,"reference_id":%s`, quote(s.ReferenceID))
	}
	status := cmp.Or(s.Status, "COMPLETED")
	fmt.Fprintf(&b, `,"status":"%s"`, status)
	switch status {
	case "COMPLETED":
		b.WriteString(`,"match":true`)
		if s.product() == "subscriber_check" {
			b.WriteString(`,"no_sim_change":true`)
		}
	case "ERROR":
		b.WriteString(`,"match":false`)
	}
	fmt.Fprintf(&b, `,"charge_amount":1,"charge_currency":"API","created_at":"%s","updated_at":"%s"`,
		created.UTC().Format(layout), s.Now.UTC().Format(layout))
	switch status {
	case "COMPLETED":
		b.WriteString(`,"network_id":"00101"`)
	case "ERROR":
		b.WriteString(`,"error_code":"mno_server_error"`)
	}
	return b.String() + "}"
}

// quote returns s as a JSON string.
func quote(s string) string {
	quoted, _ := json.Marshal(s) // strings never fail
	return string(quoted)
}
