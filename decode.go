package idverify

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// timestamp decodes a time from JSON. The service writes offsets without a colon. RFC 3339 and
// fractional seconds are also accepted.
type timestamp struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. null and "" become the zero time.
func (t *timestamp) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' && !bytes.ContainsRune(b, '\\') {
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
	for _, layout := range []string{wire.TimeFormat, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil // so that equal times are ==
		}
	}
	return time.Time{}, errors.New("malformed timestamp (want yyyy-MM-ddTHH:mm:ss+0000)")
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
