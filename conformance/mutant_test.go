package conformance_test

import (
	"slices"
	"testing"
	"testing/synctest"

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
		{"the token's answer has no token", "oauth2.token", sandboxfake.Fault{Body: `{"token_type":"bearer"}`}, nil},
		{"the token endpoint is down", "oauth2.token", sandboxfake.Fault{Status: 500}, nil},
		{"the key set is empty", "jwks.get", sandboxfake.Fault{Body: `{"keys":[]}`}, nil},
		{"the key set is cut off", "jwks.get", sandboxfake.Fault{Truncate: true}, nil},
		{"created_at has another form", "phone_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"ACCEPTED","charge_amount":0,"charge_currency":"API","created_at":"2020-06-01T16:43:30Z"}`}, nil},
		{"a PhoneCheck that matches is read as one that does not", "phone_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false}`}, nil},
		{"the list of PhoneChecks is empty", "phone_check.list", sandboxfake.Fault{Body: `{"_embedded":{"checks":[]}}`}, nil},
		{"a SIMCheck has no no_sim_change", "sim_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED"}`}, nil},
		{"a SubscriberCheck that was not decided tells no SIM change", "subscriber_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false,"no_sim_change":true}`}, nil},
		{"reachability has another problem", "coverage.device_ip", sandboxfake.Fault{Status: 412, Fragment: "too_many_requests"}, nil},
		{"callbacks are lost", "callback", sandboxfake.Fault{Drop: true}, nil},
		{"callbacks are signed with another key", "callback", sandboxfake.Fault{WrongKey: true}, nil},
		{"callbacks have another body than was signed", "callback", sandboxfake.Fault{Body: `{"check_id":"a"}`}, nil},
		{"callbacks are cut off", "callback", sandboxfake.Fault{Truncate: true}, nil},
		{"redirects are signed with another key", "phone_check.open", sandboxfake.Fault{WrongKey: true}, nil},
		{"a code is never taken", "phone_check.complete", sandboxfake.Fault{Status: 404, Fragment: "check_not_found"}, nil},
		{"a third pair of credentials is given", "project_credentials.create", sandboxfake.Fault{Status: 201, Body: `{"client_id":"a","client_secret":"b"}`}, nil},
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
