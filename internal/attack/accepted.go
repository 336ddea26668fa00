package attack

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Variant is a valid message that a receiver must accept.
type Variant struct {
	Name     string   // short phrase, unique among callbacks or redirects
	Reason   string   // one sentence for people: when such a message is sent, or what is lost
	Severity Severity // of its rejection

	// Strict means that only package signature must accept the message, because the service usually
	// sends another spelling.
	Strict bool

	// Product is the product of the check if the callback is of another than phone_check. A receiver
	// for one product can reject it.
	Product string

	setup    func(*Setup) // nil means no change
	redirect bool
	change
}

// AcceptedCallbacks returns the callbacks that a receiver must accept, apart from that of the
// Setup.
func AcceptedCallbacks() []Variant {
	return slices.Concat(contentVariants(), spellingVariants(), authorizationVariants())
}

// AcceptedRedirects returns the redirects that a receiver must accept, apart from that of the
// Setup.
func AcceptedRedirects() []Variant {
	variants := slices.Concat(
		accept(Variant{Severity: Medium, Strict: true, Reason: "The receiver must verify the parameters as they were received, in their order."},
			variant{name: "query in the URL", signed: editTarget("check_id=", "a=1&b=%2f%2F+&check_id=")},
			variant{name: "parameter without value", signed: editTarget("&code=", "&flag&code=")},
			variant{name: "no code", signed: editTarget("code={code}", "error=not_mobile_ip")},
			variant{name: "authorization and date not escaped", sent: editParameters(func(authorization, date, rest string) string {
				unescape := strings.NewReplacer("%2B", "+", "%2F", "/", "%3D", "=").Replace
				return rest + "&authorization=" + unescape(authorization) + "&date=" + unescape(date)
			})},
			variant{name: "authorization and date first", sent: editParameters(func(authorization, date, rest string) string {
				return "date=" + date + "&authorization=" + authorization + "&" + rest
			})},
		),
		accept(Variant{Severity: Medium, Strict: true, Reason: "Browsers and proxies write the host of a URL in these forms."},
			variant{name: "upper-case host", signed: upperHost},
			variant{name: "default port in Host", signed: editHost(defaultPort)},
		),
	)
	for i := range variants {
		variants[i].redirect = true
	}
	return variants
}

// Message returns a signed message with the changes of the row. The message is new, so the caller
// can change it.
func (v Variant) Message(s Setup) *Message {
	if v.setup != nil {
		v.setup(&s)
	}
	return v.apply(s, v.redirect)
}

// variant is a Variant of a group, which shares its other fields.
type variant struct {
	name         string
	setup        func(*Setup)
	signed, sent edit
}

// accept returns a Variant for each row, with the other fields of common.
func accept(common Variant, rows ...variant) []Variant {
	variants := make([]Variant, len(rows))
	for i, r := range rows {
		variants[i] = common
		variants[i].Name, variants[i].setup, variants[i].change = r.name, r.setup, change{r.signed, r.sent}
	}
	return variants
}

// contentVariants returns callbacks with other contents.
func contentVariants() []Variant {
	status := func(status string) func(*Setup) { return func(s *Setup) { s.Status = status } }
	return slices.Concat(
		accept(Variant{Severity: High, Reason: "Checks also end in other ways, and the service reports some of them only by callback."},
			variant{name: "no match", signed: all(editBody(func(body string) string { return strings.Replace(body, `"match":true`, `"match":false`, 1) }), digested)},
			variant{name: "status EXPIRED", setup: status("EXPIRED")},
			variant{name: "status ERROR", setup: status("ERROR")},
		),
		accept(Variant{Severity: High, Reason: "The service sends the callbacks of each product, with its own kind.", Product: "subscriber_check"},
			variant{name: "subscriber check", setup: func(s *Setup) { s.Product = "subscriber_check" }},
		),
		accept(Variant{Severity: High, Reason: "The digest is of the bytes of the body, so the receiver must not decode and encode the body before."},
			variant{name: "reference with Unicode", setup: func(s *Setup) { s.ReferenceID = "Köln 北京 😀 <&>" }},
			variant{name: "escaped reference", signed: all(editBody(escapedReference), digested)},
			variant{name: "spaces in the body", signed: all(editBody(spacedBody), digested)},
			variant{name: "newline after the body", signed: all(editBody(func(body string) string { return body + "\n" }), digested)},
			variant{name: "unknown field in the body", signed: all(editBody(padded(1000)), digested)},
		),
	)
}

// escapedReference returns the body with a reference that contains escapes.
func escapedReference(body string) string {
	return strings.Replace(body, `"status"`, `"reference_id":"K\u00f6ln \u003c\/\u003e","status"`, 1)
}

func spacedBody(body string) string {
	return strings.NewReplacer(`,"`, ",\n  \"", `":`, `" : `).Replace(body)
}

// spellingVariants returns callbacks in which parts other than the Authorization have another
// spelling.
func spellingVariants() []Variant {
	return slices.Concat(
		accept(Variant{Severity: High, Reason: "Names of header fields are case-insensitive, and proxies change their case or add fields."},
			variant{name: "lower-case header names", sent: renamed(strings.ToLower)},
			variant{name: "upper-case header names", sent: renamed(strings.ToUpper)},
			variant{name: "additional headers", sent: all(add("User-Agent", "callbacks/1"), add("X-Request-Id", "1"))},
		),
		accept(Variant{Severity: Medium, Strict: true, Reason: "The service may write the digest in either form, in upper or lower case."},
			variant{name: "digest in the other encoding", setup: func(s *Setup) { s.Base64Digest = !s.Base64Digest }},
			variant{name: "upper-case hexadecimal digest", signed: func(m *Message, _ Setup) {
				m.Set("Digest", "SHA-256="+strings.ToUpper(strings.TrimPrefix(Digest(m.Body), "SHA-256=")))
			}},
			variant{name: "lower-case digest algorithm", signed: func(m *Message, _ Setup) { m.Edit("Digest", "SHA", "sha") }},
		),
		accept(Variant{Severity: Medium, Strict: true, Reason: "A proxy can send the same message in another form."},
			variant{name: "chunked body", sent: chunked},
			variant{name: "repeated header, not covered", sent: all(add("X-Trace", "1"), add("X-Trace", "2"))},
			variant{name: "X-Date header", sent: addDate("X-Date", -time.Hour)},
			variant{name: "absolute target", sent: toTarget("https://{host}{target}")},
		),
		accept(Variant{Severity: Medium, Strict: true, Reason: "The service signs for the host and the URL that it was given."},
			variant{name: "upper-case host", signed: upperHost},
			variant{name: "default port in Host", signed: editHost(defaultPort)},
			variant{name: "query in the URL", signed: all(withQuery, appendToTarget("&b=%2f%2F+"))},
			variant{name: "unknown kind", signed: set("{kind}", "telepathy_check")},
		),
	)
}

// authorizationVariants returns callbacks whose Authorization has another spelling.
func authorizationVariants() []Variant {
	return accept(Variant{Severity: Medium, Strict: true, Reason: "The form of the Authorization allows this spelling."},
		variant{name: "covered names reordered", signed: covering("digest date {kind} host (request-target)")},
		variant{name: "more headers covered", signed: covering("{covered} content-type content-length")},
		variant{name: "parameters reordered", sent: reverseParameters},
		variant{name: "space around commas", sent: auth(",", " \t, ")},
		variant{name: "unknown parameters", sent: auth("Signature ", `Signature created=1402170695,opaque="",`)},
		variant{name: "parameter name in different case", sent: auth("keyId", "KeyID")},
		variant{name: "lower-case scheme", sent: auth("Signature keyId", "signature  keyId")},
		variant{name: "unquoted algorithm", sent: auth(`"rsa-sha256"`, `rsa-sha256`)},
	)
}

// renamed changes the names of all header fields.
func renamed(change func(string) string) edit {
	return func(m *Message, _ Setup) {
		for i := range m.Fields {
			m.Fields[i].Name = change(m.Fields[i].Name)
		}
	}
}

func chunked(m *Message, _ Setup) {
	m.Drop("Content-Length")
	m.Add("Transfer-Encoding", "chunked")
	m.Body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(m.Body), m.Body)
}

func upperHost(m *Message, _ Setup) { m.Host = strings.ToUpper(m.Host) }

// defaultPort adds a default port if the host has none.
func defaultPort(name, port string) string {
	if port == "" {
		port = ":443"
	}
	return name + port
}

// reverseParameters reverses the order of the parameters of the Authorization.
func reverseParameters(m *Message, _ Setup) {
	params := strings.Split(strings.TrimPrefix(m.Get("Authorization"), "Signature "), ",")
	slices.Reverse(params)
	m.Set("Authorization", "Signature "+strings.Join(params, ","))
}

// editParameters builds the query of a redirect again from its parts.
func editParameters(join func(authorization, date, rest string) string) edit {
	return func(m *Message, _ Setup) {
		path, query, _ := strings.Cut(m.Target, "?")
		rest, signed, _ := strings.Cut(query, "&authorization=")
		authorization, date, _ := strings.Cut(signed, "&date=")
		m.Target = path + "?" + join(authorization, date, rest)
	}
}
