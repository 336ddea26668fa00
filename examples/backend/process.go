package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// process acts on the result of a check, once: River may run its job twice, even at the same time.
// The second transaction waits for the first at the insert, and then changes nothing.
func process(ctx context.Context, tx pgx.Tx, e *inbox.Entry) error {
	var decision, update string
	switch e.Product {
	case idverify.ProductSubscriberCheck:
		decision, update = signupStatus(e), "UPDATE signups SET status = $1 WHERE id = $2 AND status = 'pending'"
	case idverify.ProductPhoneCheck:
		decision = e.Match.String() // checkflow has signed the person in, or nobody has
	case idverify.ProductSIMCheck:
		decision, update = payoutDecision(e.NoSIMChange), "UPDATE payouts SET decision = $1 WHERE reference = $2 AND decision = 'pending'"
	default:
		return fmt.Errorf("unexpected product %q", e.Product)
	}
	inserted, err := tx.Exec(ctx, "INSERT INTO decisions (reference, product, check_id, decision) VALUES ($1, $2, $3, $4) ON CONFLICT (reference) DO NOTHING",
		e.Reference, string(e.Product), e.CheckID, decision)
	if err != nil || inserted.RowsAffected() == 0 {
		return err
	}
	if update != "" {
		_, err = tx.Exec(ctx, update, decision, e.Reference)
	}
	return err
}
