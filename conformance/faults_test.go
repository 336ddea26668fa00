package conformance_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// TestTheSuiteNamesWhatAMutantBreaks breaks the fake in one way a row, and wants the suite to name the broken expectations, and no others.
func TestTheSuiteNamesWhatAMutantBreaks(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		operation string
		fault     sandboxfake.Fault
		failed    []int
	}{
		{"the token's answer has no token", "oauth2.token", sandboxfake.Fault{Body: `{"token_type":"bearer"}`}, []int{1}},
		{"the token endpoint is down", "oauth2.token", sandboxfake.Fault{Status: 500}, []int{1, 2, 3, 4, 9}},
		{"the key set is empty", "jwks.get", sandboxfake.Fault{Body: `{"keys":[]}`}, []int{11}},
		{"the key set is cut off", "jwks.get", sandboxfake.Fault{Truncate: true}, []int{11}},
		{"created_at has another form", "phone_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"ACCEPTED","charge_amount":0,"charge_currency":"API","created_at":"2020-06-01T16:43:30Z"}`}, []int{12, 15, 43}},
		{"a PhoneCheck that matches is read as one that does not", "phone_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false}`}, []int{16}},
		{"the list of PhoneChecks is empty", "phone_check.list", sandboxfake.Fault{Body: `{"_embedded":{"checks":[]}}`}, []int{19}},
		{"a SIMCheck has no no_sim_change", "sim_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED"}`}, []int{20, 21, 22}},
		{"a SubscriberCheck that was not decided tells no SIM change", "subscriber_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false,"no_sim_change":true}`}, []int{23, 24, 25}},
		{"reachability has another problem", "coverage.device_ip", sandboxfake.Fault{Status: 412, Fragment: "too_many_requests"}, []int{27, 28, 29}},
		{"callbacks are lost", "callback", sandboxfake.Fault{Drop: true}, []int{30, 35, 36, 37, 42, 50}},
		{"callbacks are signed with another key", "callback", sandboxfake.Fault{WrongKey: true}, []int{33, 41}},
		{"callbacks have another body than was signed", "callback", sandboxfake.Fault{Body: `{"check_id":"a"}`}, []int{31, 34, 35, 36, 37, 42}},
		{"callbacks are cut off", "callback", sandboxfake.Fault{Truncate: true}, []int{31, 32, 34, 35, 36, 37, 41, 42}},
		{"redirects are signed with another key", "phone_check.open", sandboxfake.Fault{WrongKey: true}, []int{44}},
		{"a code is never taken", "phone_check.complete", sandboxfake.Fault{Status: 404, Fragment: "check_not_found"}, []int{45}},
		{"a third pair of credentials is given", "project_credentials.create", sandboxfake.Fault{Status: 201, Body: `{"client_id":"a","client_secret":"b"}`}, []int{48}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv, config := inMemory(t)
				srv.Inject(sandboxfake.Match{Operation: row.operation, Repeat: true}, row.fault)

				report := run(t, config)

				var failed []int
				for _, result := range report.Failed() {
					failed = append(failed, result.Number)
				}
				if !slices.Equal(failed, row.failed) {
					t.Errorf("the suite names %v, want %v", failed, row.failed)
				}
			})
		})
	}
}

func TestTheSuiteNamesAServiceThatNeverStopsTrying(t *testing.T) {
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

		var failed []int
		for _, result := range report.Failed() {
			failed = append(failed, result.Number)
		}
		if want := []int{38, 39, 40, 41}; !slices.Equal(failed, want) {
			t.Errorf("the suite names %v, want %v", failed, want)
		}
	})
}
