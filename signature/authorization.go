package signature

import (
	"encoding/base64"
	"slices"
	"strings"
)

// Bounds of an Authorization: nothing that the service sends comes near them, and nothing beyond them is looked at.
const (
	maxAuthorization = 8 << 10 // bytes
	maxParameters    = 16
	maxCovered       = 16 // names
)

// algorithm is the only one. What a message says of its algorithm is compared with it and never chosen by (specification, section 5.3).
const algorithm = "rsa-sha256"

// authorization is a parsed Authorization header or redirect parameter (specification, section 5.3).
type authorization struct {
	keyID     string
	covered   []string // the names in headers, in their order
	signature []byte
}

// parseAuthorization reads
//
//	Signature keyId="…",algorithm="rsa-sha256",headers="(request-target) host date …",signature="…"
//
// in any order of the parameters, each of which may stand there once. Names are compared without case, values are quoted strings without escapes, or tokens. Unknown parameters are passed over.
func parseAuthorization(s string) (authorization, error) {
	params, err := parseParameters(s)
	if err != nil {
		return authorization{}, err
	}
	if !validKeyID(params.keyID) {
		return authorization{}, newError(ErrMalformed, "the Authorization has no keyId of 1 to 256 printable characters")
	}
	covered, ok := parseCovered(params.headers)
	if !ok {
		return authorization{}, newError(ErrMalformed, "the headers in the Authorization are no list of 1 to 16 lower-case names")
	}
	signature, ok := decodeBase64(params.signature)
	if !ok || len(signature) == 0 {
		return authorization{}, newError(ErrMalformed, "the signature in the Authorization is not base64")
	}
	switch params.algorithm {
	case algorithm:
		return authorization{keyID: params.keyID, covered: covered, signature: signature}, nil
	case "":
		return authorization{}, newError(ErrMalformed, "the Authorization has no algorithm")
	default:
		return authorization{}, newError(ErrAlgorithm, "the algorithm is not rsa-sha256")
	}
}

// parameters are the ones with a meaning here, as they were sent; one that is not there is empty, which none may be.
type parameters struct {
	keyID, algorithm, headers, signature string
}

func parseParameters(s string) (parameters, error) {
	var p parameters
	if len(s) > maxAuthorization {
		return p, newError(ErrMalformed, "the Authorization is longer than 8 KiB")
	}
	scheme, rest, _ := strings.Cut(s, " ")
	if !strings.EqualFold(scheme, "Signature") {
		return p, newError(ErrMalformed, "the Authorization is not of the scheme Signature")
	}
	seen := make([]string, 0, maxParameters)
	for more := true; more; {
		var name, value string
		var ok bool
		if name, value, rest, more, ok = cutParameter(rest); !ok {
			return p, newError(ErrMalformed, "the Authorization is not a list of parameters")
		}
		if slices.ContainsFunc(seen, func(s string) bool { return strings.EqualFold(s, name) }) {
			return p, newError(ErrMalformed, "a parameter of the Authorization is repeated")
		}
		if len(seen) == maxParameters {
			return p, newError(ErrMalformed, "the Authorization has more than 16 parameters")
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

// cutParameter takes one name=value off s, with the space around it, and tells whether a comma promises another.
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

// parseCovered splits the names of headers. They are lower-case and separated by one space; a name in parentheses is no header.
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

// decodeBase64 decodes standard base64 that has exactly one spelling: no line breaks, no loose bits at the end.
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

// isQuotable tells whether s can stand between quotes: printable ASCII but the quote itself and the backslash, whose escapes every reader understands differently.
func isQuotable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// isToken reports a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}
