package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/signature"
)

// shop is the business of this backend.
type shop struct {
	publicURL *url.URL
	log       *slog.Logger
	db        *sql.DB
	client    *idverify.Client
	keys      *signature.JWKS
	verifier  *signature.Verifier // of callbacks and redirects
	checks    *inbox.Inbox
	web       *checkflow.Web
	app       *checkflow.App
	jobs      *river.Client[pgx.Tx]
	stopping  atomic.Bool // the readiness probe fails
}

// handler returns the handler of all paths. The proxy has removed the prefix of the public URL.
func (s *shop) handler() (http.Handler, error) {
	mux := http.NewServeMux()
	for pattern, h := range map[string]http.Handler{
		"POST /signups":             http.HandlerFunc(s.signUp),
		"GET /signups/{id}":         http.HandlerFunc(s.signUpStatus),
		"POST /signins":             http.HandlerFunc(s.signIn),
		"/redirect":                 s.web.Return(s.returned),
		"POST /app/signins":         http.HandlerFunc(s.appSignIn),
		"POST /app/sessions":        http.HandlerFunc(s.appSession),
		"GET /session":              http.HandlerFunc(s.session),
		"POST /payouts":             http.HandlerFunc(s.payout),
		"POST /verification-method": http.HandlerFunc(s.verificationMethod),
		"POST /callbacks":           s.checks.Handler(s.verifier),
		"GET /livez":                http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		"GET /readyz":               s.client.ReadyHandler(nil, s.keys.Ready, s.db.PingContext, s.running),
	} {
		mux.Handle(pattern, traced(pattern, h))
	}
	// Other sites must not make their visitors start checks. The proxy changes the host, so the
	// public origin is set here. Callbacks pass, because they lack the headers of browsers.
	protection := http.NewCrossOriginProtection()
	if err := protection.AddTrustedOrigin("https://" + s.publicURL.Host); err != nil {
		return nil, err
	}
	protection.AddInsecureBypassPattern("/redirect") // Return must see all methods, to revoke flows
	return protection.Handler(mux), nil
}

// plan stores a row of the shop and plans its check in one transaction, before the check is
// created. If insert stores no row, the error is errStored.
func (s *shop) plan(ctx context.Context, product idverify.Product, reference, insert string, args ...any) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, insert, args...)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, errStored)
		}
		return s.checks.Plan(ctx, tx, product, reference)
	})
}

// inTx runs do in a transaction, and commits it if do succeeds.
func (s *shop) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// errStored means that the row exists.
var errStored = errors.New("already stored")

// notCreated responds to the request for a check that was not created.
func (s *shop) notCreated(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, checkflow.ErrNotAllowed):
		respond(w, http.StatusForbidden, map[string]string{"error": "not_allowed"})
	case errors.Is(err, idverify.ErrPhoneFormat):
		respond(w, http.StatusUnprocessableEntity, map[string]string{"error": "invalid_phone_number"})
	case errors.Is(err, idverify.ErrNetworkNotSupported):
		respond(w, http.StatusUnprocessableEntity, map[string]string{"error": "unsupported_network"}) // send a text message instead
	case errors.Is(err, idverify.ErrIPMismatch):
		respond(w, http.StatusUnprocessableEntity, map[string]string{"error": "ip_mismatch"}) // use mobile data, or send a text message
	default:
		s.unavailable(w, r, "check not created", err)
	}
}

// unavailable logs err and responds with 503. Errors of package idverify contain no phone number.
func (s *shop) unavailable(w http.ResponseWriter, r *http.Request, message string, err error) {
	s.log.ErrorContext(r.Context(), message, "error", err)
	respond(w, http.StatusServiceUnavailable, map[string]string{"error": "unavailable"})
}

// url returns the public URL of a path.
func (s *shop) url(path string) string { return s.publicURL.String() + path }

// detach returns a context that does not end when the client of r disconnects, because a check
// costs money and a code works once.
func detach(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), 10*time.Second)
}

// clientAddr returns the address of the device that sent r. The proxy sets the header.
func clientAddr(r *http.Request) (netip.Addr, error) {
	addr, err := netip.ParseAddr(r.Header.Get("X-Real-IP"))
	if err != nil {
		return netip.Addr{}, errors.New("X-Real-IP is missing or not an IP address (set it in the proxy)")
	}
	return addr.Unmap().WithZone(""), nil
}

// phoneNumber reads the phone number of a request. If it is invalid, phoneNumber responds.
func phoneNumber(w http.ResponseWriter, r *http.Request) (number string, ok bool) {
	var request struct {
		PhoneNumber string `json:"phone_number"`
	}
	if !read(w, r, &request) {
		return "", false
	}
	number, err := idverify.NormalizePhoneNumber(request.PhoneNumber)
	if err != nil {
		respond(w, http.StatusUnprocessableEntity, map[string]string{"error": "invalid_phone_number"})
	}
	return number, err == nil
}

// read decodes the body of a request. If it is invalid, read responds.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(v)
	if err != nil {
		respond(w, http.StatusBadRequest, map[string]string{"error": "invalid_json"})
	}
	return err == nil
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
