package idverify

import (
	"context"
	"encoding/json"
	"iter"
	"net/netip"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// PhoneCheckService checks that a phone number matches the device that opens the Check URL. Get it from [Client].PhoneChecks.
type PhoneCheckService struct{ api *api }

// PhoneCheckParams are the arguments of [PhoneCheckService.Create]. Only PhoneNumber is needed.
type PhoneCheckParams struct {
	PhoneNumber string     // as [NormalizePhoneNumber] takes it
	CallbackURL string     // gets the result, in place of the project's callback URL
	RedirectURL string     // where the device goes on with a code, in place of the project's; needs version v0.2
	ReferenceID string     // your own name for the check, answered back
	PhoneIP     netip.Addr // the device's address, when you know it
}

// PhoneCheck is a check that a phone number matches a device (specification, section 2).
type PhoneCheck struct {
	CheckID     string
	Status      CheckStatus
	PhoneNumber string // as it was sent: digits alone
	Match       *bool  // whether number and device belong together; nil until it is known, which is not false
	CheckURL    string // to be opened by the device; empty when it cannot be opened any more

	ChargeAmount    json.Number // decimal
	ChargeCurrency  string      // for example "API"
	SnapshotBalance json.Number // the balance after the charge; only on creation
	CreatedAt       time.Time
	UpdatedAt       time.Time
	TTL             time.Duration // from CreatedAt until it expires
	NetworkID       string        // when COMPLETED
	ErrorCode       string        // when ERROR, for example "mno_timeout"
	ReferenceID     string
	CallbackURL     string // of this check; empty when the project's is used
}

// Create starts a PhoneCheck for p.PhoneNumber. The check is ACCEPTED; its CheckURL must then be opened by the device itself, over its mobile data connection, within TTL.
//
// The service charges for every accepted call, so a failed Create is sent again only when it cannot have been accepted (see [RetryPolicy]).
// Errors: [ErrPhoneFormat], [ErrInsufficientBalance], [ErrRateLimited], [*TokenError].
//
// Specification: section 4, POST /phone_check/{version}/checks.
func (s *PhoneCheckService) Create(ctx context.Context, p PhoneCheckParams) (*PhoneCheck, error) {
	return createCheck[phoneCheckJSON](ctx, s.api, wire.CreatePhoneCheck, createCheckJSON{
		PhoneNumber: p.PhoneNumber,
		CallbackURL: p.CallbackURL,
		RedirectURL: p.RedirectURL,
		ReferenceID: p.ReferenceID,
		PhoneIP:     p.PhoneIP,
	})
}

// Get reads a PhoneCheck that has not ended or is COMPLETED. [ErrNotFound] is also the answer for one that ended as EXPIRED or ERROR.
//
// Contract: GET /phone_check/{version}/checks/{check_id}.
func (s *PhoneCheckService) Get(ctx context.Context, checkID string) (*PhoneCheck, error) {
	return send[phoneCheckJSON](ctx, s.api, wire.GetPhoneCheck, nil, checkID)
}

// Complete exchanges the code that the device brought back, see [ParseRedirect], and returns the finished check. It needs version v0.2, see [WithVersions].
//
// A code works once, so a failed Complete is sent again only when it cannot have been accepted. A wrong or used code is [ErrNotFound].
// Look at Status before Match: a check that ends as ERROR has Match false.
//
// Contract: PATCH /phone_check/{version}/checks/{check_id}.
func (s *PhoneCheckService) Complete(ctx context.Context, checkID, code string) (*PhoneCheck, error) {
	body, err := codePatch(s.api, wire.CompletePhoneCheck, code)
	if err != nil {
		return nil, err
	}
	return send[phoneCheckJSON](ctx, s.api, wire.CompletePhoneCheck, body, checkID)
}

// List returns one page of the project's PhoneChecks, the newest first unless o says otherwise.
//
// Contract: GET /phone_check/{version}/checks.
func (s *PhoneCheckService) List(ctx context.Context, o ListOptions) (*Page[PhoneCheck], error) {
	return list[phoneCheckJSON](ctx, s.api, listOf(wire.ListPhoneChecks, o), "checks")
}

// All yields the PhoneChecks of all pages from o.Page on, reading each page when it is needed; an error is the last thing it yields.
// A check created meanwhile moves the others to later places: sort by "created_at,asc" to see each once.
func (s *PhoneCheckService) All(ctx context.Context, o ListOptions) iter.Seq2[*PhoneCheck, error] {
	return all(ctx, o, s.List)
}

// Wait reads the check until it is COMPLETED, for its TTL at most: every half second at first, every five seconds in the end. A callback brings the result sooner and with less traffic.
//
// A check that ends as EXPIRED or ERROR cannot be read: then the error is a [*CheckEndedError].
func (s *PhoneCheckService) Wait(ctx context.Context, checkID string) (*PhoneCheck, error) {
	return wait(ctx, s.api, wire.GetPhoneCheck, "wait for PhoneCheck", checkID, s.Get, func(c *PhoneCheck) progress {
		return progress{status: c.Status, errorCode: c.ErrorCode, ttl: c.TTL}
	})
}

// Traces returns what the service recorded of the check's steps, kept for seven days. An older one is [ErrNotFound].
//
// Contract: GET /phone_check/{version}/checks/{check_id}/traces.
func (s *PhoneCheckService) Traces(ctx context.Context, checkID string) ([]Trace, error) {
	return traces(ctx, s.api, wire.ListPhoneCheckTraces, checkID)
}

// Trace returns one trace of the check.
//
// Contract: GET /phone_check/{version}/checks/{check_id}/traces/{trace_id}.
func (s *PhoneCheckService) Trace(ctx context.Context, checkID, traceID string) (*Trace, error) {
	return send[traceJSON](ctx, s.api, wire.GetPhoneCheckTrace, nil, checkID, traceID)
}

// phoneCheckJSON is a PhoneCheck on the wire.
type phoneCheckJSON checkJSON

func (j phoneCheckJSON) id() string     { return j.CheckID }
func (j phoneCheckJSON) number() string { return j.PhoneNumber }

func (j phoneCheckJSON) value() (*PhoneCheck, error) {
	if err := checkJSON(j).valid(); err != nil {
		return nil, err
	}
	return &PhoneCheck{
		CheckID:         j.CheckID,
		Status:          j.Status,
		PhoneNumber:     j.PhoneNumber,
		Match:           j.Match,
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
