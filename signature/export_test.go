package signature

import (
	"crypto/rsa"
	"net/http"
)

// Doors for tests: the readers of foreign bytes, one by one.
var (
	ParseDate       = parseDate
	ParseDigest     = parseDigest
	DecodeParameter = decodeParameter
	SplitHost       = func(host string) (name, port string) { h := splitHost(host); return h.name, h.port }
	Usable          = func(key *rsa.PublicKey) bool { return usable(key) }
)

// ParseKeySet returns the keys of a key set that can verify.
func ParseKeySet(body []byte) (map[string]*rsa.PublicKey, error) {
	keys, _, err := parseKeySet(body)
	return keys, err
}

// Authorization is an authorization with open fields.
type Authorization struct {
	KeyID     string
	Covered   []string
	Signature []byte
}

func ParseAuthorization(s string) (Authorization, error) {
	a, err := parseAuthorization(s)
	return Authorization{a.keyID, a.covered, a.signature}, err
}

// CutQuery returns what is left of a query, the values cut out of it, and how often each name that must occur once does.
func CutQuery(raw string) (rest, authorization, date string, counts [3]int) {
	q := cutQuery(raw)
	return q.rest, q.authorization, q.date, [3]int{q.authorizations, q.dates, q.checkIDs}
}

// SigningString is that of a message with a signature over covered.
func SigningString(method, target, host, date string, header http.Header, covered []string) ([]byte, error) {
	m := message{method: method, target: target, host: host, date: date, header: header}
	m.covered = covered
	return m.signingString(nil)
}

// Claims is how many claims the store holds, expired or not.
func (s *MemoryReplayStore) Claims() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(len(s.queue), len(s.expiry))
}
