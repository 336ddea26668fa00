package conformance

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// callbackCoverage lists what a callback signature must cover, in order.
var callbackCoverage = []string{"(request-target)", "host", "date", callbackHeader, "digest"}

// callbackHeader is the header that contains the product of a callback.
const callbackHeader = "x-service-callback"

// authorization is a parsed Authorization header.
type authorization struct {
	keyID     string
	covered   []string
	signature []byte
}

var signatureParameter = regexp.MustCompile(`^([a-zA-Z]+)="([^"]*)"$`)

// parseAuthorization parses Signature keyId="…",algorithm="rsa-sha256",headers="…",signature="…".
func parseAuthorization(text string) (*authorization, error) {
	list, ok := strings.CutPrefix(text, "Signature ")
	if !ok {
		return nil, errors.New("authorization scheme is not Signature")
	}
	parameters := make(map[string]string)
	for parameter := range strings.SplitSeq(list, ",") {
		parts := signatureParameter.FindStringSubmatch(parameter)
		if parts == nil {
			return nil, errors.New(`authorization parameters are not a list of name="value"`)
		}
		parameters[parts[1]] = parts[2]
	}
	if parameters["algorithm"] != "rsa-sha256" {
		return nil, errors.New(`authorization parameter algorithm is not "rsa-sha256"`)
	}
	if parameters["keyId"] == "" {
		return nil, errors.New("authorization parameter keyId is missing or empty")
	}
	signature, err := base64.StdEncoding.DecodeString(parameters["signature"])
	if err != nil || len(signature) == 0 {
		return nil, errors.New("authorization parameter signature is missing or not base64")
	}
	return &authorization{parameters["keyId"], strings.Split(parameters["headers"], " "), signature}, nil
}

// verify verifies a signature. lines contains the value of each name that it may cover.
func (r *run) verify(ctx context.Context, a *authorization, lines map[string]string) error {
	var text []string
	for _, name := range a.covered {
		value, ok := lines[name]
		if !ok {
			return fmt.Errorf("the signature covers %s, which the message does not contain", describe(name))
		}
		text = append(text, name+": "+value)
	}
	key, err := r.key(ctx, a.keyID)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(text, "\n")))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], a.signature) != nil {
		return errors.New("the signature does not verify")
	}
	return nil
}

// verifyCallback verifies the signature of a callback that was sent to target.
func (r *run) verifyCallback(ctx context.Context, target string, m *message) error {
	a, err := parseAuthorization(m.header.Get("Authorization"))
	if err != nil {
		return err
	}
	if !slices.Equal(a.covered, callbackCoverage) {
		return fmt.Errorf("the signature does not cover %q in this order", strings.Join(callbackCoverage, " "))
	}
	// Use the callback_url of the check: a proxy may have rewritten the request's path and host.
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	return r.verify(ctx, a, map[string]string{
		"(request-target)": "post " + u.RequestURI(),
		"host":             u.Host,
		"date":             m.header.Get("Date"),
		callbackHeader:     m.header.Get(callbackHeader),
		"digest":           m.header.Get("Digest"),
	})
}

// validateDigest returns an error unless a Digest header matches the body. Its value may be
// hexadecimal or base64.
func validateDigest(header string, body []byte) error {
	value, ok := strings.CutPrefix(header, "SHA-256=")
	if !ok {
		return errors.New("header Digest is missing or does not have the form SHA-256=…")
	}
	sum := sha256.Sum256(body)
	if !strings.EqualFold(value, hex.EncodeToString(sum[:])) && value != base64.StdEncoding.EncodeToString(sum[:]) {
		return errors.New("header Digest does not match the body")
	}
	return nil
}

// splitRedirect removes authorization and date from the redirect's query and decodes them. The
// other bytes of the query remain unchanged.
func splitRedirect(location string) (target *url.URL, authorization, date string, err error) {
	if target, err = url.Parse(location); err != nil {
		return nil, "", "", errors.New("the redirect is not a valid URL")
	}
	var rest []string
	found := make(map[string][]byte)
	for segment := range strings.SplitSeq(target.RawQuery, "&") {
		name, value, _ := strings.Cut(segment, "=")
		if name != "authorization" && name != "date" {
			rest = append(rest, segment)
			continue
		}
		unescaped, err := url.PathUnescape(value)
		if err != nil || found[name] != nil {
			return nil, "", "", fmt.Errorf("%s of the redirect is repeated or not URL-encoded", name)
		}
		if found[name], err = base64.StdEncoding.DecodeString(unescaped); err != nil {
			return nil, "", "", fmt.Errorf("%s of the redirect is not base64", name)
		}
	}
	for _, name := range []string{"authorization", "date"} {
		if len(found[name]) == 0 {
			return nil, "", "", fmt.Errorf("the redirect has no %s", name)
		}
	}
	target.RawQuery = strings.Join(rest, "&")
	return target, string(found["authorization"]), string(found["date"]), nil
}

const keySetPath = "/.well-known/jwks.json"

func (r *run) keySet(ctx context.Context) error {
	resp, err := r.send(ctx, http.MethodGet, r.config.BaseURL+keySetPath, "", "", nil)
	if err != nil {
		return err
	}
	if _, err := resp.object(200); err != nil {
		return err
	}
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.Unmarshal(resp.body, &set); err != nil || len(set.Keys) == 0 {
		return errors.New("keys is missing, empty or not an array of objects")
	}
	keys := make(map[string]*rsa.PublicKey)
	for i, jwk := range set.Keys {
		id, key, err := publicKey(jwk)
		if err != nil {
			return fmt.Errorf("key %d: %w", i+1, err)
		}
		if keys[id] != nil {
			return fmt.Errorf("key %d: duplicate kid", i+1)
		}
		keys[id] = key
	}
	r.keys = keys
	return nil
}

// publicKey returns the key ID and the RSA key of a JWK.
func publicKey(jwk object) (id string, key *rsa.PublicKey, err error) {
	if err := jwk.want(object{"kty": "RSA", "use": "sig", "alg": "RS256"}); err != nil {
		return "", nil, err
	}
	if id, err = jwk.text("kid"); err != nil {
		return "", nil, err
	}
	var numbers [2]*big.Int
	for i, name := range []string{"n", "e"} {
		text, err := jwk.text(name)
		if err != nil {
			return "", nil, err
		}
		octets, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return "", nil, fmt.Errorf("%s is not base64url", name)
		}
		numbers[i] = new(big.Int).SetBytes(octets)
	}
	if numbers[0].BitLen() < 2048 || !numbers[1].IsInt64() || numbers[1].Int64() < 3 || numbers[1].Int64() > 1<<31-1 {
		return "", nil, errors.New("not a valid RSA key of at least 2048 bits")
	}
	return id, &rsa.PublicKey{N: numbers[0], E: int(numbers[1].Int64())}, nil
}

// key returns the public key with an ID. If the ID is unknown, it fetches the key set, which may
// have changed. If that fails, the error is blocked{keySetRule}.
func (r *run) key(ctx context.Context, id string) (*rsa.PublicKey, error) {
	if key := r.keys[id]; key != nil {
		return key, nil
	}
	if err := r.keySet(ctx); err != nil {
		return nil, blocked{keySetRule}
	}
	if key := r.keys[id]; key != nil {
		return key, nil
	}
	return nil, errors.New("the key set contains no key with this keyId")
}
