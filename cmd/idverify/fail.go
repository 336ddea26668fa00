package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
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
	if hint := p.connectionHint(err, baseURLVariable); hint != "" {
		next = append([]string{hint}, next...)
	}
	text := strings.Replace(err.Error(), " (to trust another CA, set the HTTP client: see WithHTTPClient)", "", 1)
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

// connectionHint returns what to change if the server was not reached or not trusted, or "". source
// is the variable or flag with its URL.
func (p *program) connectionHint(err error, source string) string {
	path := p.getenv(caFileVariable)
	invalid, _ := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "check the port of " + source + ", and that the server runs: nothing listens on this port"
	case invalid == nil || !isUntrusted(invalid):
		return ""
	case path == "":
		return "set " + caFileVariable + " to the root certificate of the server if you trust it"
	}
	return "set " + caFileVariable + " to the root certificate of this server if you trust it: " + otherCA(invalid.UnverifiedCertificates, path)
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
	return fmt.Sprintf("run the command again in %s", seconds(retryAfter))
}
