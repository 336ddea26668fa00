package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idverify/idverify-go/examples/backend/internal/stack"
	"github.com/idverify/idverify-go/sandboxfake"
)

// customers is the number of customers that sign up, and phones the number that do so at a time.
const (
	customers = 2000
	phones    = 16
)

// incidents happen while customers sign up: each one when the given number of them are done.
var incidents = []struct {
	after int
	name  string
	run   func(context.Context, *stack.Stack) error
}{
	{100, "key rotation", func(_ context.Context, s *stack.Stack) error { s.Service.RotateKeys(); return nil }},
	{400, "restart of PostgreSQL", func(ctx context.Context, s *stack.Stack) error { return s.Postgres.Restart(ctx) }},
	{1200, "rotation of the credentials", func(ctx context.Context, s *stack.Stack) error { return s.RotateCredentials(ctx) }},
	{1500, "SIGTERM of a replica", func(ctx context.Context, s *stack.Stack) error {
		return errors.Join(s.Replicas[0].Stop(), s.Replicas[0].Start(ctx))
	}},
	{1800, "key rotation", func(_ context.Context, s *stack.Stack) error { s.Service.RotateKeys(); return nil }},
}

// TestBackend_SurvivesRestarts signs up customers through nginx and two replicas while keys and
// credentials are rotated and each part is restarted. Every check must then have taken effect
// exactly once, with the result that its number determines.
func TestBackend_SurvivesRestarts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	s := startStack(ctx, t)
	l := &load{stack: s, client: s.Phone(""), opened: make(map[string]bool)}
	begin := time.Now()

	l.signUpAll(ctx, t)
	loaded := time.Since(begin)
	l.db = connect(ctx, t, s)
	l.settle(ctx, t)

	l.verify(ctx, t)
	l.report(t, loaded, time.Since(begin))
	l.payOut(ctx, t, l.signIn(ctx, t))
	l.chooseMethod(ctx, t)
	l.exceedLimit(ctx, t)
	l.verifyAccessLog(t)
}

// startStack starts the stack, and stops it when the test ends.
func startStack(ctx context.Context, t *testing.T) *stack.Stack {
	t.Helper()
	s, err := stack.Start(ctx, &stack.Options{JournalLimit: 100_000})
	if errors.Is(err, stack.ErrNotInstalled) && os.Getenv("IDVERIFY_INTEROP") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Logs())
		}
		s.Close()
	})
	return s
}

// load signs up customers.
type load struct {
	stack  *stack.Stack
	client *http.Client
	db     *pgx.Conn // connected after the restart of the database

	mu       sync.Mutex      // guards the fields below
	opened   map[string]bool // sign-ups whose Check URL was opened
	repeated int             // sign-ups that a customer had to repeat
}

// signUpAll signs up all customers, and runs the incidents on the way.
func (l *load) signUpAll(ctx context.Context, t *testing.T) {
	t.Helper()
	reached := make([]chan struct{}, customers+1) // closed when that many customers are done
	for i := range reached {
		reached[i] = make(chan struct{})
	}
	var next, done atomic.Int64
	var group sync.WaitGroup
	for range phones {
		group.Go(func() {
			for n := next.Add(1); n <= customers && ctx.Err() == nil; n = next.Add(1) {
				if err := l.signUp(ctx, int(n)); err != nil {
					t.Errorf("customer %d: %v", n, err)
				}
				close(reached[done.Add(1)])
			}
		})
	}
	for _, incident := range incidents {
		select {
		case <-reached[incident.after]:
		case <-ctx.Done():
			t.Fatalf("%v before %d sign-ups", ctx.Err(), incident.after)
		}
		begin := time.Now()
		if err := incident.run(ctx, l.stack); err != nil {
			t.Errorf("%s: %v", incident.name, err)
		}
		t.Logf("after %d sign-ups: %s, %v", incident.after, incident.name, time.Since(begin).Round(time.Millisecond))
	}
	group.Wait()
}

// numberOf returns the phone number of the n-th customer.
func numberOf(n int) string { return fmt.Sprintf("4477009%05d", n) }

// signUp signs the n-th customer up and opens the Check URL. If the shop does not return one, the
// app of the customer starts again. Each customer has an address, because nginx limits the starts
// from one.
func (l *load) signUp(ctx context.Context, n int) error {
	app := l.stack.Phone(fmt.Sprintf("127.1.%d.%d", n/250, n%250+1))
	defer app.CloseIdleConnections()
	for {
		var response struct {
			ID       string `json:"id"`
			CheckURL string `json:"check_url"`
		}
		status, err := l.call(ctx, app, http.MethodPost, "/signups", map[string]string{"phone_number": numberOf(n)}, &response)
		switch {
		case err == nil && status == http.StatusCreated:
			l.mu.Lock()
			l.opened[response.ID] = true
			l.mu.Unlock()
			return open(ctx, l.client, response.CheckURL)
		case err == nil && status/100 == 4 && status != http.StatusTooManyRequests:
			return fmt.Errorf("POST /signups: status %d", status)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		l.mu.Lock()
		l.repeated++
		l.mu.Unlock()
		pause(ctx)
	}
}

// pause waits before a request is repeated.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

// open opens a Check URL as the phone does.
func open(ctx context.Context, client *http.Client, checkURL string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, checkURL, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("open the Check URL: %s", response.Status)
	}
	return err
}

// call sends a request to the shop and decodes the response.
func (l *load) call(ctx context.Context, client *http.Client, method, path string, body, into any) (status int, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, l.stack.URL+path, strings.NewReader(string(text)))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err != nil || response.Header.Get("Content-Type") != "application/json" { // a page of nginx
		return response.StatusCode, err
	}
	return response.StatusCode, json.Unmarshal(text, into)
}

// settle waits until the result of every check that the service created has been processed.
func (l *load) settle(ctx context.Context, t *testing.T) {
	t.Helper()
	// If the response to a create was lost, Reconcile stores the ID of the check.
	_, created := l.creates(t)
	l.wait(ctx, t, "every created check is stored", func() (int, error) { return l.unbound(ctx, created) })
	l.deliver(ctx, t)
	// Nobody opens these checks. They expire, which makes callbacks too.
	l.advance(ctx, t, 2*time.Minute)
	l.deliver(ctx, t)
	l.wait(ctx, t, "every result is processed", func() (int, error) { return l.unprocessed(ctx, created) })
}

// deliver waits until all attempts of callbacks have ended.
func (l *load) deliver(ctx context.Context, t *testing.T) {
	t.Helper()
	l.wait(ctx, t, "every callback is delivered", func() (int, error) {
		waiting, attempts := 0, 0
		for _, d := range l.stack.Service.Deliveries() {
			if !d.Done {
				waiting++
				attempts = max(attempts, len(d.Attempts))
			}
		}
		// A replica may wait 30 seconds before it fetches a key. The pauses before the last two attempts
		// are longer: leave them to real time.
		if waiting > 0 && attempts < 4 {
			l.advance(ctx, t, 10*time.Second)
		}
		return waiting, nil
	})
	results := make(map[sandboxfake.AttemptResult]int)
	for _, d := range l.stack.Service.Deliveries() {
		if n := len(d.Attempts); n > 0 {
			results[d.Attempts[n-1].Result]++
		}
	}
	t.Logf("results of the callbacks: %v", results)
}

func (l *load) advance(ctx context.Context, t *testing.T, d time.Duration) {
	t.Helper()
	noError(t, l.stack.Service.Advance(ctx, d))
}

// wait waits until left returns 0.
func (l *load) wait(ctx context.Context, t *testing.T, what string, left func() (int, error)) {
	t.Helper()
	begin, last := time.Now(), -1
	for {
		n, err := left()
		if err == nil {
			last = n
		}
		switch {
		case last == 0:
			t.Logf("%s, %v", what, time.Since(begin).Round(time.Millisecond))
			return
		case ctx.Err() != nil:
			t.Fatalf("waiting until %s: %d left, error %v", what, last, err)
		}
		pause(ctx)
	}
}
