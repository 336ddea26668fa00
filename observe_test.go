package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// attemptLog records what the client reports to its observer.
type attemptLog struct {
	mu       sync.Mutex // guards the fields below
	begun    int
	attempts []idverify.Attempt
}

func (l *attemptLog) option() idverify.Option {
	return idverify.WithObserver(func(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.begun++
		return ctx, func(a idverify.Attempt) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.attempts = append(l.attempts, a)
		}
	})
}

// all returns the attempts. It fails the test if the observer was not called once for each of them.
func (l *attemptLog) all(t *testing.T) []idverify.Attempt {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun != len(l.attempts) {
		t.Errorf("attempts begun = %d, ended = %d, want equal numbers", l.begun, len(l.attempts))
	}
	return slices.Clone(l.attempts)
}

// of returns the attempts of an operation.
func (l *attemptLog) of(t *testing.T, operation string) []idverify.Attempt {
	t.Helper()
	return slices.DeleteFunc(l.all(t), func(a idverify.Attempt) bool { return a.Operation != operation })
}

// summary describes attempts, except for times: "phone_check.get 1: 503 retry".
func summary(attempts []idverify.Attempt) []string {
	lines := []string{}
	for _, a := range attempts {
		line := fmt.Sprintf("%s %d: %d", a.Operation, a.Number, a.Status)
		if a.Retry {
			line += " retry"
		}
		if a.Err != nil {
			line += " error"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestWithObserver_Retries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(attemptLog)
		respond := inTurn(
			withHeader(response(503, nil), "X-Request-Id", "request-1", "Retry-After", "3"),
			withHeader(response(503, nil), "X-Request-Id", "request-2", "Retry-After", "4"),
			withHeader(response(200, fixture(t, "phone_check.json")), "X-Request-Id", "request-3",
				"X-RateLimit-Limit", "20", "X-RateLimit-Remaining", "19", "X-RateLimit-Reset", "7"))
		c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second) // the bubble's clock
			return respond(r)
		}, log.option(), idverify.WithRetry(idverify.RetryPolicy{MinWait: 1, MaxWait: time.Minute}))

		_, err := c.PhoneChecks.Get(t.Context(), phoneCheckID)

		if err != nil {
			t.Fatal(err)
		}
		attempts := log.of(t, "phone_check.get")
		want := []idverify.Attempt{
			{Number: 1, Status: 503, Duration: time.Second, Wait: 3 * time.Second, Retry: true, RequestID: "request-1"},
			{Number: 2, Status: 503, Duration: time.Second, Wait: 4 * time.Second, Retry: true, RequestID: "request-2"},
			{Number: 3, Status: 200, Duration: time.Second, RequestID: "request-3", RateLimit: &idverify.RateLimit{Limit: 20, Remaining: 19, Reset: time.Now().Add(7 * time.Second)}},
		}
		for i, a := range attempts {
			want[i].Operation, want[i].Err = "phone_check.get", a.Err // compared below
			e, ok := errors.AsType[*idverify.Error](a.Err)
			switch {
			case a.Status == 200 && a.Err != nil:
				t.Errorf("attempt %d: error = %v, want nil", i+1, a.Err)
			case a.Status == 503 && (!ok || e.Status != 503 || e.RequestID != a.RequestID || !strings.Contains(e.Error(), a.RequestID)):
				t.Errorf("attempt %d: error = %v, want the *Error for the response", i+1, a.Err)
			}
		}
		if diff := cmp.Diff(want, attempts, cmp.Comparer(func(a, b error) bool { return a == b })); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

// inTurn returns a transport that returns the nth response for the nth request.
func inTurn(responses ...*http.Response) roundTripperFunc {
	var mu sync.Mutex
	return func(*http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		resp := responses[0]
		responses = responses[1:]
		return resp, nil
	}
}

// withHeader adds pairs of names and values to the header of resp.
func withHeader(resp *http.Response, pairs ...string) *http.Response {
	for pair := range slices.Chunk(pairs, 2) {
		resp.Header.Set(pair[0], pair[1])
	}
	return resp
}
