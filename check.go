package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/wire"
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

// confirm returns an error if response describes a check of a different phone number.
func (c *createCheckJSON) confirm(response any) error {
	if s, ok := response.(interface{ number() string }); ok && s.number() != "" {
		if number, err := normalize(s.number()); err != nil || number != c.PhoneNumber {
			return errors.New("describes a different phone number (check for a cache or proxy that mixes up responses)")
		}
	}
	return nil
}

// createCheck validates body, which contains the caller's arguments, and performs op. Parameter
// charge returns the ID of the check and its charge.
func createCheck[J resourceJSON[T], T any](ctx context.Context, a *api, op wire.Operation, body createCheckJSON, charge func(*T) (id string, amount json.Number)) (*T, error) {
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
	var resp response
	var check *T
	err = a.do(ctx, request{op: op, body: &body}, func(r response) (err error) {
		resp = r
		check, err = decode[J](r)
		return err
	})
	if err != nil || !a.liveOnly {
		return check, err
	}
	if id, amount := charge(check); isZero(amount) {
		return nil, a.rejectSandbox(ctx, resp, id)
	}
	return check, nil
}

// rejectSandbox logs and returns the error for the check with the given ID in resp, which was not
// charged.
func (a *api) rejectSandbox(ctx context.Context, resp response, id string) error {
	secrets := resp.call.secrets()
	id, request := sanitizeID(id, secrets...), requestID(resp.header, secrets...)
	a.logger.LogAttrs(ctx, slog.LevelError, "idverify: sandbox check rejected", slog.String("operation", resp.call.op.Name),
		slog.String("check_id", id), slog.String("request_id", request))
	return &sandboxError{errorMessage{
		operation: resp.call.op.Title,
		detail:    strings.TrimSpace(ErrSandbox.Error()+" "+id) + " was not charged",
		hint:      "use the credentials of a live project",
		requestID: request,
		attempts:  resp.call.attempt,
	}}
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

// The intervals between the reads of Wait, and its duration if a check has no TTL.
const (
	minPollInterval = 500 * time.Millisecond
	maxPollInterval = 5 * time.Second
	defaultTTL      = 2 * time.Minute
)

// progress contains the fields of a check that wait needs.
type progress struct {
	status    CheckStatus
	errorCode string
	ttl       time.Duration
}

// wait reads the check with get until it is COMPLETED.
func wait[T any](ctx context.Context, a *api, op wire.Operation, title, checkID string, get func(context.Context, string) (*T, error), toProgress func(*T) progress) (*T, error) {
	ended := &NoResultError{CheckID: checkID, Operation: op.Name, title: title}
	interval := minPollInterval
	var end time.Time
	for {
		check, err := get(ctx, checkID)
		if isCheckNotFound(err) {
			ended.err = err
			return nil, ended
		}
		if err != nil {
			return nil, err
		}
		p := toProgress(check)
		ended.Status, ended.ErrorCode = p.status, p.errorCode
		ended.statusText, ended.errorText = redact.Text(string(p.status), a.secrets()...), redact.Text(p.errorCode, a.secrets()...)
		if p.status == StatusCompleted {
			return check, nil
		}
		if end.IsZero() {
			if p.ttl <= 0 {
				p.ttl = defaultTTL
			}
			// Count the TTL from the first read, because the service's clock may differ. Wait then
			// never ends too early, and one more read finds that the check has ended.
			end = time.Now().Add(min(p.ttl, math.MaxInt64-maxPollInterval) + maxPollInterval)
		}
		if p.status.Final() || !time.Now().Before(end) {
			return nil, ended
		}

		sleep(ctx, interval)
		if err := ctx.Err(); err != nil {
			return nil, &sendError{operation: title, err: err, text: err.Error() + ": check is still " + ended.statusText}
		}
		interval = min(interval*3/2, maxPollInterval)
	}
}

// Trace is a record of one step of a check. It is for support only: do not base decisions on it.
type Trace struct {
	TraceID string
	Logs    []TraceLog
}

// TraceLog is an entry of a trace.
type TraceLog struct {
	Timestamp  time.Time
	Message    string
	Attributes map[string]any // decoded from JSON; nil if there are none
}

// traces returns the traces of a check from all pages.
func traces(ctx context.Context, a *api, op wire.Operation, checkID string) ([]Trace, error) {
	const maxTraces = 10_000 // far more than the steps of a check
	pages := func(ctx context.Context, o ListOptions) (*Page[Trace], error) {
		return list[traceJSON](ctx, a, listOf(op, o, checkID), "traces")
	}
	return collect(op, maxTraces, all(ctx, ListOptions{Size: 100}, pages))
}

type traceJSON struct {
	TraceID string `json:"trace_id"`
	Logs    []struct {
		Timestamp  timestamp      `json:"timestamp"`
		Message    string         `json:"message"`
		Attributes map[string]any `json:"attributes"`
	} `json:"logs"`
}

func (j traceJSON) value() (*Trace, error) {
	if j.TraceID == "" {
		return nil, errors.New("missing trace_id")
	}
	t := &Trace{TraceID: j.TraceID, Logs: make([]TraceLog, len(j.Logs))}
	for i, l := range j.Logs {
		t.Logs[i] = TraceLog{Timestamp: l.Timestamp.Time, Message: l.Message, Attributes: l.Attributes}
	}
	return t, nil
}

// The length of a phone number in digits, including the country code. The maximum is that of ITU-T
// E.164.
const (
	minPhoneDigits = 7
	maxPhoneDigits = 15
)

// NormalizePhoneNumber returns the digits of a phone number in international format, as the service
// expects it: "447700900012" for "+44 (7700) 900-012". The Create methods call it.
//
// It removes a leading plus sign, spaces, parentheses, dots and hyphens. It rejects ambiguous
// input: a leading zero ("0044…", "07700…"), an optional zero ("+44 (0)7700…"), letters, extensions
// and lists of numbers. The error matches [ErrPhoneFormat] and does not contain the number.
func NormalizePhoneNumber(s string) (string, error) {
	number, err := normalize(s)
	if err != nil {
		return "", fmt.Errorf("idverify: normalize phone number: %w", err)
	}
	return number, nil
}

// normalize is NormalizePhoneNumber without the name of the operation in the error.
func normalize(s string) (string, error) {
	malformed := func(why string) (string, error) {
		return "", fmt.Errorf("%w: %s", ErrPhoneFormat, why)
	}
	var digits [maxPhoneDigits]byte
	n := 0
	plus := false
	rest := strings.TrimSpace(s)
	for i, r := range rest {
		switch {
		case r >= '0' && r <= '9':
			if n == maxPhoneDigits {
				return malformed("more than 15 digits")
			}
			digits[n] = byte(r)
			n++
		case r == '+' && n == 0 && !plus:
			plus = true
		case r == '(' && trunkPrefix.MatchString(rest[i:]):
			return malformed("omit the (0), which is not dialed from abroad")
		case strings.ContainsRune(phoneSeparators, r):
		default:
			return malformed("contains a character that is neither a digit nor a separator")
		}
	}
	switch {
	case n == 0:
		return malformed("no digits")
	case digits[0] == '0':
		return malformed("begins with a zero: start with the country code, as in 44 7700 900012")
	case n < minPhoneDigits:
		return malformed("fewer than 7 digits")
	}
	return string(digits[:n]), nil
}

// trunkPrefix matches a zero in parentheses, with any spacing.
var trunkPrefix = regexp.MustCompile(`^\([^0-9)]*0[^0-9)]*\)`)

// phoneSeparators are the characters that may separate digits, including no-break spaces and
// hyphens that are not ASCII.
const phoneSeparators = " \u00a0\u2009\u202f\t().-\u2010\u2011\u2013"
