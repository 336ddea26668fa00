package idverify

import "errors"

// Verdict is the result of a check: yes, no or unknown. Use it to make a decision. Unlike Match and
// NoSIMChange, which are valid only when Status is COMPLETED, it can be used in any status.
//
// Unknown is not a no. Verify in another way, for example with a text message: an outage of a
// mobile network must not lock customers out, nor let anyone in.
//
// JSON and log/slog show a Verdict as "yes", "no" or "unknown". Package database/sql would store
// its number, so pass it the text of [Verdict.String].
type Verdict int

// The verdicts. The zero value is VerdictUnknown.
const (
	VerdictUnknown Verdict = iota // the check has no result: verify in another way
	VerdictYes
	VerdictNo
)

// Matched reports whether the phone number belongs to the device. It returns VerdictUnknown if c is
// nil, Status is not COMPLETED, or the service sent no result. Then verify in another way.
func (c *PhoneCheck) Matched() Verdict {
	if c == nil {
		return VerdictUnknown
	}
	return verdictOf(c.Status, c.Match)
}

// SIMUnchanged reports whether the SIM is the same as NoSIMChangePeriod ago. It returns
// VerdictUnknown if c is nil, Status is not COMPLETED, or the service sent no result. Then verify
// in another way.
func (c *SIMCheck) SIMUnchanged() Verdict {
	if c == nil {
		return VerdictUnknown
	}
	return verdictOf(c.Status, c.NoSIMChange)
}

// Matched reports whether the phone number belongs to the device. It returns VerdictUnknown if c is
// nil, Status is not COMPLETED, or the service sent no result. Then verify in another way.
func (c *SubscriberCheck) Matched() Verdict {
	if c == nil {
		return VerdictUnknown
	}
	return verdictOf(c.Status, c.Match)
}

// SIMUnchanged reports whether the SIM is the same as NoSIMChangePeriod ago. It returns
// VerdictUnknown unless Matched returns VerdictYes, and if the service sent no result.
func (c *SubscriberCheck) SIMUnchanged() Verdict {
	if c.Matched() != VerdictYes {
		return VerdictUnknown
	}
	return verdictOf(c.Status, c.NoSIMChange)
}

// Matched reports whether the phone number belongs to the device. It returns VerdictUnknown if c is
// nil, Product is not a PhoneCheck or SubscriberCheck, Status is not COMPLETED, or the service sent
// no result. Then verify in another way. Matched does not report whether the check is yours: see
// [Callback].
func (c *Callback) Matched() Verdict {
	if c == nil || c.Product != ProductPhoneCheck && c.Product != ProductSubscriberCheck {
		return VerdictUnknown
	}
	return verdictOf(c.Status, c.Match)
}

// SIMUnchanged reports whether the SIM of a SubscriberCheck is unchanged. It returns VerdictUnknown
// for any other Product, unless Matched returns VerdictYes, and if the service sent no result. It
// does not report whether the check is yours: see [Callback].
func (c *Callback) SIMUnchanged() Verdict {
	if c.Matched() != VerdictYes || c.Product != ProductSubscriberCheck {
		return VerdictUnknown
	}
	return verdictOf(c.Status, c.NoSIMChange)
}

// verdictOf returns the verdict of result, a field that is valid only if status is COMPLETED.
func verdictOf(status CheckStatus, result *bool) Verdict {
	switch {
	case status != StatusCompleted || result == nil:
		return VerdictUnknown
	case *result:
		return VerdictYes
	}
	return VerdictNo
}

// String returns "unknown", "yes" or "no". It returns "unknown" for any value that is not one of
// the constants.
func (v Verdict) String() string {
	switch v {
	case VerdictYes:
		return "yes"
	case VerdictNo:
		return "no"
	}
	return "unknown"
}

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts the texts of MarshalText and
// returns an error for any other text.
func (v *Verdict) UnmarshalText(text []byte) error {
	for _, verdict := range []Verdict{VerdictUnknown, VerdictYes, VerdictNo} {
		if string(text) == verdict.String() {
			*v = verdict
			return nil
		}
	}
	return errors.New(`idverify: decode verdict: the text is not "unknown", "yes" or "no"`)
}
