package idverify

import (
	"fmt"
	"regexp"
	"strings"
)

// The length of a phone number in digits: at most 15 by ITU-T E.164, and no country has numbers below 7 with its code.
const (
	minPhoneDigits = 7
	maxPhoneDigits = 15
)

// NormalizePhoneNumber returns s as the service takes it: the digits of the international format, without a plus sign: "+44 (7700) 900-012" becomes "447700900012".
// Create calls it, so a number can be passed on as a person typed it.
//
// Spaces, brackets, dots and hyphens are dropped, and a plus sign in front. What could be read in two ways is refused rather than guessed: a leading zero ("0044…", "07700…"), an optional one ("+44 (0)7700…"), letters, extensions, two numbers.
// The error is [ErrPhoneFormat] and does not repeat the number.
//
// Specification: section 2, field phone_number.
func NormalizePhoneNumber(s string) (string, error) {
	number, err := normalize(s)
	if err != nil {
		return "", fmt.Errorf("idverify: normalize phone number: %w", err)
	}
	return number, nil
}

// normalize is NormalizePhoneNumber for callers who say themselves what they were doing.
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

// trunkPrefix matches a zero in parentheses, however it is spaced.
var trunkPrefix = regexp.MustCompile(`^\([^0-9)]*0[^0-9)]*\)`)

// phoneSeparators are what people and address books put between digits: also no-break spaces, and hyphens that are not ASCII.
const phoneSeparators = " \u00a0\u2009\u202f\t().-\u2010\u2011\u2013"
