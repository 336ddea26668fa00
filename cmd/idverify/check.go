package main

import (
	"time"

	"github.com/idverify/idverify-go"
)

// check is a check of any product, as the commands print it. Its JSON is documented in
// docs/tools.md.
type check struct {
	Product     idverify.Product     `json:"product"`
	CheckID     string               `json:"check_id"`
	Status      idverify.CheckStatus `json:"status"` // empty if it is unknown
	PhoneNumber string               `json:"phone_number,omitempty"`

	// Matched and SIMUnchanged are nil if they do not apply to the product.
	Matched      *idverify.Verdict `json:"matched,omitempty"`
	SIMUnchanged *idverify.Verdict `json:"sim_unchanged,omitempty"`

	CheckURL       string    `json:"check_url,omitempty"`
	ChargeAmount   string    `json:"charge_amount,omitempty"`
	ChargeCurrency string    `json:"charge_currency,omitempty"`
	CreatedAt      time.Time `json:"created_at,omitzero"`
	UpdatedAt      time.Time `json:"updated_at,omitzero"`
	TTLSeconds     int64     `json:"ttl_seconds,omitempty"`
	NetworkID      string    `json:"network_id,omitempty"`
	ErrorCode      string    `json:"error_code,omitempty"`
	ReferenceID    string    `json:"reference_id,omitempty"`
	CallbackURL    string    `json:"callback_url,omitempty"`
}

func ofPhoneCheck(c *idverify.PhoneCheck) check {
	if c == nil {
		return check{}
	}
	return check{
		Product: idverify.ProductPhoneCheck, CheckID: c.CheckID, Status: c.Status, PhoneNumber: c.PhoneNumber,
		Matched: new(c.Matched()), CheckURL: c.CheckURL,
		ChargeAmount: c.ChargeAmount.String(), ChargeCurrency: c.ChargeCurrency,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, TTLSeconds: int64(c.TTL / time.Second),
		NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ReferenceID: c.ReferenceID, CallbackURL: c.CallbackURL,
	}
}

func ofSIMCheck(c *idverify.SIMCheck) check {
	if c == nil {
		return check{}
	}
	return check{
		Product: idverify.ProductSIMCheck, CheckID: c.CheckID, Status: c.Status, PhoneNumber: c.PhoneNumber,
		SIMUnchanged: new(c.SIMUnchanged()),
		ChargeAmount: c.ChargeAmount.String(), ChargeCurrency: c.ChargeCurrency,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, TTLSeconds: int64(c.TTL / time.Second),
		NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ReferenceID: c.ReferenceID,
	}
}

func ofSubscriberCheck(c *idverify.SubscriberCheck) check {
	if c == nil {
		return check{}
	}
	return check{
		Product: idverify.ProductSubscriberCheck, CheckID: c.CheckID, Status: c.Status, PhoneNumber: c.PhoneNumber,
		Matched: new(c.Matched()), SIMUnchanged: new(c.SIMUnchanged()), CheckURL: c.CheckURL,
		ChargeAmount: c.ChargeAmount.String(), ChargeCurrency: c.ChargeCurrency,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, TTLSeconds: int64(c.TTL / time.Second),
		NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ReferenceID: c.ReferenceID, CallbackURL: c.CallbackURL,
	}
}

// verified reports whether every verdict that applies to the product is yes.
func (c check) verified() bool {
	for _, v := range []*idverify.Verdict{c.Matched, c.SIMUnchanged} {
		if v != nil && *v != idverify.VerdictYes {
			return false
		}
	}
	return c.Matched != nil || c.SIMUnchanged != nil
}

// result returns the result for people, or "" if the check has not ended.
func (c check) result() string {
	if !c.Status.Final() {
		return ""
	}
	text := ""
	if c.Matched != nil {
		text = map[idverify.Verdict]string{idverify.VerdictYes: "match", idverify.VerdictNo: "no match"}[*c.Matched]
	}
	if c.SIMUnchanged != nil && *c.SIMUnchanged != idverify.VerdictUnknown {
		if text != "" {
			text += ", "
		}
		text += map[idverify.Verdict]string{idverify.VerdictYes: "SIM unchanged", idverify.VerdictNo: "SIM changed"}[*c.SIMUnchanged]
	}
	if text == "" {
		text = "unknown"
	}
	if c.ErrorCode != "" {
		text += " (" + c.ErrorCode + ")"
	}
	return text
}

// number returns the phone number, masked unless show is set.
func (c check) number(show bool) string {
	if show || c.PhoneNumber == "" {
		return c.PhoneNumber
	}
	return maskNumber(c.PhoneNumber)
}

// charge returns the charge with its currency.
func (c check) charge() string {
	if c.ChargeAmount == "" {
		return ""
	}
	return c.ChargeAmount + " " + c.ChargeCurrency
}

// rows returns the fields of the check for people.
func (c check) rows(showNumbers bool) []row {
	expires := ""
	if ttl := time.Duration(c.TTLSeconds) * time.Second; ttl > 0 && !c.Status.Final() {
		expires = shortTime(c.CreatedAt.Add(ttl)) + " UTC (TTL " + seconds(ttl) + ")"
	}
	created := ""
	if !c.CreatedAt.IsZero() {
		created = shortTime(c.CreatedAt) + " UTC"
	}
	return []row{
		{"Check ID", c.CheckID},
		{"Product", string(c.Product)},
		{"Status", string(c.Status)},
		{"Result", c.result()},
		{"Number", c.number(showNumbers)},
		{"Created", created},
		{"Expires", expires},
		{"Check URL", c.CheckURL},
		{"Charge", c.charge()},
		{"Network", c.NetworkID},
		{"Reference ID", c.ReferenceID},
		{"Callback URL", c.CallbackURL},
	}
}

// printCheck prints a check.
func (c *connection) printCheck(ck check) int {
	if c.json {
		ck.PhoneNumber = ck.number(c.showNumbers)
		return c.printJSON(ck)
	}
	c.printRows(ck.rows(c.showNumbers))
	return exitOK
}
