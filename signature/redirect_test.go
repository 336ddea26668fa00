package signature_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

func TestVerifier_VerifyRedirect(t *testing.T) {
	t.Parallel()

	m := must(newVerifier(t, signature.VerifierOptions{}).VerifyRedirect(request(t, signedRedirect())))(t)
	want := &signature.Message{KeyID: keyID, Date: now, Query: url.Values{"check_id": {"c1"}, "code": {"a+b"}}}
	wantEqual(t, want, m, "message")
}

// unusualQueries are queries of redirect URLs that change when they are parsed and encoded again.
var unusualQueries = []string{
	"check_id=c1",
	"check_id=c1&code=a%2Bb",
	"z=1&a=2&check_id=c1",
	"a=2&a=1&check_id=c1",
	"check_id=c1&a=%2f%2F%20+",
	"check_id=c1&valueless",
	"check_id=c1&empty=",
	"check_id=c1&=nameless",
	"check_id=c1&a=b=c",
	"check_id=c1&&b=1",
	"&check_id=c1&",
	"check_id=c1&a=%zz%",
	"check_id=c1&a;b=1;c",
	"check_id=c1&date1=x&xdate=y&Date=z&Authorization=w",
	"check_id=c1&a=b?c/d:e@f",
	"check%5fid=c1",
	"check_id=c1&u=é",
}

func TestVerifier_PreservesRedirectQuery(t *testing.T) {
	t.Parallel()
	for _, query := range unusualQueries {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			w := newRedirect()
			w.Target = "/back?" + query
			w.Sign()

			m, err := newVerifier(t, signature.VerifierOptions{}).VerifyRedirect(request(t, w))

			if err != nil {
				t.Fatalf("error = %v, want none", err)
			}
			want, _ := url.ParseQuery(query)
			wantEqual(t, want, m.Query, "query")
		})
	}
}

// TestVerifier_RedirectParameterPositions moves authorization and date within the query and changes
// their escapes.
func TestVerifier_RedirectParameterPositions(t *testing.T) {
	t.Parallel()
	w := newRedirect()
	authorization, date := w.Authorization(), w.Get("Date")
	w.Drop("Date")
	everyByte := func(s string) string {
		var b strings.Builder
		for _, c := range []byte(base64.StdEncoding.EncodeToString([]byte(s))) {
			fmt.Fprintf(&b, "%%%02x", c)
		}
		return b.String()
	}
	for name, query := range map[string]string{
		"in the middle":      "check_id=c1&authorization=" + attack.Parameter(authorization) + "&date=" + attack.Parameter(date) + "&code=a%2Bb",
		"separate":           "authorization=" + attack.Parameter(authorization) + "&check_id=c1&date=" + attack.Parameter(date) + "&code=a%2Bb",
		"every byte escaped": "check_id=c1&code=a%2Bb&authorization=" + everyByte(authorization) + "&date=" + everyByte(date),
		"keys escaped":       "check_id=c1&code=a%2Bb&%61uthorization=" + attack.Parameter(authorization) + "&d%61te=" + attack.Parameter(date),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moved := w.Clone()
			moved.Target = "/back?" + query

			_, err := newVerifier(t, signature.VerifierOptions{}).VerifyRedirect(request(t, moved))

			if err != nil {
				t.Errorf("error = %v, want none", err)
			}
		})
	}
}

func TestVerifier_RedirectTargets(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"/?check_id=c1", "/a%2Fb/c?check_id=c1", "//a?check_id=c1", "/a;b=c?check_id=c1", "https://" + host + "?check_id=c1"} {
		w := newRedirect()
		w.Target = target
		if strings.HasPrefix(target, "https") {
			w.SignedAs = "get /?check_id=c1"
		}
		w.Sign()

		if _, err := newVerifier(t, signature.VerifierOptions{}).VerifyRedirect(request(t, w)); err != nil {
			t.Errorf("%s: error = %v, want none", target, err)
		}
	}
}

// TestVerifier_RejectsChangedRedirectBytes changes each byte of the target, including those of the
// parameters authorization and date.
func TestVerifier_RejectsChangedRedirectBytes(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	good := signedRedirect()
	for i := range len(good.Target) {
		r := request(t, good)
		r.RequestURI = good.Target[:i] + string(good.Target[i]^1) + good.Target[i+1:]

		if _, err := v.VerifyRedirect(r); err == nil {
			t.Fatalf("byte %d of %d changed: error = nil, want one", i, len(good.Target))
		}
	}
}
