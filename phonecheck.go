package idverify

import (
	"context"
	"encoding/json"
	"iter"
	"net/netip"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// PhoneCheckService verifies that a phone number belongs to the device that opens the Check URL. It
// is available as [Client].PhoneChecks.
type PhoneCheckService struct{ api *api }

// PhoneCheckParams are the parameters of [PhoneCheckService.Create]. Only PhoneNumber is required.
type PhoneCheckParams struct {
	// PhoneNumber may contain spaces and punctuation: see [NormalizePhoneNumber].
	PhoneNumber string

	// CallbackURL receives the result. The default is the callback URL of the project.
	CallbackURL string

	// RedirectURL is the URL to which the service redirects the device with a code. It requires
	// version v0.2. The default is the redirect URL of the product in the project.
	RedirectURL string

	// ReferenceID is your own ID for the check. Responses and the callback contain it. If it is unique
	// for each Create, FindByReferenceID finds the check if the outcome of Create is unknown.
	ReferenceID string

	// PhoneIP is the public IP address of the device as your backend sees it. With it, the service
	// can reject the check before the Check URL is opened if the address does not belong to the
	// number ([ErrIPMismatch]), and can detect that another address opened the Check URL. Omit it if
	// your backend sees the address of a proxy.
	PhoneIP netip.Addr
}

// PhoneCheck is a check that verifies that a phone number belongs to a device.
type PhoneCheck struct {
	CheckID     string
	Status      CheckStatus
	PhoneNumber string // digits only, as sent to the service
	CheckURL    string // the URL that the device must open; empty once it can no longer be opened

	// Match reports whether the number belongs to the device. It is unknown unless Status is
	// COMPLETED.
	Match Verdict

	ChargeAmount    json.Number // decimal
	ChargeCurrency  string      // for example "API"
	SnapshotBalance json.Number // balance after the charge; only in the result of Create
	CreatedAt       time.Time
	UpdatedAt       time.Time
	TTL             time.Duration // time from CreatedAt until the check expires
	NetworkID       string        // the mobile network; only if COMPLETED
	ErrorCode       string        // only if ERROR, for example ErrorCodeMNOTimeout
	ReferenceID     string
	CallbackURL     string // empty if the check uses the callback URL of the project
}

// Create starts a PhoneCheck for p.PhoneNumber. The check has the status ACCEPTED. The device must
// open its Check URL over its mobile data connection within TTL.
//
// The service charges for each check that it accepts. Create therefore retries only if the service
// cannot have accepted the check: see [RetryPolicy].
//
// Errors include [ErrOutcomeUnknown] (find the check with FindByReferenceID), [ErrPhoneFormat],
// [ErrInsufficientBalance], [ErrIPMismatch], [ErrRateLimited], [ErrSandbox] with [WithLiveOnly],
// and [*TokenError].
func (s *PhoneCheckService) Create(ctx context.Context, p PhoneCheckParams) (*PhoneCheck, error) {
	return createCheck[phoneCheckJSON](ctx, s.api, wire.CreatePhoneCheck, createCheckJSON{
		PhoneNumber: p.PhoneNumber,
		CallbackURL: p.CallbackURL,
		RedirectURL: p.RedirectURL,
		ReferenceID: p.ReferenceID,
		PhoneIP:     p.PhoneIP,
	}, func(c *PhoneCheck) (string, json.Number) { return c.CheckID, c.ChargeAmount })
}

// Get returns a PhoneCheck that is in progress or COMPLETED. A check that ended as EXPIRED or ERROR
// is not stored: the error is [ErrNotFound].
func (s *PhoneCheckService) Get(ctx context.Context, checkID string) (*PhoneCheck, error) {
	return send[phoneCheckJSON](ctx, s.api, wire.GetPhoneCheck, nil, checkID)
}

// Complete exchanges the code of a redirect (see [ParseRedirect]) and returns the check, which has
// ended. Complete requires version v0.2: see [WithVersions].
//
// For a wrong or used code the error is [ErrNotFound].
//
// If the error matches [ErrOutcomeUnknown], the code may have been used. Get the check, with
// another context if ctx has ended, and do not exchange the code again. COMPLETED proves only that
// a code of this check was exchanged with your credentials. Accept the result only if the session
// that started the check made the only exchange.
func (s *PhoneCheckService) Complete(ctx context.Context, checkID, code string) (*PhoneCheck, error) {
	return completeCheck[phoneCheckJSON](ctx, s.api, wire.CompletePhoneCheck, checkID, code)
}

// List returns one page of the project's PhoneChecks, newest first unless o specifies another
// order.
func (s *PhoneCheckService) List(ctx context.Context, o ListOptions) (*Page[PhoneCheck], error) {
	return list[phoneCheckJSON](ctx, s.api, listOf(wire.ListPhoneChecks, o), "checks")
}

// All returns an iterator over the PhoneChecks of all pages, starting with o.Page. It reads each
// page when the iteration reaches it, and stops after the first error. Checks that are created in
// the meantime move others to later pages: sort by "created_at,asc" to get each check once.
func (s *PhoneCheckService) All(ctx context.Context, o ListOptions) iter.Seq2[*PhoneCheck, error] {
	return all(ctx, o, s.List)
}

// FindByReferenceID returns the PhoneChecks whose ReferenceID is exactly referenceID, oldest first.
// Use it to find the check of a [PhoneCheckService.Create] that failed with [ErrOutcomeUnknown].
//
// The context of that Create is often done: pass another one. If the CheckURL of a check is empty,
// the check was opened or has ended.
//
// A check that is found exists and was charged. An empty result never proves that no check was
// created or charged: checks that ended as EXPIRED or ERROR are not listed, and the lost request
// may still arrive. Therefore do not create the check again automatically.
//
// For an empty referenceID, or one that is not valid UTF-8, the error is [ErrBadRequest]. With
// [WithLiveOnly], it is [ErrSandbox] if a check was not charged.
func (s *PhoneCheckService) FindByReferenceID(ctx context.Context, referenceID string) ([]*PhoneCheck, error) {
	return findByReferenceID[phoneCheckJSON](ctx, s.api, wire.ListPhoneChecks, referenceID, func(c *PhoneCheck) (string, string, json.Number) {
		return c.CheckID, c.ReferenceID, c.ChargeAmount
	})
}

// Wait reads the check until it is COMPLETED. The interval grows from half a second to five
// seconds. A callback delivers the result sooner and with less traffic.
//
// The error is a [*NoResultError] if the check ends as EXPIRED or ERROR, does not exist, or is
// still in progress five seconds after its TTL, counted from the first read. Without a TTL, Wait
// assumes two minutes. After any other error of Get, Wait returns that error.
func (s *PhoneCheckService) Wait(ctx context.Context, checkID string) (*PhoneCheck, error) {
	return wait(ctx, s.api, wire.GetPhoneCheck, "wait for PhoneCheck", checkID, s.Get, func(c *PhoneCheck) progress {
		return progress{status: c.Status, errorCode: c.ErrorCode, ttl: c.TTL}
	})
}

// Traces returns the recorded steps of the check. The service keeps them for seven days; after that
// the error is [ErrNotFound].
func (s *PhoneCheckService) Traces(ctx context.Context, checkID string) ([]Trace, error) {
	return traces(ctx, s.api, wire.ListPhoneCheckTraces, checkID)
}

// phoneCheckJSON is a PhoneCheck on the wire.
type phoneCheckJSON checkJSON

func (j phoneCheckJSON) id() string     { return j.CheckID }
func (j phoneCheckJSON) number() string { return j.PhoneNumber }

func (j phoneCheckJSON) value() (*PhoneCheck, error) {
	if err := checkJSON(j).valid(); err != nil {
		return nil, err
	}
	match, _ := checkJSON(j).verdicts(ProductPhoneCheck)
	return &PhoneCheck{
		CheckID:         j.CheckID,
		Status:          j.Status,
		PhoneNumber:     j.PhoneNumber,
		Match:           match,
		CheckURL:        j.Links.CheckURL.Href,
		ChargeAmount:    j.ChargeAmount,
		ChargeCurrency:  j.ChargeCurrency,
		SnapshotBalance: j.SnapshotBalance,
		CreatedAt:       j.CreatedAt.Time,
		UpdatedAt:       j.UpdatedAt.Time,
		TTL:             j.TTL.duration(time.Second),
		NetworkID:       j.NetworkID,
		ErrorCode:       j.ErrorCode,
		ReferenceID:     j.ReferenceID,
		CallbackURL:     j.CallbackURL,
	}, nil
}
