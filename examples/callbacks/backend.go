package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/http"
	"net/url"

	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/signature"
)

// backend verifies the phone numbers of customers who sign up. It acts on the checks that it has
// planned, and never takes the customer from a callback.
type backend struct {
	db     *sql.DB
	client *idverify.Client
	checks *inbox.Inbox
}

// The public address of the backend.
const (
	host        = "shop.example.com"
	callbackURL = "https://" + host + "/callbacks"
)

// openDB opens a database file with the settings that package inbox requires, and creates the
// tables.
func openDB(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+url.PathEscape(file)+
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS sign_ups (reference text PRIMARY KEY, customer text NOT NULL, result text NOT NULL DEFAULT '')")
	if err := errors.Join(err, inbox.Migrate(ctx, db, inbox.SQLite)); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

func newBackend(ctx context.Context, db *sql.DB, client *idverify.Client, opts *inbox.Options) (*backend, error) {
	checks, err := inbox.New(ctx, db, inbox.SQLite, opts)
	if err != nil {
		return nil, err
	}
	return &backend{db: db, client: client, checks: checks}, nil
}

// handler serves the callback URL.
func (b *backend) handler(verifier *signature.Verifier) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", b.checks.Handler(verifier))
	return mux
}

// signUp creates a check of a customer's phone number. It returns the Check URL, which the app
// opens on the device, and the reference with which the app reads the result.
func (b *backend) signUp(ctx context.Context, customer, number string) (reference, checkURL string, err error) {
	reference = rand.Text()
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return "", "", err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO sign_ups (reference, customer) VALUES ($1, $2)", reference, customer); err != nil {
		return "", "", err
	}
	if err := b.checks.Plan(ctx, tx, idverify.ProductPhoneCheck, reference); err != nil {
		return "", "", err
	}
	if err := tx.Commit(); err != nil {
		return "", "", err
	}
	// If the process ends from here on, the next one finds the check.
	check, err := b.checks.CreatePhoneCheck(ctx, b.client, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference, CallbackURL: callbackURL})
	if err != nil {
		return "", "", err
	}
	return reference, check.CheckURL, nil
}

// result returns the text for the customer. It is empty until the check has ended.
func (b *backend) result(ctx context.Context, reference string) (text string, err error) {
	err = b.db.QueryRowContext(ctx, "SELECT result FROM sign_ups WHERE reference = $1", reference).Scan(&text)
	return text, err
}

// finish stores the result of a sign-up. The update is committed together with the mark that the
// entry is processed, so it takes effect once.
func finish(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
	_, err := tx.ExecContext(ctx, "UPDATE sign_ups SET result = $1 WHERE reference = $2", describe(&e), e.Reference)
	return err
}

// describe returns the text for the customer.
func describe(e *inbox.Entry) string {
	switch e.Match {
	case idverify.VerdictYes:
		return "verified"
	case idverify.VerdictNo:
		return "not verified: another phone has this number"
	}
	switch e.Status {
	case inbox.StatusExpired:
		return "the Check URL was not opened in time: offer a new check"
	case inbox.StatusError:
		return "no result from the mobile network (" + e.ErrorCode + "): verify in another way"
	}
	return "no result: verify in another way" // for example inbox.StatusLost
}
