package inbox_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

// The inbox must be a correct receiver on each database, also while another transaction keeps the
// lock that storing needs. It has no replay store: it stores one result per check.
func TestHandler_Examined(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		keys, err := receivertest.NewKeys()
		if err != nil {
			t.Fatal(err)
		}
		keySet, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client(), MinRefetch: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		v, err := signature.NewVerifier(keySet, []string{host}, &signature.VerifierOptions{Now: i.service.Now})
		if err != nil {
			t.Fatal(err)
		}

		receivertest.Run(t, receivertest.Receiver{
			Keys:    keys,
			URL:     i.callbackURL,
			Handler: i.inbox.Handler(v),
			Strict:  true,
			Now:     i.service.Now,
			Probe:   i.probe(),
		})
	})
}

// probe returns a probe that plans checks and counts the effects of OnResult.
func (i *intake) probe() receivertest.Probe {
	var lock *sql.Tx
	return receivertest.Probe{
		Created: func(ctx context.Context, c receivertest.Check) error {
			tx, err := i.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := i.inbox.Plan(ctx, tx, idverify.Product(c.Product), c.CheckID); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			return i.inbox.Bind(ctx, c.CheckID, c.CheckID, 0)
		},
		Effects: func(ctx context.Context, checkID string) (n int, err error) {
			err = i.db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE check_id = $1", checkID).Scan(&n)
			return n, err
		},
		SlowStore: func(ctx context.Context, slow bool) (err error) {
			if !slow {
				return lock.Rollback()
			}
			if lock, err = i.db.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
				return err
			}
			_, err = lock.ExecContext(ctx, "UPDATE idverify_checks SET attempts = 0")
			return err
		},
	}
}
