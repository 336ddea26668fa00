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
type Field[T any] func(text string) (compare func(T) (order int, ok bool), err error)

// Text returns a field of strings.
func Text[T any](value func(T) string) Field[T] {
	return func(text string) (func(T) (int, bool), error) {
		return func(item T) (int, bool) { return strings.Compare(value(item), text), true }, nil
	}
}

// Bool returns a field of optional booleans. False is less than true.
func Bool[T any](value func(T) (b, ok bool)) Field[T] {
	number := map[bool]int{true: 1}
	return func(text string) (func(T) (int, bool), error) {
		if text != "true" && text != "false" {
			return nil, errors.New("value must be true or false")
		}
		searched := number[text == "true"]
		return func(item T) (int, bool) {
			b, ok := value(item)
			return cmp.Compare(number[b], searched), ok
		}, nil
	}
}

// timeLayouts are the accepted time formats. A shorter format denotes the start of a period, such
// as a year.
var timeLayouts = []string{"2006-01-02T15:04:05-0700", time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15", "2006-01-02", "2006-01", "2006"}

// Time returns a field of times. A searched time without an offset is in UTC.
func Time[T any](value func(T) time.Time) Field[T] {
	return func(text string) (func(T) (int, bool), error) {
		for _, layout := range timeLayouts {
			if searched, err := time.Parse(layout, text); err == nil {
				return func(item T) (int, bool) { return value(item).Compare(searched), true }, nil
			}
		}
		return nil, errors.New("malformed time")
	}
}
