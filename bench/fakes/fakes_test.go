package fakes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/oauth2-proxy/mockoidc"

	"github.com/idverify/idverify-go/sandboxfake"
)

// fake is a running server and the requests that are compared.
type fake struct {
	client *http.Client
	ping   string               // a URL for the first request; any status is accepted
	read   func() *http.Request // reads a stored or constant resource
	create func() *http.Request // creates a resource; nil if unsupported
	list   func() *http.Request // lists pageSize stored resources; nil if unsupported
	close  func()
}

const pageSize = 10

// fakes lists the servers. The benchmarks compare each of them with the first one, httptest.
var fakes = []struct {
	name  string
	start func(testing.TB) fake
}{
	{"httptest", startHTTPTest},
	{"sandboxfake", func(t testing.TB) fake { return startSandbox(t) }},
	{"sandboxfake-in-memory", func(t testing.TB) fake { return startSandbox(t, sandboxfake.WithInMemory()) }},
	{"mockoidc", startMockOIDC},
	{"gofakes3", startGoFakeS3},
}

// checkBody is a response body of the size of a check.
var checkBody = []byte(`{"check_id":"` + strings.Repeat("a", 449) + `"}`)

// page is a response body of the size of a page of checks.
var page = bytes.Repeat(checkBody, pageSize)

func startHTTPTest(testing.TB) fake {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/list" {
			w.Write(page)
			return
		}
		w.Write(checkBody)
	}))
	return fake{
		client: srv.Client(),
		ping:   srv.URL,
		read:   func() *http.Request { return request(http.MethodGet, srv.URL, nil) },
		create: func() *http.Request { return request(http.MethodPost, srv.URL, newCheck) },
		list:   func() *http.Request { return request(http.MethodGet, srv.URL+"/list", nil) },
		close:  srv.Close,
	}
}

var newCheck = []byte(`{"phone_number":"447700900012"}`)

func startSandbox(t testing.TB, opts ...sandboxfake.Option) fake {
	srv, err := sandboxfake.Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	client := srv.HTTPClient()
	var token, check string
	stored := 0
	authorized := func(method, path string, body []byte) *http.Request {
		if token == "" {
			token = sandboxToken(t, srv)
		}
		r := request(method, srv.URL()+path, body)
		r.Header.Set("Authorization", "Bearer "+token)
		if body != nil {
			r.Header.Set("Content-Type", "application/json")
		}
		return r
	}
	create := func() *http.Request {
		stored++
		return authorized(http.MethodPost, "/phone_check/v0.1/checks", newCheck)
	}
	return fake{
		client: client,
		ping:   srv.URL() + "/.well-known/jwks.json",
		read: func() *http.Request {
			if check == "" {
				check = field(t, do(t, client, create()), "check_id")
			}
			return authorized(http.MethodGet, "/phone_check/v0.1/checks/"+check, nil)
		},
		create: create,
		list: func() *http.Request {
			for stored < pageSize {
				do(t, client, create())
			}
			return authorized(http.MethodGet, fmt.Sprint("/phone_check/v0.1/checks?size=", pageSize), nil)
		},
		close: func() { srv.Close() },
	}
}

// sandboxToken fetches a token with the form that the protocol requires.
func sandboxToken(t testing.TB, srv *sandboxfake.Server) string {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("grant_type", "client_credentials")
	w.WriteField("scope", "phone_check")
	w.Close()
	r := request(http.MethodPost, srv.URL()+"/oauth2/v1/token", form.Bytes())
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.SetBasicAuth(srv.Credentials().ClientID, srv.Credentials().ClientSecret.Reveal())
	return field(t, do(t, srv.HTTPClient(), r), "access_token")
}

// startMockOIDC returns a fake that reads its discovery document, because mockoidc has no
// resources.
func startMockOIDC(t testing.TB) fake {
	m, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	return fake{
		client: client,
		ping:   m.DiscoveryEndpoint(),
		read:   func() *http.Request { return request(http.MethodGet, m.DiscoveryEndpoint(), nil) },
		close: func() {
			client.CloseIdleConnections()
			m.Shutdown()
		},
	}
}

func startGoFakeS3(t testing.TB) fake {
	srv := httptest.NewTLSServer(gofakes3.New(s3mem.New()).Server())
	n := 0
	put := func() *http.Request {
		n++
		return request(http.MethodPut, fmt.Sprint(srv.URL, "/bucket/", n), checkBody)
	}
	ensureObjects := func(count int) {
		if n == 0 {
			do(t, srv.Client(), request(http.MethodPut, srv.URL+"/bucket", nil))
		}
		for n < count {
			do(t, srv.Client(), put())
		}
	}
	return fake{
		client: srv.Client(),
		ping:   srv.URL,
		read: func() *http.Request {
			ensureObjects(1)
			return request(http.MethodGet, srv.URL+"/bucket/1", nil)
		},
		create: put,
		list: func() *http.Request {
			ensureObjects(pageSize)
			return request(http.MethodGet, fmt.Sprint(srv.URL, "/bucket?max-keys=", pageSize), nil)
		},
		close: srv.Close,
	}
}

// BenchmarkStart measures starting a fake, its first response, and closing it.
func BenchmarkStart(b *testing.B) {
	run := func(start func(testing.TB) fake) func() {
		return func() {
			f := start(b)
			send(b, f.client, request(http.MethodGet, f.ping, nil))
			f.close()
		}
	}
	for _, f := range fakes[1:] {
		b.Run(f.name, func(b *testing.B) { alternate(b, run(fakes[0].start), run(f.start)) })
	}
}

func BenchmarkRead(b *testing.B) {
	for _, f := range fakes[1:] {
		b.Run(f.name, func(b *testing.B) { compare(b, f.start, func(f fake) func() *http.Request { return f.read }) })
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, f := range fakes[1:] {
		if f.name == "mockoidc" {
			continue
		}
		b.Run(f.name, func(b *testing.B) { compare(b, f.start, func(f fake) func() *http.Request { return f.create }) })
	}
}

func BenchmarkList(b *testing.B) {
	for _, f := range fakes[1:] {
		if f.name == "mockoidc" {
			continue
		}
		b.Run(f.name, func(b *testing.B) { compare(b, f.start, func(f fake) func() *http.Request { return f.list }) })
	}
}

// compare alternates requests to a fake and to httptest, each over an open connection.
func compare(b *testing.B, start func(testing.TB) fake, call func(fake) func() *http.Request) {
	base, other := fakes[0].start(b), start(b)
	defer base.close()
	defer other.close()
	do(b, base.client, base.read())
	do(b, other.client, other.read())
	one := func(f fake) func() {
		next := call(f)
		return func() { do(b, f.client, next()) }
	}
	alternate(b, one(base), one(other))
}

// BenchmarkMemory measures the live memory of a server and its client after one response.
func BenchmarkMemory(b *testing.B) {
	for _, f := range fakes[1:] {
		b.Run(f.name, func(b *testing.B) {
			var bases, others []float64
			for b.Loop() {
				bases, others = append(bases, memory(b, fakes[0].start)), append(others, memory(b, f.start))
			}
			slices.Sort(bases)
			slices.Sort(others)
			b.ReportMetric(others[len(others)/2]/bases[len(bases)/2], "x-httptest")
			b.ReportMetric(others[len(others)/2], "KiB/server")
		})
	}
}

// memory returns the live memory of a server and its client after one response, in KiB.
func memory(b *testing.B, start func(testing.TB) fake) float64 {
	const n = 50
	before := liveMemory()
	running := make([]fake, n)
	for i := range running {
		running[i] = start(b)
		do(b, running[i].client, running[i].read())
	}
	each := float64(liveMemory()-before) / n / 1024
	for _, f := range running {
		f.close()
	}
	return each
}

func liveMemory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// alternate runs base and other in turn and reports the ratio of their medians.
func alternate(b *testing.B, base, other func()) {
	b.Helper()
	var bases, others []time.Duration
	for b.Loop() {
		began := time.Now()
		base()
		between := time.Now()
		other()
		bases, others = append(bases, between.Sub(began)), append(others, time.Since(between))
	}
	slices.Sort(bases)
	slices.Sort(others)
	b.ReportMetric(float64(others[len(others)/2])/float64(bases[len(bases)/2]), "x-httptest")
}

// request returns a new request. It panics if url is invalid.
func request(method, url string, body []byte) *http.Request {
	r, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	return r
}

// do sends r and returns the body of a 2xx response.
func do(t testing.TB, client *http.Client, r *http.Request) []byte {
	status, body := send(t, client, r)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %s", r.Method, r.URL.Path, status, body)
	}
	return body
}

// send sends r and returns the response.
func send(t testing.TB, client *http.Client, r *http.Request) (status int, body []byte) {
	status, body, err := roundTrip(client, r)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

// roundTrip sends r and reads the whole response, so that the connection is reused.
func roundTrip(client *http.Client, r *http.Request) (status int, body []byte, err error) {
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// field returns the value of a field, which must be a string.
func field(t testing.TB, body []byte, name string) string {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	s, ok := fields[name].(string)
	if !ok {
		t.Fatalf("body = %s, want field %s", body, name)
	}
	return s
}
