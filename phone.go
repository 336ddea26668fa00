package idverify

import (
	"fmt"
	"regexp"
	"strings"
)

// The length of a phone number in digits, including the country code. The maximum is that of ITU-T
// E.164.
const (
	minPhoneDigits = 7
	maxPhoneDigits = 15
)

// NormalizePhoneNumber returns the digits of a phone number in international format, as the service
// expects it: "447700900012" for "+44 (7700) 900-012". The Create methods call it.
//
// It removes a leading plus sign, spaces, parentheses, dots and hyphens. It rejects ambiguous
// input: a leading zero ("0044…", "07700…"), an optional zero ("+44 (0)7700…"), letters, extensions
// and lists of numbers. The error matches [ErrPhoneFormat] and does not contain the number.
//
// Protocol: docs/protocol.md, section 4.
func NormalizePhoneNumber(s string) (string, error) {
	number, err := normalize(s)
	if err != nil {
		return "", fmt.Errorf("idverify: normalize phone number: %w", err)
	}
	return number, nil
}

// normalize is NormalizePhoneNumber without the name of the operation in the error.
func normalize(s string) (string, error) {
	malformed := func(why string) (string, error) {
		return "", fmt.Errorf("%w: %s", ErrPhoneFormat, why)
	}
	var digits [maxPhoneDigits]byte
	n := 0
	plus := false
	rest := strings.TrimSpace(s)
	for i, r := range rest {
		switch {
		case r >= '0' && r <= '9':
			if n == maxPhoneDigits {
				return malformed("more than 15 digits")
			}
			digits[n] = byte(r)
			n++
		case r == '+' && n == 0 && !plus:
			plus = true
		case r == '(' && trunkPrefix.MatchString(rest[i:]):
			return malformed("omit the (0), which is not dialed from abroad")
		case strings.ContainsRune(phoneSeparators, r):
		default:
			return malformed("contains a character that is neither a digit nor a separator")
		}
	}
	switch {
	case n == 0:
		return malformed("no digits")
	case digits[0] == '0':
		return malformed("begins with a zero: start with the country code, as in 44 7700 900012")
	case n < minPhoneDigits:
		return malformed("fewer than 7 digits")
	}
	return string(digits[:n]), nil
}

// trunkPrefix matches a zero in parentheses, with any spacing.
var trunkPrefix = regexp.MustCompile(`^\([^0-9)]*0[^0-9)]*\)`)

// phoneSeparators are the characters that may separate digits, including no-break spaces and
// hyphens that are not ASCII.
const phoneSeparators = " \u00a0\u2009\u202f\t().-\u2010\u2011\u2013"
