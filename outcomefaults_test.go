package idverify_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	idverify "github.com/idverify/idverify-go"
)

// effect describes whether a request that failed may have had an effect.
type effect int

const (
	_            effect = iota // each fault must set one
	notProcessed               // not sent, or rejected
	maybeProcessed
)

// outcomeFault is a fault of all requests of an operation.
type outcomeFault struct {
	name   string
	effect effect
	is     error // the sentinel that the error matches; nil: none

	respond, token func(*outcomeTest) http.HandlerFunc  // of operations and of token requests; nil: no fault
	transport      func(*outcomeTest) http.RoundTripper // nil: the usual one
	timeout        time.Duration                        // of the HTTP client
	deadline       time.Duration                        // of the caller; 0: none
	canceled       bool                                 // the caller's context is canceled before the call
	deletes        bool                                 // DELETE succeeds: it ignores the body
	mismatch       bool                                 // only for operations that compare the response with the request
}

// outcomeFaults lists all faults. The operation and its method do not affect the effect.
func outcomeFaults() []outcomeFault {
	faults := slices.Concat(statusFaults(), responseFaults(), connectionFaults())
	for _, tt := range []struct {
		name    string
		respond http.HandlerFunc
		is      error
	}{
		{"503", respondWith(503, ""), nil},
		{"501", respondWith(501, ""), nil},
		{"302", respondWith(302, ""), nil},
		{"400", respondWith(400, ""), nil},
		{"401", respondWith(401, `{"error":"invalid_client"}`), idverify.ErrUnauthorized},
		{"429", respondWith(429, ""), idverify.ErrRateLimited},
		{"lost", drop, nil},
		{"HTML", respondWith(200, "<html>"), nil},
	} {
		faults = append(faults, outcomeFault{name: "token request " + tt.name, effect: notProcessed, is: tt.is, token: everyTime(tt.respond)})
	}
	return append(faults,
		outcomeFault{name: "token request without a response", effect: notProcessed, is: context.DeadlineExceeded, deadline: 7 * time.Second, token: everyTime(hang)},
		outcomeFault{name: "403 for a new token after 401", effect: notProcessed, respond: everyTime(respondWith(401, "")),
			token: faultsInTurn(respondWithBody(validToken), respondWith(403, ""))},
	)
}

func statusFaults() (faults []outcomeFault) {
	sentinels := map[int]error{
		400: idverify.ErrBadRequest, 401: idverify.ErrUnauthorized, 402: idverify.ErrInsufficientBalance, 403: idverify.ErrForbidden, 404: idverify.ErrNotFound,
		405: idverify.ErrBadRequest, 409: idverify.ErrConflict, 410: idverify.ErrNotFound, 412: idverify.ErrNotMobileIP, 413: idverify.ErrBadRequest,
		415: idverify.ErrBadRequest, 429: idverify.ErrRateLimited, 501: idverify.ErrNetworkNotSupported,
	}
	for status := 300; status <= 599; status++ {
		f := outcomeFault{name: fmt.Sprint(status), effect: maybeProcessed, is: sentinels[status], respond: everyTime(respondWith(status, ""))}
		if status >= 400 && status <= 499 || status == 501 {
			f.effect = notProcessed
		}
		if f.is != nil || status%100 <= 8 || slices.Contains([]int{399, 418, 499, 520, 599}, status) {
			faults = append(faults, f)
		}
	}
	for _, status := range []string{"000", "099", "101", "600", "999"} {
		faults = append(faults, outcomeFault{name: status, effect: maybeProcessed, respond: everyTime(rawStatus(status))})
	}
	return append(faults,
		outcomeFault{name: "503 with a fragment", effect: maybeProcessed, is: idverify.ErrIPMismatch, respond: everyTime(respondWithProblem(503, "ip_msisdn_mismatch", ""))},
		outcomeFault{name: "400 with a fragment", effect: notProcessed, is: idverify.ErrNetworkNotSupported, respond: everyTime(respondWithProblem(400, "mno_not_supported", ""))},
		outcomeFault{name: "401, then 503", effect: maybeProcessed, respond: faultsInTurn(respondWith(401, ""), respondWith(503, ""))},
		outcomeFault{name: "401, then lost", effect: maybeProcessed, respond: faultsInTurn(respondWith(401, ""), drop)},
		outcomeFault{name: "429, then lost", effect: maybeProcessed, respond: faultsInTurn(respondWith(429, ""), drop)},
		outcomeFault{name: "429, then 400", effect: notProcessed, is: idverify.ErrBadRequest, respond: faultsInTurn(respondWith(429, ""), respondWith(400, ""))},
	)
}

func responseFaults() []outcomeFault {
	const mismatched = `{"check_id":"other","status":"ACCEPTED","phone_number":"447700900001","trace_id":"other","project_id":"other","client_id":"other",
		"client_secret":"other","workspace_id":"other","member_id":"other","payment_method_id":"other"}`
	tooManyValues := respondWithBody("[" + strings.Repeat("1,", 1<<16) + "1]")
	return []outcomeFault{
		{name: "another resource", effect: maybeProcessed, respond: everyTime(respondWithBody(mismatched)), deletes: true, mismatch: true},
		{name: "empty 200", effect: maybeProcessed, respond: everyTime(respondWith(200, "")), deletes: true},
		{name: "empty 201", effect: maybeProcessed, respond: everyTime(respondWith(201, "")), deletes: true},
		{name: "HTML", effect: maybeProcessed, respond: everyTime(respondWithBody("<html>")), deletes: true},
		{name: "other JSON", effect: maybeProcessed, respond: everyTime(respondWithBody("[1]")), deletes: true},
		{name: "too many values", effect: maybeProcessed, respond: everyTime(tooManyValues)},
		{name: "too many values, then canceled", effect: maybeProcessed, is: context.Canceled, respond: everyTime(tooManyValues), transport: (*outcomeTest).cancelAfterBody},
		{name: "truncated", effect: maybeProcessed, respond: everyTime(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		})},
	}
}

func connectionFaults() []outcomeFault {
	return []outcomeFault{
		{name: "lost after the request", effect: maybeProcessed, respond: everyTime(drop)},
		// The first write of net/http is the header, the second the body.
		{name: "lost while writing the header", effect: notProcessed, transport: func(o *outcomeTest) http.RoundTripper { return o.failWrites(0) }},
		{name: "lost while writing the body", effect: maybeProcessed, respond: everyTime(drop), transport: func(o *outcomeTest) http.RoundTripper { return o.failWrites(1) }},
		{name: "connection refused", effect: notProcessed, transport: (*outcomeTest).refuseConnections},
		{name: "failed TLS handshake", effect: notProcessed, transport: (*outcomeTest).failHandshakes},
		{name: "no response until the deadline", effect: maybeProcessed, is: context.DeadlineExceeded, deadline: 7 * time.Second, respond: everyTime(hang)},
		{name: "no response until the timeout", effect: maybeProcessed, is: context.DeadlineExceeded, timeout: 7 * time.Second, respond: everyTime(hang)},
		{name: "canceled during the request", effect: maybeProcessed, is: context.Canceled, respond: (*outcomeTest).cancelDuringRequest},
		{name: "canceled before the request", effect: notProcessed, is: context.Canceled, canceled: true},
	}
}

func everyTime(h http.HandlerFunc) func(*outcomeTest) http.HandlerFunc {
	return func(*outcomeTest) http.HandlerFunc { return h }
}

func faultsInTurn(handlers ...http.HandlerFunc) func(*outcomeTest) http.HandlerFunc {
	return func(*outcomeTest) http.HandlerFunc { return respondInTurn(handlers...) }
}

// hang reads the request and does not respond.
func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// rawStatus responds with a status that net/http does not send.
func rawStatus(status string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 %s Text\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", status)
	}
}
