package idverify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
			if !errors.Is(err, idverify.ErrBadRequest) || len(srv.calls())+len(srv.tokens()) > 0 {
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
			for _, p := range referenceProducts {
				id, err := p.create(t.Context(), live, "order-7")
				if (id == "") != sandbox || errors.Is(err, idverify.ErrSandbox) != sandbox || errors.Is(err, idverify.ErrOutcomeUnknown) {
					t.Errorf("%s in %s with amount %q: check %q, error = %v, want ErrSandbox: %t", p.name, status, amount, id, err, sandbox)
				}
				if id, err := p.create(t.Context(), plain, "order-7"); id == "" || err != nil {
					t.Errorf("%s without WithLiveOnly: error = %v, want a check", p.name, err)
				}
			}
			if _, err := live.PhoneChecks.Get(t.Context(), "a"); err != nil {
				t.Errorf("Get: error = %v, want a check: Get does not test the charge", err)
			}
		}
	}
}

func TestWithLiveOnly_Projects(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	live := srv.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive}).Client(idverify.WithLiveOnly())
	sandbox := srv.Client(idverify.WithLiveOnly())
	for _, p := range referenceProducts {
		if id, err := p.create(t.Context(), sandbox, "order-7"); id != "" || !errors.Is(err, idverify.ErrSandbox) {
			t.Errorf("%s of a sandbox project: error = %v, want ErrSandbox and no check", p.name, err)
		}
		if id, err := p.create(t.Context(), live, "order-7"); id == "" || err != nil {
			t.Errorf("%s of a live project: error = %v, want a check", p.name, err)
		}
		if found, err := p.find(t.Context(), sandbox, "order-7"); found != nil || !errors.Is(err, idverify.ErrSandbox) {
			t.Errorf("%s of a sandbox project: found %q, error = %v, want ErrSandbox and no check", p.name, found, err)
		}
		for name, c := range map[string]*idverify.Client{"a live project": live, "a client without WithLiveOnly": srv.Client()} {
			if found, err := p.find(t.Context(), c, "order-7"); len(found) != 1 || err != nil {
				t.Errorf("%s of %s: found %q, error = %v, want a check", p.name, name, found, err)
			}
		}
	}
}

// completeRow is a code exchange with faults.
type completeRow struct {
	name     string
	faults   []sandboxfake.Fault // of the nth exchange
	wrong    bool                // the code is wrong
	deadline time.Duration       // of the caller; 0 means none

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
	id, code := ids["check_id"], ids["code"]
	if row.wrong {
		code = "wrong-code"
	}
	s.srv.Inject(sandboxfake.Match{Operation: product + ".complete"}, row.faults...)
	ctx := withDeadline(t, row.deadline)
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
	for _, sentinel := range append([]error{context.Canceled, context.DeadlineExceeded}, sentinels...) {
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
		return idOf(check, err, func(c *idverify.SubscriberCheck) string { return c.CheckID + " " + string(c.Status) })
	}
	check, err := s.client.PhoneChecks.Complete(ctx, id, code)
	return idOf(check, err, func(c *idverify.PhoneCheck) string { return c.CheckID + " " + string(c.Status) })
}

func TestPhoneCheckService_WaitCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var polls []time.Duration
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			at := time.Since(start)
			polls = append(polls, at)
			switch {
			case at < 10*time.Second:
				return response(200, []byte(`{"check_id":"a","status":"ACCEPTED","ttl":120}`)), nil
			case at < 40*time.Second:
				return response(200, []byte(`{"check_id":"a","status":"PENDING","ttl":120}`)), nil
			}
			return response(200, []byte(`{"check_id":"a","status":"COMPLETED","match":false,"ttl":120}`)), nil
		})

		check, err := c.PhoneChecks.Wait(t.Context(), "a")

		if err != nil || check.Status != idverify.StatusCompleted || check.Match != idverify.VerdictNo {
			t.Fatalf("check = %+v, error = %v, want a completed check without a match", check, err)
		}
		if polls[1]-polls[0] != 500*time.Millisecond || polls[2]-polls[1] != 750*time.Millisecond {
			t.Errorf("polls at %v, want intervals of 500ms, then 750ms", polls[:3])
		}
		if last := len(polls) - 1; polls[last]-polls[last-1] != 5*time.Second || len(polls) > 20 {
			t.Errorf("%d polls at %v, want at most 20 with intervals that grow to 5s", len(polls), polls)
		}
	})
}

func TestSubscriberCheckService_WaitEnded(t *testing.T) {
	t.Parallel()
	const gone = `{"type":"https://docs.sandbox.test/reference/api-errors#check_not_found","status":404,"detail":"no such check"}`
	for _, tt := range []struct {
		name      string
		responses []string
		status    idverify.CheckStatus
		want      string
		gone      bool // errors.Is ErrNotFound
	}{
		{"pending, then not found", []string{`{"check_id":"a","status":"PENDING","ttl":120}`, gone}, idverify.StatusPending,
			"idverify: wait for SubscriberCheck: check not found after status PENDING: it ended as EXPIRED or ERROR (its callback reports how it ended)", true},
		{"not found", []string{gone}, "",
			"idverify: wait for SubscriberCheck: check not found: it ended as EXPIRED or ERROR, or never existed (set CallbackURL to learn how such checks end)", true},
		{"status error", []string{`{"check_id":"a","status":"ERROR","match":false,"error_code":"mno_timeout"}`}, idverify.StatusError,
			"idverify: wait for SubscriberCheck: check ended as ERROR: mno_timeout", false},
		{"accepted beyond its ttl", []string{`{"check_id":"a","status":"ACCEPTED","ttl":60}`}, idverify.StatusAccepted,
			"idverify: wait for SubscriberCheck: check is still ACCEPTED after its TTL", false},
		{"unknown status beyond its ttl", []string{`{"check_id":"a","status":"FROZEN"}`}, "FROZEN",
			"idverify: wait for SubscriberCheck: check is still FROZEN after its TTL", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				responses := tt.responses
				c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
					body := responses[0]
					if len(responses) > 1 {
						responses = responses[1:]
					}
					if body == gone {
						return response(404, []byte(body)), nil
					}
					return response(200, []byte(body)), nil
				})
				start := time.Now()

				check, err := c.SubscriberChecks.Wait(t.Context(), "a")

				ended, ok := errors.AsType[*idverify.NoResultError](err)
				if !ok || check != nil || ended.CheckID != "a" || ended.Operation != "subscriber_check.get" || ended.Status != tt.status || err.Error() != tt.want {
					t.Errorf("check = %v, error =\n%v\nwant no check and\n%s", check, err, tt.want)
				}
				if errors.Is(err, idverify.ErrNotFound) != tt.gone {
					t.Errorf("errors.Is(err, ErrNotFound) = %v, want %v", !tt.gone, tt.gone)
				}
				if took := time.Since(start); took > 3*time.Minute || tt.status.Final() && took > 0 {
					t.Errorf("Wait took %v, want at most 3m, and 0 for a final status", took)
				}
			})
		})
	}
}

func TestPhoneCheckService_WaitErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		status, body := 200, `{"check_id":"a","status":"ACCEPTED","ttl":120}`
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) { return response(status, []byte(body)), nil })
		start := time.Now()

		_, err := c.PhoneChecks.Wait(withDeadline(t, 7*time.Second), "a")

		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 7*time.Second || fmt.Sprint(err) != "idverify: wait for PhoneCheck: context deadline exceeded: check is still ACCEPTED" {
			t.Errorf("error after %v = %v, want context.DeadlineExceeded after 7s", time.Since(start), err)
		}
		for code, want := range map[int]error{403: idverify.ErrForbidden, 404: idverify.ErrNotFound} { // responses without a problem document
			status = code
			_, err := c.PhoneChecks.Wait(t.Context(), "a")
			if _, ended := errors.AsType[*idverify.NoResultError](err); ended || !errors.Is(err, want) {
				t.Errorf("error = %v, want %v and no *NoResultError", err, want)
			}
		}
		status = 200
		check, err := c.PhoneChecks.Wait(t.Context(), "b")
		if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || check != nil {
			t.Errorf("check = %+v, error = %v, want a *DecodeError and no result of another check", check, err)
		}
		body = `{"check_id":"a","status":"ERROR","match":false,"error_code":"mno_timeout"}`
		_, err = c.PhoneChecks.Wait(t.Context(), "a")
		if e, ok := errors.AsType[*idverify.NoResultError](err); !ok || e.ErrorCode != "mno_timeout" {
			t.Errorf("error = %v, want a *NoResultError with mno_timeout", err)
		}
	})
}

func TestPhoneCheckService_WaitHonorsTTL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, ttl string
		min, max  time.Duration
	}{
		{"short", `10`, 15 * time.Second, 20 * time.Second},
		{"default", `120`, 125 * time.Second, 130 * time.Second},
		{"long", `3600`, time.Hour + 5*time.Second, time.Hour + 10*time.Second},
		{"null", `null`, 125 * time.Second, 130 * time.Second},
		{"zero", `0`, 125 * time.Second, 130 * time.Second},
		{"negative", `-5`, 125 * time.Second, 130 * time.Second},
		{"huge negative", `-1e300`, 125 * time.Second, 130 * time.Second},
		{"fraction", `0.5`, 5500 * time.Millisecond, 11 * time.Second},
		{"maximum duration", `9223372036`, 2 * time.Hour, 2 * time.Hour}, // until the test's context ends
		{"maximum duration with fraction", `9223372036.8`, 2 * time.Hour, 2 * time.Hour},
		{"huge", `1e300`, 2 * time.Hour, 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newTransportClient(t, always(200, []byte(`{"check_id":"a","status":"ACCEPTED","ttl":`+tt.ttl+`}`)))
				start := time.Now()

				check, err := c.PhoneChecks.Wait(withDeadline(t, 2*time.Hour), "a")

				took := time.Since(start)
				if took < tt.min || took > tt.max || check != nil {
					t.Errorf("ttl %s: Wait took %v, want %v to %v (check %v, error %v)", tt.ttl, took, tt.min, tt.max, check, err)
				}
				_, ended := errors.AsType[*idverify.NoResultError](err)
				if inTime := tt.max < 2*time.Hour; ended != inTime || errors.Is(err, context.DeadlineExceeded) == inTime {
					t.Errorf("ttl %s: error = %v, want *NoResultError: %v", tt.ttl, err, inTime)
				}
			})
		})
	}
}

func TestNormalizePhoneNumber_Formats(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"447700900000":              "447700900000",
		"+447700900000":             "447700900000",
		"+44 7700 900-000":          "447700900000",
		" +44 (7700) 900.000\t":     "447700900000",
		"+1 (212) 555-0100":         "12125550100",
		"+44\u00a07700\u202f900000": "447700900000",
		"44‑7700‑900‑000":           "447700900000",
		"1234567":                   "1234567",
		"123456789012345":           "123456789012345",
		"+49 (89) 000 00":           "498900000",
		"+1(202)5550100":            "12025550100",
		"(44)7700900000":            "447700900000",
		"44 (770) 0900000":          "447700900000",
	} {
		got, err := idverify.NormalizePhoneNumber(in)

		if got != want || err != nil {
			t.Errorf("NormalizePhoneNumber(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestNormalizePhoneNumber_Invalid(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"empty":                    "",
		"only separators":          " +-() ",
		"six digits":               "123456",
		"sixteen digits":           "1234567890123456",
		"one megabyte":             strings.Repeat("4", 1<<20),
		"national number":          "07700 900000",
		"international prefix 00":  "0044 7700 900000",
		"zero in brackets":         "+44 (0)7700 900000",
		"zero in spaced brackets":  "+44 ( 0 ) 7700 900000",
		"zero without spaces":      "+44(0)7700900012",
		"zero before a space":      "+44(0) 7700 900012",
		"zero between tabs":        "+44 (\t0\t) 7700900012",
		"zero after many spaces":   "+44 (          0) 7700900012",
		"zero in no-break spaces":  "+44 (\u00a00\u202f)7700900012",
		"leading zero in brackets": "(0)447700900012",
		"leading letter":           "x447700900012",
		"full-width plus":          "＋447700900012",
		"leading hash":             "#447700900012",
		"letter after the plus":    "+x447700900012",
		"letter in brackets":       "44(x)7700900012",
		"plus in the middle":       "44+7700900000",
		"two pluses":               "++447700900000",
		"letters":                  "+44 7700 CALLME",
		"extension":                "+44 7700 900000 x12",
		"two numbers":              "4477009/0000441",
		"list":                     "4477009, 4477008",
		"line break":               "447700\n900000",
		"NUL":                      "447700900000\x00",
		"Arabic-Indic digits":      "٤٤٧٧٠٠٩٠٠٠٠٠",
		"full-width digits":        "４４７７００９０００００",
		"invalid UTF-8":            "447700900000\xff",
		"exponent":                 "4.477e11",
	} {
		got, err := idverify.NormalizePhoneNumber(in)

		if got != "" || !errors.Is(err, idverify.ErrPhoneFormat) {
			t.Errorf("%s: NormalizePhoneNumber = %q, %v, want ErrPhoneFormat", name, got, err)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\x00") || strings.Contains(err.Error(), "900000") && !strings.Contains(err.Error(), "44 7700 900000")) {
			t.Errorf("%s: error = %q, want it without the number", name, err)
		}
	}
}

func FuzzNormalizePhoneNumber(f *testing.F) {
	for _, s := range []string{"+44 7700 900-000", "0044", "(0)", "123456789012345", "4４", "\xff", "+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := idverify.NormalizePhoneNumber(s)
		if err != nil {
			if got != "" || !errors.Is(err, idverify.ErrPhoneFormat) {
				t.Fatalf("NormalizePhoneNumber = %q, %v, want no number with ErrPhoneFormat", got, err)
			}
			return
		}
		if len(got) < 7 || len(got) > 15 || got[0] == '0' || strings.Trim(got, "0123456789") != "" {
			t.Errorf("NormalizePhoneNumber(%q) = %q, want 7 to 15 digits without a leading 0", s, got)
		}
		digits := strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, s)
		if digits != got {
			t.Errorf("NormalizePhoneNumber(%q) = %q, want %q", s, got, digits)
		}
		if again, err := idverify.NormalizePhoneNumber(got); again != got || err != nil {
			t.Errorf("NormalizePhoneNumber(%q) = %q, %v, want it unchanged", got, again, err)
		}
	})
}

// matchingNumber is a number whose PhoneCheck matches in the sandbox.
const matchingNumber = "447700900012"

func TestPhoneCheckService_Wait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		c := srv.Client()
		opened := must(c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))(t)
		unopened := must(c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))(t)
		device := srv.Device()
		time.AfterFunc(20*time.Second, func() { device.Open(t.Context(), opened.CheckURL) })

		check, err := c.PhoneChecks.Wait(t.Context(), opened.CheckID)
		_, expired := c.PhoneChecks.Wait(t.Context(), unopened.CheckID)

		if err != nil || check.Match != idverify.VerdictYes {
			t.Errorf("opened check = %+v, %v, want a match", check, err)
		}
		if e, ok := errors.AsType[*idverify.NoResultError](expired); !ok || e.Status != idverify.StatusAccepted || !errors.Is(expired, idverify.ErrNotFound) {
			t.Errorf("error of the unopened check = %v, want a *NoResultError", expired)
		}
	})
}

func TestSubscriberCheckService_CodeExchange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		c := srv.Client(idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2"}))
		shop := srv.Handle("shop.sandbox.test", idverify.RedirectHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
			check, err := c.SubscriberChecks.Complete(r.Context(), redirect.CheckID, redirect.Code)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			_, againErr := c.SubscriberChecks.Complete(r.Context(), redirect.CheckID, redirect.Code)
			fmt.Fprint(w, check.Status, check.Match, check.NoSIMChange, redirect.Query.Get("basket"), errors.Is(againErr, idverify.ErrNotFound))
		}))

		check := must(c.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: "447700900016", RedirectURL: shop + "/verified?basket=a%2Fb"}))(t)
		visit := must(srv.Device().Open(t.Context(), check.CheckURL))(t)

		if got, want := string(visit.Body), "COMPLETEDyesnoa/btrue"; visit.Status != 200 || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("response to the device = %d %q, want %q", visit.Status, got, want)
		}
	})
}

func TestPhoneCheck_MarshalJSON(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	check := must(srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))(t)

	stored := must(json.Marshal(check))(t)
	var read idverify.PhoneCheck
	noError(t, json.Unmarshal(stored, &read))

	if read != *check {
		t.Errorf("unmarshaled check = %+v, want %+v", read, *check)
	}
}

// countRequests returns the number of requests of an operation.
func countRequests(srv *sandboxfake.Server, operation string) int {
	n := 0
	for _, r := range srv.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

func TestWithLiveOnly_Record(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, text, record string }{
		{"check-7", "sandbox check check-7 was not charged", "check_id=check-7"},
		{"447700900000", "sandbox check [REDACTED] was not charged", "check_id=[REDACTED]"},
	} {
		srv := newService(t, withRequestID("req-7", respondWith(201, `{"check_id":"`+tt.id+`","status":"ACCEPTED","charge_amount":0}`)))
		var log bytes.Buffer

		_, err := srv.client(t, idverify.WithLiveOnly(), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).PhoneChecks.Create(t.Context(), createParams)

		want := "idverify: create PhoneCheck: " + tt.text + " (use the credentials of a live project) [request req-7, 1 attempt]"
		if err == nil || err.Error() != want || !errors.Is(err, idverify.ErrSandbox) {
			t.Errorf("error\n%v\nwant\n%s", err, want)
		}
		record := `level=ERROR msg="idverify: sandbox check rejected" operation=phone_check.create ` + tt.record + " request_id=req-7\n"
		if !strings.HasSuffix(log.String(), record) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log = %q, want one record that ends with %q", log.String(), record)
		}
	}
}
