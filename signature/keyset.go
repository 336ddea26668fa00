package signature

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwk"
)

// keySet is the key set of a successful response. It is immutable.
type keySet struct {
	keys      map[string]*rsa.PublicKey
	fetched   time.Time
	originAge time.Duration // age of the keys when they were fetched, from the Age header
	lifetime  time.Duration // after fetched
	cached    bool          // the response came from a cache
}

// age returns the time since the service sent the keys. See elapsed.
func (s *keySet) age(now time.Time) (age time.Duration, ok bool) {
	age, ok = elapsed(s.fetched, now)
	return age + s.originAge, ok
}

// fresh reports whether the set may be used without being fetched again.
func (s *keySet) fresh(now time.Time) bool {
	age, ok := elapsed(s.fetched, now)
	return ok && age < s.lifetime
}

// usable reports whether the set may be used while no newer one is available.
func (s *keySet) usable(now time.Time, maxStale time.Duration) bool {
	age, ok := s.age(now)
	return ok && age <= maxStale
}

// elapsed returns the time between from and now by the wall clock or by the monotonic clock,
// whichever is longer. The wall clock may have been set back, and the monotonic clock stops while a
// machine is suspended. If now is before from by the wall clock, the elapsed time is unknown and
// elapsed reports false.
func elapsed(from, now time.Time) (d time.Duration, ok bool) {
	wall := now.Round(0).Sub(from.Round(0)) // Round strips the monotonic reading
	return max(wall, now.Sub(from)), wall >= 0
}

// pause is a period without fetches. The zero pause is over.
type pause struct {
	from   time.Time
	length time.Duration
}

func (p pause) over(now time.Time) bool {
	d, ok := elapsed(p.from, now)
	return !ok || d >= p.length
}

// maxKeySetValues is the maximum number of JSON values in a key set. It allows several hundred
// keys. jwx allocates kilobytes even for the smallest value.
const maxKeySetValues = 4096

// ignoredKeys counts the key IDs whose RSA keys are ignored.
type ignoredKeys struct {
	private   int // the ID or the modulus appears with private key parameters
	duplicate int // several usable keys share the ID
}

// parseKeySet returns the usable keys by their kid. It returns an error for a set without usable
// keys, so that the set does not replace a valid one.
func parseKeySet(body []byte) (map[string]*rsa.PublicKey, ignoredKeys, error) {
	var ignored ignoredKeys
	if bytes.Count(body, []byte(","))+bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > maxKeySetValues {
		return nil, ignored, newError(ErrKeySource, "get key set: body contains more than 4,096 values")
	}
	exposed, moduli, err := exposedKeys(body)
	if err != nil {
		return nil, ignored, newError(ErrKeySource, "get key set: body is not a JSON Web Key Set (check the URL of the key set and any proxy)")
	}
	set, err := jwk.Parse(body, jwk.WithIgnoreParseError(true))
	if err != nil {
		return nil, ignored, newError(ErrKeySource, "get key set: body is not a JSON Web Key Set (check the URL of the key set and any proxy)")
	}
	keys := make(map[string]*rsa.PublicKey)
	for i := range set.Len() {
		parsed, _ := set.Key(i)
		key := publicKey(parsed)
		if key == nil {
			continue
		}
		if _, ok := exposed[parsed.KeyID()]; ok || moduli[string(key.N.Bytes())] {
			exposed[parsed.KeyID()] = true
			continue
		}
		if _, twice := keys[parsed.KeyID()]; twice {
			key = nil // duplicate: no key with this ID is used
		}
		keys[parsed.KeyID()] = key
	}
	for _, rsaKey := range exposed {
		if rsaKey {
			ignored.private++
		}
	}
	shared := len(keys)
	maps.DeleteFunc(keys, func(_ string, key *rsa.PublicKey) bool { return key == nil })
	ignored.duplicate = shared - len(keys)
	if len(keys) == 0 {
		return nil, ignored, newError(ErrKeySource, "get key set: no usable key")
	}
	return keys, ignored, nil
}

// exposedKeys returns the kids and the moduli that appear with private key parameters. The value
// for a kid is true if it belongs to an RSA key. Moduli are big-endian. Anyone can sign with an
// exposed key, so public keys with the same kid or modulus must not be used either. exposedKeys
// parses the JSON itself, because jwx drops keys that it cannot parse and accepts input after the
// end.
func exposedKeys(body []byte) (ids, moduli map[string]bool, err error) {
	var set struct {
		Keys rawKeys `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, nil, err
	}
	ids, moduli = make(map[string]bool), make(map[string]bool)
	for _, raw := range set.Keys {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil || !isPrivate(members) {
			continue
		}
		var kid, kty, n string
		_ = json.Unmarshal(members["kty"], &kty)
		if json.Unmarshal(members["kid"], &kid) == nil {
			ids[kid] = ids[kid] || kty == "RSA"
		}
		if json.Unmarshal(members["n"], &n) == nil {
			if b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(n, "=")); err == nil {
				moduli[string(bytes.TrimLeft(b, "\x00"))] = true
			}
		}
	}
	return ids, moduli, nil
}

// isPrivate reports whether a JSON Web Key has a private or secret member (RFC 7518, section 6),
// with any value.
func isPrivate(members map[string]json.RawMessage) bool {
	for _, name := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		if _, ok := members[name]; ok {
			return true
		}
	}
	return false
}

// rawKeys contains the keys of a set. If the member "keys" is duplicated, rawKeys contains the keys
// of all occurrences, because jwx may use any of them.
type rawKeys []json.RawMessage

// UnmarshalJSON implements [json.Unmarshaler].
func (k *rawKeys) UnmarshalJSON(b []byte) error {
	var keys []json.RawMessage
	err := json.Unmarshal(b, &keys)
	*k = append(*k, keys...)
	return err
}

// publicKey returns parsed as an RSA public key, or nil if it is not a usable key for signatures.
func publicKey(parsed jwk.Key) *rsa.PublicKey {
	var key rsa.PublicKey
	public, ok := parsed.(jwk.RSAPublicKey)
	if !ok || len(public.E()) > 4 || public.Raw(&key) != nil || !usable(&key) { // jwx truncates longer exponents
		return nil
	}
	if !validKeyID(public.KeyID()) || public.KeyUsage() != "" && public.KeyUsage() != string(jwk.ForSignature) {
		return nil
	}
	if alg := public.Algorithm().String(); alg != "" && alg != "RS256" {
		return nil
	}
	if ops := public.KeyOps(); len(ops) > 0 && !slices.Contains(ops, jwk.KeyOpVerify) {
		return nil
	}
	return &key
}
