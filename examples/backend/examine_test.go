package main

import (
	"context"
	"database/sql"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/receivertest"
)

// examined is a site whose shop fetches the key set of an examination. Everything else comes from
// the fake of the service.
type examined struct {
	*site

	keys   *receivertest.Keys
	pool   *sql.DB
	checks *inbox.Inbox
}

func newExamined(t *testing.T) *examined {
	t.Helper()
	keys := must(receivertest.NewKeys())(t)
	e := &examined{site: prepareSite(t), keys: keys}
	target := must(url.Parse(e.service.URL()))(t)
	mux := http.NewServeMux()
	mux.Handle(receivertest.KeySetPath, keys)
	mux.Handle("/", &httputil.ReverseProxy{Transport: e.service.HTTPClient().Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	e.env["IDVERIFY_BASE_URL"] = server.URL
	writeFile(t, e.env["IDVERIFY_CA_FILE"], string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	e.start(t)
	e.pool = must(sql.Open("pgx", e.env["DATABASE_URL"]))(t)
	t.Cleanup(func() { e.pool.Close() })
	e.checks = must(inbox.New(t.Context(), e.pool, inbox.Postgres, nil))(t)
	return e
}

// examine examines a path of the shop through its proxy. It omits the rules that wait until the
// shop may fetch the key set again, which takes 30 seconds. The tests of package signature contain
// them.
func (e *examined) examine(t *testing.T, kind receivertest.Kind, path string, probe receivertest.Probe) {
	t.Helper()
	var names []string
	for _, rule := range receivertest.Rules(kind, true) {
		if !strings.Contains(rule.Name, "/key-set-") && !strings.HasSuffix(rule.Name, "/key-rotation") {
			names = append(names, rule.Name)
		}
	}
	receivertest.Run(t, receivertest.Receiver{
		Keys: e.keys, Kind: kind, URL: "https://" + host + "/api" + path, Handler: e.front, Strict: true, Probe: probe, Only: names,
	})
}

// An effect is a change of the status of a sign-up, or a decision about a sign-in.
func TestShop_CallbackExamined(t *testing.T) {
	t.Parallel()
	e := newExamined(t)
	must(e.pool.ExecContext(t.Context(), `
		CREATE TABLE effects (check_id text NOT NULL);
		CREATE FUNCTION effect() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO effects SELECT to_jsonb(NEW) ->> TG_ARGV[0];
			RETURN NULL;
		END $$;
		CREATE TRIGGER effect AFTER UPDATE OF status ON signups FOR EACH ROW EXECUTE FUNCTION effect('id');
		CREATE TRIGGER effect AFTER INSERT ON decisions FOR EACH ROW WHEN (NEW.product = 'phone_check') EXECUTE FUNCTION effect('reference')`))(t)
	var lock *sql.Tx

	e.examine(t, receivertest.KindCallback, "/callbacks", receivertest.Probe{
		Created: e.created,
		Effects: func(ctx context.Context, checkID string) (n int, err error) {
			// A job may start later than the examination expects an effect.
			for unfinished := true; unfinished; {
				if err = e.pool.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM river_job WHERE kind = 'idverify_result' AND state IN ('available', 'running'))").Scan(&unfinished); err != nil {
					return 0, err
				}
			}
			err = e.pool.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE check_id = $1", checkID).Scan(&n)
			return n, err
		},
		SlowStore: func(ctx context.Context, slow bool) (err error) {
			if !slow {
				return lock.Rollback()
			}
			if lock, err = e.pool.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
				return err
			}
			_, err = lock.ExecContext(ctx, "SELECT FROM idverify_checks FOR UPDATE")
			return err
		},
	})
}

// created stores a check like signUp or createSignIn. Its reference is its ID.
func (e *examined) created(ctx context.Context, c receivertest.Check) error {
	tx, err := e.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if c.Product == string(idverify.ProductSubscriberCheck) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO signups (id, phone_number) VALUES ($1, '447700900012')", c.CheckID); err != nil {
			return err
		}
	}
	if err := e.checks.Plan(ctx, tx, idverify.Product(c.Product), c.CheckID); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return e.checks.Bind(ctx, c.CheckID, c.CheckID, 0)
}

// An effect is the exchange of a code. The service does not know the codes of the examination.
func TestShop_RedirectExamined(t *testing.T) {
	t.Parallel()
	e := newExamined(t)
	var sessions atomic.Int64

	e.examine(t, receivertest.KindRedirect, "/redirect", receivertest.Probe{
		Session: func(ctx context.Context) (session receivertest.Session, err error) {
			b := e.browser(t)
			b.begin(fmt.Sprintf("4477009%05d", sessions.Add(1))) // the shop limits the sign-ins of a number
			session.Header = http.Header{"Cookie": {b.cookies()}}
			err = e.pool.QueryRowContext(ctx, "SELECT check_id FROM idverify_checks ORDER BY planned_at DESC LIMIT 1").Scan(&session.CheckID)
			return session, err
		},
		Effects: func(_ context.Context, checkID string) (n int, err error) {
			for _, r := range e.service.Requests() {
				if r.Operation == "phone_check.complete" && strings.HasSuffix(r.Path, "/"+checkID) {
					n++
				}
			}
			return n, nil
		},
	})
}
