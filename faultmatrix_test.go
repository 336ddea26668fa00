package idverify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

// faultRows lists the result of an operation after one fault: what the caller gets, such as "ok" or
// "503", and how many requests of the operation the service received.
var faultRows = []struct {
	name  string
	fault sandboxfake.Fault

	idempotent    string // GET, PUT and DELETE
	nonIdempotent string // POST and PATCH
	forDelete     string // DELETE, if different: its response has no body to truncate or change
}{
	{"400", status(400), "400 after 1", "400 after 1", ""},
	{"401", status(401), "ok after 2", "ok after 2", ""}, // with another token
	{"402", status(402), "402 after 1", "402 after 1", ""},
	{"403", status(403), "403 after 1", "403 after 1", ""},
	{"404", status(404), "404 after 1", "404 after 1", ""},
	{"409", status(409), "409 after 1", "409 after 1", ""},
	{"412", status(412), "412 after 1", "412 after 1", ""},
	{"429", status(429), "ok after 2", "ok after 2", ""},
	{"429 for 3 s", sandboxfake.Fault{Status: 429, RetryAfter: 3 * time.Second}, "ok after 2", "ok after 2", ""},
	{"429 for an hour", sandboxfake.Fault{Status: 429, RetryAfter: time.Hour}, "429 after 1", "429 after 1", ""},
	{"500", status(500), "ok after 2", "500 after 1", ""},
	{"501", status(501), "501 after 1", "501 after 1", ""},
	{"502", status(502), "ok after 2", "502 after 1", ""},
	{"503", status(503), "ok after 2", "503 after 1", ""},
	{"503 for 3 s", sandboxfake.Fault{Status: 503, RetryAfter: 3 * time.Second}, "ok after 2", "503 after 1", ""},
	{"504", status(504), "ok after 2", "504 after 1", ""},
	{"redirect", status(302), "302 after 1", "302 after 1", ""}, // not followed
	{"lost after the request", sandboxfake.Fault{Drop: true}, "ok after 2", "lost after 1", ""},
	{"truncated response", sandboxfake.Fault{Truncate: true}, "ok after 2", "lost after 1", "ok after 1"},
	{"no response", sandboxfake.Fault{Latency: time.Hour}, "ok after 2", "lost after 1", ""},
	{"slow response", sandboxfake.Fault{Latency: 20 * time.Second}, "ok after 1", "ok after 1", ""},
	{"HTML instead of JSON", sandboxfake.Fault{Body: "<html><h1>Bad gateway</h1></html>"}, "unusable after 1", "unusable after 1", "ok after 1"},
	{"other JSON", sandboxfake.Fault{Body: "[1]"}, "unusable after 1", "unusable after 1", "ok after 1"},
}

// tokenRows lists the result of an operation after a fault of its token request. The operation was
// not sent, so all methods have the same result.
var tokenRows = []struct {
	name  string
	fault sandboxfake.Fault
	want  string
}{
	{"400", status(400), "token 400 after 0"},
	{"401", sandboxfake.Fault{Status: 401, Fragment: "invalid_client"}, "token 401 after 0"},
	{"403", status(403), "token 403 after 0"},
	{"429", status(429), "ok after 1"},
	{"429 for 3 s", sandboxfake.Fault{Status: 429, RetryAfter: 3 * time.Second}, "ok after 1"},
	{"429 for an hour", sandboxfake.Fault{Status: 429, RetryAfter: time.Hour}, "token 429 after 0"},
	{"500", status(500), "ok after 1"},
	{"501", status(501), "token 501 after 0"},
	{"502", status(502), "ok after 1"},
	{"503", status(503), "ok after 1"},
	{"504", status(504), "ok after 1"},
	{"redirect", status(302), "token 302 after 0"},
	{"lost after the request", sandboxfake.Fault{Drop: true}, "ok after 1"},
	{"truncated response", sandboxfake.Fault{Truncate: true}, "ok after 1"},
	{"no response", sandboxfake.Fault{Latency: time.Hour}, "ok after 1"},
	{"slow response", sandboxfake.Fault{Latency: 20 * time.Second}, "ok after 1"},
	{"HTML instead of JSON", sandboxfake.Fault{Body: "<html></html>"}, "unusable after 0"},
}

func status(code int) sandboxfake.Fault { return sandboxfake.Fault{Status: code} }

// matrixTest is a service and the resources that an operation requires.
type matrixTest struct {
	t       testing.TB
	srv     *sandboxfake.Server
	client  *idverify.Client
	console *idverify.Console
	ids     []string // result of prepare
	names   int      // number of names used

	failDial int           // number of the connection that fails, from 1; 0: none
	timeout  time.Duration // of the caller; 0: none
}

// matrixOperation is an operation of the client. prepare creates the resources that do requires.
type matrixOperation struct {
	op      wire.Operation
	prepare func(*matrixTest) []string
	do      func(context.Context, *matrixTest) error
}

// productOperations lists all operations of a Client.
var productOperations = []matrixOperation{
	{wire.CreatePhoneCheck, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))
	}},
	{wire.GetPhoneCheck, newPhoneCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.Get(ctx, s.ids[0]))
	}},
	{wire.ListPhoneChecks, newPhoneCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.List(ctx, idverify.ListOptions{}))
	}},
	{wire.CompletePhoneCheck, newOpenedPhoneCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.Complete(ctx, s.ids[0], s.ids[1]))
	}},
	{wire.ListPhoneCheckTraces, newPhoneCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.Traces(ctx, s.ids[0]))
	}},
	{wire.CreateSubscriberCheck, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: matchingNumber}))
	}},
	{wire.GetSubscriberCheck, newSubscriberCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.Get(ctx, s.ids[0]))
	}},
	{wire.ListSubscriberChecks, newSubscriberCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.List(ctx, idverify.ListOptions{}))
	}},
	{wire.CompleteSubscriberCheck, newOpenedSubscriberCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.Complete(ctx, s.ids[0], s.ids[1]))
	}},
	{wire.ListSubscriberCheckTraces, newSubscriberCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.Traces(ctx, s.ids[0]))
	}},
	{wire.CreateSIMCheck, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: matchingNumber}))
	}},
	{wire.GetSIMCheck, newSIMCheck, func(ctx context.Context, s *matrixTest) error { return errorOf(s.client.SIMChecks.Get(ctx, s.ids[0])) }},
	{wire.ListSIMChecks, newSIMCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SIMChecks.List(ctx, idverify.ListOptions{}))
	}},
	{wire.ListSIMCheckTraces, newSIMCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SIMChecks.Traces(ctx, s.ids[0]))
	}},
	{wire.LookupDeviceIP, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.Reachability.Lookup(ctx, netip.MustParseAddr("203.0.113.8")))
	}},
	{wire.GetCountry, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.Reachability.Country(ctx, "GB"))
	}},
}

// TestClient_FaultMatrix tests each operation with 23 faults of its own, 17 faults of its token
// request, failed connections, and a caller's deadline. The service must never process a POST or
// PATCH twice.
func TestClient_FaultMatrix(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(productOperations, consoleOperations) {
		t.Run(m.op.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &matrixTest{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithJournalLimit(32))}
				for _, row := range faultRows {
					want := row.nonIdempotent
					if retryable(m.op) {
						want = row.idempotent
					}
					if m.op.Method == http.MethodDelete && row.forDelete != "" {
						want = row.forDelete
					}
					s.check(m, "fault "+row.name, m.op, row.fault, want)
				}
				for _, row := range tokenRows {
					s.check(m, "token fault "+row.name, wire.Token, row.fault, row.want)
				}
				// Nothing was written, so even a POST is retried.
				for _, s.failDial = range []int{1, 2} {
					s.check(m, fmt.Sprintf("connection %d fails", s.failDial), m.op, sandboxfake.Fault{}, "ok after 1")
				}
				s.failDial = 0
				s.timeout = 7 * time.Second
				s.check(m, "caller's deadline", m.op, sandboxfake.Fault{Latency: time.Hour}, "given up after 1")
				s.check(m, "caller's deadline during the token request", wire.Token, sandboxfake.Fault{Latency: time.Hour}, "given up after 0")
				s.check(m, "wait longer than the caller's deadline", wire.Token, sandboxfake.Fault{Status: 503, RetryAfter: 8 * time.Second}, "token 503 after 0")
			})
		})
	}
}

// retryable reports whether the method of op is idempotent. It follows RFC 9110, section 9.2.2, and
// not the client's table.
func retryable(op wire.Operation) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodPut, http.MethodDelete}, op.Method)
}

// check runs m with one fault and compares the result.
func (s *matrixTest) check(m matrixOperation, name string, target wire.Operation, fault sandboxfake.Fault, want string) {
	s.t.Helper()
	h := s.srv.HTTPClient()
	h.Timeout = 30 * time.Second
	s.connect(h)
	if m.prepare != nil {
		s.ids = m.prepare(s)
	}
	if s.failDial > 0 {
		h.Transport = failDialNumber(h.Transport.(*http.Transport), s.failDial)
	}
	s.connect(h)
	before := s.srv.DroppedRequests() + len(s.srv.Requests())
	remove := s.srv.Inject(sandboxfake.Match{Operation: target.Name}, fault)
	defer remove()
	ctx, cancel := s.t.Context(), context.CancelFunc(func() {})
	if s.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
	}
	defer cancel()
	began := time.Now()

	err := m.do(ctx, s)

	switch took := time.Since(began); {
	case s.timeout > 0 && took > s.timeout:
		s.t.Errorf("%s: took %v, want at most the caller's %v", name, took, s.timeout)
	case err == nil && took < fault.RetryAfter:
		s.t.Errorf("%s: retried within %v, want at least the Retry-After of %v", name, took, fault.RetryAfter)
	}

	synctest.Wait() // the service may still process a request whose caller has returned
	seen, accepted := 0, 0
	for _, r := range s.srv.Requests()[before-s.srv.DroppedRequests():] {
		if r.Operation == m.op.Name {
			seen++
			if r.Status == m.op.Success {
				accepted++
			}
		}
	}
	if got := fmt.Sprintf("%s after %d", classify(err), seen); got != want {
		s.t.Errorf("%s: result = %s, want %s (%v)", name, got, want, err)
	}
	if accepted > 1 && !retryable(m.op) {
		s.t.Errorf("%s: processed %d times, want once: each may be charged", name, accepted)
	}
}

// connect creates clients without a cached token.
func (s *matrixTest) connect(h *http.Client) {
	s.client = s.srv.Client(idverify.WithHTTPClient(h), idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"}))
	s.console = s.srv.Console(idverify.WithHTTPClient(h))
}

// failDialNumber returns a transport that opens a connection per request and fails to open the nth.
func failDialNumber(t *http.Transport, n int) *http.Transport {
	t = t.Clone()
	t.DisableKeepAlives = true
	dial, dials := t.DialContext, 0
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials == n {
			return nil, errors.New("connection refused")
		}
		return dial(ctx, network, address)
	}
	return t
}

// classify returns what a caller learns from err.
func classify(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*idverify.Error](err); ok {
		return fmt.Sprint(e.Status)
	}
	if e, ok := errors.AsType[*idverify.TokenError](err); ok {
		return fmt.Sprintf("token %d", e.Status)
	}
	if _, ok := errors.AsType[*idverify.DecodeError](err); ok {
		return "unusable"
	}
	if errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "attempt timeout") {
		return "given up"
	}
	return "lost"
}

func TestFaultMatrix_IsComplete(t *testing.T) {
	t.Parallel()
	has := make(map[string]bool)
	for _, m := range slices.Concat(productOperations, consoleOperations) {
		has[m.op.Name] = true
	}

	for _, op := range wire.Operations() {
		if op.Scope != "" && !has[op.Name] && !strings.HasSuffix(op.Name, ".trace") { // which has no method
			t.Errorf("%s is not in the fault matrix", op.Name)
		}
	}
	for field := range reflect.TypeFor[sandboxfake.Fault]().NumField() {
		used := false
		for _, row := range faultRows {
			used = used || !reflect.ValueOf(row.fault).Field(field).IsZero()
		}
		for _, row := range tokenRows {
			used = used || !reflect.ValueOf(row.fault).Field(field).IsZero()
		}
		if name := reflect.TypeFor[sandboxfake.Fault]().Field(field).Name; !used && name != "WrongKey" { // of callbacks
			t.Errorf("Fault.%s is not in the fault matrix", name)
		}
	}
}

// Prepare functions.

func newPhoneCheck(s *matrixTest) []string {
	return []string{must(s.client.PhoneChecks.Create(s.t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))(s.t).CheckID}
}

func newSubscriberCheck(s *matrixTest) []string {
	return []string{must(s.client.SubscriberChecks.Create(s.t.Context(), idverify.SubscriberCheckParams{PhoneNumber: matchingNumber}))(s.t).CheckID}
}

func newSIMCheck(s *matrixTest) []string {
	return []string{must(s.client.SIMChecks.Create(s.t.Context(), idverify.SIMCheckParams{PhoneNumber: matchingNumber}))(s.t).CheckID}
}

func newOpenedPhoneCheck(s *matrixTest) []string {
	check := must(s.client.PhoneChecks.Create(s.t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))(s.t)
	return []string{check.CheckID, s.open(check.CheckURL)}
}

func newOpenedSubscriberCheck(s *matrixTest) []string {
	check := must(s.client.SubscriberChecks.Create(s.t.Context(), idverify.SubscriberCheckParams{PhoneNumber: matchingNumber}))(s.t)
	return []string{check.CheckID, s.open(check.CheckURL)}
}

// open opens a Check URL and returns the code that the device receives.
func (s *matrixTest) open(checkURL string) (code string) {
	visit := must(s.srv.Device().Open(s.t.Context(), checkURL))(s.t)
	var body struct{ Code string }
	if err := json.Unmarshal(visit.Body, &body); err != nil || body.Code == "" {
		s.t.Fatalf("response of the Check URL = %s, %v, want a code", visit.Body, err)
	}
	return body.Code
}

// must returns v, or fails the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
