package idverify_test

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// The simulations of an outage: 100 replicas with 1,000 callers in total. Each caller reads a
// check, waits for a second and repeats that. The outage begins at once and ends after a minute,
// and all clients begin without a token.
const (
	simReplicas = 100
	simCallers  = 1000
	simOutage   = time.Minute
	simDuration = 75 * time.Second
	simMaxWait  = 10 * time.Second // the default of RetryPolicy.MaxWait
)

// TestClient_TokenEndpointOutage checks the numbers of docs/replicas.md.
func TestClient_TokenEndpointOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fail func() (*http.Response, error)
	}{
		{"503", func() (*http.Response, error) { return response(503, nil), nil }},
		{"connections closed", func() (*http.Response, error) { return nil, errors.New("connection reset by peer") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &simulation{failToken: tt.fail}
				s.run(t, idverify.RetryPolicy{})

				// The shortest pauses are 0.5, 1, 2, 4 and then 5 s each.
				if got, want := sum(s.tokens[:60]), 15*simReplicas; got > want {
					t.Errorf("token requests in the outage = %d, want at most %d", got, want)
				}
				if got, want := slices.Max(s.tokens[15:60]), simReplicas/2; got > want {
					t.Errorf("token requests per second after 15 s = %d, want at most %d", got, want)
				}
				if got := sum(s.tokens[60:]); got != simReplicas {
					t.Errorf("token requests after the outage = %d, want one for each of %d replicas", got, simReplicas)
				}
				s.checkRecovery(t, simOutage+simMaxWait)
				s.log(t)
			})
		})
	}
}

// TestClient_ServiceOutage checks the numbers of docs/replicas.md.
func TestClient_ServiceOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		budget           int
		minimum, maximum int // retries in the outage
	}{
		{"with a budget", 0, 100 * simReplicas, 100 * simReplicas},
		{"without a budget", -1, 50_000, simCallers * 60 * 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &simulation{failProduct: func() (*http.Response, error) { return response(503, nil), nil }}
				s.run(t, idverify.RetryPolicy{Budget: tt.budget})

				retries := sum(s.products[:60]) - sum(s.failed)
				if retries < tt.minimum || retries > tt.maximum {
					t.Errorf("retries in the outage = %d, want %d to %d", retries, tt.minimum, tt.maximum)
				}
				if got := sum(s.tokens); got != simReplicas {
					t.Errorf("token requests = %d, want %d", got, simReplicas)
				}
				s.checkRecovery(t, simOutage+2*time.Second)
				s.log(t)
			})
		})
	}
}

// simulation is the service in a simulated outage, and an http.RoundTripper.
type simulation struct {
	failToken, failProduct func() (*http.Response, error) // nil: no failures

	start time.Time

	mu               sync.Mutex // guards the fields below
	tokens, products []int      // requests in each second
	failed, ok       []int      // operations, by the second in which they began
}

// run runs the callers until the end of the simulation.
func (s *simulation) run(t *testing.T, p idverify.RetryPolicy) {
	t.Helper()
	s.start = time.Now()
	for _, counts := range []*[]int{&s.tokens, &s.products, &s.failed, &s.ok} {
		*counts = make([]int, 2*simDuration/time.Second)
	}
	var callers sync.WaitGroup
	for range simReplicas {
		c := newTransportClient(t, nil, idverify.WithHTTPClient(&http.Client{Transport: s}), idverify.WithRetry(p))
		for i := range simCallers / simReplicas {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Second * simReplicas / simCallers)
				for time.Since(s.start) < simDuration {
					began := time.Now()
					_, err := c.PhoneChecks.Get(t.Context(), "a")
					if err == nil {
						s.count(s.ok, began)
					} else {
						s.count(s.failed, began)
					}
					time.Sleep(time.Second)
				}
			})
		}
	}
	callers.Wait()
}

func (s *simulation) count(counts []int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts[at.Sub(s.start)/time.Second]++
}

func (s *simulation) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now()
	body, counts, fail := `{"check_id":"a","status":"PENDING"}`, s.products, s.failProduct
	if r.URL.Path == tokenPath {
		body, counts, fail = `{"access_token":"token-1","expires_in":3600}`, s.tokens, s.failToken
	}
	s.count(counts, now)
	time.Sleep(20 * time.Millisecond) // of the bubble's clock
	if fail != nil && now.Sub(s.start) < simOutage {
		return fail()
	}
	return response(200, []byte(body)), nil
}

// checkRecovery checks that every operation that began after the given time was successful.
func (s *simulation) checkRecovery(t *testing.T, after time.Duration) {
	t.Helper()
	if got := sum(s.failed[after/time.Second:]); got != 0 {
		t.Errorf("failed operations that began after %v = %d, want 0", after, got)
	}
	if got := sum(s.ok[after/time.Second:]); got < simCallers*3 {
		t.Errorf("successful operations after %v = %d, want at least %d", after, got, simCallers*3)
	}
}

// log logs the figures for docs/replicas.md.
func (s *simulation) log(t *testing.T) {
	t.Helper()
	for name, counts := range map[string][]int{"token": s.tokens, "product": s.products} {
		t.Logf("%s requests: %d in the outage, most in a second %d, then %.0f per second and at most %d in its second half; %d after it",
			name, sum(counts[:60]), slices.Max(counts[:60]), float64(sum(counts[30:60]))/30, slices.Max(counts[30:60]), sum(counts[60:]))
	}
	t.Logf("operations that began in the outage: %d failed, %d succeeded; after it: %d failed, %d succeeded",
		sum(s.failed[:60]), sum(s.ok[:60]), sum(s.failed[60:]), sum(s.ok[60:]))
}

func sum(counts []int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}
