package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

// docsURL is the address of the documentation, because the program is used without a checkout.
const docsURL = "https://github.com/idverify/idverify-go/blob/main/docs/"

// linked returns text with the addresses of the pages that it names as docs/PAGE.
func linked(text string) string { return strings.ReplaceAll(text, "docs/", docsURL) }

// fail prints an error of the client with the commands to run next and the section of the docs, and
// returns the exit code. The commands in next replace the usual ones.
func (p *program) fail(err error, next ...string) int {
	a := adviceOn(err)
	if len(next) == 0 {
		next = a.next
	}
	text := err.Error()
	if !strings.HasPrefix(text, "idverify: ") {
		text = "idverify: " + text
	}
	fmt.Fprintln(p.stderr, clean(text, lineLength))
	for _, line := range next {
		fmt.Fprintln(p.stderr, "Next: "+clean(line, lineLength))
	}
	if a.section != "" {
		fmt.Fprintln(p.stderr, "See:  "+docsURL+"errors.md#"+a.section)
	}
	return a.code
}

// advice describes what to do after an error.
type advice struct {
	code    int
	next    []string
	section string // of docs/errors.md
}

const runDoctor = "idverify doctor (checks the connection, the credentials and the clock)"

func adviceOn(err error) advice {
	rejected, isRejected := errors.AsType[*idverify.Error](err)
	tokenError, isTokenError := errors.AsType[*idverify.TokenError](err)
	_, isDecodeError := errors.AsType[*idverify.DecodeError](err)
	_, isEnded := errors.AsType[*idverify.CheckEndedError](err)
	switch {
	case errors.Is(err, idverify.ErrOutcomeUnknown):
		return advice{exitError, nil, "outcome-unknown"}
	case errors.Is(err, context.Canceled):
		return advice{exitError, nil, ""}
	case isEnded:
		return advice{exitProblem, []string{"read the callback of the check, which reports how it ended"}, "error-codes-of-checks"}
	case isTokenError && temporary(tokenError.Status):
		return advice{exitError, []string{later(tokenError.RetryAfter), runDoctor}, "token-errors"}
	case isTokenError:
		return advice{exitProblem, []string{runDoctor}, "token-errors"}
	case isRejected && temporary(rejected.Status):
		return advice{exitError, []string{later(rejected.RetryAfter), runDoctor}, "fragments"}
	case isRejected && rejected.Fragment() == "":
		return advice{exitProblem, []string{runDoctor}, "errors-without-a-sentinel"} // probably of a proxy
	case errors.Is(err, idverify.ErrInsufficientBalance):
		return advice{exitProblem, []string{"top up the workspace; until then, verify users in another way"}, "fragments"}
	case errors.Is(err, idverify.ErrNotMobileIP), errors.Is(err, idverify.ErrNetworkNotSupported):
		return advice{exitProblem, nil, "fragments"}
	case errors.Is(err, idverify.ErrUnauthorized), errors.Is(err, idverify.ErrForbidden):
		return advice{exitProblem, []string{runDoctor}, "fragments"}
	case isRejected:
		return advice{exitProblem, nil, "fragments"}
	case errors.Is(err, idverify.ErrPhoneFormat), errors.Is(err, idverify.ErrBadRequest):
		return advice{exitUsage, nil, "sentinels"} // rejected by the client
	case errors.Is(err, context.DeadlineExceeded):
		return advice{exitError, []string{"set a longer -timeout", runDoctor}, "errors-without-a-sentinel"}
	case isDecodeError:
		return advice{exitError, []string{"look for a proxy that changes responses", runDoctor}, "errors-without-a-sentinel"}
	}
	return advice{exitError, []string{runDoctor}, "errors-without-a-sentinel"}
}

// temporary reports whether the request may succeed later. The client retries after the same
// statuses; any other 5XX is permanent, and usually of a proxy.
func temporary(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func later(retryAfter time.Duration) string {
	if retryAfter <= 0 {
		return "run the command again later"
	}
	return fmt.Sprintf("run the command again in %s", retryAfter)
}
