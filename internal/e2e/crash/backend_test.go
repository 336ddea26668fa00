package crash

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/signature"
)

// backend is a process of a backend with an inbox.
type backend struct {
	config config
	db     *sql.DB
	inbox  *inbox.Inbox
	client *idverify.Client
	http   *http.Client
	clock  atomic.Int64 // time of the service, in nanoseconds since 1970
	log    *slog.Logger
}

// runBackend runs a backend until the process is killed or the test has ended.
func runBackend(ctx context.Context, c config) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the process of the test has ended
	}()
	b := &backend{config: c, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if err := b.readClock(ctx); err != nil {
		return err
	}
	go b.follow(ctx)
	onResult, err := b.open(ctx)
	if err != nil {
		return err
	}
	for b.inbox, err = b.newInbox(ctx, onResult); err != nil; b.inbox, err = b.newInbox(ctx, onResult) {
		b.log.Error("the database is unavailable", "error", err)
		time.Sleep(100 * time.Millisecond)
	}
	if err := b.connect(); err != nil {
		return err
	}
	keys, err := b.client.NewJWKS(nil)
	if err != nil {
		return err
	}
	callbackURL, err := url.Parse(c.CallbackURL)
	if err != nil {
		return err
	}
	// The clock of the service moves in steps of seconds, and is read later.
	verifier, err := signature.NewVerifier(keys, []string{callbackURL.Host}, &signature.VerifierOptions{Now: b.now, ClockSkew: time.Hour, Logger: b.log})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+callbackURL.Path, b.inbox.Handler(verifier))
	mux.HandleFunc("POST /reconcile", b.reconcile)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var work func(context.Context, *sql.Tx, inbox.Entry) error
	if onResult == nil {
		work = b.act
	}
	defer b.inbox.Start(ctx, b.client, work)()
	for range c.Concurrency {
		go b.signUps(ctx)
	}
	fmt.Println("http://" + listener.Addr().String())
	return http.Serve(listener, mux)
}

func (b *backend) newInbox(ctx context.Context, onResult func(context.Context, *sql.Tx, inbox.Entry) error) (*inbox.Inbox, error) {
	return inbox.New(ctx, b.db, b.config.Dialect, &inbox.Options{OnResult: onResult, Now: b.now, Logger: b.log})
}

// open opens the database, and on PostgreSQL starts the workers of River. OnResult inserts their
// jobs.
func (b *backend) open(ctx context.Context) (onResult func(context.Context, *sql.Tx, inbox.Entry) error, err error) {
	driver := "pgx"
	if b.config.Dialect == inbox.SQLite {
		driver = "sqlite"
	}
	if b.db, err = sql.Open(driver, b.config.Source); err != nil {
		return nil, err
	}
	b.db.SetMaxOpenConns(8)
	b.db.SetMaxIdleConns(8)
	if b.config.Dialect == inbox.SQLite {
		return nil, nil
	}
	return b.startRiver(ctx)
}

// connect creates the client of the service.
func (b *backend) connect() error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b.config.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 64}
	credentials := idverify.Credentials{ClientID: b.config.ClientID, ClientSecret: idverify.NewSecret(b.config.ClientSecret)}
	var err error
	b.client, err = idverify.NewClient(b.config.ServiceURL, credentials, idverify.WithHTTPClient(&http.Client{Transport: transport}), idverify.WithClock(b.now))
	return err
}

func (b *backend) now() time.Time { return time.Unix(0, b.clock.Load()) }

// readClock reads the clock of the service.
func (b *backend) readClock(ctx context.Context) error {
	var now time.Time
	if err := b.call(ctx, "/clock", nil, nil, &now); err != nil {
		return err
	}
	b.clock.Store(now.UnixNano())
	return nil
}

func (b *backend) follow(ctx context.Context) {
	for {
		time.Sleep(100 * time.Millisecond)
		if err := b.readClock(ctx); err != nil {
			b.log.Error("read the clock", "error", err)
		}
	}
}

// reconcile runs Reconcile at the current time of the service, in addition to Start.
func (b *backend) reconcile(w http.ResponseWriter, r *http.Request) {
	err := b.readClock(r.Context())
	if err == nil {
		err = b.inbox.Reconcile(r.Context(), b.client)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// signUps performs sign-ups until the test has no more of them. An error ends a sign-up: Reconcile
// must find its check.
func (b *backend) signUps(ctx context.Context) {
	for {
		var s signUp
		err := b.call(ctx, "/sign-ups", nil, nil, &s)
		switch {
		case err == nil && s.Number == "":
			time.Sleep(100 * time.Millisecond) // there are enough
		case err == nil:
			err = b.signUp(ctx, s)
		}
		if err != nil {
			b.log.Error("sign-up", "error", err)
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// signUp starts a check and passes it to the phone. If s.Early is set, the result arrives before
// Bind.
func (b *backend) signUp(ctx context.Context, s signUp) error {
	reference := rand.Text()
	if err := b.plan(ctx, s, reference); err != nil {
		return err
	}
	if s.Product == idverify.ProductSIMCheck {
		_, err := b.inbox.CreateSIMCheck(ctx, b.client, idverify.SIMCheckParams{PhoneNumber: s.Number, ReferenceID: reference})
		if err != nil {
			return err
		}
		return b.call(ctx, "/phone", nil, visit{Reference: reference}, nil)
	}
	v, ttl, err := b.create(ctx, s, reference)
	if err == nil {
		err = b.call(ctx, "/phone", nil, v, nil)
	}
	if err == nil && s.Early {
		err = b.inbox.Bind(ctx, reference, v.CheckID, ttl)
	}
	return err
}

func (b *backend) plan(ctx context.Context, s signUp, reference string) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO sign_ups (reference) VALUES ($1)", reference); err != nil {
		return err
	}
	if err := b.inbox.Plan(ctx, tx, s.Product, reference); err != nil {
		return err
	}
	return tx.Commit()
}

// create creates a check. If s.Early is set, its ID is stored later, so that the result can arrive
// before.
func (b *backend) create(ctx context.Context, s signUp, reference string) (visit, time.Duration, error) {
	if s.Product == idverify.ProductSubscriberCheck {
		create := b.client.SubscriberChecks.Create
		if !s.Early {
			create = func(ctx context.Context, p idverify.SubscriberCheckParams) (*idverify.SubscriberCheck, error) {
				return b.inbox.CreateSubscriberCheck(ctx, b.client, p)
			}
		}
		check, err := create(ctx, idverify.SubscriberCheckParams{PhoneNumber: s.Number, ReferenceID: reference, CallbackURL: b.config.CallbackURL})
		if err != nil {
			return visit{}, 0, err
		}
		return visit{Reference: reference, CheckID: check.CheckID, CheckURL: check.CheckURL, Early: s.Early}, check.TTL, nil
	}
	create := b.client.PhoneChecks.Create
	if !s.Early {
		create = func(ctx context.Context, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
			return b.inbox.CreatePhoneCheck(ctx, b.client, p)
		}
	}
	check, err := create(ctx, idverify.PhoneCheckParams{PhoneNumber: s.Number, ReferenceID: reference, CallbackURL: b.config.CallbackURL})
	if err != nil {
		return visit{}, 0, err
	}
	return visit{Reference: reference, CheckID: check.CheckID, CheckURL: check.CheckURL, Early: s.Early}, check.TTL, nil
}

// act performs the effects of a result: first outside of the database, then in it.
func (b *backend) act(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
	if err := b.actOutside(ctx, e.Reference, e.CheckID); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (reference) VALUES ($1)", e.Reference)
	return err
}

// actOutside sends a message with the check ID as its idempotency key, or with the reference if the
// check was never created.
func (b *backend) actOutside(ctx context.Context, reference, checkID string) error {
	return b.call(ctx, "/messages", http.Header{"Idempotency-Key": {checkID}, "Reference": {reference}}, nil, nil)
}

// call sends a request to the test.
func (b *backend) call(ctx context.Context, path string, header http.Header, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.config.Control+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(request.Header, header)
	response, err := b.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", path, response.Status)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}
