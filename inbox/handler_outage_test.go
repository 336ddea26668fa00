package inbox_test

import (
	"context"
	"crypto/rsa"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/inbox/internal/pgtest"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/signature"
)

// slowKeys is a KeySource that needs some time.
type slowKeys struct {
	signature.KeySource

	delay time.Duration
}

func (k slowKeys) PublicKey(ctx context.Context, keyID string) (*rsa.PublicKey, error) {
	time.Sleep(k.delay) // in a bubble
	return k.KeySource.PublicKey(ctx, keyID)
}

// The service does not retry after a timeout of ten seconds.
func TestHandler_RespondsInTime(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		d.source(t) // starts the server outside of the bubble
		synctest.Test(t, func(t *testing.T) {
			i := newIntake(t, d, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				if err := addEffect(ctx, tx, e); err != nil {
					return err
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			i.planned(t, "r", "check")
			key, err := testKey()
			if err != nil {
				t.Fatal(err)
			}
			keys := signature.StaticKeys{"test key": &key.PublicKey}

			for _, test := range []struct{ verification, want time.Duration }{
				{0, 5 * time.Second},
				{2 * time.Second, 7 * time.Second},
				{6 * time.Second, 8 * time.Second},
				{9 * time.Second, 9 * time.Second},
			} {
				url := i.signedURL(t, slowKeys{keys, test.verification})
				begin := time.Now()
				status, err := i.send(t.Context(), t, url, "phone_check", signedBody(i.backend, `"status":"COMPLETED","match":true`))
				if err != nil {
					t.Fatal(err)
				}

				if got := time.Since(begin); got != test.want || status != http.StatusInternalServerError {
					t.Errorf("verification of %v: response = %d after %v, want 500 after %v", test.verification, status, got, test.want)
				}
			}
			if e := i.get(t, "r"); e.Status != "" || i.effects(t) != 0 {
				t.Errorf("entry = %+v with %d effects, want a rollback", e, i.effects(t))
			}
			i.service.Close()
			i.db.Close()
		})
	})
}

// Another transaction keeps the lock that storing needs. The test takes the five seconds of the
// handler, because no bubble can contain the locks of a database.
func TestHandler_LockedDatabase(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		i.planned(t, "r", "check")
		url := i.signedURL(t, nil)
		tx, err := i.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(t.Context(), "UPDATE idverify_checks SET attempts = 0"); err != nil {
			t.Fatal(err)
		}
		body := signedBody(i.backend, `"status":"COMPLETED","match":true`)

		locked, err := i.send(t.Context(), t, url, "phone_check", body)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		unlocked, err := i.send(t.Context(), t, url, "phone_check", body)
		if err != nil {
			t.Fatal(err)
		}

		if locked != 500 || unlocked != 204 || i.effects(t) != 1 {
			t.Errorf("responses = %d and %d with %d effects, want 500 while locked, then 204 with 1", locked, unlocked, i.effects(t))
		}
	})
}

func TestHandler_DatabaseClosed(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		source := d.source(t)
		other := openDB(t, d.driver, source)
		if err := inbox.Migrate(t.Context(), other, d.dialect); err != nil {
			t.Fatal(err)
		}
		down, err := inbox.New(t.Context(), other, d.dialect, nil)
		if err != nil {
			t.Fatal(err)
		}
		other.Close()
		v := i.service.Verifier([]string{host}, nil)
		i.serveWith(down.Handler(v))

		i.open(t, i.start(t, "447700900012", "r"))
		i.serveWith(i.inbox.Handler(v))
		advance(t, i.service, 10*time.Second)

		if got := i.responses(); got != "500 204" {
			t.Errorf("responses = %s, want 500 and then 204", got)
		}
		if i.get(t, "r").Match != idverify.VerdictYes || i.effects(t) != 1 {
			t.Error("the redelivered callback is not stored")
		}
	})
}

func TestHandler_DatabaseDown(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	d := database{"PostgreSQL", inbox.Postgres, "pgx", func(testing.TB) string { return server.Source("postgres") }}
	i := newIntake(t, d, addEffect)
	check := i.start(t, "447700900012", "r")
	admin := openDB(t, "pgx", server.Source("template1"))
	allow := func(allowed bool) {
		if _, err := admin.ExecContext(t.Context(), fmt.Sprintf("ALTER DATABASE postgres ALLOW_CONNECTIONS %t", allowed)); err != nil {
			t.Fatal(err)
		}
	}

	allow(false)
	if _, err := admin.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'"); err != nil {
		t.Fatal(err)
	}
	i.open(t, check)
	advance(t, i.service, 10*time.Second)
	allow(true)
	advance(t, i.service, 20*time.Second)
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	i.redeliver(t)

	if got := i.responses(); got != "500 500 204 204" {
		t.Errorf("responses = %s, want 500 while the database is down, then 204, and 204 after its crash", got)
	}
	if i.get(t, "r").Match != idverify.VerdictYes || i.effects(t) != 1 {
		t.Error("the redelivered callback is not stored")
	}
	if got := i.levels(t); got != "ERROR ERROR DEBUG DEBUG" {
		t.Errorf("levels = %s, want ERROR while the database is down", got)
	}
}

func TestHandler_ServiceDisconnects(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		storing, disconnected, stored := make(chan struct{}), make(chan struct{}), make(chan struct{})
		i := newIntake(t, d, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			close(storing)
			<-disconnected
			return addEffect(ctx, tx, e)
		})
		i.planned(t, "r", "check")
		url := i.signedURL(t, nil)
		handler := i.inbox.Handler(i.verifier(t, nil))
		i.service.Handle("signed.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(stored)
			go func() {
				<-r.Context().Done() // the server has noticed the end of the connection
				close(disconnected)
			}()
			handler.ServeHTTP(w, r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-storing
			cancel()
		}()

		_, err := i.send(ctx, t, url, "phone_check", signedBody(i.backend, `"status":"COMPLETED","match":true`))
		<-stored

		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want that of the closed connection", err)
		}
		if i.get(t, "r").Match != idverify.VerdictYes || i.effects(t) != 1 {
			t.Error("the result is not stored: the service does not send it again")
		}
	})
}
