package idverify

import (
	"context"
	"encoding/json"
	"iter"
	"net/netip"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// SubscriberCheckService verifies that a phone number belongs to the device that opens the Check
// URL, and detects a recent SIM change. It is available as [Client].SubscriberChecks.
type SubscriberCheckService struct{ api *api }

// SubscriberCheckParams are the parameters of [SubscriberCheckService.Create]. Only PhoneNumber is
// required.
type SubscriberCheckParams struct {
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

	// Period is how far back the check looks for a SIM change, in whole minutes from one hour to 375
	// days. 0 means seven days.
	Period time.Duration
}

// SubscriberCheck is a check that verifies that a phone number belongs to a device, and detects
// recent SIM changes.
type SubscriberCheck struct {
	CheckID     string
	Status      CheckStatus
	PhoneNumber string // digits only, as sent to the service
	CheckURL    string // the URL that the device must open; empty once it can no longer be opened

	// Match reports whether the number belongs to the device. It is unknown unless Status is
	// COMPLETED.
	Match Verdict

	// NoSIMChange is VerdictYes if the SIM was not changed within Period before the check, and
	// VerdictNo if it was. It is unknown unless Match is VerdictYes.
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
	TTL             time.Duration // time from CreatedAt until the check expires
	NetworkID       string        // the mobile network; only if COMPLETED
	ErrorCode       string        // only if ERROR, for example ErrorCodeMNOTimeout
	ReferenceID     string
	CallbackURL     string // empty if the check uses the callback URL of the project
}

// Create starts a SubscriberCheck for p.PhoneNumber as [PhoneCheckService.Create] starts a
// PhoneCheck, with the same errors.
func (s *SubscriberCheckService) Create(ctx context.Context, p SubscriberCheckParams) (*SubscriberCheck, error) {
	return createCheck[subscriberCheckJSON](ctx, s.api, wire.CreateSubscriberCheck, createCheckJSON{
		PhoneNumber: p.PhoneNumber,
		CallbackURL: p.CallbackURL,
		RedirectURL: p.RedirectURL,
		ReferenceID: p.ReferenceID,
		PhoneIP:     p.PhoneIP,
		Period:      minutes(p.Period),
	}, func(c *SubscriberCheck) (string, json.Number) { return c.CheckID, c.ChargeAmount })
}

// Get returns a SubscriberCheck that is in progress or COMPLETED. A check that ended as EXPIRED or
// ERROR is not stored: the error is [ErrNotFound].
func (s *SubscriberCheckService) Get(ctx context.Context, checkID string) (*SubscriberCheck, error) {
	return send[subscriberCheckJSON](ctx, s.api, wire.GetSubscriberCheck, nil, checkID)
}

// Complete exchanges the code of a redirect and returns the check, which has ended. It requires
// version v0.2 of SubscriberCheck. For its errors, and what to do after [ErrOutcomeUnknown], see
// [PhoneCheckService.Complete].
func (s *SubscriberCheckService) Complete(ctx context.Context, checkID, code string) (*SubscriberCheck, error) {
	return completeCheck[subscriberCheckJSON](ctx, s.api, wire.CompleteSubscriberCheck, checkID, code)
}

// List returns one page of the project's SubscriberChecks, newest first unless o specifies another
// order.
func (s *SubscriberCheckService) List(ctx context.Context, o ListOptions) (*Page[SubscriberCheck], error) {
	return list[subscriberCheckJSON](ctx, s.api, listOf(wire.ListSubscriberChecks, o), "checks")
}

// All returns an iterator over the SubscriberChecks of all pages, starting with o.Page: see
// [PhoneCheckService.All].
func (s *SubscriberCheckService) All(ctx context.Context, o ListOptions) iter.Seq2[*SubscriberCheck, error] {
	return all(ctx, o, s.List)
}

// FindByReferenceID returns the SubscriberChecks whose ReferenceID is exactly referenceID, oldest
// first. Use it to find the check of a [SubscriberCheckService.Create] that failed with
// [ErrOutcomeUnknown]. An empty result never proves that no check was created or charged: see
// [PhoneCheckService.FindByReferenceID].
func (s *SubscriberCheckService) FindByReferenceID(ctx context.Context, referenceID string) ([]*SubscriberCheck, error) {
	return findByReferenceID[subscriberCheckJSON](ctx, s.api, wire.ListSubscriberChecks, referenceID, func(c *SubscriberCheck) (string, string, json.Number) {
		return c.CheckID, c.ReferenceID, c.ChargeAmount
	})
}

// Wait reads the check until it is COMPLETED, or returns a [*NoResultError]: see
// [PhoneCheckService.Wait].
func (s *SubscriberCheckService) Wait(ctx context.Context, checkID string) (*SubscriberCheck, error) {
	return wait(ctx, s.api, wire.GetSubscriberCheck, "wait for SubscriberCheck", checkID, s.Get, func(c *SubscriberCheck) progress {
		return progress{status: c.Status, errorCode: c.ErrorCode, ttl: c.TTL}
	})
}

// Traces returns the recorded steps of the check. The service keeps them for seven days; after that
// the error is [ErrNotFound].
func (s *SubscriberCheckService) Traces(ctx context.Context, checkID string) ([]Trace, error) {
	return traces(ctx, s.api, wire.ListSubscriberCheckTraces, checkID)
}

// subscriberCheckJSON is the JSON of a SubscriberCheck.
type subscriberCheckJSON checkJSON

func (j subscriberCheckJSON) id() string     { return j.CheckID }
func (j subscriberCheckJSON) number() string { return j.PhoneNumber }

func (j subscriberCheckJSON) value() (*SubscriberCheck, error) {
	if err := checkJSON(j).valid(); err != nil {
		return nil, err
	}
	match, noSIMChange := checkJSON(j).verdicts(ProductSubscriberCheck)
	return &SubscriberCheck{
		CheckID:         j.CheckID,
		Status:          j.Status,
		PhoneNumber:     j.PhoneNumber,
		CheckURL:        j.Links.CheckURL.Href,
		Match:           match,
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
		CallbackURL:     j.CallbackURL,
	}, nil
}
