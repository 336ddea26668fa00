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

// timestamp is a time on the wire. The service writes offsets without a colon; a reader takes RFC 3339 as well, and fractions of a second.
type timestamp struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. null and "" are the zero time.
func (t *timestamp) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' && !bytes.ContainsRune(b, '\\') {
		return t.parse(string(b[1 : len(b)-1])) // a page holds hundreds of this kind
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

// parseTime reads wire.TimeFormat and RFC 3339. Its error does not repeat s.
func parseTime(s string) (time.Time, error) {
	s = strings.Replace(s, "z", "Z", 1)
	for _, layout := range []string{wire.TimeFormat, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil // whatever the zone, so that equal times are ==
		}
	}
	return time.Time{}, errors.New("timestamp is not of the form yyyy-MM-ddTHH:mm:ss+0000")
}

// number is a count of units. A fraction is cut off; null and "" are 0.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(b []byte) error {
	if f, err := strconv.ParseFloat(string(b), 64); err == nil { // likewise
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

// duration is n units as a duration, within its range.
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
