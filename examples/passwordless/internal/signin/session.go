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
	started     state = "started"  // the device has not returned yet
	pending     state = "pending"  // the device returned, and its code is being exchanged
	verified    state = "verified" // this state and those below are final
	notVerified state = "not verified"
	failed      state = "error"
	expired     state = "expired"
	elsewhere   state = "opened elsewhere" // another browser opened the redirect URL
)

func (s state) final() bool { return s != started && s != pending }

// finalState returns the state for the verdict of a check that ended in status.
func finalState(verdict idverify.Verdict, status idverify.CheckStatus) state {
	switch {
	case verdict == idverify.VerdictYes:
		return verified
	case verdict == idverify.VerdictNo:
		return notVerified
	case status == idverify.StatusExpired:
		return expired
	}
	return failed
}

// session is one browser's attempt to sign in.
type session struct {
	id       string // value of the browser's cookie
	formerID string // the ID before the device returned, or empty
	checkID  string
	checkURL string
	digits   string // the last two digits of the phone number, which suffice for its owner
	state    state
	began    time.Time
}

// sessions contains the recent sessions, in memory. Several processes must share a session store in
// which claim and end are atomic operations, because any process may receive a redirect or a
// callback.
type sessions struct {
	mu      sync.Mutex // guards the fields below
	byID    map[string]*session
	byCheck map[string]*session
	inOrder []*session // by start time
}

func newSessions() *sessions {
	return &sessions{byID: make(map[string]*session), byCheck: make(map[string]*session)}
}

// sessionAge is how long a session is kept. It is longer than the lifetime of a check, so that the
// user can read the result.
const sessionAge = 15 * time.Minute

func (s *session) tooOld() bool { return time.Since(s.began) > sessionAge }

// begin stores a new session and returns the ID for the browser's cookie.
func (ss *sessions) begin(s session) (id string) {
	s.id = rand.Text()
	s.state = started
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.removeOld()
	s.began = time.Now() // under the lock, to keep inOrder sorted
	ss.byID[s.id] = &s
	ss.byCheck[s.checkID] = &s
	ss.inOrder = append(ss.inOrder, &s)
	return s.id
}

// removeOld deletes the sessions that are too old. Sessions are in order of age, so it stops at the
// first one that is not too old.
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

// claim binds the redirect of a check to the browser that sent r. own reports whether that
// browser's session started the check. The first claim of a check also returns a new ID for the
// browser's cookie. If newID is empty, do not exchange the code.
//
// The new ID prevents session fixation. An attacker who planted a session cookie in the victim's
// browser knows only the former ID, which never shows the result.
//
// If another browser sent r, claim ends the session of the check. Either someone sent the Check URL
// to a victim, or someone else knows the redirect URL of the session's owner.
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

// replayed handles a redirect that was already accepted. If this browser did not start the check,
// another browser opened the redirect URL first. It may belong to an attacker who started with the
// victim's number, so the session ends, even if it is verified. A reload by the session's own
// browser changes nothing, even if it was sent before the new cookie arrived.
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

// revoke ends the session of a check unless it ended without a sign-in. The caller holds ss.mu.
func (ss *sessions) revoke(checkID string) {
	if owner := ss.byCheck[checkID]; owner != nil && (owner.state == verified || !owner.state.final()) {
		owner.state = elsewhere
	}
}

// end records the final state of the session of a check. Later calls have no effect.
//
// If the session's own browser has not returned, end records failed instead of a result, because it
// is unknown whose phone opened the Check URL. An attacker can start with the victim's number and
// send the victim the Check URL. In version v0.1 of PhoneCheck such a check becomes COMPLETED. In
// v0.2, which this package requires, only the code exchange completes a check.
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

// cookieName has a prefix that browsers accept only with Secure, Path=/ and no Domain, so that no
// neighboring host can set the cookie.
const cookieName = "__Host-signin"

// find returns the session of the browser that sent r, or nil. A browser may keep its cookie too
// long, so the session's age decides. A former ID finds a session only while its check is in
// progress, for a page requested before the new cookie arrived.
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

// cookie returns the cookie that binds the browser to the session. It is Lax because browsers do
// not send Strict cookies with the redirect, which comes from the service's site.
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
