// Package attack contains messages that a receiver of callbacks or redirects must reject or accept.
// The tests of package signature and the examinations of package receivertest use the same table.
package attack

import (
	"slices"
	"time"
)

// Attack is a row of the table: a message that a receiver must reject.
type Attack struct {
	Name     string // short phrase, unique among callbacks or redirects
	Reason   string // one sentence for people: why it must be rejected, or what the sender gains
	Severity Severity
	Want     error // the reason with which package signature rejects it

	// Strict means that only package signature must reject the message. In another receiver acceptance
	// is harmless: the service signed the same content in another spelling, or never signs such a
	// message.
	Strict bool

	// Configurable means that package signature accepts a Strict message with other options: a larger
	// ClockSkew or MaxBody, or a host with any port.
	Configurable bool

	// Skew is the distance between the date of the message and the clock, in either direction. It is 0
	// if the message is wrong in another part. The service specifies 5 s, so if Skew is 6 s, the
	// clocks of sender and receiver must agree within less than a second.
	Skew time.Duration

	redirect bool
	change
}

// Severity is the consequence if a receiver accepts an Attack or rejects a Variant.
type Severity string

const (
	Critical Severity = "critical" // anyone can forge a result
	High     Severity = "high"     // another customer or a recorded message can change a result; or results are lost
	Medium   Severity = "medium"   // a defense in depth is missing
	Low      Severity = "low"      // wrong status, or waste of resources
)

// change contains the changes of a valid message before and after it is signed; nil means none.
type change struct{ signed, sent edit }

// Callbacks returns the callbacks that a receiver must reject.
func Callbacks() []Attack {
	return slices.Concat(requestAttacks(), bodyAttacks(), authorizationAttacks(), algorithmAttacks(),
		coverageAttacks(), hostAttacks(), dateAttacks(), digestAttacks(), kindAttacks(), keyAttacks())
}

// Redirects returns the redirects that a receiver must reject.
func Redirects() []Attack {
	attacks := slices.Concat(redirectTargetAttacks(), redirectParameterAttacks(), redirectDateAttacks(),
		redirectSignatureAttacks())
	for i := range attacks {
		attacks[i].redirect = true
	}
	return attacks
}

// Message returns a signed message with the changes of the row. The message is new, so the caller
// can change it.
func (a Attack) Message(s Setup) *Message { return a.apply(s, a.redirect) }

func (c change) apply(s Setup, redirect bool) *Message {
	m := s.Callback()
	if redirect {
		m = s.Redirect()
	}
	if c.signed != nil {
		c.signed(m, s)
	}
	m.Sign()
	if c.sent != nil {
		c.sent(m, s)
	}
	return m
}

// row is an Attack of a group, which shares its other fields.
type row struct {
	name         string
	signed, sent edit
	want         error
}

// group returns an Attack for each row, with the other fields of common.
func group(common Attack, rows ...row) []Attack {
	attacks := make([]Attack, len(rows))
	for i, r := range rows {
		attacks[i] = common
		attacks[i].Name, attacks[i].Want, attacks[i].change = r.name, r.want, change{r.signed, r.sent}
	}
	return attacks
}
