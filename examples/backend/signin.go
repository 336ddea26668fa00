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
	"github.com/idverify/idverify-go/signature"
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
	check, err := s.checks.CreatePhoneCheck(ctx, s.client, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference,
		RedirectURL: s.url("/redirect"), CallbackURL: s.url("/callbacks")})
	if err != nil {
		s.notCreated(w, r, err)
		return
	}
	if _, err := s.db.ExecContext(ctx, "UPDATE sessions SET check_id = $1 WHERE reference = $2", check.CheckID, reference); err != nil {
		s.unavailable(w, r, "check not stored", err)
		return
	}
	http.SetCookie(w, cookie(token))
	respond(w, http.StatusCreated, map[string]string{"check_url": check.CheckURL})
}

// redirect handles the return of the device from the Check URL. The session of this browser must
// have started the check: anyone can open a redirect URL that was created for somebody else.
//
// It does not use idverify.RedirectHandler, which also rejects replays but does not report them.
func (s *shop) redirect(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := detach(r) // the code works once: exchange it even if the browser disconnects
	defer cancel()
	redirect, err := s.verifyRedirect(r)
	verification, _ := errors.AsType[*signature.Error](err)
	var token string
	var own bool
	switch {
	case errors.Is(err, signature.ErrReplay):
		own, err = s.returned(ctx, r, r.URL.Query().Get("check_id"))
	case verification != nil && verification.Retryable():
		s.unavailable(w, r, "redirect not verified", err)
		return
	case err != nil:
		s.log.WarnContext(ctx, "redirect rejected", "error", err)
		respond(w, http.StatusBadRequest, map[string]string{"error": "invalid_redirect"})
		return
	default:
		token, own, err = s.claim(ctx, r, redirect.CheckID)
	}
	switch {
	case err != nil:
		s.unavailable(w, r, "redirect not claimed", err)
		return
	case !own:
		s.log.WarnContext(ctx, "redirect rejected: the browser did not start the check")
		respond(w, http.StatusForbidden, map[string]string{"error": "redirect_rejected"})
		return
	}
	if token != "" {
		http.SetCookie(w, cookie(token))
		if err := s.complete(ctx, redirect); err != nil {
			// The session stays pending until the callback arrives or Reconcile has read the check.
			s.log.ErrorContext(ctx, "check not completed", "check_id", redirect.CheckID, "error", err)
		}
	}
	// The code must not remain in the history, and the user may reload the page.
	http.Redirect(w, r, s.url("/session"), http.StatusSeeOther)
}

// verifyRedirect verifies and parses a redirect.
func (s *shop) verifyRedirect(r *http.Request) (*idverify.Redirect, error) {
	message, err := s.redirects.VerifyRedirect(r)
	if err != nil {
		return nil, err
	}
	return idverify.ParseRedirect(message)
}

// claim binds the redirect of a check to the session of the browser, once, and returns a new token
// for it. The new token prevents session fixation: an attacker who planted the cookie in this
// browser does not know it. If token is empty, do not exchange the code: own then is the result of
// returned.
func (s *shop) claim(ctx context.Context, r *http.Request, checkID string) (token string, own bool, err error) {
	token = rand.Text()
	result, err := s.db.ExecContext(ctx, "UPDATE sessions SET token = $1, former_token = token, status = 'pending' "+
		"WHERE token = $2 AND check_id = $3 AND status = 'started' AND created_at > now() - interval '15 minutes'", digest(token), tokenOf(r), checkID)
	if err != nil {
		return "", false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return token, err == nil, err
	}
	own, err = s.returned(ctx, r, checkID)
	return "", own, err
}

// returned reports whether the browser owns the session of a check whose redirect cannot be claimed
// again. A reload by the owner changes nothing, even if it was sent before the new cookie arrived.
//
// If another browser sent r, returned ends the session, even if it is signed in. It may belong to
// an attacker who started with the number of a victim, sent the victim the Check URL and opened the
// redirect first.
func (s *shop) returned(ctx context.Context, r *http.Request, checkID string) (own bool, err error) {
	token := tokenOf(r)
	err = s.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM sessions WHERE check_id = $1 AND (token = $2 OR former_token = $2))", checkID, token).Scan(&own)
	if err == nil && !own {
		_, err = s.db.ExecContext(ctx, "UPDATE sessions SET status = 'revoked' WHERE check_id = $1 AND status IN ('started', 'pending', 'signed_in')", checkID)
	}
	return own, err
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
	switch {
	case err == nil:
		_, err = s.checks.Record(ctx, inbox.ResultOf(check))
	case errors.Is(err, idverify.ErrOutcomeUnknown):
		err = s.recordExchanged(ctx, redirect.CheckID)
	case errors.Is(err, idverify.ErrNotFound):
		_, err = s.db.ExecContext(ctx, fail, redirect.CheckID)
	}
	return err
}

// recordExchanged stores the result of a check whose code may have been exchanged. claim has made
// sure that the session owns the check and made the only exchange, so it may use the result of a
// COMPLETED check. Otherwise the callback brings the result.
func (s *shop) recordExchanged(ctx context.Context, checkID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	check, err := s.client.PhoneChecks.Get(ctx, checkID)
	if err != nil || check.Status != idverify.StatusCompleted {
		return err
	}
	_, err = s.checks.Record(ctx, inbox.ResultOf(check))
	return err
}

// session responds with the status of the browser's session.
func (s *shop) session(w http.ResponseWriter, r *http.Request) {
	var status string
	err := s.db.QueryRowContext(r.Context(), "SELECT status FROM sessions WHERE token = $1 AND created_at > now() - interval '12 hours'", tokenOf(r)).Scan(&status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		respond(w, http.StatusUnauthorized, map[string]string{"error": "no_session"})
	case err != nil:
		s.unavailable(w, r, "session not read", err)
	default:
		respond(w, http.StatusOK, map[string]string{"status": status})
	}
}

// sessionStatus returns the status for the result of a PhoneCheck.
func sessionStatus(e *inbox.Entry) string {
	switch e.Match {
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

// tokenOf returns the digest of the token that r carries. Without a cookie, it is the digest of the
// empty string, which no session has.
func tokenOf(r *http.Request) []byte {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return digest("")
	}
	return digest(c.Value)
}

// digest returns what the database stores of a token, which does not suffice to use the session.
func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
