package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
)

// connectSignIn sets up the sign-in on the web and in the app. Package checkflow binds each check
// to the browser or the app that started it. The inbox records its result, for the audit log; only
// the return to checkflow signs somebody in.
func (s *shop) connectSignIn(flows checkflow.Store) error {
	c := checkflow.Config{Client: s.client, Store: flows, Allow: s.allow, Create: s.checks.CreatePhoneCheck, CallbackURL: s.url("/callbacks"), Logger: s.log}
	var appErr, webErr error
	s.app, appErr = checkflow.NewApp(c)
	c.Verifier, c.RedirectURL, c.StartPage = s.verifier, s.url("/redirect"), s.url("/session")
	s.web, webErr = checkflow.NewWeb(c)
	return errors.Join(appErr, webErr)
}

// The limits of the sign-ins that are started with a number in an hour, from one address and from
// all.
const (
	addressLimit = 5
	numberLimit  = 20
)

// allow limits the checks of a number, because each one is charged. nginx limits the requests from
// an address.
//
// A limit of a number is also a lock-out: anyone who uses it up, from several addresses, keeps the
// owner of the number from signing in like this for an hour. So a shop needs another way to sign
// in, such as a text message.
func (s *shop) allow(r *http.Request, number string) error {
	err := s.countSignIn(r, number)
	if err != nil && !errors.Is(err, errLimited) {
		s.log.ErrorContext(r.Context(), "sign-in not counted", "error", err)
	}
	return err
}

// countSignIn counts and stores the start of a sign-in, or returns errLimited.
func (s *shop) countSignIn(r *http.Request, number string) error {
	addr, err := clientAddr(r)
	if err != nil {
		return err
	}
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64 // a subscriber has all addresses with this prefix
	}
	address, err := addr.Prefix(bits)
	if err != nil {
		return err
	}
	return s.inTx(r.Context(), func(tx *sql.Tx) error {
		// Starts with the same number count one after the other.
		if _, err := tx.ExecContext(r.Context(), "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", number); err != nil {
			return err
		}
		result, err := tx.ExecContext(r.Context(), `INSERT INTO signins (phone_number, address) SELECT $1, $2
			FROM signins WHERE phone_number = $1 AND created_at > now() - interval '1 hour'
			HAVING count(*) < $3 AND count(*) FILTER (WHERE address = $2) < $4`, number, address.String(), numberLimit, addressLimit)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, errLimited)
		}
		return nil
	})
}

// errLimited means that too many sign-ins were started with a number.
var errLimited = fmt.Errorf("%w: too many sign-ins with this number", checkflow.ErrNotAllowed)

// signIn starts a check for a browser, which opens the Check URL and is redirected to returned.
func (s *shop) signIn(w http.ResponseWriter, r *http.Request) {
	number, ok := phoneNumber(w, r)
	if !ok {
		return
	}
	checkURL, err := s.web.Start(w, r, checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: number}})
	if err != nil {
		s.notCreated(w, r, err)
		return
	}
	respond(w, http.StatusCreated, map[string]string{"check_url": checkURL})
}

// returned signs in a browser, and returns the URL of the next page.
func (s *shop) returned(w http.ResponseWriter, r *http.Request, result checkflow.Result) string {
	if result.Verdict != idverify.VerdictYes {
		return "" // the session, with the reason
	}
	token, err := s.newSession(r, result.PhoneNumber)
	if err != nil {
		return s.url("/session?reason=unavailable")
	}
	http.SetCookie(w, cookie(token))
	return s.url("/session")
}

// newSession stores a session of number and returns its token. It logs its errors.
func (s *shop) newSession(r *http.Request, number string) (token string, err error) {
	ctx, cancel := detach(r)
	defer cancel()
	token = rand.Text()
	if _, err = s.db.ExecContext(ctx, "INSERT INTO sessions (token, phone_number) VALUES ($1, $2)", digest(token), number); err != nil {
		s.log.ErrorContext(ctx, "session not stored", "error", err)
	}
	return token, err
}

// session reports whether the caller is signed in, and otherwise why its sign-in has ended.
func (s *shop) session(w http.ResponseWriter, r *http.Request) {
	_, err := s.signedIn(r.Context(), r)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		respond(w, http.StatusUnauthorized, map[string]string{"error": "not_signed_in", "reason": r.FormValue("reason")})
	case err != nil:
		s.unavailable(w, r, "session not read", err)
	default:
		respond(w, http.StatusOK, map[string]string{"status": "signed_in"})
	}
}

// signedIn returns the number that the caller is signed in with, or sql.ErrNoRows.
func (s *shop) signedIn(ctx context.Context, r *http.Request) (number string, err error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if c, err := r.Cookie(cookieName); !ok && err == nil {
		token = c.Value
	}
	err = s.db.QueryRowContext(ctx, "SELECT phone_number FROM sessions WHERE token = $1 AND created_at > now() - interval '12 hours'", digest(token)).Scan(&number)
	return number, err
}

// cookieName has a prefix that browsers accept only with Secure, Path=/ and no Domain.
const cookieName = "__Host-session"

// cookie returns the cookie of a session.
func cookie(token string) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: token, Path: "/", MaxAge: int((12 * time.Hour).Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// digest returns what the database stores of a token, which does not suffice to use the session.
func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
