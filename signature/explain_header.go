package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// foundAuthorization is the Authorization of a message, and how it was changed.
type foundAuthorization struct {
	authorization
	signature []byte
	text      string
	cause     string // line of the explanation; empty if it was received as the service sends it
}

// movedTo returns the names of headers to which gateways move the header with the given name.
func movedTo(key string) []string {
	return []string{"X-Amzn-Remapped-" + key, "X-Original-" + key, "X-Forwarded-" + key, "X-" + key}
}

// findAuthorization sets e.authorization. Without a valid one, it reports false and returns what
// was found.
func (e *explanation) findAuthorization() (line string, ok bool) {
	candidates := e.authorizationValues()
	if e.operation == "redirect" {
		candidates = e.authorizationParameters()
	}
	for _, c := range candidates {
		var parsed authorization
		signature, err := parsed.parse(c.value, nil)
		if err == nil {
			e.authorization = foundAuthorization{parsed, signature, c.value, c.cause}
			return "", true
		}
		if line == "" && strings.HasPrefix(c.value, "Signature") {
			line = "authorization: " + detailOf(err)
		}
	}
	switch {
	case line != "":
		return line, false
	case e.operation == "redirect" && len(candidates) > 0:
		return "authorization: the parameter of the query is not a signature: it was changed or truncated on the way, or the URL was not opened by the service", false
	case e.operation == "redirect":
		return "authorization: the query has no signature: the request is not a redirect of the service (a health check, a reload of another URL, a link preview), or a proxy removed the query", false
	case len(candidates) > 0:
		return "authorization: contains other credentials than a signature: a gateway that authenticates has replaced it (exclude the callback URL from authentication), or the request does not come from the service", false
	}
	return "authorization: the request has no signature: it does not come from the service (a health check, a scanner), or a proxy removed the header Authorization", false
}

// authorizationValues returns the possible Authorizations of a callback.
func (e *explanation) authorizationValues() []option {
	var found []option
	values := e.headerValues("Authorization")
	for _, value := range values {
		o := option{value: value}
		if len(e.r.Header["Authorization"]) > 1 {
			o.cause = "authorization: the header occurs more than once: configure the proxy or gateway not to add its own credentials"
		}
		found = append(found, o)
	}
	for _, value := range values {
		if i := strings.Index(value, "Signature "); i > 0 {
			found = append(found, option{value: value[i:], cause: "authorization: a proxy or gateway merged its own credentials into the header: configure it not to add them"})
		}
		if i := strings.LastIndexByte(value, '"'); i > 0 && i+1 < len(value) {
			found = append(found, option{value: value[:i+1], cause: "authorization: a proxy or gateway merged its own credentials into the header: configure it not to add them"})
		}
	}
	for _, key := range append(movedTo("Authorization"), "Proxy-Authorization") {
		for _, value := range e.headerValues(key) {
			found = append(found, option{value: value, cause: "authorization: a gateway moved the header to " + key + " or used it: restore it before the verifier, or exclude the callback URL from authentication"})
		}
	}
	return found
}

// parameterSources returns the queries that may contain the parameters of a redirect.
func (e *explanation) parameterSources() []redirectQuery {
	_, uri := e.sentTo()
	uris := []string{uri, uriOf(e.r)}
	for _, key := range targetHeaders {
		uris = append(uris, e.headerValues(key)...)
	}
	var queries []redirectQuery
	for _, uri := range uris {
		_, raw, _ := strings.Cut(uri, "?")
		raw = strings.ReplaceAll(raw, "&amp;", "&")
		if q := cutQuery(raw); q.authorizations > 0 && len(raw) <= maxTarget {
			queries = append(queries, q)
		}
	}
	return queries
}

// authorizationParameters returns the possible Authorizations of a redirect.
func (e *explanation) authorizationParameters() []option {
	var found []option
	for _, q := range e.parameterSources() {
		found = append(found, parameterValues(q.authorization, "authorization")...)
	}
	return found
}

// parameterValues returns the possible values of a base64 parameter that a proxy may have changed.
func parameterValues(escaped, name string) []option {
	var found []option
	add := func(text string, ok bool) {
		o := option{value: text}
		if len(found) > 0 || !ok {
			o.cause = "query: a proxy or router changed the encoding of the parameter " + name + ": configure it to pass the query unchanged"
		}
		found = append(found, o)
	}
	if text, ok := decodeParameter(escaped); ok {
		add(text, true)
	}
	plain := escaped
	for range 3 {
		standard := strings.NewReplacer(" ", "+", "-", "+", "_", "/").Replace(strings.TrimRight(plain, "="))
		if decoded, err := base64.RawStdEncoding.DecodeString(standard); err == nil && oneLine(string(decoded)) && len(decoded) > 0 {
			add(string(decoded), false)
		}
		next, err := url.PathUnescape(plain)
		if err != nil {
			break
		}
		plain = next
	}
	if text, err := url.QueryUnescape(escaped); err == nil && oneLine(text) {
		add(text, false)
	}
	return found
}

// receivedDate returns the date of the message, or "".
func (e *explanation) receivedDate() string {
	if e.operation == "callback" {
		return e.r.Header.Get("Date")
	}
	for _, q := range e.parameterSources() {
		for _, o := range parameterValues(q.date, "date") {
			return o.value
		}
	}
	return ""
}

// dimensions returns the parts of the message with their possible values, those that proxies change
// most often first.
func (e *explanation) dimensions() []dimension {
	all := []dimension{e.hosts(), e.paths(), e.queries(), e.method()}
	for _, name := range e.authorization.covered.slice() {
		switch name {
		case "(request-target)", "host":
		case "date":
			all = append(all, e.dates())
		case "digest":
			all = append(all, e.digests())
		default:
			all = append(all, e.headers(name))
		}
	}
	return all
}

// headers returns the possible values of a covered header.
func (e *explanation) headers(name string) dimension {
	d := dimension{name: name}
	key := http.CanonicalHeaderKey(name)
	label := "header " + name
	if !slices.Contains(e.v.header.coverage, name) && !strings.Contains(name, "callback") {
		label = "another covered header"
	}
	values := e.headerValues(key)
	if len(values) > 1 {
		for _, value := range values {
			d.add(value, label+": occurs more than once: configure the proxy not to repeat it")
		}
		for _, separator := range []string{", ", ","} {
			d.add(strings.Join(values, separator), label+": split into several lines: configure the proxy to pass it unchanged")
		}
		return d
	}
	for _, value := range values {
		d.add(value, "")
		for _, separator := range []string{", ", ","} {
			if half := (len(value) - len(separator)) / 2; half > 0 && value == value[:half]+separator+value[:half] {
				d.add(value[:half], label+": a proxy repeated the header and merged the values: configure it not to add the header")
			}
		}
	}
	for _, moved := range movedTo(key) {
		for _, value := range e.headerValues(moved) {
			d.add(value, label+": a gateway moved it to another header, which begins with "+strings.TrimSuffix(moved, key)+": restore it before the verifier")
		}
	}
	if strings.Contains(name, "callback") {
		for _, kind := range []string{"phone_check", "sim_check", "subscriber_check"} {
			d.add(kind, label+": a proxy removed or changed it: configure it to pass the header unchanged")
		}
	}
	return d
}

// dates returns the possible dates.
func (e *explanation) dates() dimension {
	replaced, keep := "date: a proxy removed or replaced the header Date of the service", ": configure it to pass the header unchanged"
	d := e.headers("date")
	if e.operation == "redirect" {
		replaced, keep = "date: the parameter date was removed or changed on the way", ": pass the query unchanged"
		d = dimension{name: "date"}
		for _, q := range e.parameterSources() {
			for _, o := range parameterValues(q.date, "date") {
				d.add(o.value, o.cause)
			}
		}
	}
	near := e.now
	for i, o := range slices.Clone(d.options) {
		for _, layout := range []string{time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC, time.RFC3339, time.UnixDate} {
			date, err := time.Parse(layout, o.value)
			if err != nil {
				continue
			}
			if i == 0 {
				near = date
			}
			d.add(date.UTC().Format(http.TimeFormat), "date: a proxy wrote it in another form: configure it to pass the header Date unchanged")
		}
	}
	for seconds := 1; seconds <= 10; seconds++ {
		for _, offset := range []int{-seconds, seconds} {
			direction := "before"
			if offset > 0 {
				direction = "after"
			}
			signed := near.Add(time.Duration(offset) * time.Second)
			d.add(signed.UTC().Format(http.TimeFormat), fmt.Sprintf("%s: signed %d s %s the received date, or that of the clock%s", replaced, seconds, direction, keep))
		}
	}
	d.add(near.UTC().Format(http.TimeFormat), replaced+keep)
	return d
}

// digests returns the possible digests in the form in which they were signed.
func (e *explanation) digests() dimension {
	d := e.headers("digest")
	const recoded = "digest: a proxy or gateway wrote the header in another form: configure it to pass the header unchanged"
	var sums [][]byte
	for _, o := range slices.Clone(d.options) {
		if sum, ok := anyDigest(o.value); ok {
			sums = append(sums, sum)
		}
	}
	cause := recoded
	if len(d.options) == 0 {
		cause = "digest: a proxy removed or renamed the header: configure it to pass the header unchanged"
		for _, key := range []string{"Content-Digest", "Repr-Digest"} {
			for _, value := range e.headerValues(key) {
				if sum, ok := anyDigest(value); ok {
					sums = append(sums, sum)
				}
			}
		}
		if body, err := e.readBody(); err == nil {
			sum := sha256.Sum256(body)
			sums = append(sums, sum[:])
		}
	}
	for _, sum := range sums {
		inHex := hex.EncodeToString(sum)
		for _, name := range []string{"SHA-256=", "sha-256="} {
			d.add(name+inHex, cause)
			d.add(name+base64.StdEncoding.EncodeToString(sum), cause)
			d.add(name+strings.ToUpper(inHex), cause)
			d.add(name+base64.URLEncoding.EncodeToString(sum), cause)
			d.add(name+base64.RawURLEncoding.EncodeToString(sum), cause)
		}
	}
	return d
}

// anyDigest returns the hash in a digest in any usual form.
func anyDigest(s string) (sum []byte, ok bool) {
	_, value, _ := strings.Cut(s, "=")
	value = strings.Trim(value, `:"' `)
	if sum, err := hex.DecodeString(value); err == nil && len(sum) == sha256.Size {
		return sum, true
	}
	value = strings.NewReplacer("-", "+", "_", "/", " ", "+").Replace(strings.TrimRight(value, "="))
	sum, err := base64.RawStdEncoding.DecodeString(value)
	return sum, err == nil && len(sum) == sha256.Size
}
