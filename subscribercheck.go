package idverify

import (
	"context"
	"encoding/json"
	"iter"
	"net/netip"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// SubscriberCheckService checks in one that a phone number matches the device that opens the Check URL, and whether its SIM was changed lately. Get it from [Client].SubscriberChecks.
type SubscriberCheckService struct{ api *api }

// SubscriberCheckParams are the arguments of [SubscriberCheckService.Create]. Only PhoneNumber is needed.
type SubscriberCheckParams struct {
	PhoneNumber string     // as [NormalizePhoneNumber] takes it
	CallbackURL string     // gets the result, in place of the project's callback URL
	RedirectURL string     // where the device goes on with a code, in place of the project's; needs version v0.2
	ReferenceID string     // your own name for the check, answered back
	PhoneIP     netip.Addr // the device's address, when you know it

	// Period is how far back a SIM change counts: whole minutes, from an hour to 375 days; 0 means seven days.
	Period time.Duration
}

// SubscriberCheck is a check that a phone number matches a device and that its SIM was not changed (specification, section 2).
type SubscriberCheck struct {
	CheckID     string
	Status      CheckStatus
	PhoneNumber string // as it was sent: digits alone
	CheckURL    string // to be opened by the device; empty when it cannot be opened any more

	Match             *bool         // whether number and device belong together; nil until it is known, which is not false
	NoSIMChange       *bool         // true when no change is detected; nil until it is known and when it does not apply: without a match, and in ERROR
	NoSIMChangePeriod time.Duration // the period that NoSIMChange is about
	SIMChangeWithin   time.Duration // the shortest of the service's periods in which the SIM was changed; 0 when not told

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

// Create starts a SubscriberCheck for p.PhoneNumber. The check is ACCEPTED; its CheckURL must then be opened by the device itself, over its mobile data connection, within TTL.
//
// The service charges for every accepted call, so a failed Create is sent again only when it cannot have been accepted (see [RetryPolicy]).
// Errors: [ErrPhoneFormat], [ErrInsufficientBalance], [ErrRateLimited], [*TokenError].
//
// Contract: POST /subscriber_check/{version}/checks.
func (s *SubscriberCheckService) Create(ctx context.Context, p SubscriberCheckParams) (*SubscriberCheck, error) {
	return createCheck[subscriberCheckJSON](ctx, s.api, wire.CreateSubscriberCheck, createCheckJSON{
		PhoneNumber: p.PhoneNumber,
		CallbackURL: p.CallbackURL,
		RedirectURL: p.RedirectURL,
		ReferenceID: p.ReferenceID,
		PhoneIP:     p.PhoneIP,
		Period:      minutes(p.Period),
	})
}

// Get reads a SubscriberCheck that has not ended or is COMPLETED. [ErrNotFound] is also the answer for one that ended as EXPIRED or ERROR.
//
// Contract: GET /subscriber_check/{version}/checks/{check_id}.
func (s *SubscriberCheckService) Get(ctx context.Context, checkID string) (*SubscriberCheck, error) {
	return send[subscriberCheckJSON](ctx, s.api, wire.GetSubscriberCheck, nil, checkID)
}

// Complete exchanges the code that the device brought back, see [ParseRedirect], and returns the finished check. It needs version v0.2, see [WithVersions].
//
// A code works once, so a failed Complete is sent again only when it cannot have been accepted. A wrong or used code is [ErrNotFound].
// Look at Status before Match: a check that ends as ERROR has Match false.
//
// Contract: PATCH /subscriber_check/{version}/checks/{check_id}.
func (s *SubscriberCheckService) Complete(ctx context.Context, checkID, code string) (*SubscriberCheck, error) {
	body, err := codePatch(s.api, wire.CompleteSubscriberCheck, code)
	if err != nil {
		return nil, err
	}
	return send[subscriberCheckJSON](ctx, s.api, wire.CompleteSubscriberCheck, body, checkID)
}

// List returns one page of the project's SubscriberChecks, the newest first unless o says otherwise.
//
// Contract: GET /subscriber_check/{version}/checks.
func (s *SubscriberCheckService) List(ctx context.Context, o ListOptions) (*Page[SubscriberCheck], error) {
	return list[subscriberCheckJSON](ctx, s.api, listOf(wire.ListSubscriberChecks, o), "checks")
}

// All yields the SubscriberChecks of all pages from o.Page on, reading each page when it is needed; an error is the last thing it yields.
// A check created meanwhile moves the others to later places: sort by "created_at,asc" to see each once.
func (s *SubscriberCheckService) All(ctx context.Context, o ListOptions) iter.Seq2[*SubscriberCheck, error] {
	return all(ctx, o, s.List)
}

// Wait reads the check until it is COMPLETED, for its TTL at most: every half second at first, every five seconds in the end. A callback brings the result sooner and with less traffic.
//
// A check that ends as EXPIRED or ERROR cannot be read: then the error is a [*CheckEndedError].
func (s *SubscriberCheckService) Wait(ctx context.Context, checkID string) (*SubscriberCheck, error) {
	return wait(ctx, s.api, wire.GetSubscriberCheck, "wait for SubscriberCheck", checkID, s.Get, func(c *SubscriberCheck) progress {
		return progress{status: c.Status, errorCode: c.ErrorCode, ttl: c.TTL}
	})
}

// Traces returns what the service recorded of the check's steps, kept for seven days. An older one is [ErrNotFound].
//
// Contract: GET /subscriber_check/{version}/checks/{check_id}/traces.
func (s *SubscriberCheckService) Traces(ctx context.Context, checkID string) ([]Trace, error) {
	return traces(ctx, s.api, wire.ListSubscriberCheckTraces, checkID)
}

// Trace returns one trace of the check.
//
// Contract: GET /subscriber_check/{version}/checks/{check_id}/traces/{trace_id}.
func (s *SubscriberCheckService) Trace(ctx context.Context, checkID, traceID string) (*Trace, error) {
	return send[traceJSON](ctx, s.api, wire.GetSubscriberCheckTrace, nil, checkID, traceID)
}

// subscriberCheckJSON is a SubscriberCheck on the wire.
type subscriberCheckJSON checkJSON

func (j subscriberCheckJSON) id() string     { return j.CheckID }
func (j subscriberCheckJSON) number() string { return j.PhoneNumber }

func (j subscriberCheckJSON) value() (*SubscriberCheck, error) {
	if err := checkJSON(j).valid(); err != nil {
		return nil, err
	}
	return &SubscriberCheck{
		CheckID:           j.CheckID,
		Status:            j.Status,
		PhoneNumber:       j.PhoneNumber,
		CheckURL:          j.Links.CheckURL.Href,
		Match:             j.Match,
		NoSIMChange:       j.NoSIMChange,
		NoSIMChangePeriod: j.NoSIMChangePeriod.duration(time.Minute),
		SIMChangeWithin:   j.SIMChangeWithin.duration(time.Minute),
		ChargeAmount:      j.ChargeAmount,
		ChargeCurrency:    j.ChargeCurrency,
		SnapshotBalance:   j.SnapshotBalance,
		CreatedAt:         j.CreatedAt.Time,
		UpdatedAt:         j.UpdatedAt.Time,
		TTL:               j.TTL.duration(time.Second),
		NetworkID:         j.NetworkID,
		ErrorCode:         j.ErrorCode,
		ReferenceID:       j.ReferenceID,
		CallbackURL:       j.CallbackURL,
	}, nil
}
