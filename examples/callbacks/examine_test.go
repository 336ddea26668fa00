package main

import (
	"context"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

func TestBackend_Examined(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.start(t)
	b.work()
	must(b.db.ExecContext(t.Context(), `CREATE TABLE effects (reference text NOT NULL);
		CREATE TRIGGER effect AFTER UPDATE OF result ON sign_ups BEGIN INSERT INTO effects (reference) VALUES (new.reference); END`))(t)
	keys := must(receivertest.NewKeys())(t)
	keySet := must(signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client(), MinRefetch: time.Nanosecond}))(t)
	verifier := must(signature.NewVerifier(keySet, []string{host}, &signature.VerifierOptions{Now: s.service.Now}))(t)

	receivertest.Run(t, receivertest.Receiver{
		Keys:    keys,
		URL:     callbackURL,
		Handler: b.handler(verifier),
		Strict:  true,
		Now:     s.service.Now,
		Probe: receivertest.Probe{
			Created: b.created,
			Effects: func(ctx context.Context, checkID string) (n int, err error) {
				err = b.db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE reference = $1", checkID).Scan(&n)
				return n, err
			},
		},
	})
}

// created stores a sign-up like signUp. The reference is the ID of its check.
func (b *backend) created(ctx context.Context, c receivertest.Check) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO sign_ups (reference, customer) VALUES ($1, 'customer')", c.CheckID); err != nil {
		return err
	}
	if err := b.checks.Plan(ctx, tx, idverify.Product(c.Product), c.CheckID); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return b.checks.Bind(ctx, c.CheckID, c.CheckID, 0)
}
