package signin

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
)

// state is the progress of a session's check.
type state string

const (
	started     state = "started"  // the Check URL is to be opened
	pending     state = "pending"  // the device came back, and its code is being exchanged
	verified    state = "verified" // this state and all below are final
	notVerified state = "not verified"
	failed      state = "error"
	expired     state = "expired"
	elsewhere   state = "opened elsewhere" // another browser brought the redirect
)

func (s state) final() bool { return s != started && s != pending }

// outcome returns the final state of a check. Only a COMPLETED check has a result, and Match is nil
// where it does not apply.
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
	formerID string // the cookie before the device came back, empty until then
	checkID  string
	checkURL string
	digits   string // the last two of the phone number: enough for its owner, and no more than needed
	state    state
	began    time.Time
}

// sessions are the attempts of the last minutes. This process alone knows them. With several
// processes, keep them in a session store that all of them share, and make claim and end one atomic
// operation of that store each: a redirect or a callback may reach any of the processes.
type sessions struct {
	mu      sync.Mutex // guards all below
	byID    map[string]*session
	byCheck map[string]*session
	inOrder []*session // of creation
}

func newSessions() *sessions {
	return &sessions{byID: make(map[string]*session), byCheck: make(map[string]*session)}
}

// sessionAge is how long an attempt is remembered: longer than a check lives, so that the user can
// read the result.
const sessionAge = 15 * time.Minute

func (s *session) tooOld() bool { return time.Since(s.began) > sessionAge }

// begin stores a started session and returns the ID for the browser's cookie.
func (ss *sessions) begin(s session) (id string) {
	s.id = rand.Text()
	s.state = started
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.removeOld()
	s.began = time.Now() // under the lock, so that inOrder is in order
	ss.byID[s.id] = &s
	ss.byCheck[s.checkID] = &s
	ss.inOrder = append(ss.inOrder, &s)
	return s.id
}

// forget deletes the sessions that are too old. Anyone can begin sessions, so the cost of a new one
// must not grow with their number: forget visits those that it deletes and one more.
func (ss *sessions) removeOld() {
	for len(ss.inOrder) > 0 && ss.inOrder[0].tooOld() {
		old := ss.inOrder[0]
		delete(ss.byID, old.id)
		delete(ss.byID, old.formerID)
		delete(ss.byCheck, old.checkID)
		ss.inOrder[0] = nil // release it from the backing array
		ss.inOrder = ss.inOrder[1:]
	}
}

// of returns the session of the browser that sent r.
func (ss *sessions) of(r *http.Request) (session, bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.find(r); s != nil {
		return *s, true
	}
	return session{}, false
}

// claim binds the redirect of a check to the browser that brought it. own reports whether the
// session of that browser began the check. The first claim also returns a new ID for the browser's
// cookie: exchange the code of that redirect only.
//
// The new ID prevents session fixation. An attacker who planted the cookie of a session in the
// victim's browser knows only the former ID, which never shows the result.
//
// A redirect brought by another browser ends the session of its check. Either somebody sent the
// Check URL to a victim, or somebody else knows the redirect URL of the session's owner.
func (ss *sessions) claim(r *http.Request, checkID string) (newID string, own bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.find(r)
	if s == nil || s.checkID != checkID {
		ss.revoke(checkID)
		return "", false
	}
	if s.state != started {
		return "", true
	}
	s.state = pending
	s.formerID, s.id = s.id, rand.Text()
	ss.byID[s.id] = s
	return s.id, true
}

// replayed handles a redirect of a check that was accepted before. If the browser that brings it now
// did not begin the check, somebody else came first, perhaps an attacker who began with the victim's
// number: the session ends, even if it is verified. A reload by its own browser changes nothing, even
// one that was sent before the new cookie arrived.
func (ss *sessions) replayed(r *http.Request, checkID string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if c, err := r.Cookie(cookieName); err == nil {
		if s := ss.byID[c.Value]; s != nil && s.checkID == checkID {
			return
		}
	}
	ss.revoke(checkID)
}

// revoke ends the session of a check unless it has ended without a sign-in. The caller holds ss.mu.
func (ss *sessions) revoke(checkID string) {
	if owner := ss.byCheck[checkID]; owner != nil && (owner.state == verified || !owner.state.final()) {
		owner.state = elsewhere
	}
}

// end records how a check ended. Only the first end counts.
//
// A result counts only for a session whose own browser came back. Otherwise nobody knows whose
// phone opened the Check URL: an attacker can begin with the victim's number and send the victim
// the Check URL. In version v0.1 of PhoneCheck such a check becomes COMPLETED; in v0.2, which this
// package is for, only the exchange of the code completes a check.
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

// cookieName has the prefix that browsers accept only with Secure, Path=/ and no Domain, so that no
// neighboring host can set the cookie.
const cookieName = "__Host-signin"

// find returns the session of the browser that sent r, or nil. The browser may keep its cookie too
// long, so the age of the session decides. The former ID of a session shows only that the check is
// in progress, for a page that was requested before the new cookie arrived.
func (ss *sessions) find(r *http.Request) *session {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	s := ss.byID[c.Value]
	if s == nil || s.tooOld() || c.Value == s.formerID && s.state.final() {
		return nil
	}
	return s
}

// cookie binds the browser to the session. It is Lax, not Strict: the redirect comes from the
// service's site, and browsers do not send strict cookies with it.
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
