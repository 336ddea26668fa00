package signature

import (
	"fmt"
	"net/http"
	"time"
)

// parseDate reads an IMF-fixdate (RFC 9110, section 5.6.7) that has exactly one spelling: time.Parse alone takes any weekday, fractions of a second and months without case.
func parseDate(s string) (t time.Time, ok bool) {
	t, err := time.Parse(http.TimeFormat, s)
	if err != nil {
		return time.Time{}, false
	}
	var formatted [len(http.TimeFormat) + 8]byte
	return t, string(t.AppendFormat(formatted[:0], http.TimeFormat)) == s
}

// checkDate parses a date and compares it with the clock. The skew is inclusive in both directions.
//
// Protocol: section 5.3, "a clock skew tolerance of 5000 (milliseconds)".
func (v *Verifier) checkDate(s string) (time.Time, error) {
	date, ok := parseDate(s)
	if !ok {
		return date, newError(ErrMalformed, "the date is not of the form Mon, 02 Jan 2006 15:04:05 GMT")
	}
	now := v.now()
	switch age, ahead := now.Sub(date), date.Sub(now); {
	case age > v.skew:
		return date, newError(ErrSkew, fmt.Sprintf("the date is %v old, where %v is allowed (is this machine's clock right?)", age, v.skew))
	case ahead > v.skew:
		return date, newError(ErrSkew, fmt.Sprintf("the date is %v in the future, where %v is allowed (is this machine's clock right?)", ahead, v.skew))
	}
	return date, nil
}
