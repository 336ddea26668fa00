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

// algorithm is the only accepted signature algorithm. A message cannot select a different one.
const algorithm = "rsa-sha256"

// authorization is a parsed Authorization header or authorization parameter.
type authorization struct {
	keyID     string
	covered   []string // the names in the parameter headers, in order
	signature []byte
}

// parseAuthorization parses
//
//	Signature keyId="…",algorithm="rsa-sha256",headers="(request-target) host date …",signature="…"
//
// The parameters may occur in any order, each at most once. Names are case-insensitive. Values are
// tokens, or quoted strings without escapes. Unknown parameters are ignored.
func parseAuthorization(s string) (authorization, error) {
	params, err := parseParameters(s)
	if err != nil {
		return authorization{}, err
	}
	if !validKeyID(params.keyID) {
		return authorization{}, newError(ErrMalformed, "keyId in the Authorization must be 1 to 256 printable ASCII characters without backslashes")
	}
	covered, ok := parseCovered(params.headers)
	if !ok {
		return authorization{}, newError(ErrMalformed, "headers in the Authorization must list 1 to 16 lower-case names, separated by single spaces")
	}
	signature, ok := decodeBase64(params.signature)
	if !ok || len(signature) == 0 {
		return authorization{}, newError(ErrMalformed, "signature in the Authorization is missing or not valid base64")
	}
	switch params.algorithm {
	case algorithm:
		return authorization{keyID: params.keyID, covered: covered, signature: signature}, nil
	case "":
		return authorization{}, newError(ErrMalformed, "algorithm in the Authorization is missing")
	default:
		return authorization{}, newError(ErrAlgorithm, "algorithm in the Authorization is not rsa-sha256")
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

// parseCovered splits a list of lower-case names separated by single spaces. A name in parentheses
// is a special name, not a header.
func parseCovered(s string) (names []string, ok bool) {
	if strings.Count(s, " ") >= maxCovered {
		return nil, false
	}
	names = strings.Split(s, " ")
	for _, name := range names {
		bare, special := strings.CutPrefix(name, "(")
		if special {
			bare, ok = strings.CutSuffix(bare, ")")
			if !ok {
				return nil, false
			}
		}
		if !isToken(bare) || strings.ToLower(bare) != bare {
			return nil, false
		}
	}
	return names, true
}

// decodeBase64 decodes standard base64 with padding. It rejects line breaks and nonzero trailing
// bits.
func decodeBase64(s string) (decoded []byte, ok bool) {
	decoded, err := base64.StdEncoding.Strict().DecodeString(s)
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
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
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
