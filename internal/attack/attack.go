// Package attack contains messages that a receiver of callbacks or redirects must accept or reject.
// The tests of package signature and the examiner in package receivertest use the same table.
package attack

import "time"

// Attack is a row of the table: a message that a receiver must reject.
type Attack struct {
	Name     string // short lower-case phrase, unique among callbacks or redirects
	Reason   string // one sentence: why it must be rejected, or what the sender gains
	Severity Severity
	Want     error // the reason with which package signature rejects it

	// Strict means that only package signature must reject the message. In another receiver acceptance
	// is harmless: the message is another spelling of what the service signed, or one that the service
	// never signs.
	Strict bool

	// Skew is the distance between the date of the message and the clock, and 0 if only other parts of
	// the message are wrong. The clocks of sender and receiver must agree better than the difference
	// between Skew and the 5 s that the service specifies.
	Skew time.Duration

	redirect bool
	change
}

// change contains the changes of a valid message before and after it is signed; nil means none.
type change struct {
	signed, sent func(*Message, Setup)
}

// Severity is the consequence if a receiver accepts an Attack or rejects a Variant.
type Severity string

const (
	Critical Severity = "critical" // anyone can forge a result
	High     Severity = "high"     // another customer or a recorded message can change a result, or results are lost
	Medium   Severity = "medium"   // a defense in depth is missing
	Low      Severity = "low"      // wrong status, or waste of resources
)

// Callbacks returns the callbacks that a receiver must reject.
func Callbacks() []Attack { return nil }

// Redirects returns the redirects that a receiver must reject.
func Redirects() []Attack { return nil }

// Message returns the message: a valid one with the changes, signed.
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

// Variant is a valid message that a receiver must accept.
type Variant struct {
	Name     string   // short lower-case phrase, unique among callbacks or redirects
	Reason   string   // one sentence: when the service or a proxy sends it, or what is lost
	Severity Severity // of its rejection
	Strict   bool     // only package signature must accept it: the service does not send it
	Product  string   // product of the check in the callback, or "" if it is Setup.Product

	setup    func(*Setup) // nil means no change
	redirect bool
	change
}

// AcceptedCallbacks returns the callbacks that a receiver must accept.
func AcceptedCallbacks() []Variant { return nil }

// AcceptedRedirects returns the redirects that a receiver must accept.
func AcceptedRedirects() []Variant { return nil }

// Message returns the message: a valid one with the changes, signed.
func (v Variant) Message(s Setup) *Message {
	if v.setup != nil {
		v.setup(&s)
	}
	return v.apply(s, v.redirect)
}
