package signature

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
)

// foundAuthorization is the Authorization of a message, and how it was changed.
type foundAuthorization struct {
	authorization
	signature []byte
	text      string
	change    Change // zero if it was received as the service sends it
}

// movedTo returns the names of headers to which gateways move the header with the given name.
func movedTo(key string) []string {
	return []string{"X-Amzn-Remapped-" + key, "X-Original-" + key, "X-Forwarded-" + key, "X-" + key}
}

// findAuthorization sets e.authorization. Without a valid one, it reports false and returns what
// was found.
func (e *examination) findAuthorization() (found Change, ok bool) {
	candidates := e.authorizationValues()
	if e.operation == "redirect" {
		candidates = e.authorizationParameters()
	}
	found.Part = authorizationPart
	for _, c := range candidates {
		var parsed authorization
		signature, err := parsed.parse(c.value, nil)
		if err == nil {
			e.authorization = foundAuthorization{authorization: parsed, signature: signature, text: c.value}
			if c.found != "" {
				e.authorization.change = Change{authorizationPart, c.found, c.fix}
			}
			return found, true
		}
		if found.Found == "" && strings.HasPrefix(c.value, "Signature") {
			found.Found = detailOf(err)
		}
	}
	switch {
	case found.Found != "":
	case e.operation == "redirect" && len(candidates) > 0:
		found.Found = "the parameter of the query is not a signature: it was changed or truncated on the way, or the URL was not opened by the service"
	case e.operation == "redirect":
		found.Found = "the query has no signature: the request is not a redirect of the service (a health check, a reload of another URL, a link preview), or a proxy removed the query"
	case len(candidates) > 0:
		found.Found = "contains other credentials than a signature: the request does not come from the service, or a gateway that authenticates has replaced it"
		found.Fix = "exclude the callback URL from authentication"
	default:
		found.Found = "the request has no signature: it does not come from the service (a health check, a scanner), or a proxy removed the header Authorization"
	}
	return found, false
}

// authorizationValues returns the possible Authorizations of a callback.
func (e *examination) authorizationValues() []option {
	const keepOut = "configure it not to add its own credentials"
	var found []option
	values := e.headerValues("Authorization")
	for _, value := range values {
		o := option{value: value}
		if len(e.r.Header["Authorization"]) > 1 {
			o.found, o.fix = "a proxy or gateway repeated the header", keepOut
		}
		found = append(found, o)
	}
	for _, value := range values {
		merged := option{found: "a proxy or gateway merged its own credentials into the header", fix: keepOut}
		if i := strings.Index(value, "Signature "); i > 0 {
			merged.value = value[i:]
			found = append(found, merged)
		}
		merged.value = value[:strings.LastIndexByte(value, '"')+1]
		found = append(found, merged)
	}
	for _, key := range append(movedTo("Authorization"), "Proxy-Authorization") {
		for _, value := range e.headerValues(key) {
			found = append(found, option{value: value, found: "a gateway moved the header to " + key + " or used it", fix: "restore it before the verifier, or exclude the callback URL from authentication"})
		}
	}
	return found
}

// parameterSources returns the queries that may contain the parameters of a redirect.
func (e *examination) parameterSources() []redirectQuery {
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
func (e *examination) authorizationParameters() []option {
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
		if !oneLine(text) {
			return
		}
		o := option{value: text}
		if len(found) > 0 || !ok {
			o.found, o.fix = "a proxy or router changed the encoding of the parameter "+name, "configure it to pass the query unchanged"
		}
		found = append(found, o)
	}
	if text, ok := decodeParameter(escaped); ok {
		add(text, true)
	}
	plain := escaped
	for range 3 {
		if decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(plain, "=")); err == nil {
			add(string(decoded), false)
		}
		next, err := url.PathUnescape(plain)
		if err != nil {
			break
		}
		plain = next
	}
	if text, err := url.QueryUnescape(escaped); err == nil {
		add(text, false)
	}
	return found
}

// receivedDate returns the date of the message, or "".
func (e *examination) receivedDate() string {
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
func (e *examination) dimensions() []dimension {
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

const keepHeader = "configure the proxy to pass the header unchanged"

// headers returns the possible values of a covered header.
func (e *examination) headers(name string) dimension {
	d := dimension{name: name, fix: keepHeader}
	key := http.CanonicalHeaderKey(name)
	values := e.headerValues(key)
	if len(values) > 1 {
		for _, value := range values {
			d.add(value, "occurs more than once")
		}
		for _, separator := range []string{", ", ","} {
			d.add(strings.Join(values, separator), "split into several lines")
		}
		return d
	}
	for _, value := range values {
		d.add(value, "")
		for _, separator := range []string{", ", ","} {
			if half := (len(value) - len(separator)) / 2; half > 0 && value == value[:half]+separator+value[:half] {
				d.add(value[:half], "a proxy repeated the header and merged the values")
			}
		}
	}
	for _, moved := range movedTo(key) {
		for _, value := range e.headerValues(moved) {
			d.addOption(option{value: value, found: "a gateway moved it to another header, which begins with " + strings.TrimSuffix(moved, key), fix: "restore it before the verifier"})
		}
	}
	if strings.Contains(name, "callback") {
		for _, product := range []string{"phone_check", "sim_check", "subscriber_check"} {
			d.add(product, "a proxy removed or changed it")
		}
	}
	return d
}

// dates returns the possible dates.
func (e *examination) dates() dimension {
	d, replaced := e.headers("date"), "a proxy removed or replaced the header Date of the service"
	if e.operation == "redirect" {
		d, replaced = dimension{name: "date", fix: "pass the query unchanged"}, "the parameter date was removed or changed on the way"
		for _, q := range e.parameterSources() {
			for _, o := range parameterValues(q.date, "date") {
				d.addOption(o)
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
			d.add(date.UTC().Format(http.TimeFormat), "a proxy wrote it in another form")
		}
	}
	for seconds := 1; seconds <= 10; seconds++ {
		for _, offset := range []int{-seconds, seconds} {
			direction := "before"
			if offset > 0 {
				direction = "after"
			}
			signed := near.Add(time.Duration(offset) * time.Second)
			d.add(signed.UTC().Format(http.TimeFormat), fmt.Sprintf("%s: signed %d s %s the received date, or that of the clock", replaced, seconds, direction))
		}
	}
	d.add(near.UTC().Format(http.TimeFormat), replaced)
	return d
}

// digests returns the possible digests in the form in which they were signed.
func (e *examination) digests() dimension {
	d := e.headers("digest")
	var sums [][]byte
	for _, o := range slices.Clone(d.options) {
		if sum, ok := anyDigest(o.value); ok {
			sums = append(sums, sum)
		}
	}
	found := "a proxy or gateway wrote the header in another form"
	if len(d.options) == 0 {
		found = "a proxy removed or renamed the header"
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
			d.add(name+inHex, found)
			d.add(name+base64.StdEncoding.EncodeToString(sum), found)
			d.add(name+strings.ToUpper(inHex), found)
			d.add(name+base64.URLEncoding.EncodeToString(sum), found)
			d.add(name+base64.RawURLEncoding.EncodeToString(sum), found)
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

// Headers in which proxies pass on what they received.
var (
	hostHeaders   = []string{"X-Forwarded-Host", "X-Original-Host", "X-Host", "X-Forwarded-Server"}
	targetHeaders = []string{"X-Original-Uri", "X-Original-Url", "X-Envoy-Original-Path", "X-Rewrite-Url", "X-Forwarded-Uri", "X-Replaced-Path", "X-Waws-Unencoded-Url", "X-Forwarded-Path"}
	prefixHeaders = []string{"X-Forwarded-Prefix", "X-Script-Name"}
)

// Limits of what is examined in a request that anyone can send.
const (
	maxHosts        = 32      // hosts
	maxHeaderValues = 4       // values of one header
	maxVaried       = 4 << 10 // bytes of a value with many variants
)

const (
	useTarget     = "configure the proxy to keep it, or the receiver to verify the original (in Go, with VerifierOptions.Target)"
	correctTarget = "correct Target"
)

// headerValues returns the first values of a header that are short enough to be examined.
func (e *examination) headerValues(key string) []string {
	values := e.r.Header[key]
	return slices.DeleteFunc(slices.Clone(values[:min(len(values), maxHeaderValues)]), func(s string) bool { return len(s) > maxVaried })
}

// sentTo returns the host and the request URI that the verifier uses.
func (e *examination) sentTo() (host, uri string) {
	host, uri = hostOf(e.r), uriOf(e.r)
	if e.v.target != nil {
		h, u := e.v.target(e.r)
		host, uri = cmp.Or(h, host), cmp.Or(u, uri)
	}
	return host, uri
}

// receivedTarget returns the path and the query that the verifier uses.
func (e *examination) receivedTarget() (path, query string) {
	_, uri := e.sentTo()
	return e.cutTarget(uri)
}

// cutTarget returns the path and the signed query of a request URI. The query begins with "?" or is
// empty.
func (e *examination) cutTarget(uri string) (path, query string) {
	if _, rest, ok := strings.Cut(uri, "://"); ok && !strings.HasPrefix(uri, "/") {
		uri = "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			uri = "/" + strings.TrimPrefix(rest[i:], "/")
		}
	}
	path, query, ok := strings.Cut(uri, "?")
	if e.operation == "redirect" {
		query = cutQuery(query).rest
		ok = query != ""
	}
	if ok {
		query = "?" + query
	}
	return path, query
}

// hosts returns the hosts for which the message may have been signed.
func (e *examination) hosts() dimension {
	d := dimension{name: "host", fix: useTarget}
	received, uri := e.sentTo()
	d.add(received, "")
	found := func(host, source string) {
		if host = strings.TrimSpace(host); host != "" && len(host) <= 255 && len(d.options) < maxHosts {
			d.add(host, fmt.Sprintf("signed for %s, %s", e.hostText(host), source))
		}
	}
	found(hostOf(e.r), "the host of the request, but VerifierOptions.Target returns another")
	if _, rest, ok := strings.Cut(uri, "://"); ok && !strings.HasPrefix(uri, "/") {
		end := strings.IndexAny(rest+"/", "/?")
		found(rest[:end], "the host in the request target, but the Host header has another")
	}
	for _, key := range hostHeaders {
		for _, value := range e.headerValues(key) {
			for host := range strings.SplitSeq(value, ",") {
				found(host, "the host in "+key+", which the proxy replaced")
			}
		}
	}
	for _, value := range e.headerValues("Forwarded") {
		for pair := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ';' }) {
			if name, host, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.EqualFold(name, "host") {
				found(strings.Trim(host, `"`), "the host in Forwarded, which the proxy replaced")
			}
		}
	}
	for _, host := range e.ownHosts(splitHost(received).port) {
		found(host, "one of the verifier's hosts, but received with another Host header")
	}
	for _, o := range slices.Clone(d.options) {
		name := splitHost(o.value).name
		for _, port := range []string{"", ":443", ":80", ":" + splitHost(received).port} {
			found(name+strings.TrimSuffix(port, ":"), "but received with another port")
		}
	}
	return d
}

// ownHosts returns the hosts of the verifier in alphabetical order. A host with any port has the
// given one.
func (e *examination) ownHosts(port string) []string {
	var hosts []string
	for h := range maps.Keys(e.v.hosts) {
		if h.port == "*" {
			h.port = port
		}
		if h.port != "" {
			h.name += ":" + h.port
		}
		hosts = append(hosts, h.name)
	}
	slices.Sort(hosts)
	return hosts
}

// hostText returns host for an explanation. It omits anything that an error must not contain, for
// example an IP address, unless the caller has passed it.
func (e *examination) hostText(host string) string {
	h := splitHost(host)
	switch {
	case e.ownName(h.name) && validPort(h.port):
		return strings.ToLower(host)
	case validHostName(h.name) && validPort(h.port) && net.ParseIP(strings.Trim(h.name, "[]")) == nil && redact.Text(h.name) == h.name:
		return strings.ToLower(host)
	case h == splitHost(hostOf(e.r)):
		return "the host of the request"
	}
	return "another host"
}

// ownName reports whether name is that of one of the verifier's hosts, with any port.
func (e *examination) ownName(name string) bool {
	for own := range e.v.hosts {
		if own.name == name {
			return true
		}
	}
	return false
}

// portText describes how the port of one of the verifier's hosts differs from that of host, or
// returns "" if none has the same name.
func (e *examination) portText(host string) string {
	h := splitHost(host)
	switch {
	case !e.ownName(h.name):
		return ""
	case e.v.hosts[hostPort{name: h.name}]:
		return " (one has the same name, but without the port)"
	case h.port == "":
		return " (one has the same name, but with a port)"
	}
	return " (one has the same name, but another port)"
}

// paths returns the paths for which the message may have been signed.
func (e *examination) paths() dimension {
	d := dimension{name: pathPart, fix: useTarget}
	d.add(e.path, "")
	raw, _ := e.cutTarget(uriOf(e.r))
	d.addOption(option{value: raw, found: "signed as in the request, but VerifierOptions.Target returns another path", fix: correctTarget})
	for _, key := range targetHeaders {
		for _, value := range e.headerValues(key) {
			path, _ := e.cutTarget(value)
			d.add(path, "signed as in "+key+", which the proxy replaced")
		}
	}
	for _, registered := range e.opts.Paths {
		path, _, _ := strings.Cut(registered, "?")
		change := "but received with another"
		if prefix, ok := strings.CutSuffix(path, e.path); ok && prefix != "" && len(e.path) > 1 {
			change = "from which a proxy removed " + prefix
		}
		d.addOption(option{value: path, found: fmt.Sprintf("signed for the registered path %s, %s", path, change), general: true})
	}
	if len(e.path) > maxVaried {
		return d
	}
	for _, key := range prefixHeaders {
		for _, prefix := range e.headerValues(key) {
			d.add("/"+strings.Trim(prefix, "/")+e.path, "signed with the prefix in "+key+", which the proxy removed")
		}
	}
	d.add(strings.ReplaceAll(e.path, "//", "/"), "signed with a single slash, which a proxy doubled")
	rest := e.path
	for n := 1; n <= 5; n++ {
		i := strings.IndexByte(strings.TrimPrefix(rest, "/"), '/')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		d.add(rest, fmt.Sprintf("signed without the first %s, which a proxy added", count(n, "segment")))
	}
	for _, o := range slices.Clone(d.options) {
		if len(d.options) == maxOptions {
			break
		}
		for _, variant := range pathVariants(o.value) {
			if variant.value == o.value {
				continue
			}
			if o.found != "" {
				variant.found, variant.fix = o.found+" (also "+variant.found+")", o.fix
			}
			d.addOption(variant)
		}
	}
	return d
}

// pathVariants returns other spellings of a path that proxies and frameworks replace.
func pathVariants(path string) []option {
	var variants []option
	add := func(value, found string) { variants = append(variants, option{value: value, found: found}) }
	if slashed, ok := strings.CutSuffix(path, "/"); ok {
		add(slashed, "signed without the slash at its end, which a proxy or router added")
	} else {
		add(path+"/", "signed with a slash at its end, which a proxy or router removed")
	}
	add(escapeCase(path, strings.ToLower), "signed with escapes in lower case, which a proxy changed")
	add(escapeCase(path, strings.ToUpper), "signed with escapes in upper case, which a proxy changed")
	const decoded = "signed with escaped characters, which a proxy decoded"
	if plain, err := url.PathUnescape(path); err == nil {
		add(plain, "signed with characters that a proxy escaped")
		add((&url.URL{Path: plain}).EscapedPath(), decoded)
		segments := strings.Split(plain, "/")
		for i := range segments {
			segments[i] = url.PathEscape(segments[i])
		}
		add(strings.Join(segments, "/"), decoded)
		add(escapeCase(strings.Join(segments, "/"), strings.ToLower), decoded)
	}
	for i, n := 1, 0; i < len(path) && n < 6; i++ {
		if path[i] == '/' {
			n++
			add(path[:i]+"%2F"+path[i+1:], "signed with %2F, which a proxy decoded")
			add(path[:i]+"%2f"+path[i+1:], "signed with %2f, which a proxy decoded")
			add(path[:i]+"/"+path[i:], "signed with a double slash, which a proxy merged")
		}
	}
	add("/"+path, "signed with a double slash, which a proxy merged")
	return variants
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// escapeCase applies change to each percent escape.
func escapeCase(s string, change func(string) string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], change(s[i+1:i+3]))
		}
	}
	return string(b)
}

// method returns the method that was signed.
func (e *examination) method() dimension {
	want := http.MethodGet
	if e.operation == "callback" {
		want = http.MethodPost
	}
	d := dimension{name: methodPart, fix: "check for a redirect in front of the handler, and for link previews (HEAD)"}
	found := ""
	if e.r.Method != want {
		found = "signed as " + want + ", but received with another"
	}
	d.add(strings.ToLower(want), found)
	return d
}

// queries returns the queries for which the message may have been signed.
func (e *examination) queries() dimension {
	d := dimension{name: queryPart, fix: useTarget}
	d.add(e.query, "")
	_, raw := e.cutTarget(uriOf(e.r))
	d.addOption(option{value: raw, found: "signed as in the request, but VerifierOptions.Target returns another query", fix: correctTarget})
	for _, key := range targetHeaders {
		for _, value := range e.headerValues(key) {
			_, query := e.cutTarget(value)
			d.add(query, "signed as in "+key+", which the proxy replaced")
		}
	}
	for _, registered := range e.opts.Paths {
		_, query := e.cutTarget(registered)
		d.addOption(option{value: query, found: "signed with the query of a registered path, which a proxy removed or changed", general: true})
	}
	if e.operation == "redirect" {
		for _, q := range e.parameterSources() {
			d.add("?"+q.rest, "signed with &, which was replaced by &amp;")
		}
	}
	d.add("", "signed without a query, which a proxy added")
	if len(e.query) > maxVaried {
		return d
	}
	for _, variant := range queryVariants(strings.TrimPrefix(e.query, "?")) {
		if variant.value != "" {
			d.add("?"+variant.value, variant.found)
		}
	}
	d.add("?"+strings.TrimPrefix(e.query, "?"), "signed with an empty query, which a proxy removed")
	return d
}

// queryVariants returns other spellings of a query that proxies and frameworks replace.
func queryVariants(query string) []option {
	var variants []option
	add := func(value, found string) { variants = append(variants, option{value: value, found: found}) }
	segments := strings.Split(query, "&")
	const added = "signed without tracking parameters, which were added on the way"
	add(joinWhere(segments, func(s string) bool { return !isTracking(s) }), added)
	if half := len(segments) / 2; half*2 == len(segments) && slices.Equal(segments[:half], segments[half:]) {
		add(strings.Join(segments[:half], "&"), "signed once, but received twice")
	}
	for _, v := range spellings(query) {
		add(v.value, v.found)
	}
	add(strings.ReplaceAll(query, "&amp;", "&"), "signed with &, which was replaced by &amp;")
	add(strings.TrimRight(query, "&"), "signed without the & at its end")
	add(query+"&", "signed with an & at its end, which a proxy removed")
	const reordered = "signed with its parameters in another order"
	own := joinWhere(segments, func(s string) bool { return isServiceParameter(s) })
	others := joinWhere(segments, func(s string) bool { return !isServiceParameter(s) })
	add(strings.Trim(others+"&"+own, "&"), reordered)
	if len(segments) <= 16 {
		for i := range segments {
			add(strings.Join(slices.Delete(slices.Clone(segments), i, i+1), "&"), "signed without one of its parameters, which was added on the way")
		}
		for n := 2; n < len(segments); n++ {
			add(strings.Join(segments[:len(segments)-n], "&"), "signed without its last "+count(n, "parameter")+", which were added on the way")
		}
	}
	if len(segments) <= 4 {
		permute(segments, 0, func(order []string) { add(strings.Join(order, "&"), reordered) })
	} else {
		add(strings.Join(slices.Sorted(slices.Values(segments)), "&"), reordered)
	}
	// "a=" and "a" mean the same, so some libraries write one for the other.
	withEquals, without := slices.Clone(segments), slices.Clone(segments)
	for i, s := range segments {
		if s != "" && !strings.Contains(s, "=") {
			withEquals[i] = s + "="
		}
		without[i] = strings.TrimSuffix(s, "=")
	}
	add(strings.Join(withEquals, "&"), "signed with = after an empty parameter, which a proxy removed")
	add(strings.Join(without, "&"), "signed without the = after an empty parameter, which a proxy added")
	return variants
}

// spellings returns the query with other escapes.
func spellings(query string) []option {
	var variants []option
	add := func(value, with string) {
		variants = append(variants, option{value: value, found: "signed with " + with})
	}
	add(strings.ReplaceAll(query, "+", "%20"), "%20, which a proxy replaced by +")
	add(strings.ReplaceAll(query, "%20", "+"), "+, which a proxy replaced by %20")
	add(strings.ReplaceAll(query, "+", "%2B"), "%2B, which a proxy replaced by +")
	add(strings.ReplaceAll(query, "%20", "%2B"), "%2B, which a proxy decoded twice")
	add(strings.ReplaceAll(query, "%25", "%"), "escapes that a proxy escaped once more")
	add(escapeCase(query, strings.ToLower), "escapes in lower case, which a proxy changed")
	add(escapeCase(query, strings.ToUpper), "escapes in upper case, which a proxy changed")
	recode := func(with string, encode func(string) string) {
		segments := strings.Split(query, "&")
		for i, s := range segments {
			key, value, ok := strings.Cut(s, "=")
			key, value = encode(key), encode(value)
			segments[i] = key
			if ok {
				segments[i] += "=" + value
			}
		}
		value := strings.Join(segments, "&")
		add(value, with)
		add(escapeCase(value, strings.ToLower), with)
	}
	unescape := func(s string) string {
		if plain, err := url.QueryUnescape(s); err == nil {
			return plain
		}
		return s
	}
	recode("escaped characters, which a proxy decoded", func(s string) string { return url.QueryEscape(unescape(s)) })
	recode("escaped characters, which a proxy decoded", func(s string) string { return strings.ReplaceAll(url.QueryEscape(unescape(s)), "+", "%20") })
	for _, kept := range []string{"&=#+% ", "&#+% ", "&=#+% /:?,;@"} {
		recode("characters that a proxy escaped", func(s string) string { return decodeExcept(s, kept) })
	}
	return variants
}

// decodeExcept decodes the escapes of all printable ASCII characters that are not in kept.
func decodeExcept(s, kept string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil && c > " " && c < "\x7f" && !strings.Contains(kept, c) {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// permute calls f with each order of s[n:].
func permute(s []string, n int, f func([]string)) {
	if n >= len(s)-1 {
		f(s)
		return
	}
	for i := n; i < len(s); i++ {
		s[n], s[i] = s[i], s[n]
		permute(s, n+1, f)
		s[n], s[i] = s[i], s[n]
	}
}

func joinWhere(segments []string, keep func(string) bool) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(segments), func(s string) bool { return !keep(s) }), "&")
}

// isServiceParameter reports whether the service appends this parameter to the redirect URL.
func isServiceParameter(segment string) bool {
	return strings.HasPrefix(segment, "check_id=") || strings.HasPrefix(segment, "code=")
}

// isTracking reports whether browsers, apps and mail programs add this parameter to URLs.
func isTracking(segment string) bool {
	key, _, _ := strings.Cut(segment, "=")
	return strings.HasPrefix(key, "utm_") || strings.HasPrefix(key, "mc_") || strings.HasPrefix(key, "pk_") ||
		slices.Contains([]string{"fbclid", "gclid", "gbraid", "wbraid", "dclid", "msclkid", "twclid", "igshid", "ttclid", "yclid", "_ga", "_gl", "_hsenc", "_hsmi"}, key)
}
