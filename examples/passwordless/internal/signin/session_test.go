package signin

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// The attacker starts with the victim's number, and the victim opens the Check URL. Only version
// v0.1 of PhoneCheck then sends a callback with a result, but a copy of this package may use v0.1.
func TestApp_Callback(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		was     state
		product idverify.Product
		status  idverify.CheckStatus
		match   idverify.Verdict
		want    state
	}{
		{started, idverify.ProductPhoneCheck, idverify.StatusCompleted, idverify.VerdictYes, failed},
		{started, idverify.ProductPhoneCheck, idverify.StatusCompleted, idverify.VerdictNo, failed},
		{started, idverify.ProductPhoneCheck, idverify.StatusError, idverify.VerdictUnknown, failed},
		{started, idverify.ProductPhoneCheck, idverify.StatusExpired, idverify.VerdictUnknown, expired},
		{pending, idverify.ProductPhoneCheck, idverify.StatusCompleted, idverify.VerdictYes, verified},
		{pending, idverify.ProductPhoneCheck, idverify.StatusCompleted, idverify.VerdictNo, notVerified},
		{pending, idverify.ProductPhoneCheck, idverify.StatusError, idverify.VerdictUnknown, failed},
		{pending, idverify.ProductPhoneCheck, idverify.StatusExpired, idverify.VerdictUnknown, expired},
		{failed, idverify.ProductPhoneCheck, idverify.StatusCompleted, idverify.VerdictYes, failed},
		{notVerified, idverify.ProductPhoneCheck, idverify.StatusCompleted, idverify.VerdictYes, notVerified},
		{expired, idverify.ProductPhoneCheck, idverify.StatusCompleted, idverify.VerdictYes, expired},
		{elsewhere, idverify.ProductPhoneCheck, idverify.StatusCompleted, idverify.VerdictYes, elsewhere},
		{verified, idverify.ProductPhoneCheck, idverify.StatusExpired, idverify.VerdictUnknown, verified},
		{pending, idverify.ProductSubscriberCheck, idverify.StatusCompleted, idverify.VerdictYes, pending},
		{started, idverify.ProductSubscriberCheck, idverify.StatusExpired, idverify.VerdictUnknown, started},
		{pending, "webhook", idverify.StatusCompleted, idverify.VerdictYes, pending},
	} {
		t.Run(fmt.Sprint(row.was, " and ", row.product, " ", row.status, " to ", row.want), func(t *testing.T) {
			t.Parallel()
			a := &app{Config: Config{Log: slog.New(slog.DiscardHandler)}, sessions: newSessions()}
			id := a.sessions.begin(session{checkID: "check"})
			a.sessions.byID[id].state = row.was

			err := a.callback(t.Context(), &idverify.Callback{Product: row.product, CheckID: "check", Status: row.status, Match: row.match})

			if got := a.sessions.byID[id].state; got != row.want || err != nil {
				t.Errorf("state = %q, error = %v, want %q", got, err, row.want)
			}
		})
	}
}

// The browser may request a page before the response with its new cookie arrives.
func TestSessions_FormerCookieShowsProgressOnly(t *testing.T) {
	t.Parallel()
	ss := newSessions()
	former := requestWith(t, ss.begin(session{checkID: "check"}))
	id, own := ss.claim(former, "check")
	if id == "" || !own {
		t.Fatalf("claim = %q, %v, want a new ID", id, own)
	}

	during, ok := ss.of(former)
	again, ownAgain := ss.claim(former, "check")
	ss.end("check", verified)
	_, after := ss.of(former)
	now, okNow := ss.of(requestWith(t, id))

	if !ok || during.state != pending {
		t.Errorf("state by former cookie before the result = %q, %v, want pending", during.state, ok)
	}
	if again != "" || !ownAgain {
		t.Errorf("second claim = %q, %v, want no ID: the code would be exchanged twice", again, ownAgain)
	}
	if after {
		t.Error("the former cookie shows the session after the result")
	}
	if !okNow || now.state != verified {
		t.Errorf("state by new cookie = %q, %v, want verified", now.state, okNow)
	}
}

// requestWith returns a request with the session cookie id.
func requestWith(t *testing.T, id string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/check", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(cookie(id))
	return r
}

func TestSessions_RemovesOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ss := newSessions()
		for i := range 100 {
			check := fmt.Sprint("old ", i)
			ss.claim(requestWith(t, ss.begin(session{checkID: check})), check)
		}
		time.Sleep(sessionAge)
		kept := ss.begin(session{checkID: "kept"})
		if kept, _ = ss.claim(requestWith(t, kept), "kept"); kept == "" {
			t.Fatal("claim failed")
		}
		time.Sleep(time.Nanosecond)

		ss.begin(session{checkID: "new"})

		if ids, byCheck, queue := len(ss.byID), len(ss.byCheck), len(ss.inOrder); ids != 3 || byCheck != 2 || queue != 2 {
			t.Errorf("%d IDs, %d checks and %d sessions remain, want 3, 2 and 2: anonymous visitors could exhaust the memory", ids, byCheck, queue)
		}
		if s, ok := ss.of(requestWith(t, kept)); !ok || s.checkID != "kept" {
			t.Error("a recent session was removed")
		}
	})
}

// A scan of all sessions would make each anonymous POST cost as much as there are sessions.
func TestSessions_BeginVisitsOldestOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ss := newSessions()
		ss.begin(session{checkID: "head"})
		behind := ss.byID[ss.begin(session{checkID: "behind"})]
		behind.began = behind.began.Add(-2 * sessionAge) // impossible in use: only a scan finds it

		ss.begin(session{checkID: "new"})

		if ss.byCheck["behind"] != behind {
			t.Error("begin visited a session behind the oldest one")
		}
	})
}

// The cost must not depend on the number of sessions.
func BenchmarkSessions_Begin(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		b.Run(fmt.Sprint(n, " sessions"), func(b *testing.B) {
			ss := newSessions()
			for i := range n {
				ss.begin(session{checkID: fmt.Sprint("before ", i)})
			}
			for i := 0; b.Loop(); i++ {
				ss.begin(session{checkID: fmt.Sprint(i)})
			}
		})
	}
}
