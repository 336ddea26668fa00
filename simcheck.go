package idverify

import (
	"context"
	"encoding/json"
	"iter"
	"net/netip"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// SIMCheckService detects recent SIM changes of a phone number. It involves no device. It is
// available as [Client].SIMChecks.
type SIMCheckService struct{ api *api }

// SIMCheckParams are the parameters of [SIMCheckService.Create]. Only PhoneNumber is required.
type SIMCheckParams struct {
	// PhoneNumber may contain spaces and punctuation: see [NormalizePhoneNumber].
	PhoneNumber string

	// ReferenceID is your own ID for the check. Responses contain it. If it is unique for each Create,
	// FindByReferenceID finds the check if the outcome of Create is unknown. A SIMCheck has no
	// callback.
	ReferenceID string

	// PhoneIP is the public IP address of the device with the number, if your backend knows it.
	PhoneIP netip.Addr

	// Period is how far back the check looks for a SIM change, in whole minutes from one hour to 375
	// days. 0 means seven days.
	Period time.Duration
}

// SIMCheck is a check that detects recent SIM changes of a phone number.
type SIMCheck struct {
	CheckID     string
	Status      CheckStatus
	PhoneNumber string // digits only, as sent to the service

	// NoSIMChange is VerdictYes if the SIM was not changed within Period before the check, and
	// VerdictNo if it was. It is unknown unless Status is COMPLETED.
	NoSIMChange Verdict

	// Period is how far back the check looked for a SIM change.
	Period time.Duration

	// SIMChangeWithin is the shortest of the service's periods in which the SIM was changed, or
	// 525,601 minutes if it was not changed within a year. It is 0 if the service does not report it.
	SIMChangeWithin time.Duration

	ChargeAmount    json.Number // decimal
	ChargeCurrency  string      // for example "API"
	SnapshotBalance json.Number // balance after the charge; only in the result of Create
	CreatedAt       time.Time
	UpdatedAt       time.Time
	TTL             time.Duration // 0 if the service does not report it
	NetworkID       string        // the mobile network; only if COMPLETED
	ErrorCode       string        // only if ERROR, for example ErrorCodeMNOServerError
	ReferenceID     string
}

// Create performs a SIMCheck for p.PhoneNumber and returns it with its result. Create returns a
// check with status ERROR without an error: look at Status. Such a check has no result, is charged,
// and cannot be read later.
//
// The service charges for each check that it accepts. Create therefore retries only if the service
// cannot have accepted the check: see [RetryPolicy].
//
// Errors include [ErrOutcomeUnknown] (find the check with FindByReferenceID), [ErrPhoneFormat],
// [ErrInsufficientBalance], [ErrRateLimited], [ErrSandbox] with [WithLiveOnly], and [*TokenError].
func (s *SIMCheckService) Create(ctx context.Context, p SIMCheckParams) (*SIMCheck, error) {
	return createCheck[simCheckJSON](ctx, s.api, wire.CreateSIMCheck, createCheckJSON{
		PhoneNumber: p.PhoneNumber,
		ReferenceID: p.ReferenceID,
		PhoneIP:     p.PhoneIP,
		Period:      minutes(p.Period),
	}, func(c *SIMCheck) (string, json.Number) { return c.CheckID, c.ChargeAmount })
}

// Get returns a COMPLETED SIMCheck. A check that ended as ERROR is not stored: the error is
// [ErrNotFound].
func (s *SIMCheckService) Get(ctx context.Context, checkID string) (*SIMCheck, error) {
	return send[simCheckJSON](ctx, s.api, wire.GetSIMCheck, nil, checkID)
}

// List returns one page of the project's SIMChecks, newest first unless o specifies another order.
func (s *SIMCheckService) List(ctx context.Context, o ListOptions) (*Page[SIMCheck], error) {
	return list[simCheckJSON](ctx, s.api, listOf(wire.ListSIMChecks, o), "checks")
}

// All returns an iterator over the SIMChecks of all pages, starting with o.Page: see
// [PhoneCheckService.All].
func (s *SIMCheckService) All(ctx context.Context, o ListOptions) iter.Seq2[*SIMCheck, error] {
	return all(ctx, o, s.List)
}

// FindByReferenceID returns the SIMChecks whose ReferenceID is exactly referenceID, oldest first,
// with their results. Use it to find the check of a [SIMCheckService.Create] that failed with
// [ErrOutcomeUnknown]. An empty result never proves that no check was created or charged: see
// [PhoneCheckService.FindByReferenceID].
func (s *SIMCheckService) FindByReferenceID(ctx context.Context, referenceID string) ([]*SIMCheck, error) {
	return findByReferenceID[simCheckJSON](ctx, s.api, wire.ListSIMChecks, referenceID, func(c *SIMCheck) (string, string, json.Number) {
		return c.CheckID, c.ReferenceID, c.ChargeAmount
	})
}

// Traces returns the recorded steps of the check. The service keeps them for seven days; after that
// the error is [ErrNotFound].
func (s *SIMCheckService) Traces(ctx context.Context, checkID string) ([]Trace, error) {
	return traces(ctx, s.api, wire.ListSIMCheckTraces, checkID)
}

// simCheckJSON is the JSON of a SIMCheck.
type simCheckJSON checkJSON

func (j simCheckJSON) id() string     { return j.CheckID }
func (j simCheckJSON) number() string { return j.PhoneNumber }

func (j simCheckJSON) value() (*SIMCheck, error) {
	if err := checkJSON(j).valid(); err != nil {
		return nil, err
	}
	_, noSIMChange := checkJSON(j).verdicts(ProductSIMCheck)
	return &SIMCheck{
		CheckID:         j.CheckID,
		Status:          j.Status,
		PhoneNumber:     j.PhoneNumber,
		NoSIMChange:     noSIMChange,
		Period:          j.NoSIMChangePeriod.duration(time.Minute),
		SIMChangeWithin: j.SIMChangeWithin.duration(time.Minute),
		ChargeAmount:    j.ChargeAmount,
		ChargeCurrency:  j.ChargeCurrency,
		SnapshotBalance: j.SnapshotBalance,
		CreatedAt:       j.CreatedAt.Time,
		UpdatedAt:       j.UpdatedAt.Time,
		TTL:             j.TTL.duration(time.Second),
		NetworkID:       j.NetworkID,
		ErrorCode:       j.ErrorCode,
		ReferenceID:     j.ReferenceID,
	}, nil
}
