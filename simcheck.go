package idverify

import (
	"context"
	"encoding/json"
	"iter"
	"net/netip"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// SIMCheckService checks whether the SIM of a phone number was changed lately. No device takes part. Get it from [Client].SIMChecks.
type SIMCheckService struct{ api *api }

// SIMCheckParams are the arguments of [SIMCheckService.Create]. Only PhoneNumber is needed.
type SIMCheckParams struct {
	PhoneNumber string     // as [NormalizePhoneNumber] takes it
	ReferenceID string     // your own name for the check, answered back
	PhoneIP     netip.Addr // the device's address, when you know it

	// Period is how far back a SIM change counts: whole minutes, from an hour to 375 days; 0 means seven days.
	Period time.Duration
}

// SIMCheck is a check whether a SIM was changed (specification, section 2).
type SIMCheck struct {
	CheckID     string
	Status      CheckStatus
	PhoneNumber string // as it was sent: digits alone

	NoSIMChange       *bool         // true when no change is detected; nil when it is not known, as in ERROR, which is not false
	NoSIMChangePeriod time.Duration // the period that NoSIMChange is about
	SIMChangeWithin   time.Duration // the shortest of the service's periods in which the SIM was changed; 0 when not told

	ChargeAmount    json.Number // decimal
	ChargeCurrency  string      // for example "API"
	SnapshotBalance json.Number // the balance after the charge; only on creation
	CreatedAt       time.Time
	UpdatedAt       time.Time
	TTL             time.Duration
	NetworkID       string // when COMPLETED
	ErrorCode       string // when ERROR, for example "mno_server_error"
	ReferenceID     string
}

// Create carries out a SIMCheck for p.PhoneNumber: the check that it returns has ended. Look at Status first; one in ERROR has no NoSIMChange, is charged all the same and cannot be read again.
//
// The service charges for every accepted call, so a failed Create is sent again only when it cannot have been accepted (see [RetryPolicy]).
// Errors: [ErrPhoneFormat], [ErrInsufficientBalance], [ErrRateLimited], [*TokenError].
//
// Contract: POST /sim_check/{version}/checks.
func (s *SIMCheckService) Create(ctx context.Context, p SIMCheckParams) (*SIMCheck, error) {
	return createCheck[simCheckJSON](ctx, s.api, wire.CreateSIMCheck, createCheckJSON{
		PhoneNumber: p.PhoneNumber,
		ReferenceID: p.ReferenceID,
		PhoneIP:     p.PhoneIP,
		Period:      minutes(p.Period),
	})
}

// Get reads a SIMCheck that is COMPLETED. [ErrNotFound] is also the answer for one that ended as ERROR.
//
// Contract: GET /sim_check/{version}/checks/{check_id}.
func (s *SIMCheckService) Get(ctx context.Context, checkID string) (*SIMCheck, error) {
	return send[simCheckJSON](ctx, s.api, wire.GetSIMCheck, nil, checkID)
}

// List returns one page of the project's SIMChecks, the newest first unless o says otherwise.
//
// Contract: GET /sim_check/{version}/checks.
func (s *SIMCheckService) List(ctx context.Context, o ListOptions) (*Page[SIMCheck], error) {
	return list[simCheckJSON](ctx, s.api, listOf(wire.ListSIMChecks, o), "checks")
}

// All yields the SIMChecks of all pages from o.Page on, reading each page when it is needed; an error is the last thing it yields.
// A check created meanwhile moves the others to later places: sort by "created_at,asc" to see each once.
func (s *SIMCheckService) All(ctx context.Context, o ListOptions) iter.Seq2[*SIMCheck, error] {
	return all(ctx, o, s.List)
}

// Traces returns what the service recorded of the check's steps, kept for seven days. An older one is [ErrNotFound].
//
// Contract: GET /sim_check/{version}/checks/{check_id}/traces.
func (s *SIMCheckService) Traces(ctx context.Context, checkID string) ([]Trace, error) {
	return traces(ctx, s.api, wire.ListSIMCheckTraces, checkID)
}

// Trace returns one trace of the check.
//
// Contract: GET /sim_check/{version}/checks/{check_id}/traces/{trace_id}.
func (s *SIMCheckService) Trace(ctx context.Context, checkID, traceID string) (*Trace, error) {
	return send[traceJSON](ctx, s.api, wire.GetSIMCheckTrace, nil, checkID, traceID)
}

// simCheckJSON is a SIMCheck on the wire.
type simCheckJSON checkJSON

func (j simCheckJSON) id() string     { return j.CheckID }
func (j simCheckJSON) number() string { return j.PhoneNumber }

func (j simCheckJSON) value() (*SIMCheck, error) {
	if err := checkJSON(j).valid(); err != nil {
		return nil, err
	}
	return &SIMCheck{
		CheckID:           j.CheckID,
		Status:            j.Status,
		PhoneNumber:       j.PhoneNumber,
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
	}, nil
}
