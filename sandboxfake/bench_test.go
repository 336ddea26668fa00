package sandboxfake_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

// Each benchmark measures its own baseline in the same run: quote the ratios, not the times (docs/performance.md).

// fetch sends a request of the benchmark's and reads the answer to its end, so that the connection is used again.
func fetch(b *testing.B, client *http.Client, method, url, token string, body io.Reader, want int) {
	b.Helper()
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		b.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		b.Fatal(err)
	}
	if response.StatusCode != want {
		b.Fatalf("%s %s: %s", method, url, response.Status)
	}
}

// BenchmarkStartToFirstAnswer is what a test pays for a server of its own.
func BenchmarkStartToFirstAnswer(b *testing.B) {
	b.Run("httptest", func(b *testing.B) {
		for b.Loop() {
			srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") }))
			fetch(b, srv.Client(), http.MethodGet, srv.URL, "", nil, 200)
			srv.Close()
		}
	})
	for _, mode := range modes {
		b.Run(mode.name, func(b *testing.B) {
			for b.Loop() {
				srv, err := sandboxfake.Start(mode.opts...)
				if err != nil {
					b.Fatal(err)
				}
				fetch(b, srv.HTTPClient(), http.MethodGet, srv.URL()+"/.well-known/jwks.json", "", nil, 200)
				srv.Close()
			}
		})
	}
}

var modes = []struct {
	name string
	opts []sandboxfake.Option
}{
	{"loopback", nil},
	{"memory", []sandboxfake.Option{sandboxfake.WithInMemory()}},
}

// BenchmarkReadCheck is one read over a connection that stands, beside a handler that does nothing but write as many bytes.
func BenchmarkReadCheck(b *testing.B) {
	srv := sandboxfake.New(b, sandboxfake.WithInMemory())
	a := newAPI(b, srv)
	body := a.get(phoneChecks + "/" + a.create(phoneChecks, `{"phone_number":"447700900012"}`)).body
	b.Run("httptest", func(b *testing.B) {
		srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(body) }))
		b.Cleanup(srv.Close)
		client := srv.Client()
		for b.Loop() {
			fetch(b, client, http.MethodGet, srv.URL, "token", nil, 200)
		}
	})
	for _, mode := range modes {
		b.Run(mode.name, func(b *testing.B) {
			srv := sandboxfake.New(b, mode.opts...)
			a := newAPI(b, srv)
			url := srv.URL() + phoneChecks + "/" + a.create(phoneChecks, `{"phone_number":"447700900012"}`)
			client := srv.HTTPClient()
			for b.Loop() {
				fetch(b, client, http.MethodGet, url, a.token, nil, 200)
			}
		})
	}
}

// BenchmarkStored is the same calls with few and with many checks stored.
func BenchmarkStored(b *testing.B) {
	for _, stored := range []int{100, 1_000_000} {
		b.Run(fmt.Sprint(stored), func(b *testing.B) {
			srv := sandboxfake.New(b, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
			a := newAPI(b, srv)
			srv.StoreChecks(stored - 1)
			id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
			client := srv.HTTPClient()
			url := srv.URL() + phoneChecks
			for _, call := range []struct{ name, path string }{
				{"read", "/" + id},
				{"first page", ""},
				{"last page", fmt.Sprintf("?page=%d", stored/10)},
			} {
				b.Run(call.name, func(b *testing.B) {
					for b.Loop() {
						fetch(b, client, http.MethodGet, url+call.path, a.token, nil, 200)
					}
				})
			}
			b.Run("create", func(b *testing.B) {
				for b.Loop() {
					fetch(b, client, http.MethodPost, url, a.token, strings.NewReader(`{"phone_number":"447700900012"}`), 201)
				}
			})
		})
	}
}
