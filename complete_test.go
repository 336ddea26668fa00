package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// completeRow is a code exchange with faults.
type completeRow struct {
	name    string
	patches []sandboxfake.Fault // of the nth code exchange that reaches the service; the zero Fault lets it pass
	reads   []sandboxfake.Fault // of the nth read; %s in a body is the check ID
	lost    int                 // number of code exchanges that do not reach the service
	late    bool                // the first code exchange reaches the service just before the second
	wrong   bool                // the code is wrong

	before, after string        // cancel the caller's context before, or after, a request such as "GET 1"
	deadline      time.Duration // of the caller; 0: none

	sent    string   // the requests
	status  string   // of the check; empty: there is no check
	unknown bool     // the error matches ErrOutcomeUnknown
	is      []error  // sentinels that the error matches as well
	text    []string // parts of the error's text
	notText string   // is not in the error's text, unless empty
	took    time.Duration
}

var notFound = sandboxfake.Fault{Status: 404, Fragment: "check_not_found"}

func withBody(body string) sandboxfake.Fault { return sandboxfake.Fault{Body: body} }

// confirmedBy is the text of an error that comes with a COMPLETED check.
var confirmedBy = []string{"outcome unknown", "the check is COMPLETED, but the service did not confirm this code (accept the result only for the session that owns check and redirect)"}

var completeRows = []completeRow{
	{name: "no fault", sent: "PATCH", status: "COMPLETED"},
	{name: "wrong code", wrong: true, sent: "PATCH", is: []error{idverify.ErrNotFound}},
	{name: "rejected", patches: []sandboxfake.Fault{status(402)}, sent: "PATCH", is: []error{idverify.ErrInsufficientBalance}},

	{name: "response lost", patches: []sandboxfake.Fault{{Drop: true}}, sent: "PATCH GET", status: "COMPLETED", unknown: true, text: confirmedBy},
	{name: "response truncated", patches: []sandboxfake.Fault{{Truncate: true}}, sent: "PATCH GET", status: "COMPLETED", unknown: true, text: confirmedBy},
	{name: "response unusable", patches: []sandboxfake.Fault{withBody("<html>")}, sent: "PATCH GET", status: "COMPLETED", unknown: true, text: confirmedBy},
	{name: "response about another check", patches: []sandboxfake.Fault{withBody(`{"check_id":"other","status":"COMPLETED","match":true}`)}, sent: "PATCH GET", status: "COMPLETED", unknown: true, text: confirmedBy},

	{name: "request lost", lost: 1, sent: "PATCH GET PATCH", status: "COMPLETED"},
	{name: "503", patches: []sandboxfake.Fault{status(503)}, sent: "PATCH GET PATCH", status: "COMPLETED"},
	{name: "redirect", patches: []sandboxfake.Fault{status(302)}, sent: "PATCH GET PATCH", status: "COMPLETED"},
	{name: "503, then 429", patches: []sandboxfake.Fault{status(503), status(429)}, sent: "PATCH GET PATCH PATCH", status: "COMPLETED"},
	{name: "503, then response lost", patches: []sandboxfake.Fault{status(503), {Drop: true}}, sent: "PATCH GET PATCH GET", status: "COMPLETED", unknown: true, text: confirmedBy},
	{name: "request late", lost: 1, late: true, sent: "PATCH GET PATCH GET", status: "COMPLETED", unknown: true, text: confirmedBy},

	{name: "request lost twice", lost: 9, sent: "PATCH GET PATCH GET", unknown: true, text: []string{"outcome unknown: lost; the code may have been used, and the check is PENDING (use the callback, or get the check later)", "; then idverify: complete ", ": outcome unknown: lost; the code may have been used"}, notText: "get the check before"},
	{name: "request lost, wrong code", lost: 1, wrong: true, sent: "PATCH GET PATCH GET", unknown: true, is: []error{idverify.ErrNotFound}, text: []string{"the check is PENDING", "404 check_not_found"}},
	{name: "503, then 402", patches: []sandboxfake.Fault{status(503), status(402)}, sent: "PATCH GET PATCH", unknown: true, is: []error{idverify.ErrInsufficientBalance}, text: []string{"503", "the check is PENDING", "402"}},
	{name: "503, then 404 of a proxy", patches: []sandboxfake.Fault{status(503), {Status: 404, Fragment: "not_found"}}, sent: "PATCH GET PATCH", unknown: true, is: []error{idverify.ErrNotFound}, text: []string{"404 not_found"}},

	{name: "read rejected", patches: []sandboxfake.Fault{{Drop: true}}, reads: []sandboxfake.Fault{status(403)}, sent: "PATCH GET", unknown: true, is: []error{idverify.ErrForbidden}, text: []string{"; then idverify: get ", "403"}},
	{name: "read unavailable", patches: []sandboxfake.Fault{{Drop: true}}, reads: slices.Repeat([]sandboxfake.Fault{status(503)}, 4), sent: "PATCH GET GET GET GET", unknown: true, text: []string{"503"}},
	{name: "read retried", patches: []sandboxfake.Fault{{Drop: true}}, reads: []sandboxfake.Fault{status(503)}, sent: "PATCH GET GET", status: "COMPLETED", unknown: true, text: confirmedBy},
	{name: "check not found", patches: []sandboxfake.Fault{status(503)}, reads: []sandboxfake.Fault{notFound}, sent: "PATCH GET", unknown: true, is: []error{idverify.ErrNotFound}, text: []string{"404 check_not_found"}},
	{name: "another check read", patches: []sandboxfake.Fault{{Drop: true}}, reads: []sandboxfake.Fault{withBody(`{"check_id":"other","status":"COMPLETED","match":true}`)}, sent: "PATCH GET", unknown: true, text: []string{"describes a different resource"}},
	{name: "another check PENDING", patches: []sandboxfake.Fault{status(503)}, reads: []sandboxfake.Fault{withBody(`{"check_id":"other","status":"PENDING"}`)}, sent: "PATCH GET", unknown: true, text: []string{"describes a different resource"}},
	{name: "status ACCEPTED", patches: []sandboxfake.Fault{status(503)}, reads: []sandboxfake.Fault{withBody(`{"check_id":"%s","status":"ACCEPTED"}`)}, sent: "PATCH GET", unknown: true, text: []string{"the check is ACCEPTED"}},
	{name: "status ERROR", patches: []sandboxfake.Fault{status(503)}, reads: []sandboxfake.Fault{withBody(`{"check_id":"%s","status":"ERROR","match":true}`)}, sent: "PATCH GET", unknown: true, text: []string{"the check is ERROR"}},
	{name: "malicious status", patches: []sandboxfake.Fault{status(503)}, reads: []sandboxfake.Fault{withBody(`{"check_id":"%s","status":"completed\n+447700900000"}`)}, sent: "PATCH GET", unknown: true, text: []string{"the check is completed [REDACTED] ("}},
	{name: "second read rejected", patches: []sandboxfake.Fault{status(503), {Drop: true}}, reads: []sandboxfake.Fault{{}, status(403)}, sent: "PATCH GET PATCH GET", unknown: true, is: []error{idverify.ErrForbidden}},

	{name: "503 for 3 s", patches: []sandboxfake.Fault{{Status: 503, RetryAfter: 3 * time.Second}}, sent: "PATCH GET PATCH", status: "COMPLETED", took: 3 * time.Second},
	{name: "503 for 3 s, then lost", patches: []sandboxfake.Fault{{Status: 503, RetryAfter: 3 * time.Second}, {Drop: true}}, sent: "PATCH GET PATCH GET", status: "COMPLETED", unknown: true, text: confirmedBy},
	{name: "503 for an hour", patches: []sandboxfake.Fault{{Status: 503, RetryAfter: time.Hour}}, sent: "PATCH", unknown: true, text: []string{"(get the check before you retry; the service requests a delay of 1h0m0s)"}},
	{name: "503 beyond the deadline", patches: []sandboxfake.Fault{{Status: 503, RetryAfter: 5 * time.Second}}, deadline: 5 * time.Second, sent: "PATCH", unknown: true},
	{name: "503, then 503 for an hour", patches: []sandboxfake.Fault{status(503), {Status: 503, RetryAfter: time.Hour}}, sent: "PATCH GET PATCH", unknown: true, text: []string{"the check is PENDING", "the code may have been used (the service requests a delay of 1h0m0s)"}, notText: "get the check before"},

	{name: "canceled after the exchange", patches: []sandboxfake.Fault{{Drop: true}}, after: "PATCH 1", sent: "PATCH", unknown: true, is: []error{context.Canceled}, text: []string{"(get the check before you retry)"}},
	{name: "canceled after 503", patches: []sandboxfake.Fault{status(503)}, after: "PATCH 1", sent: "PATCH", unknown: true},
	{name: "canceled before the read", patches: []sandboxfake.Fault{{Drop: true}}, before: "GET 1", sent: "PATCH GET", unknown: true, is: []error{context.Canceled}},
	{name: "canceled after the read", patches: []sandboxfake.Fault{status(503)}, after: "GET 1", sent: "PATCH GET", unknown: true, is: []error{context.Canceled}, text: []string{"the check is PENDING", "not sent"}},
	{name: "canceled after the second exchange", patches: []sandboxfake.Fault{status(503), {Drop: true}}, after: "PATCH 2", sent: "PATCH GET PATCH", unknown: true, is: []error{context.Canceled}},
	{name: "deadline during the exchange", patches: []sandboxfake.Fault{{Latency: time.Hour}}, deadline: 7 * time.Second, sent: "PATCH", unknown: true, is: []error{context.DeadlineExceeded}, took: 7 * time.Second},
	{name: "deadline during the read", patches: []sandboxfake.Fault{{Drop: true}}, reads: []sandboxfake.Fault{{Latency: time.Hour}}, deadline: 7 * time.Second, sent: "PATCH GET", unknown: true, is: []error{context.DeadlineExceeded}, took: 7 * time.Second},
}

func TestComplete_UnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, product := range []string{"phone_check", "subscriber_check"} {
		for _, row := range completeRows {
			t.Run(product+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { row.test(t, product) })
			})
		}
	}
}

func (row completeRow) test(t *testing.T, product string) {
	s := &matrixTest{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory())}
	s.connect(s.srv.HTTPClient())
	prepare := newOpenedPhoneCheck
	if product == "subscriber_check" {
		prepare = newOpenedSubscriberCheck
	}
	ids := prepare(s)
	id, code := ids[0], ids[1]
	if row.wrong {
		code = "wrong-code"
	}
	row.reads = slices.Clone(row.reads)
	for i, f := range row.reads {
		row.reads[i].Body = strings.ReplaceAll(f.Body, "%s", id)
	}
	s.srv.Inject(sandboxfake.Match{Operation: product + ".complete"}, row.patches...)
	s.srv.Inject(sandboxfake.Match{Operation: product + ".get"}, row.reads...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if row.deadline > 0 {
		ctx, cancel = context.WithTimeout(ctx, row.deadline)
		defer cancel()
	}
	transport := &completeTransport{completeRow: row, next: s.srv.HTTPClient().Transport, cancel: cancel}
	s.connect(&http.Client{Transport: transport})
	start := time.Now()

	check, err := s.complete(ctx, product, id, code)

	took := time.Since(start)
	synctest.Wait()
	if got := strings.Join(transport.sent, " "); got != row.sent {
		t.Errorf("requests = %s, want %s (error %v)", got, row.sent, err)
	}
	want := ""
	if row.status != "" {
		want = id + " " + row.status
	}
	if check != want {
		t.Errorf("check = %q, want %q", check, want)
	}
	if wantErr := row.unknown || row.status == ""; (err != nil) != wantErr || errors.Is(err, idverify.ErrOutcomeUnknown) != row.unknown {
		t.Errorf("error = %v, want an error: %t, that matches ErrOutcomeUnknown: %t", err, wantErr, row.unknown)
	}
	for _, sentinel := range append([]error{context.Canceled, context.DeadlineExceeded}, otherSentinels...) {
		if got, want := errors.Is(err, sentinel), slices.Contains(row.is, sentinel); got != want {
			t.Errorf("error = %v, matches %q: %t, want %t", err, sentinel, got, want)
		}
	}
	for _, text := range row.text {
		if !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("error = %v, want %q in it", err, text)
		}
	}
	if row.notText != "" && strings.Contains(fmt.Sprint(err), row.notText) {
		t.Errorf("error = %v, want no %q in it", err, row.notText)
	}
	if strings.ContainsAny(fmt.Sprint(err), "\n") || strings.Contains(fmt.Sprint(err), matchingNumber) {
		t.Errorf("error = %q, want one line without a phone number", err)
	}
	if row.took > 0 && took != row.took {
		t.Errorf("took %v, want %v", took, row.took)
	}
	s.acceptedOnce(product + ".complete")
}

// complete completes a check and returns its ID and status, or an empty string if there is no
// check.
func (s *matrixTest) complete(ctx context.Context, product, id, code string) (string, error) {
	if product == "subscriber_check" {
		check, err := s.client.SubscriberChecks.Complete(ctx, id, code)
		if check == nil {
			return "", err
		}
		return check.CheckID + " " + string(check.Status), err
	}
	check, err := s.client.PhoneChecks.Complete(ctx, id, code)
	if check == nil {
		return "", err
	}
	return check.CheckID + " " + string(check.Status), err
}

// acceptedOnce reports an error if the service processed an operation more than once.
func (s *matrixTest) acceptedOnce(operation string) {
	s.t.Helper()
	accepted := 0
	for _, r := range s.srv.Requests() {
		if r.Operation == operation && r.Status == http.StatusOK {
			accepted++
		}
	}
	if accepted > 1 {
		s.t.Errorf("the service processed %s %d times, want once", operation, accepted)
	}
}

// completeTransport records the requests of a row, except token requests, and loses or cancels
// some. The client sends them one after the other.
type completeTransport struct {
	completeRow
	next   http.RoundTripper
	cancel context.CancelFunc

	sent  []string
	first *http.Request // the first code exchange, if it was lost
}

func (c *completeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == tokenPath {
		return c.next.RoundTrip(r)
	}
	c.sent = append(c.sent, r.Method)
	number := 0
	for _, method := range c.sent {
		if method == r.Method {
			number++
		}
	}
	label := fmt.Sprint(r.Method, " ", number)
	if label == c.before {
		c.cancel()
	}
	if r.Method == http.MethodPatch && number <= c.lost {
		return nil, c.lose(r)
	}
	if label == "PATCH 2" && c.late {
		resp, err := c.next.RoundTrip(c.first)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
	}
	resp, err := c.next.RoundTrip(r)
	switch {
	case label != c.after:
	case err != nil:
		c.cancel()
	default:
		resp.Body = &cancelingBody{resp.Body, c.cancel}
	}
	return resp, err
}

// lose reads r and keeps a copy.
func (c *completeTransport) lose(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	c.first = r.Clone(context.WithoutCancel(r.Context()))
	c.first.Body, c.first.GetBody = io.NopCloser(strings.NewReader(string(body))), nil
	return errors.New("lost")
}

// TestComplete_KeepsObservedErrors formats the errors of the attempts while Complete reads the
// check. An observer may log them later, on another goroutine.
func TestComplete_KeepsObservedErrors(t *testing.T) {
	t.Parallel()
	for name, exchange := range map[string]http.HandlerFunc{"503": respondWith(503, ""), "unusable": respondWith(200, "<html>"), "lost": drop} {
		for _, checkStatus := range []string{"COMPLETED", "PENDING"} {
			t.Run(name+" "+checkStatus, func(t *testing.T) {
				t.Parallel()
				srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPatch {
						exchange(w, r)
						return
					}
					fmt.Fprintf(w, `{"check_id":"a","status":%q,"match":true}`, checkStatus)
				})
				var observed []error
				var texts []string
				var readers sync.WaitGroup
				observer := func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
					return ctx, func(a idverify.Attempt) {
						if a.Err == nil {
							return
						}
						observed, texts = append(observed, a.Err), append(texts, a.Err.Error())
						readers.Go(func() {
							for range 1000 {
								_ = a.Err.Error()
							}
						})
					}
				}
				c := srv.client(t, idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}), idverify.WithObserver(observer))

				_, err := c.PhoneChecks.Complete(t.Context(), "a", "code")

				readers.Wait()
				if !errors.Is(err, idverify.ErrOutcomeUnknown) || len(observed) == 0 {
					t.Fatalf("error = %v with %d failed attempts, want ErrOutcomeUnknown", err, len(observed))
				}
				for i, e := range observed {
					if e.Error() != texts[i] {
						t.Errorf("the error of an attempt changed to\n%v, was\n%s", e, texts[i])
					}
				}
			})
		}
	}
}
