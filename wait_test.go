package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

func TestPhoneCheckService_WaitCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var polls []time.Duration
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			at := time.Since(start)
			polls = append(polls, at)
			switch {
			case at < 10*time.Second:
				return response(200, []byte(`{"check_id":"a","status":"ACCEPTED","ttl":120}`)), nil
			case at < 40*time.Second:
				return response(200, []byte(`{"check_id":"a","status":"PENDING","ttl":120}`)), nil
			}
			return response(200, []byte(`{"check_id":"a","status":"COMPLETED","match":false,"ttl":120}`)), nil
		})

		check, err := c.PhoneChecks.Wait(t.Context(), "a")

		if err != nil || check.Status != idverify.StatusCompleted || check.Match != idverify.VerdictNo {
			t.Fatalf("check = %+v, error = %v, want a completed check without a match", check, err)
		}
		if polls[1]-polls[0] != 500*time.Millisecond || polls[2]-polls[1] != 750*time.Millisecond {
			t.Errorf("polls at %v, want intervals of 500ms, then 750ms", polls[:3])
		}
		if last := len(polls) - 1; polls[last]-polls[last-1] != 5*time.Second || len(polls) > 20 {
			t.Errorf("%d polls at %v, want at most 20 with intervals that grow to 5s", len(polls), polls)
		}
	})
}

func TestSubscriberCheckService_WaitEnded(t *testing.T) {
	t.Parallel()
	const gone = `{"type":"https://docs.sandbox.test/reference/api-errors#check_not_found","status":404,"detail":"no such check"}`
	for _, tt := range []struct {
		name      string
		responses []string
		status    idverify.CheckStatus
		want      string
		gone      bool // errors.Is ErrNotFound
	}{
		{"pending, then not found", []string{`{"check_id":"a","status":"PENDING","ttl":120}`, gone}, idverify.StatusPending,
			"idverify: wait for SubscriberCheck: check not found after status PENDING: it ended as EXPIRED or ERROR (its callback reports how it ended)", true},
		{"not found", []string{gone}, "",
			"idverify: wait for SubscriberCheck: check not found: it ended as EXPIRED or ERROR, or never existed (set CallbackURL to learn how such checks end)", true},
		{"status error", []string{`{"check_id":"a","status":"ERROR","match":false,"error_code":"mno_timeout"}`}, idverify.StatusError,
			"idverify: wait for SubscriberCheck: check ended as ERROR: mno_timeout", false},
		{"accepted beyond its ttl", []string{`{"check_id":"a","status":"ACCEPTED","ttl":60}`}, idverify.StatusAccepted,
			"idverify: wait for SubscriberCheck: check is still ACCEPTED after its TTL", false},
		{"unknown status beyond its ttl", []string{`{"check_id":"a","status":"FROZEN"}`}, "FROZEN",
			"idverify: wait for SubscriberCheck: check is still FROZEN after its TTL", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				responses := tt.responses
				c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
					body := responses[0]
					if len(responses) > 1 {
						responses = responses[1:]
					}
					if body == gone {
						return response(404, []byte(body)), nil
					}
					return response(200, []byte(body)), nil
				})
				start := time.Now()

				check, err := c.SubscriberChecks.Wait(t.Context(), "a")

				ended, ok := errors.AsType[*idverify.CheckEndedError](err)
				if !ok || check != nil || ended.CheckID != "a" || ended.Operation != "subscriber_check.get" || ended.Status != tt.status || err.Error() != tt.want {
					t.Errorf("check = %v, error =\n%v\nwant no check and\n%s", check, err, tt.want)
				}
				if errors.Is(err, idverify.ErrNotFound) != tt.gone {
					t.Errorf("errors.Is(err, ErrNotFound) = %v, want %v", !tt.gone, tt.gone)
				}
				if took := time.Since(start); took > 3*time.Minute || tt.status.Final() && took > 0 {
					t.Errorf("Wait took %v, want at most 3m, and 0 for a final status", took)
				}
			})
		})
	}
}

func TestPhoneCheckService_WaitErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		status := 200
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			return response(status, []byte(`{"check_id":"a","status":"ACCEPTED","ttl":120}`)), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		start := time.Now()

		_, err := c.PhoneChecks.Wait(ctx, "a")

		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 7*time.Second || fmt.Sprint(err) != "idverify: wait for PhoneCheck: context deadline exceeded: check is still ACCEPTED" {
			t.Errorf("error after %v = %v, want context.DeadlineExceeded after 7s", time.Since(start), err)
		}
		status = 403
		if _, err := c.PhoneChecks.Wait(t.Context(), "a"); !errors.Is(err, idverify.ErrForbidden) {
			t.Errorf("error = %v, want ErrForbidden", err)
		}
	})
}

func TestPhoneCheckService_WaitHonorsTTL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, ttl string
		min, max  time.Duration
	}{
		{"short", `10`, 15 * time.Second, 20 * time.Second},
		{"default", `120`, 125 * time.Second, 130 * time.Second},
		{"long", `3600`, time.Hour + 5*time.Second, time.Hour + 10*time.Second},
		{"null", `null`, 125 * time.Second, 130 * time.Second},
		{"zero", `0`, 125 * time.Second, 130 * time.Second},
		{"negative", `-5`, 125 * time.Second, 130 * time.Second},
		{"huge negative", `-1e300`, 125 * time.Second, 130 * time.Second},
		{"fraction", `0.5`, 5500 * time.Millisecond, 11 * time.Second},
		{"maximum duration", `9223372036`, 2 * time.Hour, 2 * time.Hour}, // until the test's context ends
		{"maximum duration with fraction", `9223372036.8`, 2 * time.Hour, 2 * time.Hour},
		{"huge", `1e300`, 2 * time.Hour, 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
					return response(200, []byte(`{"check_id":"a","status":"ACCEPTED","ttl":`+tt.ttl+`}`)), nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				start := time.Now()

				check, err := c.PhoneChecks.Wait(ctx, "a")

				took := time.Since(start)
				if took < tt.min || took > tt.max || check != nil {
					t.Errorf("ttl %s: Wait took %v, want %v to %v (check %v, error %v)", tt.ttl, took, tt.min, tt.max, check, err)
				}
				_, ended := errors.AsType[*idverify.CheckEndedError](err)
				if inTime := tt.max < 2*time.Hour; ended != inTime || errors.Is(err, context.DeadlineExceeded) == inTime {
					t.Errorf("ttl %s: error = %v, want *CheckEndedError: %v", tt.ttl, err, inTime)
				}
			})
		})
	}
}

// Callers construct these errors in their own tests.
func TestCheckEndedError_ConstructedByCaller(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"still PENDING":            &idverify.CheckEndedError{Status: idverify.StatusPending},
		"ended as ERROR: mno_down": &idverify.CheckEndedError{Status: idverify.StatusError, ErrorCode: "mno_down"},
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %q, want it to contain %q", err, want)
		}
	}
}
