package signin

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// The attacker begins with the victim's number, and the victim opens the Check URL. The service answers so in version v0.1 of PhoneCheck alone, to which a copy of this package may be changed.
func TestACallbackVerifiesNobodyWhoseBrowserDidNotComeBack(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		was    state
		status idverify.CheckStatus
		match  *bool
		want   state
	}{
		{started, idverify.StatusCompleted, new(true), failed},
		{started, idverify.StatusCompleted, new(false), failed},
		{started, idverify.StatusError, new(false), failed},
		{started, idverify.StatusExpired, nil, expired},
		{pending, idverify.StatusCompleted, new(true), verified},
		{pending, idverify.StatusCompleted, new(false), notVerified},
		{pending, idverify.StatusError, new(false), failed},
		{pending, idverify.StatusExpired, nil, expired},
		{failed, idverify.StatusCompleted, new(true), failed},
		{notVerified, idverify.StatusCompleted, new(true), notVerified},
		{expired, idverify.StatusCompleted, new(true), expired},
		{verified, idverify.StatusExpired, nil, verified},
	} {
		t.Run(fmt.Sprint(row.was, " and ", row.status, " to ", row.want), func(t *testing.T) {
			t.Parallel()
			a := &app{sessions: newSessions()}
			id := a.sessions.begin(session{checkID: "check"})
			a.sessions.byID[id].state = row.was

			err := a.callback(t.Context(), &idverify.Callback{CheckID: "check", Status: row.status, Match: row.match})

			if got := a.sessions.byID[id].state; got != row.want || err != nil {
				t.Errorf("the session is %q, error %v, want %q", got, err, row.want)
			}
		})
	}
}

func TestOldSessionsAreForgottenWhenANewOneBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ss := newSessions()
		for i := range 100 {
			ss.begin(session{checkID: fmt.Sprint("old ", i)})
		}
		time.Sleep(sessionAge)
		kept := ss.begin(session{checkID: "kept"})
		time.Sleep(time.Nanosecond)

		ss.begin(session{checkID: "new"})

		if ids, byCheck, queue := len(ss.byID), len(ss.byCheck), len(ss.inOrder); ids != 2 || byCheck != 2 || queue != 2 {
			t.Errorf("%d sessions by id, %d by check and %d in order are kept, want 2: anonymous visitors fill the memory", ids, byCheck, queue)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/check", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(cookie(kept))
		if s, ok := ss.of(r); !ok || s.checkID != "kept" {
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
