package signature

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
)

// otherChanges returns the lines for what the verifier checks besides signature and body.
func (e *explanation) otherChanges() []string {
	var lines []string
	if host := e.value("host"); !e.v.hosts.allows(host) {
		lines = append(lines, fmt.Sprintf("host: signed for %s, which is not one of the verifier's hosts%s: if it is yours, pass it to NewVerifier; if not, the message was sent to another customer and is rightly rejected", e.hostText(host), e.portText(host)))
	}
	if e.operation == "callback" && e.callbackHeader() != e.v.header.name {
		name := e.callbackHeader()
		if redact.Text(name) != name {
			name = "another header"
		}
		lines = append(lines, "callback header: the service sent the kind in "+name+": set VerifierOptions.CallbackHeader to this name")
	}
	if line := e.clock(); line != "" {
		lines = append(lines, line)
	}
	return lines
}

// callbackHeader returns the covered header that contains the kind of the callback: that of the
// verifier, or else the only one that is not another header of every callback.
func (e *explanation) callbackHeader() string {
	own := e.v.header.name
	covered := e.authorization.covered.slice()
	if slices.Contains(covered, own) {
		return own
	}
	others := slices.DeleteFunc(slices.Clone(covered), func(name string) bool { return slices.Contains(e.v.header.coverage, name) })
	if len(others) != 1 || !isToken(others[0]) {
		return own
	}
	return others[0]
}

// clock returns the line for a date outside the allowed skew, or "".
func (e *explanation) clock() string {
	date, ok := parseDate(e.value("date"))
	age := e.now.Sub(date)
	if !ok || e.opts.AnyDate || age.Abs() <= e.v.skew {
		return ""
	}
	// Round up, so that the advice suffices. A date of another century saturates a Duration.
	difference := min(age.Abs(), 100*365*24*time.Hour)
	difference = (difference + time.Second - 1).Truncate(time.Second)
	advice := ""
	if difference <= maxAdvisedSkew {
		advice = fmt.Sprintf(" (a ClockSkew of %v would accept it)", difference)
	}
	if age < 0 {
		return fmt.Sprintf("clock: signed %v after the time of this machine, and ClockSkew is %v: its clock is slow, synchronize it with NTP%s", difference, e.v.skew, advice)
	}
	return fmt.Sprintf("clock: signed %v before the time of this machine, and ClockSkew is %v: if all messages are rejected, its clock is fast, synchronize it with NTP; otherwise the message was delayed, or is a copy of an old one%s", difference, e.v.skew, advice)
}

// maxAdvisedSkew is the largest ClockSkew that Explain mentions. A larger one accepts old copies.
const maxAdvisedSkew = 30 * time.Second

// detailOf returns the text of a verification error without its operation.
func detailOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.detail
	}
	return redact.Text(err.Error())
}
