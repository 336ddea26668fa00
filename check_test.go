package idverify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestCheckStatus_Final(t *testing.T) {
	t.Parallel()
	for status, want := range map[idverify.CheckStatus]bool{
		idverify.StatusAccepted: false, idverify.StatusPending: false, "": false, "NEW": false,
		idverify.StatusCompleted: true, idverify.StatusExpired: true, idverify.StatusError: true,
	} {
		if got := status.Final(); got != want {
			t.Errorf("%q: Final() = %t, want %t", status, got, want)
		}
	}
}

func TestSIMCheckService_CreatePeriod(t *testing.T) {
	t.Parallel()
	for period, minutes := range map[time.Duration]int{
		0:                                0, // not sent
		time.Hour:                        60,
		61 * time.Minute:                 61,
		540000 * time.Minute:             540000,
		time.Hour - time.Minute:          -1,
		time.Hour - 1:                    -1,
		time.Hour + 1:                    -1,
		540001 * time.Minute:             -1,
		-time.Hour:                       -1,
		540000*time.Minute + time.Second: -1,
	} {
		srv := newService(t, respondWith(201, `{"check_id":"c","status":"COMPLETED","no_sim_change":true}`))

		_, err := srv.client(t).SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900000", Period: period})

		if minutes < 0 {
			if !errors.Is(err, idverify.ErrBadRequest) || len(srv.calls()) > 0 {
				t.Errorf("%v: error = %v, want ErrBadRequest and no request", period, err)
			}
			continue
		}
		var sent struct{ Period int }
		if err == nil {
			err = json.Unmarshal(srv.calls()[0].body, &sent)
		}
		if err != nil || sent.Period != minutes {
			t.Errorf("%v: error = %v, period = %d minutes, want no error and %d", period, err, sent.Period, minutes)
		}
	}
}

func TestWithLiveOnly_ChargeAmount(t *testing.T) {
	t.Parallel()
	var body string
	srv := newService(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
	live, plain := srv.client(t, idverify.WithLiveOnly()), srv.client(t)
	for amount, sandbox := range map[string]bool{
		"": true, `null`: true, `0`: true, `-0`: true, `0.00`: true, `"0.00"`: true, `0e5`: true, `0E-3`: true, `0.0e400`: true,
		`1`: false, `100`: false, `0.01`: false, `"0.01"`: false, `0.10`: false, `1e-400`: false, `1E400`: false,
	} {
		for _, status := range []string{"ACCEPTED", "COMPLETED", "ERROR"} {
			body = `{"check_id":"a","status":"` + status + `","match":false,"no_sim_change":false}`
			if amount != "" {
				body = strings.TrimSuffix(body, "}") + `,"charge_amount":` + amount + `}`
			}
			for product, create := range creators {
				check, err := create(t.Context(), live)
				if check == sandbox || errors.Is(err, idverify.ErrSandbox) != sandbox || errors.Is(err, idverify.ErrOutcomeUnknown) {
					t.Errorf("%s in %s with amount %q: a check = %t, error = %v, want ErrSandbox: %t", product, status, amount, check, err, sandbox)
				}
				if check, err := create(t.Context(), plain); !check || err != nil {
					t.Errorf("%s without WithLiveOnly: error = %v, want a check", product, err)
				}
			}
			if _, err := live.PhoneChecks.Get(t.Context(), "a"); err != nil {
				t.Errorf("Get: error = %v, want a check: only Create is filtered", err)
			}
		}
	}
}

// creators create a check of each product and report whether they returned one.
var creators = map[string]func(context.Context, *idverify.Client) (bool, error){
	"PhoneCheck": func(ctx context.Context, c *idverify.Client) (bool, error) {
		check, err := c.PhoneChecks.Create(ctx, createParams)
		return check != nil, err
	},
	"SIMCheck": func(ctx context.Context, c *idverify.Client) (bool, error) {
		check, err := c.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: createParams.PhoneNumber})
		return check != nil, err
	},
	"SubscriberCheck": func(ctx context.Context, c *idverify.Client) (bool, error) {
		check, err := c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: createParams.PhoneNumber})
		return check != nil, err
	},
}

func TestWithLiveOnly_Projects(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	live := srv.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive}).Client(idverify.WithLiveOnly())
	sandbox := srv.Client(idverify.WithLiveOnly())
	for product, create := range creators {
		check, err := create(t.Context(), sandbox)
		if check || !errors.Is(err, idverify.ErrSandbox) {
			t.Errorf("%s of a sandbox project: error = %v, want ErrSandbox and no check", product, err)
		}
		if check, err := create(t.Context(), live); !check || err != nil {
			t.Errorf("%s of a live project: error = %v, want a check", product, err)
		}
	}
}

// completeRow is a code exchange with faults.
type completeRow struct {
	name     string
	faults   []sandboxfake.Fault // of the nth exchange
	wrong    bool                // the code is wrong
	deadline time.Duration       // of the caller; 0: none

	sent    string  // the requests
	unknown bool    // the error matches ErrOutcomeUnknown
	is      []error // sentinels that the error matches as well
	text    string  // in the error
}

// unknownCode is in the errors after which the code may have been used.
const unknownCode = "the code may have been used (get the check, and do not exchange the code again"

var completeRows = []completeRow{
	{name: "no fault", sent: "complete"},
	{name: "429", faults: []sandboxfake.Fault{status(429)}, sent: "complete complete"},
	{name: "wrong code", wrong: true, sent: "complete", is: []error{idverify.ErrNotFound}, text: "404 check_not_found"},
	{name: "rejected", faults: []sandboxfake.Fault{status(402)}, sent: "complete", is: []error{idverify.ErrInsufficientBalance}, text: "402"},

	{name: "response lost", faults: []sandboxfake.Fault{{Drop: true}}, sent: "complete", unknown: true, text: unknownCode + ")"},
	{name: "response truncated", faults: []sandboxfake.Fault{{Truncate: true}}, sent: "complete", unknown: true, text: unknownCode + ")"},
	{name: "response unusable", faults: []sandboxfake.Fault{{Body: "<html>"}}, sent: "complete", unknown: true, text: unknownCode + ")"},
	{name: "response about another check", faults: []sandboxfake.Fault{{Body: `{"check_id":"other","status":"COMPLETED","match":true}`}}, sent: "complete", unknown: true, text: unknownCode + ")"},
	{name: "503", faults: []sandboxfake.Fault{status(503)}, sent: "complete", unknown: true, text: unknownCode + ")"},
	{name: "503 for 3 s", faults: []sandboxfake.Fault{{Status: 503, RetryAfter: 3 * time.Second}}, sent: "complete", unknown: true, text: unknownCode + "; the service requests a delay of 3s)"},
	{name: "redirect", faults: []sandboxfake.Fault{status(302)}, sent: "complete", unknown: true, text: unknownCode},
	{name: "429, then 503", faults: []sandboxfake.Fault{status(429), status(503)}, sent: "complete complete", unknown: true, text: unknownCode},
	{name: "deadline", faults: []sandboxfake.Fault{{Latency: time.Hour}}, deadline: 7 * time.Second, sent: "complete", unknown: true, is: []error{context.DeadlineExceeded}, text: unknownCode},
}

func TestComplete_ExchangesOnce(t *testing.T) {
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
	s.srv.Inject(sandboxfake.Match{Operation: product + ".complete"}, row.faults...)
	ctx := t.Context()
	if row.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, row.deadline)
		defer cancel()
	}
	before := len(s.srv.Requests())

	check, err := s.complete(ctx, product, id, code)

	synctest.Wait()
	var sent []string
	for _, r := range s.srv.Requests()[before:] {
		if name, ok := strings.CutPrefix(r.Operation, product+"."); ok {
			sent = append(sent, name)
		}
	}
	if got := strings.Join(sent, " "); got != row.sent {
		t.Errorf("requests = %s, want %s (error %v)", got, row.sent, err)
	}
	want := ""
	if row.text == "" {
		want = id + " COMPLETED"
	}
	if check != want || (err == nil) != (check != "") {
		t.Errorf("check = %q, error = %v, want %q, and either a check or an error", check, err, want)
	}
	if errors.Is(err, idverify.ErrOutcomeUnknown) != row.unknown || !strings.Contains(fmt.Sprint(err), row.text) {
		t.Errorf("error = %v, want %q in it, and that it matches ErrOutcomeUnknown: %t", err, row.text, row.unknown)
	}
	for _, sentinel := range append([]error{context.Canceled, context.DeadlineExceeded}, otherSentinels...) {
		if got, want := errors.Is(err, sentinel), slices.Contains(row.is, sentinel); got != want {
			t.Errorf("error = %v, matches %q: %t, want %t", err, sentinel, got, want)
		}
	}
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
