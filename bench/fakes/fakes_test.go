package fakes

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"slices"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
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

	program bool // is a process of its own, whose memory is not measured
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
	{"fake-gcs-server", startFakeGCS},
	{"go-vcr", startVCR},
	{"s3rver", startS3rver},
	{"dynalite", startDynalite},
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
		b.Run(f.name, func(b *testing.B) { compare(b, f.start, func(f fake) func() *http.Request { return f.create }) })
	}
}

func BenchmarkList(b *testing.B) {
	for _, f := range fakes[1:] {
		b.Run(f.name, func(b *testing.B) { compare(b, f.start, func(f fake) func() *http.Request { return f.list }) })
	}
}

// compare alternates requests to a fake and to httptest, each over an open connection.
func compare(b *testing.B, start func(testing.TB) fake, call func(fake) func() *http.Request) {
	base, other := fakes[0].start(b), start(b)
	defer base.close()
	defer other.close()
	if call(other) == nil {
		b.Skip("unsupported by the fake")
	}
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
			one := f.start(b)
			one.close()
			if one.program {
				b.Skip("the fake is another process")
			}
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

// alternate is tooltest.CompareTimes for functions that return no error.
func alternate(b *testing.B, base, other func()) {
	b.Helper()
	run := func(f func()) func() error { return func() error { f(); return nil } }
	tooltest.CompareTimes(b, "x-httptest", run(base), run(other))
}

// request returns a new request. It panics if url is invalid.
func request(method, url string, body []byte) *http.Request {
	r, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	return r
}

// fill creates resources until count are stored. create increments stored.
func fill(t testing.TB, client *http.Client, count int, stored *int, create func() *http.Request) {
	for *stored < count {
		do(t, client, create())
	}
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
	noError(t, json.Unmarshal(body, &fields))
	s, ok := fields[name].(string)
	if !ok {
		t.Fatalf("body = %s, want field %s", body, name)
	}
	return s
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
