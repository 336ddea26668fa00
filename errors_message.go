package idverify

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
)

// errorMessage formats the text of all errors: "idverify: operation: status: detail (hint)
// [request ID, attempts]". Empty fields are omitted.
type errorMessage struct {
	operation   string
	status      string
	detail      string
	unknown     *unknownOutcome // nil if the outcome is known
	hint        string
	budgetEmpty bool // as in call; appended to the hint
	requestID   string
	attempts    int // 0: unknown
}

func (m errorMessage) String() string {
	parts := []string{"idverify"}
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	add(m.operation)
	add(m.status)
	if m.unknown != nil {
		add("outcome unknown")
		m.detail = strings.TrimPrefix(m.detail+"; "+m.unknown.effect, "; ")
		m.hint = strings.TrimSuffix(m.unknown.action+"; "+m.hint, "; ")
	}
	add(m.detail)
	if m.budgetEmpty {
		m.hint = strings.TrimPrefix(m.hint+"; not retried because the retry budget is empty", "; ")
	}

	s := strings.Join(parts, ": ")
	if m.hint != "" {
		s += " (" + m.hint + ")"
	}
	attempts := fmt.Sprintf("%d attempts", m.attempts)
	if m.attempts == 1 {
		attempts = "1 attempt"
	}
	switch {
	case m.requestID != "" && m.attempts > 0:
		s += " [request " + m.requestID + ", " + attempts + "]"
	case m.requestID != "":
		s += " [request " + m.requestID + "]"
	case m.attempts > 1:
		s += " [" + attempts + "]"
	}
	return s
}

// statusText returns the HTTP status with name, or with its standard text if name is empty.
func statusText(status int, name string) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + cmp.Or(name, http.StatusText(status)))
}

// unknownOutcome describes the possible effect of a failed operation that is not idempotent and
// may have been processed.
type unknownOutcome struct {
	effect string
	action string // what to do next
}

// outcomeOf returns the possible effect of op, or nil if op is idempotent.
func outcomeOf(op wire.Operation) *unknownOutcome {
	if idempotent(op) {
		return nil
	}
	switch op {
	case wire.CreatePhoneCheck, wire.CreateSIMCheck, wire.CreateSubscriberCheck:
		return &unknownOutcome{effect: "the check may exist and may have been charged", action: "call FindByReferenceID; do not create the check again automatically"}
	case wire.CreateTopUp:
		return &unknownOutcome{effect: "the top-up may have been charged", action: "look for it in TopUps.List before you retry"}
	case wire.CompletePhoneCheck, wire.CompleteSubscriberCheck:
		return &unknownOutcome{effect: "the code may have been used", action: "get the check, and do not exchange the code again"}
	}
	return &unknownOutcome{effect: "the operation may have been performed", action: "read the current state before you retry"}
}
