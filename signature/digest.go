package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// parseDigest parses "SHA-256=" followed by the hash in hexadecimal or base64. The service may send
// either.
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
		var buf [sha256.Size + 1]byte // the value has one byte of padding
		decoded, ok := appendBase64(buf[:0], value)
		return sum, ok && copy(sum[:], decoded) == len(decoded) && len(decoded) == sha256.Size
	}
	return sum, false
}

// formatDigest returns the value of the Digest header for body.
func formatDigest(body []byte, inBase64 bool) string {
	sum := sha256.Sum256(body)
	if inBase64 {
		return "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
	}
	return "SHA-256=" + hex.EncodeToString(sum[:])
}
