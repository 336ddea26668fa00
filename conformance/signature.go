package conformance

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// callbackCoverage is what the signature of a callback covers, in this order (section 5.3).
var callbackCoverage = []string{"(request-target)", "host", "date", callbackHeader, "digest"}

// callbackHeader tells the product of a callback.
const callbackHeader = "x-service-callback"

// authorization is a signature header value taken apart.
type authorization struct {
	keyID     string
	covered   []string
	signature []byte
}

var signatureParameter = regexp.MustCompile(`^([a-zA-Z]+)="([^"]*)"$`)

// parseAuthorization reads Signature keyId="…",algorithm="rsa-sha256",headers="…",signature="…".
func parseAuthorization(text string) (*authorization, error) {
	list, ok := strings.CutPrefix(text, "Signature ")
	if !ok {
		return nil, errors.New("the authorization's scheme is not Signature")
	}
	parameters := make(map[string]string)
	for parameter := range strings.SplitSeq(list, ",") {
		parts := signatureParameter.FindStringSubmatch(parameter)
		if parts == nil {
			return nil, errors.New(`the authorization is not a list of name="value"`)
		}
		parameters[parts[1]] = parts[2]
	}
	if parameters["algorithm"] != "rsa-sha256" {
		return nil, errors.New(`the authorization's algorithm is not "rsa-sha256"`)
	}
	if parameters["keyId"] == "" {
		return nil, errors.New("the authorization has no keyId")
	}
	signature, err := base64.StdEncoding.DecodeString(parameters["signature"])
	if err != nil || len(signature) == 0 {
		return nil, errors.New("the authorization's signature is no base64")
	}
	return &authorization{parameters["keyId"], strings.Split(parameters["headers"], " "), signature}, nil
}

// verify judges a signature over the lines that it covers, each "name: value".
func (r *run) verify(ctx context.Context, a *authorization, lines map[string]string) error {
	var text []string
	for _, name := range a.covered {
		value, ok := lines[name]
		if !ok {
			return fmt.Errorf("the signature covers %s, which the message does not have", redact(name))
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

// verifyCallback judges the signature of a callback that was sent to target.
func (r *run) verifyCallback(ctx context.Context, target string, m *message) error {
	a, err := parseAuthorization(m.header.Get("Authorization"))
	if err != nil {
		return err
	}
	if !slices.Equal(a.covered, callbackCoverage) {
		return fmt.Errorf("the signature does not cover %q in this order", strings.Join(callbackCoverage, " "))
	}
	// What the suite gave as callback_url counts, and not what a proxy made of it.
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

// judgeDigest judges a Digest header against a body. Section 5.3 tells of base64 and shows hexadecimal, so either will do.
func validateDigest(header string, body []byte) error {
	value, ok := strings.CutPrefix(header, "SHA-256=")
	if !ok {
		return errors.New("the Digest is missing or has not the form SHA-256=…")
	}
	sum := sha256.Sum256(body)
	if !strings.EqualFold(value, hex.EncodeToString(sum[:])) && value != base64.StdEncoding.EncodeToString(sum[:]) {
		return errors.New("the Digest does not fit the body")
	}
	return nil
}

// takeApart undoes what the service does to a redirect URL: it cuts authorization and date out of the query, leaves its other bytes, and decodes both.
func splitRedirect(location string) (target *url.URL, authorization, date string, err error) {
	if target, err = url.Parse(location); err != nil {
		return nil, "", "", errors.New("the redirect cannot be read as a URL")
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
			return nil, "", "", fmt.Errorf("the redirect's %s stands there twice or cannot be read", name)
		}
		if found[name], err = base64.StdEncoding.DecodeString(unescaped); err != nil {
			return nil, "", "", fmt.Errorf("the redirect's %s is no base64", name)
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
