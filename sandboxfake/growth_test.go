package sandboxfake_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// BenchmarkGrowth is what a call costs among many stored checks, beside the same call among a hundred: the two servers take turns, and their medians are compared. docs/performance.md draws it.
func BenchmarkGrowth(b *testing.B) {
	few := newStored(b, 100)
	for _, stored := range []int{100, 1_000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(stored), func(b *testing.B) {
			many := newStored(b, stored)
			for _, call := range []struct {
				name string
				do   func(*storedChecks)
			}{
				{"create", func(s *storedChecks) { s.fetch(b, http.MethodPost, "", strings.NewReader(newCheck), 201) }},
				{"read", func(s *storedChecks) { s.fetch(b, http.MethodGet, "/"+s.id, nil, 200) }},
				{"first-page", func(s *storedChecks) { s.fetch(b, http.MethodGet, "", nil, 200) }},
				{"last-page", func(s *storedChecks) { s.fetch(b, http.MethodGet, fmt.Sprint("?page=", s.n/10), nil, 200) }},
				{"open", func(s *storedChecks) { s.fetch(b, http.MethodGet, "/"+s.create(b)+"/redirect", nil, 200) }},
			} {
				b.Run(call.name, func(b *testing.B) {
					var fews, manys []time.Duration
					for b.Loop() {
						began := time.Now()
						call.do(few)
						between := time.Now()
						call.do(many)
						fews, manys = append(fews, between.Sub(began)), append(manys, time.Since(between))
					}
					slices.Sort(fews)
					slices.Sort(manys)
					b.ReportMetric(float64(manys[len(manys)/2])/float64(fews[len(fews)/2]), "x-100")
					b.ReportMetric(many.bytes, "B/check")
				})
			}
		})
	}
}

const newCheck = `{"phone_number":"447700900012"}`

// storedChecks is a server with n checks, and one more that is read.
type storedChecks struct {
	*api
	client *http.Client
	n      int
	id     string
	bytes  float64 // of memory, for each of them
}

func newStored(b *testing.B, n int) *storedChecks {
	srv := sandboxfake.New(b, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	s := &storedChecks{api: newAPI(b, srv), client: srv.HTTPClient(), n: n}
	before := liveHeap()
	srv.StoreChecks(n)
	s.bytes = float64(liveHeap()-before) / float64(n)
	s.id = s.create(b)
	return s
}

// create makes a check and returns its id.
func (s *storedChecks) create(b *testing.B) string {
	b.Helper()
	return s.api.create(phoneChecks, newCheck)
}

// fetch calls the service below its PhoneChecks.
func (s *storedChecks) fetch(b *testing.B, method, path string, body io.Reader, want int) {
	b.Helper()
	fetch(b, s.client, method, s.srv.URL()+phoneChecks+path, s.token, body, want)
}

// liveHeap is the memory in use, in bytes.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
