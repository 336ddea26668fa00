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

// The attacker begins with the victim's number, and the victim opens the Check URL. Only version
// v0.1 of PhoneCheck then sends a callback with a result; a copy of this package may be changed to
// use it.
func TestACallbackVerifiesNobodyWhoseBrowserDidNotComeBack(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		was     state
		product idverify.Product
		status  idverify.CheckStatus
		match   *bool
		want    state
	}{
		{started, idverify.ProductPhoneCheck, idverify.StatusCompleted, new(true), failed},
		{started, idverify.ProductPhoneCheck, idverify.StatusCompleted, new(false), failed},
		{started, idverify.ProductPhoneCheck, idverify.StatusError, new(false), failed},
		{started, idverify.ProductPhoneCheck, idverify.StatusExpired, nil, expired},
		{pending, idverify.ProductPhoneCheck, idverify.StatusCompleted, new(true), verified},
		{pending, idverify.ProductPhoneCheck, idverify.StatusCompleted, new(false), notVerified},
		{pending, idverify.ProductPhoneCheck, idverify.StatusError, new(false), failed},
		{pending, idverify.ProductPhoneCheck, idverify.StatusExpired, nil, expired},
		{failed, idverify.ProductPhoneCheck, idverify.StatusCompleted, new(true), failed},
		{notVerified, idverify.ProductPhoneCheck, idverify.StatusCompleted, new(true), notVerified},
		{expired, idverify.ProductPhoneCheck, idverify.StatusCompleted, new(true), expired},
		{elsewhere, idverify.ProductPhoneCheck, idverify.StatusCompleted, new(true), elsewhere},
		{verified, idverify.ProductPhoneCheck, idverify.StatusExpired, nil, verified},
		{pending, idverify.ProductSubscriberCheck, idverify.StatusCompleted, new(true), pending},
		{started, idverify.ProductSubscriberCheck, idverify.StatusExpired, nil, started},
		{pending, "webhook", idverify.StatusCompleted, new(true), pending},
	} {
		t.Run(fmt.Sprint(row.was, " and ", row.product, " ", row.status, " to ", row.want), func(t *testing.T) {
			t.Parallel()
			a := &app{Config: Config{Log: slog.New(slog.DiscardHandler)}, sessions: newSessions()}
			id := a.sessions.begin(session{checkID: "check"})
			a.sessions.byID[id].state = row.was

			err := a.callback(t.Context(), &idverify.Callback{Product: row.product, CheckID: "check", Status: row.status, Match: row.match})

			if got := a.sessions.byID[id].state; got != row.want || err != nil {
				t.Errorf("the session is %q, error %v, want %q", got, err, row.want)
			}
		})
	}
}

// A browser whose next page crosses the response with its new cookie still sends the former one.
func TestSessions_FormerCookieShowsProgressOnly(t *testing.T) {
	t.Parallel()
	ss := newSessions()
	former := requestWith(t, ss.begin(session{checkID: "check"}))
	id, own := ss.claim(former, "check")
	if id == "" || !own {
		t.Fatalf("claim returned %q, %v, want a new ID", id, own)
	}

	during, ok := ss.of(former)
	again, ownAgain := ss.claim(former, "check")
	ss.end("check", verified)
	_, after := ss.of(former)
	now, okNow := ss.of(requestWith(t, id))

	if !ok || during.state != pending {
		t.Errorf("before the end the former cookie shows %q, %v, want pending", during.state, ok)
	}
	if again != "" || !ownAgain {
		t.Errorf("a second claim returned %q, %v, want no ID: the code would be exchanged twice", again, ownAgain)
	}
	if after {
		t.Error("after the end the former cookie still shows the session")
	}
	if !okNow || now.state != verified {
		t.Errorf("the new cookie shows %q, %v, want verified", now.state, okNow)
	}
}

// requestWith is a request of the browser that has the session cookie id.
func requestWith(t *testing.T, id string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/check", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(cookie(id))
	return r
}

func TestOldSessionsAreForgottenWhenANewOneBegins(t *testing.T) {
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
			t.Fatal("the session cannot be claimed")
		}
		time.Sleep(time.Nanosecond)

		ss.begin(session{checkID: "new"})

		if ids, byCheck, queue := len(ss.byID), len(ss.byCheck), len(ss.inOrder); ids != 3 || byCheck != 2 || queue != 2 {
			t.Errorf("%d IDs, %d checks and %d sessions in order are kept, want 3, 2 and 2: anonymous visitors fill the memory", ids, byCheck, queue)
		}
		if s, ok := ss.of(requestWith(t, kept)); !ok || s.checkID != "kept" {
			t.Error("a young session was forgotten")
		}
	})
}

// A session that is not at the head of the queue is none of begin's business: with a scan of all sessions, each anonymous POST would cost as much as there are sessions.
func TestBeginLooksAtTheOldestSessionsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ss := newSessions()
		ss.begin(session{checkID: "head"})
		behind := ss.byID[ss.begin(session{checkID: "behind"})]
		behind.began = behind.began.Add(-2 * sessionAge) // cannot be; only a scan finds it

		ss.begin(session{checkID: "new"})

		if ss.byCheck["behind"] != behind {
			t.Error("begin looked behind the oldest session: it scans them all")
		}
	})
}

// BenchmarkBegin must cost the same however many sessions there are.
func BenchmarkBegin(b *testing.B) {
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
