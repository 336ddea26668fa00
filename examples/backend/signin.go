package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// signIn creates a check and binds it to the browser's session.
//
// Each request costs a check: limit them by address and by number.
func (s *shop) signIn(w http.ResponseWriter, r *http.Request) {
	number, ok := phoneNumber(w, r)
	if !ok {
		return
	}
	ctx, cancel := detach(r)
	defer cancel()
	token, reference := rand.Text(), rand.Text()
	if err := s.plan(ctx, idverify.ProductPhoneCheck, reference,
		"INSERT INTO sessions (token, reference, phone_number) VALUES ($1, $2, $3)", digest(token), reference, number); err != nil {
		s.unavailable(w, r, "session not stored", err)
		return
	}
	check, err := s.client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference,
		RedirectURL: s.url("/redirect"), CallbackURL: s.url("/callbacks")})
	if err != nil {
		s.notCreated(w, r, err)
		return
	}
	err = s.checks.Bind(ctx, reference, check.CheckID, check.TTL)
	if err == nil {
		_, err = s.db.ExecContext(ctx, "UPDATE sessions SET check_id = $1 WHERE reference = $2", check.CheckID, reference)
	}
	if err != nil {
		s.unavailable(w, r, "check not stored", err)
		return
	}
	http.SetCookie(w, cookie(token))
	respond(w, http.StatusCreated, map[string]string{"check_url": check.CheckURL})
}

// redirect handles the return of the device from the Check URL. The session of this browser must
// have started the check: anyone can open a redirect URL that was created for somebody else.
func (s *shop) redirect(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
	ctx, cancel := detach(r) // the code works once: exchange it even if the browser disconnects
	defer cancel()
	token, own, err := s.claim(ctx, r, redirect.CheckID)
	switch {
	case err != nil:
		s.unavailable(w, r, "redirect not claimed", err)
		return
	case !own:
		s.log.WarnContext(ctx, "redirect rejected: the session of the browser is another one, or has used it", "check_id", redirect.CheckID)
		respond(w, http.StatusForbidden, map[string]string{"error": "redirect_rejected"})
		return
	}
	http.SetCookie(w, cookie(token))
	if err := s.complete(ctx, redirect); err != nil {
		// The session stays pending until the callback arrives or Reconcile has read the check.
		s.log.ErrorContext(ctx, "check not completed", "check_id", redirect.CheckID, "error", err)
	}
	// The code must not remain in the history, and the user may reload the page.
	http.Redirect(w, r, s.url("/session"), http.StatusSeeOther)
}

// claim binds the redirect of a check to the session of the browser, once, and returns a new token
// for it. The new token prevents session fixation: an attacker who planted the cookie in this
// browser does not know it. If another browser sent r, claim ends the session of the check.
func (s *shop) claim(ctx context.Context, r *http.Request, checkID string) (token string, own bool, err error) {
	token = rand.Text()
	var current []byte
	if c, err := r.Cookie(cookieName); err == nil {
		current = digest(c.Value)
	}
	result, err := s.db.ExecContext(ctx, "UPDATE sessions SET token = $1, status = 'pending' "+
		"WHERE token = $2 AND check_id = $3 AND status = 'started' AND created_at > now() - interval '15 minutes'", digest(token), current, checkID)
	if err != nil {
		return "", false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return token, err == nil, err
	}
	_, err = s.db.ExecContext(ctx, "UPDATE sessions SET status = 'revoked' "+
		"WHERE check_id = $1 AND token IS DISTINCT FROM $2 AND status IN ('started', 'pending', 'signed_in')", checkID, current)
	return "", false, err
}

// complete exchanges the code of a redirect that belongs to the session of the browser, and stores
// the result. A worker signs the session in.
func (s *shop) complete(ctx context.Context, redirect *idverify.Redirect) error {
	const fail = "UPDATE sessions SET status = 'failed' WHERE check_id = $1 AND status = 'pending'"
	if redirect.ErrorCode != "" {
		_, err := s.db.ExecContext(ctx, fail, redirect.CheckID)
		return err
	}
	check, err := s.client.PhoneChecks.Complete(ctx, redirect.CheckID, redirect.Code)
	unknown := errors.Is(err, idverify.ErrOutcomeUnknown)
	switch {
	case err == nil, unknown && check != nil:
		// If the service did not confirm the code, the check is COMPLETED. claim has made sure that
		// its result is accepted once, for the session that owns check and redirect.
		_, err = s.checks.Record(ctx, inbox.ResultOf(check))
	case errors.Is(err, idverify.ErrNotFound) && !unknown:
		_, err = s.db.ExecContext(ctx, fail, redirect.CheckID)
	}
	return err
}

// session responds with the status of the browser's session.
func (s *shop) session(w http.ResponseWriter, r *http.Request) {
	var status string
	err := http.ErrNoCookie
	if c, cookieErr := r.Cookie(cookieName); cookieErr == nil {
		err = s.db.QueryRowContext(r.Context(), "SELECT status FROM sessions WHERE token = $1 AND created_at > now() - interval '12 hours'", digest(c.Value)).Scan(&status)
	}
	switch {
	case errors.Is(err, http.ErrNoCookie), errors.Is(err, sql.ErrNoRows):
		respond(w, http.StatusUnauthorized, map[string]string{"error": "no_session"})
	case err != nil:
		s.unavailable(w, r, "session not read", err)
	default:
		respond(w, http.StatusOK, map[string]string{"status": status})
	}
}

// sessionStatus returns the status for the result of a PhoneCheck.
func sessionStatus(e *inbox.Entry) string {
	switch e.Matched() {
	case idverify.VerdictYes:
		return "signed_in"
	case idverify.VerdictNo:
		return rejected
	}
	return failed
}

// endSession sets the status of a session whose check has ended. A check can only sign in the
// session that has claimed its redirect.
const endSession = "UPDATE sessions SET status = CASE WHEN status = 'pending' THEN $1 ELSE 'failed' END WHERE reference = $2 AND status IN ('started', 'pending')"

// cookieName has a prefix that browsers accept only with Secure, Path=/ and no Domain.
const cookieName = "__Host-session"

// cookie returns the cookie of a session. It is Lax because browsers do not send Strict cookies
// with the redirect, which comes from the site of the service.
func cookie(token string) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: token, Path: "/", MaxAge: int((12 * time.Hour).Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// digest returns what the database stores of a token, which does not suffice to use the session.
func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
