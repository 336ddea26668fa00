package signature

import (
	"fmt"
	"net/http"
	"time"
)

// checkDate parses a date. It returns an error if the date differs from the clock by more than the
// allowed skew.
func (v *Verifier) checkDate(s string) (time.Time, error) {
	date, ok := parseDate(s)
	if !ok {
		return date, newError(ErrMalformed, "date must have the form Mon, 02 Jan 2006 15:04:05 GMT")
	}
	now := v.now()
	switch age, ahead := now.Sub(date), date.Sub(now); {
	case age > v.skew:
		return date, newError(ErrSkew, fmt.Sprintf("date is %v old, more than the allowed clock skew of %v (check this machine's clock)", age, v.skew))
	case ahead > v.skew:
		return date, newError(ErrSkew, fmt.Sprintf("date is %v in the future, more than the allowed clock skew of %v (check this machine's clock)", ahead, v.skew))
	}
	return date, nil
}

// parseDate parses an IMF-fixdate (RFC 9110, section 5.6.7). It is stricter than time.Parse, which
// accepts wrong weekdays, fractional seconds and months in any case.
func parseDate(s string) (t time.Time, ok bool) {
	t, err := time.Parse(http.TimeFormat, s)
	if err != nil {
		return time.Time{}, false
	}
	var formatted [len(http.TimeFormat) + 8]byte
	return t, string(t.AppendFormat(formatted[:0], http.TimeFormat)) == s
}
