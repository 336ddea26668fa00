package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// parseDigest reads "SHA-256=" and the hash, in hexadecimal or in base64: the specification's text says the one and shows the other (section 5.3, callback, 6).
func parseDigest(s string) (sum [sha256.Size]byte, ok bool) {
	name, value, _ := strings.Cut(s, "=")
	if !strings.EqualFold(name, "SHA-256") {
		return sum, false
	}
	switch len(value) {
	case hex.EncodedLen(sha256.Size):
		_, err := hex.Decode(sum[:], []byte(value))
		return sum, err == nil
	case base64.StdEncoding.EncodedLen(sha256.Size):
		decoded, ok := decodeBase64(value)
		return sum, ok && copy(sum[:], decoded) == len(decoded) && len(decoded) == sha256.Size
	}
	return sum, false
}

// formatDigest is the other way round.
func formatDigest(body []byte, inBase64 bool) string {
	sum := sha256.Sum256(body)
	if inBase64 {
		return "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
	}
	return "SHA-256=" + hex.EncodeToString(sum[:])
}
