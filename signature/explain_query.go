package signature

import (
	"net/url"
	"slices"
	"strings"
)

// queries returns the queries for which the message may have been signed.
func (e *explanation) queries() dimension {
	d := dimension{name: queryPart}
	d.add(e.query, "")
	_, raw := e.cutTarget(uriOf(e.r))
	d.add(raw, "query: signed as in the request, but VerifierOptions.Target returns another query: correct Target")
	for _, key := range targetHeaders {
		for _, value := range e.headerValues(key) {
			_, query := e.cutTarget(value)
			d.add(query, "query: signed as in "+key+", which the proxy replaced: "+useTarget)
		}
	}
	for _, registered := range e.opts.Paths {
		_, query := e.cutTarget(registered)
		d.addGeneral(query, "query: signed with the query of a registered path, which a proxy removed or changed: "+useTarget)
	}
	d.add("", "query: signed without a query, which a proxy added: "+useTarget)
	if len(e.query) > maxVaried {
		return d
	}
	for _, variant := range queryVariants(strings.TrimPrefix(e.query, "?")) {
		if variant.value != "" {
			d.add("?"+variant.value, "query: "+variant.cause+": "+useTarget)
		}
	}
	d.add("?"+strings.TrimPrefix(e.query, "?"), "query: signed with an empty query, which a proxy removed")
	return d
}

// queryVariants returns other spellings of a query that proxies and frameworks replace.
func queryVariants(query string) []option {
	var variants []option
	add := func(value, cause string) { variants = append(variants, option{value: value, cause: cause}) }
	segments := strings.Split(query, "&")
	const added = "signed without tracking parameters, which were added on the way"
	add(joinWhere(segments, func(s string) bool { return !isTracking(s) }), added)
	if half := len(segments) / 2; half*2 == len(segments) && slices.Equal(segments[:half], segments[half:]) {
		add(strings.Join(segments[:half], "&"), "signed once, but received twice")
	}
	for _, v := range spellings(query) {
		add(v.value, v.cause)
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
	add := func(value, cause string) {
		variants = append(variants, option{value: value, cause: "signed with " + cause})
	}
	add(strings.ReplaceAll(query, "+", "%20"), "%20, which a proxy replaced by +")
	add(strings.ReplaceAll(query, "%20", "+"), "+, which a proxy replaced by %20")
	add(strings.ReplaceAll(query, "+", "%2B"), "%2B, which a proxy replaced by +")
	add(strings.ReplaceAll(query, "%20", "%2B"), "%2B, which a proxy decoded twice")
	add(strings.ReplaceAll(query, "%25", "%"), "escapes that a proxy escaped once more")
	add(escapeCase(query, strings.ToLower), "escapes in lower case, which a proxy changed")
	add(escapeCase(query, strings.ToUpper), "escapes in upper case, which a proxy changed")
	recode := func(cause string, encode func(string) string) {
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
		add(value, cause)
		add(escapeCase(value, strings.ToLower), cause)
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
