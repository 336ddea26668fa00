package idverify

import (
	"database/sql/driver"
	"errors"
	"fmt"
)

// Verdict is the value of Match or NoSIMChange: yes, no or unknown.
//
// Unknown does not mean no. Verify in another way, for example with a text message: an outage of a
// mobile network must not lock customers out, nor let anyone in.
//
// In JSON, log/slog and database/sql, a Verdict is the text "yes", "no" or "unknown".
type Verdict int

// The verdicts. The zero value is VerdictUnknown.
const (
	VerdictUnknown Verdict = iota // not known, for example because the check is not COMPLETED: verify in another way
	VerdictYes
	VerdictNo
)

// verdictOf returns the verdict of a field in JSON.
func verdictOf(field *bool) Verdict {
	switch {
	case field == nil:
		return VerdictUnknown
	case *field:
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

// Value implements driver.Valuer. It returns the text of String.
func (v Verdict) Value() (driver.Value, error) { return v.String(), nil }

// Scan implements sql.Scanner. It accepts the texts of Value. NULL is VerdictUnknown. It returns an
// error for anything else, such as a number.
func (v *Verdict) Scan(value any) error {
	switch value := value.(type) {
	case nil:
		*v = VerdictUnknown
		return nil
	case string:
		return v.UnmarshalText([]byte(value))
	case []byte:
		return v.UnmarshalText(value)
	}
	return fmt.Errorf("idverify: scan verdict: the type of the value is %T, not text", value)
}

// CheckStatus is the status of a check. Unknown values are kept as the service sent them.
type CheckStatus string

// The statuses of a check. COMPLETED, EXPIRED and ERROR are final. The service does not store a
// check that ends as EXPIRED or ERROR. Its callback reports how it ended; with version v0.2, the
// redirect also reports ERROR. Get returns [ErrNotFound] for a check that is not stored. A SIMCheck
// has no callback: Create returns its result.
const (
	StatusAccepted  CheckStatus = "ACCEPTED"  // created; the Check URL has not been opened
	StatusPending   CheckStatus = "PENDING"   // the Check URL was opened; the code has not been exchanged (version v0.2)
	StatusCompleted CheckStatus = "COMPLETED" // ended with a result, see Verdict
	StatusExpired   CheckStatus = "EXPIRED"   // ended without a result after its TTL
	StatusError     CheckStatus = "ERROR"     // ended without a result; ErrorCode contains the reason
)

// Final reports whether s is COMPLETED, EXPIRED or ERROR: the check has ended.
func (s CheckStatus) Final() bool {
	return s == StatusCompleted || s == StatusExpired || s == StatusError
}

// Values of ErrorCode of a check, a [Callback] or a [Redirect]. Other values are possible. For what
// to do after each of them, see docs/errors.md.
const (
	ErrorCodeNotMobileIP        = "not_mobile_ip"         // the device did not use its mobile data connection
	ErrorCodeMNONotSupported    = "mno_not_supported"     // the mobile network is not supported
	ErrorCodeMNOTimeout         = "mno_timeout"           // the mobile network did not respond in time
	ErrorCodeMNOUserNotFound    = "mno_user_not_found"    // the mobile network does not know the subscriber
	ErrorCodeMNOResponseError   = "mno_response_error"    // the mobile network returned an invalid response
	ErrorCodeMNOServerError     = "mno_server_error"      // the mobile network failed
	ErrorCodeMNONoDataAvailable = "mno_no_data_available" // the mobile network has no data about the number
	ErrorCodeIPMismatch         = "ip_mismatch"           // the Check URL was opened from another address than PhoneIP
	ErrorCodeIPMSISDNMismatch   = "ip_msisdn_mismatch"    // the address does not belong to the number
)

// Product is a product of the service. Unknown values are kept as the service sent them.
type Product string

// The check products, named as in paths and callbacks.
const (
	ProductPhoneCheck      Product = "phone_check"
	ProductSIMCheck        Product = "sim_check"
	ProductSubscriberCheck Product = "subscriber_check"
)
