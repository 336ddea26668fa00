package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	idverify "github.com/idverify/idverify-go"
)

func TestWaitReturnsTheCheckOnceItIsCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var polls []time.Duration
		c := inProcess(t, func(*http.Request) (*http.Response, error) {
			at := time.Since(begun)
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

		if err != nil || check.Status != idverify.StatusCompleted || check.Match == nil || *check.Match {
			t.Fatalf("check %+v, error %v", check, err)
		}
		if polls[1]-polls[0] != 500*time.Millisecond {
			t.Errorf("the second read came after %v, want 500ms", polls[1]-polls[0])
		}
		if last := len(polls) - 1; polls[last]-polls[last-1] != 5*time.Second || len(polls) > 20 {
			t.Errorf("%d reads at %v: want the pauses to grow to 5s", len(polls), polls)
		}
	})
}

func TestWaitExplainsACheckThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const gone = `{"type":"https://docs.sandbox.test/reference/api-errors#check_not_found","status":404,"detail":"no such check"}`
	for _, tt := range []struct {
		name    string
		answers []string
		status  idverify.CheckStatus
		want    string
		gone    bool // errors.Is ErrNotFound
	}{
		{"it ends", []string{`{"check_id":"a","status":"PENDING","ttl":120}`, gone}, idverify.StatusPending,
			"idverify: wait for SubscriberCheck: the check was PENDING and can no longer be read: it ended as EXPIRED or ERROR, which only its callback shows", true},
		{"it has ended", []string{gone}, "",
			"idverify: wait for SubscriberCheck: the check cannot be read: it ended as EXPIRED or ERROR, which only its callback shows (give checks a CallbackURL to learn it), or it never was", true},
		{"it can be read after all", []string{`{"check_id":"a","status":"ERROR","match":false,"error_code":"mno_timeout"}`}, idverify.StatusError,
			"idverify: wait for SubscriberCheck: the check ended as ERROR: mno_timeout", false},
		{"it never ends", []string{`{"check_id":"a","status":"ACCEPTED","ttl":60}`}, idverify.StatusAccepted,
			"idverify: wait for SubscriberCheck: the check is still ACCEPTED although its ttl is over", false},
		{"a status to come", []string{`{"check_id":"a","status":"FROZEN"}`}, "FROZEN",
			"idverify: wait for SubscriberCheck: the check is still FROZEN although its ttl is over", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				answers := tt.answers
				c := inProcess(t, func(*http.Request) (*http.Response, error) {
					body := answers[0]
					if len(answers) > 1 {
						answers = answers[1:]
					}
					if body == gone {
						return response(404, []byte(body)), nil
					}
					return response(200, []byte(body)), nil
				})
				begun := time.Now()

				check, err := c.SubscriberChecks.Wait(t.Context(), "a")

				ended, ok := errors.AsType[*idverify.CheckEndedError](err)
				if !ok || check != nil || ended.CheckID != "a" || ended.Status != tt.status || err.Error() != tt.want {
					t.Errorf("check %v, error\n%v\nwant\n%s", check, err, tt.want)
				}
				if errors.Is(err, idverify.ErrNotFound) != tt.gone {
					t.Errorf("errors.Is(err, ErrNotFound) = %v", !tt.gone)
				}
				if took := time.Since(begun); took > 3*time.Minute || tt.status.Final() && took > 0 {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestWaitEndsWithItsContextAndWithAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		status := 200
		c := inProcess(t, func(*http.Request) (*http.Response, error) {
			return response(status, []byte(`{"check_id":"a","status":"ACCEPTED","ttl":120}`)), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		begun := time.Now()

		_, err := c.PhoneChecks.Wait(ctx, "a")

		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 7*time.Second || !strings.HasPrefix(fmt.Sprint(err), "idverify: wait for PhoneCheck: ") {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		status = 403
		if _, err := c.PhoneChecks.Wait(t.Context(), "a"); !errors.Is(err, idverify.ErrForbidden) {
			t.Errorf("error %v, want ErrForbidden", err)
		}
	})
}
