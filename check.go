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
	"unicode/utf8"

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

// createCheck validates body, which contains the caller's arguments, and performs op.
func createCheck[J resourceJSON[T], T any](ctx context.Context, a *api, op wire.Operation, body createCheckJSON) (*T, error) {
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
	return send[J](ctx, a, op, &body)
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

// codePatch returns the request body of op, which exchanges a code.
func codePatch(a *api, op wire.Operation, code string) ([]patchOperation, error) {
	switch {
	case !hasCodeExchange(a, op):
		return nil, invalidArgument(op, "Complete "+needsCodeExchange)
	case code == "":
		return nil, invalidArgument(op, "code is empty")
	}
	return []patchOperation{{Op: "add", Path: "/code", Value: code}}, nil
}

// completeCheck exchanges code with op and returns the check. If the outcome is unknown, it reads
// the check with get, and sends the code once more if the check is still PENDING. It performs at
// most four operations. After ctx has ended, send and get fail without a request.
func completeCheck[J resourceJSON[T], T any](ctx context.Context, a *api, op wire.Operation, checkID, code string, get func(context.Context, string) (*T, error), status func(*T) CheckStatus) (*T, error) {
	body, err := codePatch(a, op, code)
	if err != nil {
		return nil, err
	}
	check, err := send[J](ctx, a, op, body, checkID)
	unknown := unknownOutcomeOf(err)
	if unknown == nil || !a.waitRetryAfter(ctx, err) {
		return check, err
	}

	var later []error
	check, readErr := get(ctx, checkID)
	if readErr == nil && status(check) == StatusPending {
		completed, sendErr := send[J](ctx, a, op, body, checkID)
		if sendErr == nil {
			return completed, nil
		}
		later = append(later, sendErr)
		// Either of the two requests may have used the code.
		if (unknownOutcomeOf(sendErr) != nil || isCheckNotFound(sendErr)) && a.waitRetryAfter(ctx, sendErr) {
			check, readErr = get(ctx, checkID)
		}
	}
	switch {
	case readErr != nil:
		later = append(later, readErr)
	case status(check) == StatusCompleted:
		*unknown = unknownOutcome{
			effect: "the check is COMPLETED, but the service did not confirm this code",
			action: "accept the result only for the session that owns check and redirect",
			final:  true,
		}
		return check, err
	default:
		unknown.effect += ", and the check is " + sanitize(string(status(check)), a.secrets()...)
	}
	unknown.action = "use the callback, or get the check later"
	return nil, &unconfirmedError{first: err, later: later}
}

// waitRetryAfter waits for the Retry-After of err. It reports whether another request can be sent:
// ctx has not ended, and the wait does not exceed RetryPolicy.MaxWait or the deadline of ctx.
func (a *api) waitRetryAfter(ctx context.Context, err error) bool {
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		deadline, limited := ctx.Deadline()
		if e.RetryAfter > a.retry.MaxWait || limited && time.Until(deadline) <= e.RetryAfter {
			return false
		}
		sleep(ctx, e.RetryAfter)
	}
	return ctx.Err() == nil
}

// unknownOutcomeOf returns the possible effect of the operation that failed with err, or nil if the
// outcome is known.
func unknownOutcomeOf(err error) *unknownOutcome {
	switch e := err.(type) {
	case *Error:
		return e.unknown
	case *DecodeError:
		return e.unknown
	case *sendError:
		return e.unknown
	}
	return nil
}

// isCheckNotFound reports whether the service did not find the check. Any other 404 comes from a
// wrong version or a proxy and says nothing about the check.
func isCheckNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Fragment() == wire.CheckNotFound
}

// unconfirmedError is an error whose outcome is unknown, with the errors of the operations that
// followed to determine the outcome.
type unconfirmedError struct {
	first error
	later []error
}

// Error implements error.
func (e *unconfirmedError) Error() string {
	texts := []string{e.first.Error()}
	for _, err := range e.later {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; then ")
}

// Unwrap returns all errors.
func (e *unconfirmedError) Unwrap() []error { return append([]error{e.first}, e.later...) }

// maxListedByReference is the maximum number of checks that the pages of a search by reference ID
// may contain.
const maxListedByReference = 10_000

// findByReferenceID reads the pages of op, the list of checks with the given reference ID. Function
// ids returns the check ID and the reference ID of a check.
func findByReferenceID[T any](ctx context.Context, op wire.Operation, referenceID string, list func(context.Context, ListOptions) (*Page[T], error), ids func(*T) (checkID, referenceID string)) ([]*T, error) {
	switch {
	case referenceID == "":
		return nil, invalidArgument(op, "referenceID is empty")
	case !utf8.ValidString(referenceID):
		return nil, invalidArgument(op, "referenceID is not valid UTF-8") // JSON cannot contain it
	}
	var found []*T
	listed, seen := 0, make(map[string]bool)
	// In ascending order, checks that are created in the meantime do not move others to later pages.
	for check, err := range all(ctx, ListOptions{Size: 100, Sort: "created_at,asc", Search: "reference_id==" + quoteRSQL(referenceID)}, list) {
		if err != nil {
			return nil, err
		}
		if listed++; listed > maxListedByReference {
			return nil, &DecodeError{Operation: op.Name, Status: op.Success, Reason: fmt.Sprintf("more than %d checks", maxListedByReference)}
		}
		// The service may compare in another way, for example without case or with wildcards.
		checkID, reference := ids(check)
		if reference == referenceID && !seen[checkID] {
			seen[checkID] = true
			found = append(found, check)
		}
	}
	return found, nil
}

// quoteRSQL returns s as a quoted value of an RSQL expression.
func quoteRSQL(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// productNames lists the name and ID of each product in coverage and usage responses.
var productNames = []struct {
	product  Product
	name, id string
}{
	{ProductPhoneCheck, "PhoneCheck", "pck"},
	{ProductSIMCheck, "SIMCheck", "sck"},
	{ProductSubscriberCheck, "SubscriberCheck", "suk"},
}

// productOf returns the product with the name or ID s. An unknown product keeps its name.
func productOf(s string) Product {
	plain := strings.NewReplacer(" ", "", "_", "").Replace(s)
	for _, p := range productNames {
		if strings.EqualFold(plain, p.name) || strings.EqualFold(plain, p.id) {
			return p.product
		}
	}
	return Product(s)
}
