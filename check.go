package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// CheckStatus is the status of a check. Unknown values are kept as the service sent them.
type CheckStatus string

// The statuses of a check. COMPLETED, EXPIRED and ERROR are final. The service does not store a
// check that ends as EXPIRED or ERROR. Its callback reports how it ended; with version v0.2, the
// redirect also reports ERROR. Reading it fails with [ErrNotFound]. A SIMCheck has no callback:
// Create returns its result.
//
// Protocol: docs/protocol.md, section 4.
const (
	StatusAccepted  CheckStatus = wire.StatusAccepted  // created; the Check URL has not been opened
	StatusPending   CheckStatus = wire.StatusPending   // the Check URL was opened; the code has not been exchanged (version v0.2)
	StatusCompleted CheckStatus = wire.StatusCompleted // ended with a result, see Verdict
	StatusExpired   CheckStatus = wire.StatusExpired   // ended without a result after its TTL
	StatusError     CheckStatus = wire.StatusError     // ended without a result; ErrorCode contains the reason
)

// Final reports whether the check has ended.
func (s CheckStatus) Final() bool {
	return s == StatusCompleted || s == StatusExpired || s == StatusError
}

// Product is a product of the service. Unknown values are kept as the service sent them.
type Product string

// The check products, named as in paths and callbacks.
const (
	ProductPhoneCheck      Product = wire.PhoneCheck
	ProductSIMCheck        Product = wire.SIMCheck
	ProductSubscriberCheck Product = wire.SubscriberCheck
)

// createCheckJSON is the request body for creating a check of any product. Zero fields are not
// sent, except PhoneNumber.
type createCheckJSON struct {
	PhoneNumber string     `json:"phone_number"`
	CallbackURL string     `json:"callback_url,omitempty"`
	RedirectURL string     `json:"redirect_url,omitempty"`
	ReferenceID string     `json:"reference_id,omitempty"`
	PhoneIP     netip.Addr `json:"phone_ip,omitzero"`
	Period      minutes    `json:"period,omitempty"`
}

// createCheck validates body, which contains the caller's arguments, and performs op. Parameter
// charge returns the charge of the check.
func createCheck[J resourceJSON[T], T any](ctx context.Context, a *api, op wire.Operation, body createCheckJSON, charge func(*T) json.Number) (*T, error) {
	number, err := normalize(body.PhoneNumber)
	if err != nil {
		return nil, fmt.Errorf("idverify: %s: not sent: %w", op.Title, err)
	}
	body.PhoneNumber = number

	period := time.Duration(body.Period)
	switch {
	case body.RedirectURL != "" && !hasCodeExchange(a, op):
		return nil, invalidArgument(op, "RedirectURL "+needsCodeExchange)
	case body.PhoneIP.Zone() != "":
		return nil, invalidArgument(op, "PhoneIP must not have a zone")
	case period != 0 && (period < minPeriod || period > maxPeriod || period%time.Minute != 0):
		return nil, invalidArgument(op, "Period must be in whole minutes, from one hour to 375 days")
	}
	body.PhoneIP = body.PhoneIP.Unmap()
	check, err := send[J](ctx, a, op, &body)
	if err == nil && a.liveOnly && isZero(charge(check)) {
		return nil, fmt.Errorf("idverify: %s: %w: the check was not charged (use the credentials of a live project)", op.Title, ErrSandbox)
	}
	return check, err
}

// isZero reports whether n is zero or missing. Its exponent may exceed the range of a float64.
func isZero(n json.Number) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	return strings.Trim(mantissa, "-.0") == ""
}

// minutes is a duration that is sent as a number of minutes.
type minutes time.Duration

// MarshalJSON implements json.Marshaler.
func (m minutes) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, int64(time.Duration(m)/time.Minute), 10), nil
}

// checkJSON is the JSON of a check of any product.
type checkJSON struct {
	CheckID           string      `json:"check_id"`
	Status            CheckStatus `json:"status"`
	PhoneNumber       string      `json:"phone_number"`
	Match             *bool       `json:"match"`
	NoSIMChange       *bool       `json:"no_sim_change"`
	NoSIMChangePeriod number      `json:"no_sim_change_period"` // minutes
	SIMChangeWithin   number      `json:"sim_change_within"`    // minutes
	ChargeAmount      json.Number `json:"charge_amount"`
	ChargeCurrency    string      `json:"charge_currency"`
	SnapshotBalance   json.Number `json:"snapshot_balance"`
	CreatedAt         timestamp   `json:"created_at"`
	UpdatedAt         timestamp   `json:"updated_at"`
	TTL               number      `json:"ttl"` // seconds
	NetworkID         string      `json:"network_id"`
	ErrorCode         string      `json:"error_code"`
	ReferenceID       string      `json:"reference_id"`
	CallbackURL       string      `json:"callback_url"`
	Links             struct {
		CheckURL struct {
			Href string `json:"href"`
		} `json:"check_url"`
	} `json:"_links"`
}

// valid returns an error if the ID or the status is missing. Without them, a caller can neither
// find the check again nor trust its result.
func (j checkJSON) valid() error {
	switch {
	case j.CheckID == "":
		return errors.New("missing check_id")
	case j.Status == "":
		return errors.New("missing status")
	}
	return nil
}

// verdicts returns the results of a check of product p. Match may be false in a check that ended as
// ERROR, and a SubscriberCheck without a match says nothing about the SIM of the person who asked.
func (j checkJSON) verdicts(p Product) (match, noSIMChange Verdict) {
	if j.Status != StatusCompleted {
		return VerdictUnknown, VerdictUnknown
	}
	if p == ProductPhoneCheck || p == ProductSubscriberCheck {
		match = verdictOf(j.Match)
	}
	if p == ProductSIMCheck || p == ProductSubscriberCheck && match == VerdictYes {
		noSIMChange = verdictOf(j.NoSIMChange)
	}
	return match, noSIMChange
}

// Minimum and maximum Period of a check.
const (
	minPeriod = 60 * time.Minute
	maxPeriod = 540000 * time.Minute
)

// needsCodeExchange ends the error for an operation that version v0.1 does not support, because its
// checks end without a code.
const needsCodeExchange = "requires version " + wire.V02 + " of the product: use WithVersions"

func hasCodeExchange(a *api, op wire.Operation) bool { return a.versions.of(op) != wire.V01 }

// patchOperation is one operation of a JSON Patch (RFC 6902).
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// completeCheck performs op, which exchanges code, and returns the check.
func completeCheck[J resourceJSON[T], T any](ctx context.Context, a *api, op wire.Operation, checkID, code string) (*T, error) {
	switch {
	case !hasCodeExchange(a, op):
		return nil, invalidArgument(op, "Complete "+needsCodeExchange)
	case code == "":
		return nil, invalidArgument(op, "code is empty")
	}
	body := []patchOperation{{Op: "add", Path: "/code", Value: code}}
	return sendRequest[J](ctx, a, request{op: op, ids: []string{checkID}, body: body, code: code})
}

// productNames lists the name and ID of each product in reachability and usage responses.
var productNames = []struct {
	product  Product
	name, id string
}{
	{ProductPhoneCheck, "PhoneCheck", "pck"},
	{ProductSIMCheck, "SIMCheck", "sck"},
	{ProductSubscriberCheck, "SubscriberCheck", "suk"},
}

// productOf returns the product with the first known name or ID of names, in any spelling. An
// unknown product is named as the first of names.
func productOf(names ...string) Product {
	for _, name := range names {
		plain := strings.NewReplacer(" ", "", "_", "", "-", "").Replace(name)
		for _, p := range productNames {
			if strings.EqualFold(plain, p.name) || strings.EqualFold(plain, p.id) {
				return p.product
			}
		}
	}
	return Product(names[0])
}
