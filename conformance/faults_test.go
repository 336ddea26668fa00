package conformance_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// Each row breaks the fake in one way and lists all expectations that must fail.
func TestRun_DetectsFault(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		operation string
		fault     sandboxfake.Fault
		failed    []int
	}{
		{"token response without a token", "token.create", sandboxfake.Fault{Body: `{"token_type":"bearer"}`}, []int{1}},
		{"token endpoint unavailable", "token.create", sandboxfake.Fault{Status: 500}, []int{1, 2, 3, 4, 9}},
		{"empty key set", "jwks.get", sandboxfake.Fault{Body: `{"keys":[]}`}, []int{11}},
		{"truncated key set", "jwks.get", sandboxfake.Fault{Truncate: true}, []int{11}},
		{"created_at in another format", "phone_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"ACCEPTED","charge_amount":0,"charge_currency":"API","created_at":"2020-06-01T16:43:30Z"}`}, []int{12, 15, 43}},
		{"matching PhoneCheck read as not matching", "phone_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false}`}, []int{16}},
		{"empty list of PhoneChecks", "phone_check.list", sandboxfake.Fault{Body: `{"_embedded":{"checks":[]}}`}, []int{19}},
		{"SIMCheck without no_sim_change", "sim_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED"}`}, []int{20, 21, 22}},
		{"SubscriberCheck without a match has no_sim_change", "subscriber_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false,"no_sim_change":true}`}, []int{23, 24, 25}},
		{"other problem from reachability", "reachability.device_ip", sandboxfake.Fault{Status: 412, Code: "too_many_requests"}, []int{27, 28, 29}},
		{"lost callbacks", "callback", sandboxfake.Fault{Drop: true}, []int{30, 35, 36, 37, 42, 50}},
		{"callbacks signed with another key", "callback", sandboxfake.Fault{WrongKey: true}, []int{33, 41}},
		{"callbacks with a changed body", "callback", sandboxfake.Fault{Body: `{"check_id":"a"}`}, []int{31, 34, 35, 36, 37, 42}},
		{"truncated callbacks", "callback", sandboxfake.Fault{Truncate: true}, []int{31, 32, 34, 35, 36, 37, 41, 42}},
		{"redirects signed with another key", "phone_check.open", sandboxfake.Fault{WrongKey: true}, []int{44}},
		{"code never accepted", "phone_check.complete", sandboxfake.Fault{Status: 404, Code: "check_not_found"}, []int{45}},
		{"third pair of credentials accepted", "project_credentials.create", sandboxfake.Fault{Status: 201, Body: `{"client_id":"a","client_secret":"b"}`}, []int{48}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv, config := inMemory(t)
				srv.Inject(sandboxfake.Match{Operation: row.operation, Repeat: true}, row.fault)

				report := run(t, config)

				failed := failedNumbers(report)
				if !slices.Equal(failed, row.failed) {
					t.Errorf("failed expectations = %v, want %v", failed, row.failed)
				}
			})
		})
	}
}

func TestRun_DetectsEndlessRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, config := inMemory(t)
		config.Advance = func(ctx context.Context, d time.Duration) error {
			for _, delivery := range srv.Deliveries() {
				if err := srv.Redeliver(ctx, delivery.ID); err != nil {
					return err
				}
			}
			return srv.Advance(ctx, d)
		}

		report := run(t, config)

		failed := failedNumbers(report)
		if want := []int{38, 39, 40, 41}; !slices.Equal(failed, want) {
			t.Errorf("failed expectations = %v, want %v", failed, want)
		}
	})
}
