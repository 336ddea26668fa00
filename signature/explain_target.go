package signature

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/internal/redact"
)

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

const useTarget = "return it from VerifierOptions.Target, or configure the proxy to keep it"

// headerValues returns the first values of a header that are short enough to be examined.
func (e *explanation) headerValues(key string) []string {
	values := e.r.Header[key]
	return slices.DeleteFunc(slices.Clone(values[:min(len(values), maxHeaderValues)]), func(s string) bool { return len(s) > maxVaried })
}

// sentTo returns the host and the request URI that the verifier uses.
func (e *explanation) sentTo() (host, uri string) {
	host, uri = hostOf(e.r), uriOf(e.r)
	if e.v.target != nil {
		h, u := e.v.target(e.r)
		host, uri = cmp.Or(h, host), cmp.Or(u, uri)
	}
	return host, uri
}

// receivedTarget returns the path and the query that the verifier uses.
func (e *explanation) receivedTarget() (path, query string) {
	_, uri := e.sentTo()
	return e.cutTarget(uri)
}

// cutTarget returns the path and the signed query of a request URI. The query begins with "?" or is
// empty.
func (e *explanation) cutTarget(uri string) (path, query string) {
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
func (e *explanation) hosts() dimension {
	d := dimension{name: "host"}
	received, uri := e.sentTo()
	d.add(received, "")
	found := func(host, source string) {
		if host = strings.TrimSpace(host); host != "" && len(host) <= 255 && len(d.options) < maxHosts {
			d.add(host, fmt.Sprintf("host: signed for %s, %s: %s", e.hostText(host), source, useTarget))
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
func (e *explanation) ownHosts(port string) []string {
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
func (e *explanation) hostText(host string) string {
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
func (e *explanation) ownName(name string) bool {
	for own := range e.v.hosts {
		if own.name == name {
			return true
		}
	}
	return false
}

// portText describes how the port of one of the verifier's hosts differs from that of host, or
// returns "" if none has the same name.
func (e *explanation) portText(host string) string {
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
func (e *explanation) paths() dimension {
	d := dimension{name: pathPart}
	d.add(e.path, "")
	raw, _ := e.cutTarget(uriOf(e.r))
	d.add(raw, "path: signed as in the request, but VerifierOptions.Target returns another path: correct Target")
	for _, key := range targetHeaders {
		for _, value := range e.headerValues(key) {
			path, _ := e.cutTarget(value)
			d.add(path, "path: signed as in "+key+", which the proxy replaced: "+useTarget)
		}
	}
	for _, registered := range e.opts.Paths {
		path, _, _ := strings.Cut(registered, "?")
		change := "but received with another"
		if prefix, ok := strings.CutSuffix(path, e.path); ok && prefix != "" && len(e.path) > 1 {
			change = "from which a proxy removed " + prefix
		}
		d.addGeneral(path, fmt.Sprintf("path: signed for the registered path %s, %s: %s", path, change, useTarget))
	}
	if len(e.path) > maxVaried {
		return d
	}
	for _, key := range prefixHeaders {
		for _, prefix := range e.headerValues(key) {
			d.add("/"+strings.Trim(prefix, "/")+e.path, "path: signed with the prefix in "+key+", which the proxy removed: "+useTarget)
		}
	}
	d.add(strings.ReplaceAll(e.path, "//", "/"), "path: signed with a single slash, which a proxy doubled: "+useTarget)
	rest := e.path
	for n := 1; n <= 5; n++ {
		i := strings.IndexByte(strings.TrimPrefix(rest, "/"), '/')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		d.add(rest, fmt.Sprintf("path: signed without the first %s, which a proxy added: %s", count(n, "segment"), useTarget))
	}
	for _, o := range slices.Clone(d.options) {
		if len(d.options) == maxOptions {
			break
		}
		for _, variant := range pathVariants(o.value) {
			cause := "path: " + variant.cause + ": " + useTarget
			if o.cause != "" {
				cause = o.cause + " (also " + variant.cause + ")"
			}
			if variant.value != o.value {
				d.add(variant.value, cause)
			}
		}
	}
	return d
}

// pathVariants returns other spellings of a path that proxies and frameworks replace.
func pathVariants(path string) []option {
	var variants []option
	add := func(value, cause string) {
		variants = append(variants, option{value: value, cause: cause})
	}
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
func (e *explanation) method() dimension {
	want := http.MethodGet
	if e.operation == "callback" {
		want = http.MethodPost
	}
	cause := ""
	if e.r.Method != want {
		cause = "method: signed as " + want + ", but received with another: check for a redirect in front of the handler, and for link previews (HEAD)"
	}
	return dimension{name: methodPart, options: []option{{value: strings.ToLower(want), cause: cause}}}
}
