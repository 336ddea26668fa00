package idverify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
)

// reportAllocations reports how many more allocations other makes than base.
func reportAllocations(b *testing.B, base, other func() error) {
	b.Helper()
	count := func(f func() error) float64 {
		return testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.ReportMetric(count(other)-count(base), "more-allocs")
}

// BenchmarkOverNetHTTP compares Get with a request by net/http that sends a token and decodes the
// response into a struct. Like Get, the request has a timeout and limits the response body, except
// in the benchmarks named Unbounded.
func BenchmarkOverNetHTTP(b *testing.B) {
	body := fixture(b, "phone_check.json")
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		maxBody int64
	}{
		{"", 30 * time.Second, maxBody},
		{"Unbounded", 0, math.MaxInt64},
	} {
		b.Run("TLS"+tt.name, func(b *testing.B) {
			srv := newService(b, respondWith(200, string(body)))
			c := srv.client(b)
			plain := &http.Client{Transport: srv.Client().Transport, Timeout: tt.timeout}
			tooltest.CompareTimes(b, "x-nethttp",
				func() error { return getWithNetHTTP(b, plain, srv.URL, tt.maxBody) },
				func() error { return errorOf(c.PhoneChecks.Get(b.Context(), phoneCheckID)) })
		})
		b.Run("allocations"+tt.name, func(b *testing.B) {
			respond := func(*http.Request) (*http.Response, error) { return response(200, body), nil }
			c := newTransportClient(b, respond)
			plain := &http.Client{Transport: tokenTransport(respond), Timeout: tt.timeout}
			base := func() error { return getWithNetHTTP(b, plain, "https://idverify.sandbox.test", tt.maxBody) }
			other := func() error { return errorOf(c.PhoneChecks.Get(b.Context(), phoneCheckID)) }
			tooltest.CompareTimes(b, "x-nethttp-without-network", base, other)
			reportAllocations(b, base, other)
		})
	}
}

// getWithNetHTTP reads a check without the client. It reads at most maxBody bytes of the response.
func getWithNetHTTP(b *testing.B, client *http.Client, base string, maxBody int64) error {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, base+"/phone_check/v0.1/checks/"+phoneCheckID, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer token-1")
	r.Header.Set("Accept", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var text io.Reader = resp.Body
	if maxBody < math.MaxInt64 {
		text = io.LimitReader(text, maxBody)
	}
	body, err := io.ReadAll(text)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status = %d", resp.StatusCode)
	}
	return json.Unmarshal(body, new(plainCheck))
}

// BenchmarkWithObserver compares Get with and without an observer that counts the attempts.
func BenchmarkWithObserver(b *testing.B) {
	body := fixture(b, "phone_check.json")
	var attempts int
	counter := idverify.WithObserver(func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
		return ctx, func(idverify.Attempt) { attempts++ }
	})
	get := func(c *idverify.Client) func() error {
		return func() error { return errorOf(c.PhoneChecks.Get(b.Context(), phoneCheckID)) }
	}
	b.Run("TLS", func(b *testing.B) {
		srv := newService(b, func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), observedHeader())
			respondWith(200, string(body))(w, r)
		})
		tooltest.CompareTimes(b, "x-unobserved", get(srv.client(b)), get(srv.client(b, counter)))
	})
	b.Run("allocations", func(b *testing.B) {
		respond := func(*http.Request) (*http.Response, error) {
			resp := response(200, body)
			resp.Header = observedHeader()
			return resp, nil
		}
		base, other := get(newTransportClient(b, respond)), get(newTransportClient(b, respond, counter))
		tooltest.CompareTimes(b, "x-unobserved-without-network", base, other)
		reportAllocations(b, base, other)
	})
}

// observedHeader returns the part of a response header that observers receive.
func observedHeader() http.Header {
	return http.Header{
		"X-Request-Id":          {"1d79ee4c-2021-4123-9456-426614174000"},
		"X-Ratelimit-Limit":     {"20"},
		"X-Ratelimit-Remaining": {"19"},
		"X-Ratelimit-Reset":     {"1767323045"},
	}
}

// plainCheck is a check as a caller without the client would decode it.
type plainCheck struct {
	CheckID         string      `json:"check_id"`
	Status          string      `json:"status"`
	PhoneNumber     string      `json:"phone_number"`
	Match           *bool       `json:"match"`
	ChargeAmount    json.Number `json:"charge_amount"`
	ChargeCurrency  string      `json:"charge_currency"`
	SnapshotBalance json.Number `json:"snapshot_balance"`
	CreatedAt       string      `json:"created_at"`
	UpdatedAt       string      `json:"updated_at"`
	TTL             int         `json:"ttl"`
	NetworkID       string      `json:"network_id"`
	ErrorCode       string      `json:"error_code"`
	ReferenceID     string      `json:"reference_id"`
	Links           struct {
		CheckURL struct {
			Href string `json:"href"`
		} `json:"check_url"`
	} `json:"_links"`
}

// BenchmarkPageOf100 compares List for a page of a hundred checks with json.Unmarshal of the same
// bytes into plain structs.
func BenchmarkPageOf100(b *testing.B) {
	one := strings.TrimSpace(string(fixture(b, "phone_check.json")))
	body := []byte(`{"page":{"size":100,"number":1,"total_pages":1,"total_elements":100},"_embedded":{"checks":[` + strings.TrimSuffix(strings.Repeat(one+",", 100), ",") + `]}}`)
	c := newTransportClient(b, func(*http.Request) (*http.Response, error) { return response(200, body), nil })
	var plain struct {
		Embedded struct {
			Checks []*plainCheck `json:"checks"`
		} `json:"_embedded"`
	}
	base := func() error {
		plain.Embedded.Checks = nil
		return json.Unmarshal(body, &plain)
	}
	other := func() error {
		page, err := c.PhoneChecks.List(b.Context(), idverify.ListOptions{Size: 100})
		if err == nil && len(page.Items) != 100 {
			return fmt.Errorf("%d items", len(page.Items))
		}
		return err
	}
	tooltest.CompareTimes(b, "x-unmarshal", base, other)
	reportAllocations(b, base, other)
}

// BenchmarkGet measures the client without the network, for profiles.
func BenchmarkGet(b *testing.B) {
	body := fixture(b, "phone_check.json")
	c := newTransportClient(b, func(*http.Request) (*http.Response, error) { return response(200, body), nil })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.PhoneChecks.Get(b.Context(), phoneCheckID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGetOverTLS measures Get with a server on loopback and a reused connection.
func BenchmarkGetOverTLS(b *testing.B) {
	srv := newService(b, respondWith(200, string(fixture(b, "phone_check.json"))))
	c := srv.client(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.PhoneChecks.Get(b.Context(), phoneCheckID); err != nil {
			b.Fatal(err)
		}
	}
}
