package signature

import (
	"encoding/base64"
	"slices"
	"strings"
)

// Limits of the Authorization parser. Messages of the service are far below them.
const (
	maxAuthorization = 8 << 10 // bytes
	maxParameters    = 16
	maxCovered       = 16 // names
)

// signatureBuffer is the size of a buffer for the signature of the largest key. Decoding needs up
// to two bytes more than the signature.
const signatureBuffer = maxKeyBits/8 + 2

// algorithm is the only accepted signature algorithm. A message cannot select a different one.
const algorithm = "rsa-sha256"

// authorization contains the parts of an Authorization header or authorization parameter, without
// the signature.
type authorization struct {
	keyID   string
	covered nameList // the names in the parameter headers, in order
}

// nameList is a list of at most maxCovered names that needs no allocation.
type nameList struct {
	names [maxCovered]string
	len   int
}

func (l *nameList) slice() []string { return l.names[:l.len] }

// set sets l to the first maxCovered names.
func (l *nameList) set(names []string) { l.len = copy(l.names[:], names) }

// parse parses
//
//	Signature keyId="…",algorithm="rsa-sha256",headers="(request-target) host date …",signature="…"
//
// The parameters may occur in any order, each at most once. Names are case-insensitive. Values are
// tokens, or quoted strings without escapes. Unknown parameters are ignored.
//
// parse appends the signature to buf instead of storing it in a. The key ID escapes to the key
// source, and escape analysis treats a struct as a whole, so the caller's buffer would move to the
// heap.
func (a *authorization) parse(s string, buf []byte) (signature []byte, err error) {
	params, err := parseParameters(s)
	if err != nil {
		return nil, err
	}
	if !validKeyID(params.keyID) {
		return nil, newError(ErrMalformed, "keyId in the Authorization must be 1 to 256 printable ASCII characters without backslashes")
	}
	a.keyID = params.keyID
	if !a.covered.parse(params.headers) {
		return nil, newError(ErrMalformed, "headers in the Authorization must list 1 to 16 lower-case names, separated by single spaces")
	}
	signature, ok := appendBase64(buf, params.signature)
	if !ok || len(signature) == 0 {
		return nil, newError(ErrMalformed, "signature in the Authorization is missing or not valid base64")
	}
	switch params.algorithm {
	case algorithm:
		return signature, nil
	case "":
		return nil, newError(ErrMalformed, "algorithm in the Authorization is missing")
	default:
		return nil, newError(ErrAlgorithm, "algorithm in the Authorization is not rsa-sha256")
	}
}

// parameters contains the raw values of the known parameters. The value of a missing parameter is
// empty, which is never valid.
type parameters struct {
	keyID, algorithm, headers, signature string
}

func parseParameters(s string) (parameters, error) {
	var p parameters
	if len(s) > maxAuthorization {
		return p, newError(ErrMalformed, "Authorization is longer than 8 KiB")
	}
	scheme, rest, _ := strings.Cut(s, " ")
	if !strings.EqualFold(scheme, "Signature") {
		return p, newError(ErrMalformed, "Authorization scheme is not Signature")
	}
	seen := make([]string, 0, maxParameters)
	for more := true; more; {
		var name, value string
		var ok bool
		if name, value, rest, more, ok = cutParameter(rest); !ok {
			return p, newError(ErrMalformed, "Authorization is not a valid parameter list")
		}
		if slices.ContainsFunc(seen, func(s string) bool { return strings.EqualFold(s, name) }) {
			return p, newError(ErrMalformed, "Authorization has a duplicate parameter")
		}
		if len(seen) == maxParameters {
			return p, newError(ErrMalformed, "Authorization has more than 16 parameters")
		}
		seen = append(seen, name)
		switch {
		case strings.EqualFold(name, "keyId"):
			p.keyID = value
		case strings.EqualFold(name, "algorithm"):
			p.algorithm = value
		case strings.EqualFold(name, "headers"):
			p.headers = value
		case strings.EqualFold(name, "signature"):
			p.signature = value
		}
	}
	return p, nil
}

// cutParameter cuts the first name=value pair and the space around it from s. Result more reports
// whether a comma follows.
func cutParameter(s string) (name, value, rest string, more, ok bool) {
	name, s, ok = strings.Cut(skipSpace(s), "=")
	if !ok || !isToken(name) {
		return "", "", "", false, false
	}
	if quoted := strings.HasPrefix(s, `"`); quoted {
		value, s, ok = strings.Cut(s[1:], `"`)
		ok = ok && isQuotable(value)
	} else {
		end := strings.IndexAny(s, ", \t")
		if end < 0 {
			end = len(s)
		}
		value, s = s[:end], s[end:]
		ok = isToken(value)
	}
	rest, more = strings.CutPrefix(skipSpace(s), ",")
	return name, value, rest, more, ok && (more || rest == "")
}

// parse splits a list of lower-case names separated by single spaces. A name in parentheses is a
// special name, not a header.
func (l *nameList) parse(s string) bool {
	for name := range strings.SplitSeq(s, " ") {
		bare, special := strings.CutPrefix(name, "(")
		if special {
			var ok bool
			if bare, ok = strings.CutSuffix(bare, ")"); !ok {
				return false
			}
		}
		if l.len == maxCovered || !isToken(bare) || strings.ToLower(bare) != bare {
			return false
		}
		l.names[l.len] = name
		l.len++
	}
	return true
}

// appendBase64 decodes standard base64 with padding and appends the result to buf, which must be
// empty. It rejects line breaks and nonzero trailing bits.
func appendBase64(buf []byte, s string) (decoded []byte, ok bool) {
	decoded, err := base64.StdEncoding.Strict().AppendDecode(buf, []byte(s))
	return decoded, err == nil && base64.StdEncoding.EncodedLen(len(decoded)) == len(s)
}

func skipSpace(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}

// isQuotable reports whether s can be quoted without escapes: it contains only printable ASCII, and
// no quotes or backslashes. Escapes are not supported, because parsers handle them differently.
func isQuotable(s string) bool {
	if strings.IndexByte(s, '"') >= 0 || strings.IndexByte(s, '\\') >= 0 {
		return false
	}
	for i := range len(s) {
		if s[i]-' ' > '~'-' ' { // also if s[i] < ' ': the difference wraps around
			return false
		}
	}
	return true
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}
