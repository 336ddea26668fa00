package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go"
)

// decision is the action to take on a payout.
type decision string

const (
	pay    decision = "pay"     // the SIM did not change, or the amount is small
	stepUp decision = "step up" // unknown: ask for another proof of identity
	hold   decision = "hold"    // the SIM changed: have a person review the payout
)

// Business rules; yours will differ.
const (
	smallAmount = 2000               // in cents; smaller payouts are not worth the price of a check
	period      = 7 * 24 * time.Hour // a SIM change within this period is suspicious
	timeout     = 5 * time.Second    // for the whole check, while the customer waits
)

// payout is a payment to a customer.
type payout struct {
	ID          string
	Cents       int // includes the customer's other payouts of the day
	PhoneNumber string
}

// guard decides on payouts, based on a SIMCheck.
type guard struct {
	client *idverify.Client
	log    *slog.Logger
}

// decide checks whether the SIM of p.PhoneNumber changed recently. Only a definite result leads to
// pay or hold. After any failure, such as an unsupported network or an empty balance, it returns
// stepUp: a customer must not lose access to their money because of an outage.
//
// decide returns an error only if ctx ends.
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

// evaluate returns the decision for a check.
func evaluate(check *idverify.SIMCheck) decision {
	switch check.NoSIMChange {
	case idverify.VerdictYes:
		return pay
	case idverify.VerdictNo:
		return hold
	}
	return stepUp
}

// severity returns the log level for a failed check. It is error if an operator must act, info for
// expected failures, and warning otherwise.
func severity(err error) slog.Level {
	switch {
	case errors.Is(err, idverify.ErrNetworkNotSupported), errors.Is(err, idverify.ErrPhoneFormat):
		return slog.LevelInfo
	case errors.Is(err, idverify.ErrInsufficientBalance), errors.Is(err, idverify.ErrUnauthorized), errors.Is(err, idverify.ErrForbidden):
		return slog.LevelError
	}
	return slog.LevelWarn
}
