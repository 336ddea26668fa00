package signature

import (
	"fmt"
	"net/http"
	"strings"
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

// parseDate parses an IMF-fixdate (RFC 9110, section 5.6.7), whose parts have fixed positions. The
// comparison rejects other forms, and dates that do not exist or are another day of the week.
func parseDate(s string) (t time.Time, ok bool) {
	if len(s) != len(http.TimeFormat) {
		return t, false
	}
	month := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", s[8:11])/3 + 1
	t = time.Date(number(s[12:16]), time.Month(month), number(s[5:7]), number(s[17:19]), number(s[20:22]), number(s[23:25]), 0, time.UTC)
	var formatted [len(http.TimeFormat) + 8]byte
	return t, string(t.AppendFormat(formatted[:0], http.TimeFormat)) == s
}

// number returns the value of decimal digits. For other characters the value is undefined.
func number(s string) (n int) {
	for i := range len(s) {
		n = 10*n + int(s[i]) - '0'
	}
	return n
}
