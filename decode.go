package idverify

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// timestamp decodes a time from JSON. The service writes offsets without a colon. RFC 3339 and
// fractional seconds are also accepted.
type timestamp struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. null and "" become the zero time.
func (t *timestamp) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' && bytes.IndexByte(b, '\\') < 0 {
		return t.parse(string(b[1 : len(b)-1])) // fast path: a page contains hundreds of timestamps
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("timestamp is not a string")
	}
	return t.parse(s)
}

func (t *timestamp) parse(s string) (err error) {
	t.Time = time.Time{}
	if s != "" {
		t.Time, err = parseTime(s)
	}
	return err
}

// parseTime parses wire.TimeFormat and RFC 3339. Its error does not contain s.
func parseTime(s string) (time.Time, error) {
	s = strings.Replace(s, "z", "Z", 1)
	if minutes := len(s) - 2; minutes > 2 && (s[minutes-3] == '+' || s[minutes-3] == '-') {
		s = s[:minutes] + ":" + s[minutes:] // wire.TimeFormat is RFC 3339 without this colon
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, errors.New("malformed timestamp (want yyyy-MM-ddTHH:mm:ss+0000)")
	}
	return t.UTC(), nil // so that equal times are ==
}

// number decodes a JSON number, with or without quotes. null and "" become 0.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(b []byte) error {
	if f, err := strconv.ParseFloat(string(b), 64); err == nil { // fast path
		*n = number(f)
		return nil
	}
	var text json.Number
	if err := json.Unmarshal(b, &text); err != nil {
		return errors.New("invalid number")
	}
	f, err := text.Float64()
	if text != "" && err != nil {
		return errors.New("number out of range")
	}
	*n = number(f)
	return nil
}

// duration returns n units as a duration, limited to its range.
func (n number) duration(unit time.Duration) time.Duration {
	d := float64(n) * float64(unit)
	switch {
	case d >= math.MaxInt64:
		return math.MaxInt64
	case d <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(d)
}
