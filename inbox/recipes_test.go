package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// The recipes of docs/testing.md. TestRecipes_MatchDocs of sandboxfake compares them with the page.

func TestSignUpVerdict(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := createTables(t.Context(), db); err != nil { // yours, and inbox.Migrate
		t.Fatal(err)
	}
	checks, err := inbox.New(t.Context(), db, inbox.SQLite, &inbox.Options{Now: srv.Now})
	if err != nil {
		t.Fatal(err)
	}
	url := srv.Handle("shop.sandbox.test", checks.Handler(srv.Verifier([]string{"shop.sandbox.test"}, nil)))
	checkURL, err := startSignUp(t.Context(), db, checks, srv.Client(), "sign-up 1", "447700900013", url) // Plan, CreatePhoneCheck
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Device().Open(t.Context(), checkURL); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = checks.Work(ctx, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
		defer cancel() // one entry is enough
		return setVerdict(ctx, tx, e.Reference, e.Match)
	})
	if err != nil {
		t.Fatal(err)
	}

	if e, err := checks.Get(t.Context(), "sign-up 1"); err != nil || e.Match != idverify.VerdictNo || e.DoneAt.IsZero() {
		t.Errorf("entry = %+v, error %v, want a processed entry with verdict no", e, err)
	}
	var verdict string
	if err := db.QueryRowContext(t.Context(), "SELECT verdict FROM sign_ups WHERE reference = 'sign-up 1'").Scan(&verdict); err != nil || verdict != "no" {
		t.Errorf("verdict = %q, error %v, want no", verdict, err)
	}
}

// newShop creates what your program needs, with one clock: time.Now in production.
func newShop(ctx context.Context, baseURL string, c idverify.Credentials, db *sql.DB, httpClient *http.Client, now func() time.Time) (*idverify.Client, http.Handler, *inbox.Inbox, error) {
	client, err := idverify.NewClient(baseURL, c, idverify.WithHTTPClient(httpClient), idverify.WithClock(now))
	if err != nil {
		return nil, nil, nil, err
	}
	keys, err := client.NewJWKS(nil) // has the client's clock
	if err != nil {
		return nil, nil, nil, err
	}
	verifier, err := signature.NewVerifier(keys, []string{"shop.sandbox.test"}, &signature.VerifierOptions{Now: now})
	if err != nil {
		return nil, nil, nil, err
	}
	checks, err := inbox.New(ctx, db, inbox.SQLite, &inbox.Options{Now: now})
	if err != nil {
		return nil, nil, nil, err
	}
	return client, checks.Handler(verifier), checks, nil
}

func TestOneClock(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := createTables(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	client, handler, checks, err := newShop(t.Context(), srv.URL(), srv.Credentials(), db, srv.HTTPClient(), srv.Now)
	if err != nil {
		t.Fatal(err)
	}
	url := srv.Handle("shop.sandbox.test", handler)
	if _, err := startSignUp(t.Context(), db, checks, client, "sign-up 1", "447700900013", url); err != nil {
		t.Fatal(err)
	}

	// Nobody opens the Check URL, so that the check expires after two minutes.
	if err := srv.Advance(t.Context(), 2*time.Hour); err != nil {
		t.Fatal(err)
	}

	e, err := checks.Get(t.Context(), "sign-up 1")
	if want := time.Date(2026, 1, 2, 3, 6, 5, 0, time.UTC); err != nil || e.Status != inbox.StatusExpired || !e.EndedAt.Equal(want) {
		t.Fatalf("entry = %+v, error %v, want EXPIRED at %v", e, err, want)
	}
	if _, err := client.PhoneChecks.Get(t.Context(), e.CheckID); !errors.Is(err, idverify.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
}

// createTables and startSignUp replace functions of the reader's program.
func createTables(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "CREATE TABLE sign_ups (reference text PRIMARY KEY, verdict text)"); err != nil {
		return err
	}
	return inbox.Migrate(ctx, db, inbox.SQLite)
}

func startSignUp(ctx context.Context, db *sql.DB, checks *inbox.Inbox, client *idverify.Client, reference, number, callbackURL string) (checkURL string, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO sign_ups (reference) VALUES ($1)", reference); err != nil {
		return "", err
	}
	return planAndCreate(ctx, checks, client, tx, reference, number, callbackURL)
}
