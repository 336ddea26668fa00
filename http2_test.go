package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	idverify "github.com/idverify/idverify-go"
)

// streamFault is a failure of a request: apply runs when the event at has happened.
type streamFault struct {
	name  string
	at    http2Event
	apply func(*http2Stream)
}

// streamFaults returns the faults of an HTTP/2 request, before and after the request is complete:
// RST_STREAM with each code, GOAWAY with an earlier, the current or a later stream as the last
// processed one, and a closed connection.
func streamFaults() []streamFault {
	var faults []streamFault
	for _, at := range []struct {
		name  string
		event http2Event
	}{{"before END_STREAM", headersReceived}, {"after END_STREAM", requestReceived}} {
		add := func(name string, apply func(*http2Stream)) {
			faults = append(faults, streamFault{name + " " + at.name, at.event, apply})
		}
		for code := http2.ErrCodeNo; code <= http2.ErrCodeHTTP11Required; code++ {
			add("RST_STREAM "+code.String(), func(s *http2Stream) { s.reset(code) })
		}
		for _, code := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeProtocol, http2.ErrCodeEnhanceYourCalm} {
			add("GOAWAY before the stream "+code.String(), func(s *http2Stream) {
				s.ended = true
				s.WriteGoAway(max(s.id, 2)-2, code, nil)
			})
			for position, last := range map[string]func(id uint32) uint32{
				"before the stream":  func(id uint32) uint32 { return max(id, 2) - 2 },
				"at the stream":      func(id uint32) uint32 { return id },
				"after every stream": func(uint32) uint32 { return 1<<31 - 1 },
			} {
				add("GOAWAY "+position+", then closed "+code.String(), func(s *http2Stream) {
					s.WriteGoAway(last(s.id), code, nil)
					s.conn.Close()
				})
			}
		}
		add("connection closed", func(s *http2Stream) { s.conn.Close() })
	}
	return faults
}

// http2Operation is an operation, with its response and a function that calls it.
type http2Operation struct {
	name, method string
	response     string
	call         func(context.Context, http2Clients) error
}

var (
	createOperation = http2Operation{"Create", http.MethodPost, `{"check_id":"c","status":"ACCEPTED"}`, func(ctx context.Context, c http2Clients) error {
		_, err := c.client.PhoneChecks.Create(ctx, createParams)
		return err
	}}
	completeOperation = http2Operation{"Complete", http.MethodPatch, `{"check_id":"c","status":"COMPLETED","match":true}`, func(ctx context.Context, c http2Clients) error {
		_, err := c.client.PhoneChecks.Complete(ctx, "c", "code")
		return err
	}}
	resetOperation = http2Operation{"Reset", http.MethodPost, `{"client_id":"client","client_secret":"another-secret"}`, func(ctx context.Context, c http2Clients) error {
		_, err := c.console.WorkspaceCredentials.ResetSecret(ctx, "member", "client")
		return err
	}}
	getOperation = http2Operation{"Get", http.MethodGet, `{"check_id":"c","status":"COMPLETED","match":true}`, func(ctx context.Context, c http2Clients) error {
		_, err := c.client.PhoneChecks.Get(ctx, "c")
		return err
	}}
	deleteOperation = http2Operation{"Delete", http.MethodDelete, "", func(ctx context.Context, c http2Clients) error {
		return c.console.ProjectCredentials.Delete(ctx, "project", "client")
	}}
	putOperation = http2Operation{"UpdateAccount", http.MethodPut, `{"company_name":"c"}`, func(ctx context.Context, c http2Clients) error {
		_, err := c.console.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "c"})
		return err
	}}
)

// defaultRetries permits the default number of attempts, with waits of at most a millisecond.
var defaultRetries = idverify.RetryPolicy{MinWait: time.Microsecond, MaxWait: time.Millisecond}

// The client never repeats a POST or PATCH that was written completely, even if HTTP/2 guarantees
// that the stream was not processed: a proxy may send REFUSED_STREAM after its backend has
// processed the request.
func TestClient_WritesOnceOverHTTP2(t *testing.T) {
	t.Parallel()
	for _, op := range []http2Operation{createOperation, completeOperation, resetOperation} {
		for _, fault := range streamFaults() {
			for _, then := range []string{"then a response", "always"} {
				t.Run(fmt.Sprintf("%s/%s/%s", op.name, fault.name, then), func(t *testing.T) {
					t.Parallel()
					srv := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
						switch {
						case event == fault.at && (s.number == 1 || then == "always"):
							fault.apply(s)
						case event == requestReceived:
							s.respond(http.StatusOK, op.response)
						}
					}))

					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					err := op.call(ctx, srv.clients(t, idverify.WithRetry(defaultRetries)))

					srv.wait()
					switch n := srv.received(op.method); {
					case n > 1:
						t.Errorf("complete requests = %d, want at most 1: each may be charged (error %v)", n, err)
					case err == nil && n != 1:
						t.Errorf("error = nil after %d complete requests, want 1 request", n)
					}
					if err == nil && fault.at == requestReceived {
						t.Error("error = nil, want an error: the only complete request had no response")
					}
					// The outcome is known only if the client could retry to the end, because it never wrote a
					// complete body.
					gaveUp := err != nil && strings.HasSuffix(err.Error(), " [4 attempts]") && srv.received(op.method) == 0
					if err != nil && !gaveUp && !errors.Is(err, idverify.ErrOutcomeUnknown) {
						t.Errorf("error = %q, want ErrOutcomeUnknown", err)
					}
					if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error = %v, want one that is not the caller's cancellation", err)
					}
				})
			}
		}
	}
}

// Without a limit net/http repeats a request without a body each time that the server resets it.
func TestClient_LimitsWritesOverHTTP2(t *testing.T) {
	t.Parallel()
	for _, op := range []http2Operation{getOperation, deleteOperation, putOperation} {
		for _, fault := range streamFaults() {
			t.Run(op.name+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				srv := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
					if event == fault.at {
						fault.apply(s)
					}
				}))
				withoutRetries := idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})

				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := op.call(ctx, srv.clients(t, withoutRetries))

				srv.wait()
				if n := srv.received(op.method); n > 2 || err == nil {
					t.Errorf("requests in one attempt = %d, error = %v, want at most 2 and an error", n, err)
				}
				if errors.Is(err, idverify.ErrOutcomeUnknown) || errors.Is(err, context.Canceled) {
					t.Errorf("error = %v, want a connection error: the operation is idempotent", err)
				}
			})
		}
	}
}

// The client writes a token request at most twice. Without a token it does not send the operation.
func TestClient_LimitsTokenWritesOverHTTP2(t *testing.T) {
	t.Parallel()
	for _, fault := range streamFaults() {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			srv := newHTTP2Server(t, func(s *http2Stream, event http2Event) {
				if event == fault.at {
					fault.apply(s)
				}
			})

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := createOperation.call(ctx, srv.clients(t, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})))

			srv.wait()
			if n := srv.receivedTokens(); n > 2 || err == nil {
				t.Errorf("token requests in one attempt = %d, error = %v, want at most 2 and an error", n, err)
			}
			if n := srv.received(http.MethodPost); n != 0 {
				t.Errorf("creates = %d, want 0: there is no token", n)
			}
			if errors.Is(err, idverify.ErrOutcomeUnknown) || errors.Is(err, context.Canceled) {
				t.Errorf("error = %v, want a connection error: the check was not sent", err)
			}
		})
	}
}

// If the first write of an idempotent request is lost, the request succeeds in the same attempt.
func TestClient_ResendsRefusedStream(t *testing.T) {
	t.Parallel()
	for _, op := range []http2Operation{getOperation, putOperation} {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			var tokens atomic.Int32
			srv := newHTTP2Server(t, func(s *http2Stream, event http2Event) {
				switch {
				case event != requestReceived:
				case s.path == tokenPath && tokens.Add(1) == 1, s.path != tokenPath && s.number == 1:
					s.reset(http2.ErrCodeRefusedStream)
				case s.path == tokenPath:
					s.respondToken()
				default:
					s.respond(http.StatusOK, op.response)
				}
			})

			err := op.call(t.Context(), srv.clients(t, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})))

			srv.wait()
			if n, tokens := srv.received(op.method), srv.receivedTokens(); err != nil || n != 2 || tokens != 2 {
				t.Errorf("requests = %d, token requests = %d, error = %v, want 2, 2 and no error", n, tokens, err)
			}
		})
	}
}

// 404 after the second write of a DELETE means that the first write has deleted the resource.
func TestClient_DeleteAfterLostWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		op   http2Operation
		want error
	}{{deleteOperation, nil}, {getOperation, idverify.ErrNotFound}} {
		t.Run(tt.op.name, func(t *testing.T) {
			t.Parallel()
			srv := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
				switch {
				case event != requestReceived:
				case s.number == 1:
					s.reset(http2.ErrCodeRefusedStream)
				default:
					s.respond(http.StatusNotFound, `{"type":"https://docs.example/reference/api-errors#not_found"}`)
				}
			}))

			err := tt.op.call(t.Context(), srv.clients(t, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})))

			srv.wait()
			if n := srv.received(tt.op.method); n != 2 || !errors.Is(err, tt.want) {
				t.Errorf("requests = %d, error = %v, want 2 and %v", n, err, tt.want)
			}
		})
	}
}

// The client uses another connection if it knows that the idle one is closed. The request arrives
// once.
func TestClient_ClosedIdleConnection(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		kill func(*http2Stream)
	}{
		{"GOAWAY", func(s *http2Stream) { s.WriteGoAway(s.id, http2.ErrCodeNo, nil); s.conn.Close() }},
		{"closed", func(s *http2Stream) { s.conn.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
				switch {
				case event != requestReceived:
				case s.method == http.MethodGet:
					s.respond(http.StatusOK, getOperation.response)
					tt.kill(s)
				default:
					s.respond(http.StatusCreated, createOperation.response)
				}
			}))
			c := srv.clients(t, idverify.WithRetry(defaultRetries))
			if err := getOperation.call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			srv.conns.Wait() // until the client has also closed the connection

			err := createOperation.call(t.Context(), c)

			srv.wait()
			if n := srv.received(http.MethodPost); err != nil || n != 1 {
				t.Errorf("creates = %d, error = %v, want 1 and no error", n, err)
			}
		})
	}
}
