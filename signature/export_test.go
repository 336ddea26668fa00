package signature

import (
	"crypto/rsa"
	"net/http"
)

// Parsers of untrusted input, exported for tests.
var (
	ParseDate       = parseDate
	ParseDigest     = parseDigest
	DecodeParameter = decodeParameter
	SplitHost       = func(host string) (name, port string) { h := splitHost(host); return h.name, h.port }
	Usable          = func(key *rsa.PublicKey) bool { return usable(key) }
)

// ParseKeySet returns the usable keys of a key set.
func ParseKeySet(body []byte) (map[string]*rsa.PublicKey, error) {
	keys, _, err := parseKeySet(body)
	return keys, err
}

// Authorization is an authorization with exported fields.
type Authorization struct {
	KeyID     string
	Covered   []string
	Signature []byte
}

func ParseAuthorization(s string) (Authorization, error) {
	var a authorization
	signature, err := a.parse(s, nil)
	return Authorization{a.keyID, a.covered.slice(), signature}, err
}

// CutQuery returns the signed part of a query, the removed values, and the numbers of
// authorization, date and check_id parameters.
func CutQuery(raw string) (rest, authorization, date string, counts [3]int) {
	q := cutQuery(raw)
	return q.rest, q.authorization, q.date, [3]int{q.authorizations, q.dates, q.checkIDs}
}

// SigningString returns the signing string of a message for the covered names.
func SigningString(method, target, host, date string, header http.Header, covered []string) ([]byte, error) {
	m := message{method: method, target: target, host: host, date: date, header: header}
	m.covered.set(covered)
	return m.signingString(nil)
}

// Claims returns the number of claims in the store, including expired ones.
func (s *MemoryReplayStore) Claims() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(len(s.queue), len(s.expiry))
}

// ExplainCost returns the result of Explain, and how many operations with keys and forms of the
// message and the body it used.
func ExplainCost(v *Verifier, r *http.Request, opts *ExplainOptions) (explanation Explanation, keys, forms, bodies, size int) {
	e := newExamination(v, r, opts)
	explanation = e.explanation(r.Context())
	return explanation, e.budget.keys, e.budget.forms, e.budget.bodyForms, e.budget.bytes + e.budget.bodyBytes
}
