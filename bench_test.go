package idverify_test

import (
	"net/http"
	"testing"

	idverify "github.com/idverify/idverify-go"
)

// BenchmarkGet is what the client itself costs: everything but the network.
func BenchmarkGet(b *testing.B) {
	body := fixture(b, "phone_check.json")
	c := inProcess(b, func(*http.Request) (*http.Response, error) { return response(200, body), nil })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.PhoneChecks.Get(b.Context(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGetOverTLS is BenchmarkGet with a server on loopback and a connection that is kept.
func BenchmarkGetOverTLS(b *testing.B) {
	srv := newService(b, answerWith(200, string(fixture(b, "phone_check.json"))))
	c := srv.client(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.PhoneChecks.Get(b.Context(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTokenCache is how callers on all cores come by a cached token.
func BenchmarkTokenCache(b *testing.B) {
	srv := newService(b, nil)
	c := srv.client(b)
	tokenFor(b, c, idverify.ScopeCoverage)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Token(b.Context(), idverify.ScopeCoverage); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkNormalizePhoneNumber(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := idverify.NormalizePhoneNumber("+44 (7700) 900-000"); err != nil {
			b.Fatal(err)
		}
	}
}
