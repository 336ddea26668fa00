package signin

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
)

// state is how far the check of a session is.
type state string

const (
	started     state = "started"  // the Check URL is to be opened
	pending     state = "pending"  // the device came back, and its code is being exchanged
	verified    state = "verified" // this and what follows is final
	notVerified state = "not verified"
	failed      state = "error"
	expired     state = "expired"
)

func (s state) final() bool { return s != started && s != pending }

// outcome is the state that a check ends in. Status comes first: only a COMPLETED check has an answer, and Match is nil where there is none.
func outcome(status idverify.CheckStatus, match *bool) state {
	switch {
	case status == idverify.StatusExpired:
		return expired
	case status != idverify.StatusCompleted || match == nil:
		return failed
	case *match:
		return verified
	}
	return notVerified
}

// session is one browser's attempt to sign in.
type session struct {
	id       string // the browser's cookie
	checkID  string
	checkURL string
	digits   string // the last two of the phone number: enough for its owner, and no more than needed
	state    state
	began    time.Time
}

// sessions are the attempts under way. In production they live in your session store, and a pair of replicas shares it.
type sessions struct {
	mu      sync.Mutex // guards what follows
	byID    map[string]*session
	byCheck map[string]*session
	inOrder []*session // of creation
}

func newSessions() *sessions {
	return &sessions{byID: make(map[string]*session), byCheck: make(map[string]*session)}
}

// sessionAge is how long an attempt is remembered: some time longer than a check lives, so that its end can be read.
const sessionAge = 15 * time.Minute

func (s *session) tooOld() bool { return time.Since(s.began) > sessionAge }

// begin remembers a started session and returns the id for the browser's cookie. The id is a new one for each attempt, so nobody can have planted it.
func (ss *sessions) begin(s session) (id string) {
	s.id = rand.Text()
	s.state = started
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.forget()
	s.began = time.Now() // under the lock, so that inOrder is in order
	ss.byID[s.id] = &s
	ss.byCheck[s.checkID] = &s
	ss.inOrder = append(ss.inOrder, &s)
	return s.id
}

// forget drops the sessions that are too old. Anybody can begin sessions, so it looks at those that it drops and one more, however many there are.
func (ss *sessions) forget() {
	for len(ss.inOrder) > 0 && ss.inOrder[0].tooOld() {
		old := ss.inOrder[0]
		delete(ss.byID, old.id)
		delete(ss.byCheck, old.checkID)
		ss.inOrder[0] = nil // or the array would keep it
		ss.inOrder = ss.inOrder[1:]
	}
}

// of is the session of the browser that sent r.
func (ss *sessions) of(r *http.Request) (session, bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.find(r); s != nil {
		return *s, true
	}
	return session{}, false
}

// claim tells whether the browser that sent r began the check, and whether its code is still to be exchanged: true once, however often a redirect is opened.
func (ss *sessions) claim(r *http.Request, checkID string) (own, first bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.find(r)
	if s == nil || s.checkID != checkID {
		return false, false
	}
	first = s.state == started
	if first {
		s.state = pending
	}
	return true, first
}

// end records how a check ended. The first end stands.
//
// An answer counts only for a session whose own browser came back. Without that nobody knows whose phone opened the Check URL: an attacker can begin with a victim's number and have the victim open it.
// In version v0.1 of PhoneCheck such a check is COMPLETED; in v0.2, which this package is for, only the exchange of the code makes it so.
func (ss *sessions) end(checkID string, as state) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byCheck[checkID]
	if s == nil || s.state.final() {
		return
	}
	if s.state != pending && (as == verified || as == notVerified) {
		as = failed
	}
	s.state = as
}

// cookieName has the prefix that browsers accept with Secure, Path=/ and no Domain alone, so that no neighbouring host can set the cookie.
const cookieName = "__Host-signin"

// find is the session of the browser that sent r, nil for none. The cookie's age is the browser's word, so the session's own decides.
func (ss *sessions) find(r *http.Request) *session {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	s := ss.byID[c.Value]
	if s == nil || s.tooOld() {
		return nil
	}
	return s
}

// cookie binds the browser to the session. Lax, not Strict: the device comes back by a redirect from the service's site, and a strict cookie would stay at home.
func cookie(id string) *http.Cookie {
	return &http.Cookie{
		Name:     cookieName,
		Value:    id,
		Path:     "/",
		MaxAge:   int(sessionAge / time.Second),
		Secure:   true,
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	}
}
