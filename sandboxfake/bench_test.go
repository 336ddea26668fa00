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

// BenchmarkGrowth measures requests to a server with many stored checks relative to one with 100
// checks. It alternates between the two servers and reports the ratio of the medians as x-100.
// docs/performance.md shows the results. bench/fakes measures requests alongside other servers.
func BenchmarkGrowth(b *testing.B) {
	for _, stored := range []int{100, 1_000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(stored), func(b *testing.B) {
			all := newStored(b, 0)
			before := heap()
			all.store(stored)
			each := (float64(heap()) - float64(before)) / float64(stored)
			if stored > 100 { // with fewer checks, other memory of the process dominates
				response := float64(len(all.get(phoneChecks + "/" + all.id).body))
				b.Run("memory", func(b *testing.B) {
					b.ReportMetric(each, "B/check")
					b.ReportMetric(each/response, "x-response") // relative to the size of a check's JSON
				})
			}
			for _, call := range []struct {
				name string
				do   func(*storedChecks)
			}{
				{"create", func(s *storedChecks) {
					s.total++
					s.fetch(b, http.MethodPost, "", strings.NewReader(newCheck), 201)
				}},
				{"read", func(s *storedChecks) { s.fetch(b, http.MethodGet, "/"+s.id, nil, 200) }},
				{"first-page", func(s *storedChecks) { s.fetch(b, http.MethodGet, "", nil, 200) }},
				{"last-page", func(s *storedChecks) { s.fetch(b, http.MethodGet, fmt.Sprint("?page=", s.total/10), nil, 200) }}, // the last full page, so that both servers return ten checks
				{"open", func(s *storedChecks) { s.fetch(b, http.MethodGet, "/"+s.create()+"/redirect", nil, 200) }},
			} {
				b.Run(call.name, func(b *testing.B) {
					few, many := newStored(b, 100), all
					var fewTimes, manyTimes []time.Duration
					for b.Loop() {
						few, many = few.fresh(b), many.fresh(b)
						began := time.Now()
						call.do(few)
						between := time.Now()
						call.do(many)
						fewTimes, manyTimes = append(fewTimes, between.Sub(began)), append(manyTimes, time.Since(between))
					}
					slices.Sort(fewTimes)
					slices.Sort(manyTimes)
					b.ReportMetric(float64(manyTimes[len(manyTimes)/2])/float64(fewTimes[len(fewTimes)/2]), "x-100")
				})
			}
		})
	}
}

const newCheck = `{"phone_number":"447700900012"}`

// storedChecks is a server with stored checks.
type storedChecks struct {
	*api
	client *http.Client
	n      int    // initial number of checks
	total  int    // current number of checks
	id     string // of the check to read
}

func newStored(b *testing.B, n int) *storedChecks {
	b.Helper()
	srv := sandboxfake.New(b, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	s := &storedChecks{api: newAPI(b, srv), client: srv.HTTPClient()}
	if n > 0 {
		s.store(n)
	}
	return s
}

// store adds n checks to an empty server.
func (s *storedChecks) store(n int) {
	s.srv.StoreChecks(n - 1)
	s.n, s.total = n, n-1
	s.id = s.create()
}

// fresh returns s, or a new server with s's initial number of checks once s has twice as many, so
// that measured creates do not change the measured size.
func (s *storedChecks) fresh(b *testing.B) *storedChecks {
	b.Helper()
	if s.total < 2*s.n {
		return s
	}
	return newStored(b, s.n)
}

// create creates a check and returns its ID.
func (s *storedChecks) create() string {
	s.total++
	return s.api.create(phoneChecks, newCheck)
}

// fetch sends a request to a path below the PhoneChecks and reads the whole response, so that the
// connection is reused.
func (s *storedChecks) fetch(b *testing.B, method, path string, body io.Reader, want int) {
	b.Helper()
	request := must(http.NewRequest(method, s.srv.URL()+phoneChecks+path, body))(b)
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/json")
	response := must(s.client.Do(request))(b)
	defer response.Body.Close()
	must(io.Copy(io.Discard, response.Body))(b)
	if response.StatusCode != want {
		b.Fatalf("%s %s: %s", method, path, response.Status)
	}
}

// BenchmarkTimers measures Advance with 100,000 checks that expire, relative to 1,000. It reports
// the ratio of the times per check as x-1000.
func BenchmarkTimers(b *testing.B) {
	const few, many = 1_000, 100_000
	var fewTimes, manyTimes []float64
	for b.Loop() {
		for range 10 { // as short as one run with many checks
			fewTimes = append(fewTimes, expireAll(b, few))
		}
		manyTimes = append(manyTimes, expireAll(b, many))
	}
	slices.Sort(fewTimes)
	slices.Sort(manyTimes)
	b.ReportMetric(manyTimes[len(manyTimes)/2]/fewTimes[len(fewTimes)/2], "x-1000")
	b.ReportMetric(manyTimes[len(manyTimes)/2], "ns/timer")
}

// expireAll returns the nanoseconds per check that Advance takes until n checks have expired.
func expireAll(b *testing.B, n int) float64 {
	srv := must(sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt)))(b)
	defer srv.Close()
	srv.StoreChecksWithoutCallback(n)
	runtime.GC() // of the stores
	began := time.Now()
	noError(b, srv.Advance(b.Context(), time.Hour))
	return float64(time.Since(began)) / float64(n)
}
