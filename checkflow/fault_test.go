package checkflow_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// TestWeb_Killed kills the process at each step. Another process with the same store goes on.
func TestWeb_Killed(t *testing.T) {
	t.Parallel()
	for step, signsIn := range map[string]bool{ // whether the same redirect signs in after the restart
		"available": false, "create": false, "created": false, "add": false, "added": false,
		"claim":    true, // nothing has happened
		"claimed":  false,
		"finish":   false,
		"finished": false,
		"report":   false,
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.config.Create = func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
				s.store.reach("create")
				defer s.store.reach("created")
				return client.PhoneChecks.Create(ctx, p)
			}
			s.restart()
			b := s.browser()
			var killed atomic.Bool
			s.store.setHook(step, func() error {
				if killed.CompareAndSwap(false, true) {
					panic(http.ErrAbortHandler)
				}
				return nil
			})

			redirect := ""
			if p := b.post(victims, nil); p.status != 0 {
				redirect = b.redirectOf(p.location)
				b.open(redirect)
			}
			s.restart()
			if redirect != "" {
				b.open(redirect)
			}

			want := ""
			if signsIn {
				want = victims
			}
			b.wantUser(t, "the person after the restart", want)
			if !killed.Load() {
				t.Fatal("the process was not killed")
			}
			for range 2 { // the second one finds the state of the first
				b.open(b.start(victims))
				b.wantUser(t, "the person after a new start", victims)
			}
			effects := make(map[string]int)
			for _, r := range s.reported() {
				if effects[r.CheckID]++; effects[r.CheckID] > 1 {
					t.Errorf("check reported %d times, want once", effects[r.CheckID])
				}
			}
			if n := s.calls("phone_check.complete"); n > 3 {
				t.Errorf("%d exchanges of 3 checks", n)
			}
		})
	}
}

// TestWeb_ExchangeFails loses or replaces the response of the exchange.
func TestWeb_ExchangeFails(t *testing.T) {
	t.Parallel()
	dropped := sandboxfake.Fault{Drop: true}
	for name, row := range map[string]struct {
		complete, get sandboxfake.Fault
		number        string
		want          checkflow.Result
		gets          int
	}{
		"response lost, check read":         {dropped, sandboxfake.Fault{}, victims, checkflow.Result{Verdict: idverify.VerdictYes}, 1},
		"response lost, no match read":      {dropped, sandboxfake.Fault{}, "447700900011", checkflow.Result{Verdict: idverify.VerdictNo, Reason: checkflow.ReasonNoMatch}, 1},
		"response truncated, check read":    {sandboxfake.Fault{Truncate: true}, sandboxfake.Fault{}, victims, checkflow.Result{Verdict: idverify.VerdictYes}, 1},
		"response lost, read fails":         {dropped, sandboxfake.Fault{Status: 500}, victims, checkflow.Result{Reason: checkflow.ReasonUnavailable}, 1},
		"response lost, read lost":          {dropped, dropped, victims, checkflow.Result{Reason: checkflow.ReasonUnavailable}, 1},
		"request lost, check still pending": {sandboxfake.Fault{Status: 502}, sandboxfake.Fault{}, victims, checkflow.Result{Reason: checkflow.ReasonUnavailable}, 1},
		"rate limited":                      {sandboxfake.Fault{Status: 429}, sandboxfake.Fault{}, victims, checkflow.Result{Reason: checkflow.ReasonUnavailable}, 0},
		"forbidden":                         {sandboxfake.Fault{Status: 403}, sandboxfake.Fault{}, victims, checkflow.Result{Reason: checkflow.ReasonUnavailable}, 0},
		"not found":                         {sandboxfake.Fault{Status: 404}, sandboxfake.Fault{}, victims, checkflow.Result{Reason: checkflow.ReasonCodeRejected}, 0},
		"unusable response, pending":        {sandboxfake.Fault{Status: 200, Body: "{}"}, sandboxfake.Fault{}, victims, checkflow.Result{Reason: checkflow.ReasonUnavailable}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, row.complete)
			s.service.Inject(sandboxfake.Match{Operation: "phone_check.get"}, row.get)
			b := s.browser()
			redirect := b.redirectOf(b.start(row.number))

			b.open(redirect)
			b.open(redirect)

			s.wantResult(t, row.want)
			if complete, get := s.calls("phone_check.complete"), s.calls("phone_check.get"); complete != 1 || get != row.gets {
				t.Errorf("%d exchanges and %d reads, want 1 and %d", complete, get, row.gets)
			}
			if log := s.log.String(); row.want.Verdict == idverify.VerdictUnknown && !strings.Contains(log, "reason="+string(row.want.Reason)) {
				t.Errorf("log = %q, want reason %s", log, row.want.Reason)
			}
			if row.want.Verdict != idverify.VerdictYes {
				b.wantUser(t, "the person", "")
				b.open(b.start(victims))
			}
			if row.number == victims {
				b.wantUser(t, "the person after a new start", victims)
			}
		})
	}
}

// TestWeb_ServiceSlow loses time in each request to the service. The person does not wait longer
// than 10 s for each.
func TestWeb_ServiceSlow(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		operations []string
		want       time.Duration
	}{
		{[]string{"phone_check.create"}, 10 * time.Second},
		{[]string{"phone_check.complete", "phone_check.get"}, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSiteOf(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
			for _, operation := range row.operations {
				s.service.Inject(sandboxfake.Match{Operation: operation}, sandboxfake.Fault{Latency: 15 * time.Second})
			}
			b := s.browser()
			start := time.Now()

			if p := b.post(victims, nil); p.status == http.StatusSeeOther {
				b.open(b.redirectOf(p.location))
				s.wantResult(t, checkflow.Result{Reason: checkflow.ReasonUnavailable})
			} else if p.status != http.StatusServiceUnavailable {
				t.Errorf("status = %d, want 503", p.status)
			}

			if took := time.Since(start); took != row.want {
				t.Errorf("%v: took %v, want %v", row.operations, took, row.want)
			}
			b.wantUser(t, "the person", "")
		})
	}
}

func TestWeb_EndsWithoutResult(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]checkflow.Result{
		"447700900011": {Verdict: idverify.VerdictNo, Reason: checkflow.ReasonNoMatch},
		"447700900000": {Reason: checkflow.ReasonEnded, ErrorCode: "mno_server_error"},
		victims:        {Reason: checkflow.ReasonEnded, ErrorCode: "mno_timeout"}, // after the redirect
	} {
		s := newSite(t)
		if number == victims {
			s.config.Client = s.service.Client(idverify.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := s.service.HTTPClient().Transport.RoundTrip(r)
				if err == nil && r.Method == http.MethodPatch {
					body, _ := io.ReadAll(response.Body)
					response.Body = io.NopCloser(strings.NewReader(strings.Replace(string(body), `"COMPLETED"`, `"ERROR","error_code":"mno_timeout"`, 1)))
				}
				return response, err
			})}))
			s.restart()
		}
		b := s.browser()

		b.open(b.start(number))

		s.wantResult(t, want)
		b.wantUser(t, "the person", "")
	}
}

// TestWeb_StoreFails makes each operation of the store fail, before or after its effect, and
// respond after its deadline.
func TestWeb_StoreFails(t *testing.T) {
	t.Parallel()
	down := errors.New("connection reset")
	for _, step := range []string{"available", "add", "added", "claim", "claimed", "finish", "finished"} {
		for name, late := range map[string]time.Duration{"down": 0, "slow": 6 * time.Second} {
			t.Run(step+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newSiteOf(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
					b := s.browser()
					s.store.setHook(step, func() error {
						if late > 0 {
							time.Sleep(late) // the bubble's clock; the store ignores its context
							return nil
						}
						return down
					})

					p := b.post(victims, nil)
					if step == "available" || step == "add" || step == "added" {
						if p.status != http.StatusServiceUnavailable || b.cookie() != "" {
							t.Errorf("start: status %d and cookie %q, want 503 and none", p.status, b.cookie())
						}
						if n := s.calls("phone_check.create"); step == "available" && n != 0 {
							t.Errorf("%d checks created, want 0", n)
						}
					} else {
						b.open(b.redirectOf(p.location)).wantReason(t, checkflow.ReasonUnavailable)
					}

					b.wantUser(t, "the person", "")
					if log := s.log.String(); !strings.Contains(log, "level=ERROR ") {
						t.Errorf("log = %q, want a record at level error", log)
					}
					s.store.reset()
					b.open(b.start(victims))
					b.wantUser(t, "the person after a new start", victims)
				})
			})
		}
	}
}

// TestWeb_StoreFull checks that a full store costs no check.
func TestWeb_StoreFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *checkflow.Config) { c.Store = checkflow.NewMemoryStore(1) })
	first, second := s.browser(), s.browser()
	checkURL := first.start(victims)

	p := second.post(attackers, nil)

	if n := s.calls("phone_check.create"); p.status != http.StatusServiceUnavailable || n != 1 {
		t.Errorf("status %d and %d checks, want 503 and 1", p.status, n)
	}
	first.open(checkURL)
	first.wantUser(t, "the first person", victims)
}

// TestWeb_CreateFails makes a create fail: no flow is stored, and the person can start again.
func TestWeb_CreateFails(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault sandboxfake.Fault
		want  int
	}{
		"response lost":           {sandboxfake.Fault{Drop: true}, http.StatusServiceUnavailable},
		"no balance":              {sandboxfake.Fault{Status: 402}, http.StatusServiceUnavailable},
		"rate limited":            {sandboxfake.Fault{Status: 429}, http.StatusServiceUnavailable},
		"rejected by the service": {sandboxfake.Fault{Status: 400}, http.StatusServiceUnavailable},
		"malformed number":        {sandboxfake.Fault{Status: 400, Code: "phone_format_invalid"}, http.StatusUnprocessableEntity},
		"not a mobile address":    {sandboxfake.Fault{Status: 412}, http.StatusUnprocessableEntity},
		"another address":         {sandboxfake.Fault{Status: 409, Code: "ip_msisdn_mismatch"}, http.StatusUnprocessableEntity},
		"unsupported network":     {sandboxfake.Fault{Status: 400, Code: "mno_not_supported"}, http.StatusUnprocessableEntity},
	} {
		s := newSite(t)
		s.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, row.fault)
		b := s.browser()

		p := b.post(victims, nil)

		if n := s.store.count("add"); p.status != row.want || b.cookie() != "" || n != 0 {
			t.Errorf("%s: status %d, cookie %q, %d flows; want %d, none, 0", name, p.status, b.cookie(), n, row.want)
		}
		b.open(b.start(victims))
		b.wantUser(t, "the person after a new start", victims)
	}
}

// TestWeb_CreateLate returns the created check after the deadline, for example because the database
// of Config.Create is slow. The check was charged, and the person can still complete it.
func TestWeb_CreateLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSiteOf(t, sandboxfake.New(t, sandboxfake.WithInMemory()), func(c *checkflow.Config) {
			c.Create = func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
				check, err := client.PhoneChecks.Create(ctx, p)
				time.Sleep(15 * time.Second)
				return check, err
			}
		})
		b := s.browser()

		b.open(b.start(victims))

		b.wantUser(t, "the person", victims)
	})
}

// TestWeb_UnusableCheck returns checks from Config.Create that a flow cannot be bound to.
func TestWeb_UnusableCheck(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]*idverify.PhoneCheck{
		"nil":             nil,
		"no URL":          {CheckID: "c1"},
		"no ID":           {CheckURL: "https://service.sandbox.test/"},
		"ID with control": {CheckID: "c\x00", CheckURL: "https://service.sandbox.test/"},
		"long ID":         {CheckID: strings.Repeat("c", 257), CheckURL: "https://service.sandbox.test/"},
		"longest ID":      {CheckID: strings.Repeat("c", 256), CheckURL: "https://service.sandbox.test/"},
	} {
		status, flows := http.StatusServiceUnavailable, 0
		if name == "longest ID" { // usable
			status, flows = http.StatusSeeOther, 1
		}
		s := newSite(t, func(c *checkflow.Config) {
			c.Create = func(context.Context, *idverify.Client, idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
				return check, nil
			}
		})
		if p := s.browser().post(victims, nil); p.status != status || s.store.count("add") != flows {
			t.Errorf("%s: status %d and %d flows, want %d and %d", name, p.status, s.store.count("add"), status, flows)
		}
	}
}

// TestWeb_ClockJumps moves the clock of the site between Start and Return.
func TestWeb_ClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{-time.Hour, -6 * time.Second, 6 * time.Second, time.Hour} {
		var offset atomic.Int64
		s := newSite(t)
		s.useVerifier(&signature.VerifierOptions{Now: func() time.Time { return s.service.Now().Add(time.Duration(offset.Load())) }})
		b := s.browser()
		redirect := b.redirectOf(b.start(victims))

		offset.Store(int64(jump))
		if p := b.open(redirect); p.status != http.StatusBadRequest {
			t.Errorf("%v: status %d, want 400", jump, p.status)
		}
		b.wantUser(t, "the person while the clock is wrong", "")
		offset.Store(0)
		b.open(redirect)
		b.wantUser(t, "the person when the clock is right again", victims)
	}
}

// TestWeb_ReturnAfterExpiry: the clock of the service jumps beyond the lifetime of the check while
// the browser returns.
func TestWeb_ReturnAfterExpiry(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.useVerifier(&signature.VerifierOptions{ClockSkew: time.Hour})
	b := s.browser()
	redirect := b.redirectOf(b.start(victims))
	noError(t, s.service.Advance(t.Context(), 3*time.Minute))

	b.open(redirect)

	b.wantUser(t, "the person", "")
	s.wantResult(t, checkflow.Result{Reason: checkflow.ReasonCodeRejected})
}

// TestWeb_FlowExpires: the flow has left the store when the browser returns.
func TestWeb_FlowExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSiteOf(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
		s.useVerifier(&signature.VerifierOptions{ClockSkew: time.Hour})
		b := s.browser()
		redirect := b.redirectOf(b.start(victims))
		cookie := b.cookie()
		time.Sleep(3*time.Minute + time.Second) // TTL of the check and a minute, by the bubble's clock
		b.setCookie(cookie)                     // which a browser could keep

		b.open(redirect).wantReason(t, checkflow.ReasonNotFound)

		b.wantUser(t, "the person", "")
	})
}

// TestWeb_Disconnects: the browser closes the connection during the exchange. The code works once,
// so the return goes on.
func TestWeb_Disconnects(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser()
	redirect := b.redirectOf(b.start(victims))
	ctx, disconnect := context.WithCancel(t.Context())
	done := make(chan struct{})
	s.service.Handle(host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		s.store.setHook("claimed", func() error {
			disconnect()
			<-r.Context().Done()
			return nil
		})
		s.handler().ServeHTTP(w, r)
	}))

	b.send(ctx, true, http.MethodGet, redirect, "", nil)
	<-done

	s.wantResult(t, checkflow.Result{Verdict: idverify.VerdictYes})
}

// TestWeb_KeySetUnavailable checks that the person can start again when keys can be fetched.
func TestWeb_KeySetUnavailable(t *testing.T) {
	t.Parallel()
	s := newSite(t, toStartPage("/?lang=en"))
	s.service.Inject(sandboxfake.Match{Operation: "jwks.get"}, sandboxfake.Fault{Status: 500})
	b := s.browser()

	p := b.open(b.start(victims))

	if p.status != http.StatusServiceUnavailable || !strings.Contains(p.body, `url=/?lang=en&amp;reason=unavailable"`) {
		t.Errorf("response = %d %q, want 503 and a link to the start page", p.status, p.body)
	}
	b.wantUser(t, "the person", "")
}

func TestWeb_LiveOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config.Client = s.service.Client(idverify.WithLiveOnly())
	s.restart()

	header, err := s.startOf(t, victims)

	if !errors.Is(err, idverify.ErrSandbox) || len(header.Values("Set-Cookie")) != 0 {
		t.Errorf("Start = %v with %d cookies, want ErrSandbox and 0", err, len(header.Values("Set-Cookie")))
	}
}
