package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go"
)

// decision is what becomes of a payout.
type decision string

const (
	pay    decision = "pay"     // the SIM is the customer's old one
	stepUp decision = "step up" // ask the customer for another proof first: nothing is known for or against them
	hold   decision = "hold"    // a person looks at it: the SIM was changed, and the number may be somebody else's now
)

// The rules of this business. Yours are others; keep them in one place.
const (
	smallAmount = 2000               // in cents; less is paid without a check, which has its price
	period      = 7 * 24 * time.Hour // how far back a SIM change counts
	timeout     = 5 * time.Second    // how long a customer waits for the network
)

// payout is money on its way to a customer.
type payout struct {
	ID          string
	Cents       int // together with what went to this customer today, or many small payouts would make a large one
	PhoneNumber string
}

// guard decides on payouts with SIMChecks.
type guard struct {
	client *idverify.Client
	log    *slog.Logger
}

// decide asks the mobile network whether the SIM behind p's phone number was changed lately. It pays on a clear answer alone, and holds on a clear answer alone:
// whatever else happens, from a network without answer to an empty balance, has the customer prove themselves in another way.
//
// An error is the end of ctx: then nothing is decided.
func (g *guard) decide(ctx context.Context, p payout) (decision, error) {
	if p.Cents < smallAmount {
		return pay, nil
	}
	checkCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	check, err := g.client.SIMChecks.Create(checkCtx, idverify.SIMCheckParams{PhoneNumber: p.PhoneNumber, ReferenceID: p.ID, Period: period})
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		g.log.LogAttrs(ctx, severity(err), "payout not checked", slog.String("payout", p.ID), slog.Any("error", err))
		return stepUp, nil
	}

	d := evaluate(check)
	g.log.InfoContext(ctx, "payout checked", "payout", p.ID, "check_id", check.CheckID, "status", check.Status, "decision", d)
	return d, nil
}

// judge reads a SIMCheck. NoSIMChange is nil when the network gave no answer, which is neither yes nor no.
func evaluate(check *idverify.SIMCheck) decision {
	switch {
	case check.Status != idverify.StatusCompleted || check.NoSIMChange == nil:
		return stepUp
	case *check.NoSIMChange:
		return pay
	}
	return hold
}

// severity tells what somebody has to mend from what happens every day.
func severity(err error) slog.Level {
	switch {
	case errors.Is(err, idverify.ErrNetworkNotSupported), errors.Is(err, idverify.ErrPhoneFormat):
		return slog.LevelInfo
	case errors.Is(err, idverify.ErrInsufficientBalance), errors.Is(err, idverify.ErrUnauthorized), errors.Is(err, idverify.ErrForbidden):
		return slog.LevelError
	}
	return slog.LevelWarn
}
