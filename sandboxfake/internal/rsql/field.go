package rsql

import (
	"cmp"
	"errors"
	"strings"
	"time"
)

// Field parses a searched value and returns a function that compares an item with it: order is
// negative, zero or positive if the item's value is less than, equal to or greater than the
// searched value. ok is false if the item has no value.
type Field[T any] func(searched Value) (compare func(T) (order int, ok bool), err error)

// Value is a searched value.
type Value struct {
	Text  string
	parts []string // the literal parts around the wildcards, or nil if * is a literal character
}

// compare compares s with v. If v contains wildcards, order is 0 if s matches, and otherwise 1.
func (v Value) compare(s string) (order int) {
	if len(v.parts) < 2 {
		return strings.Compare(s, v.Text)
	}
	last := len(v.parts) - 1
	s, ok := strings.CutPrefix(s, v.parts[0])
	for _, part := range v.parts[1:last] {
		if !ok {
			return 1
		}
		_, s, ok = strings.Cut(s, part)
	}
	if !ok || !strings.HasSuffix(s, v.parts[last]) {
		return 1
	}
	return 0
}

// Text returns a field of strings. In a searched value, the wildcard * stands for any characters.
func Text[T any](value func(T) string) Field[T] {
	return func(searched Value) (func(T) (int, bool), error) {
		return func(item T) (int, bool) { return searched.compare(value(item)), true }, nil
	}
}

// Bool returns a field of optional booleans. False is less than true.
func Bool[T any](value func(T) (b, ok bool)) Field[T] {
	number := map[bool]int{true: 1}
	return func(searched Value) (func(T) (int, bool), error) {
		if searched.Text != "true" && searched.Text != "false" {
			return nil, errors.New("value must be true or false")
		}
		return func(item T) (int, bool) {
			b, ok := value(item)
			return cmp.Compare(number[b], number[searched.Text == "true"]), ok
		}, nil
	}
}

// timeLayouts are the accepted time formats. A shorter format denotes the start of a period, such
// as a year.
var timeLayouts = []string{"2006-01-02T15:04:05-0700", time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15", "2006-01-02", "2006-01", "2006"}

// Time returns a field of times. A searched time without an offset is in UTC.
func Time[T any](value func(T) time.Time) Field[T] {
	return func(searched Value) (func(T) (int, bool), error) {
		for _, layout := range timeLayouts {
			if t, err := time.Parse(layout, searched.Text); err == nil {
				return func(item T) (int, bool) { return value(item).Compare(t), true }, nil
			}
		}
		return nil, errors.New("malformed time")
	}
}
