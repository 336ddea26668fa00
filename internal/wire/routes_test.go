package wire_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/wire"
)

// The fixture is written by hand, so that the test finds mistakes in the shared table.
func TestOperations_MatchFixture(t *testing.T) {
	t.Parallel()
	type row struct {
		Operation, Method, Path, Scope string
		Success                        int
	}
	text, err := os.ReadFile("testdata/operations.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []row
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}

	var got []row
	for _, op := range wire.Operations() {
		got = append(got, row{op.Name, op.Method, op.Path, op.Scope, op.Success})
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations differ from testdata/operations.json (-want +got):\n%s", diff)
	}
}

func TestOperation_URL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		op   wire.Operation
		ids  []string
		want string // empty: rejected
	}{
		{wire.GetPhoneCheck, []string{"a"}, "/phone_check/v0.1/checks/a"},
		{wire.GetPhoneCheck, []string{"a&b c d"}, "/phone_check/v0.1/checks/a&b%20c%20d"},
		{wire.LookupDeviceIP, []string{"2001:db8::1"}, "/coverage/v0.1/device_ips/2001:db8::1"},
		{wire.GetProjectIn, []string{"w", "p"}, "/console/v0.1/workspaces/w/projects/p"},
		{wire.JWKS, nil, "/.well-known/jwks.json"},
		{wire.GetPhoneCheck, nil, ""},
		{wire.GetPhoneCheck, []string{""}, ""},
		{wire.GetPhoneCheck, []string{"."}, ""},
		{wire.GetPhoneCheckTrace, []string{"a", ".."}, ""},
		{wire.GetPhoneCheck, []string{"a/../b"}, ""},
		{wire.GetPhoneCheck, []string{`a\b`}, ""},
		{wire.GetPhoneCheck, []string{"a%2Fb"}, ""},
		{wire.GetPhoneCheck, []string{"..;"}, ""},
		{wire.GetPhoneCheck, []string{"a?b"}, ""},
		{wire.GetPhoneCheck, []string{"a#b"}, ""},
		{wire.GetPhoneCheck, []string{"a\n"}, ""},
	} {
		got, err := tt.op.URL("https://api.sandbox.test", wire.V01, tt.ids...)

		if got, _ = strings.CutPrefix(got, "https://api.sandbox.test"); got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: URL(%q) = %q, %v, want %q", tt.op.Name, tt.ids, got, err, tt.want)
		}
	}
}

func TestOperation_Resource(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		op   wire.Operation
		ids  []string
		want string
	}{
		{wire.CreatePhoneCheck, nil, ""},
		{wire.GetPhoneCheck, []string{"check"}, "check"},
		{wire.CompletePhoneCheck, []string{"check"}, "check"},
		{wire.ListPhoneCheckTraces, []string{"check"}, ""},
		{wire.GetPhoneCheckTrace, []string{"check", "trace"}, "trace"},
		{wire.GetCountry, []string{"GB"}, ""},
		{wire.GetProjectIn, []string{"workspace", "default"}, "default"},
		{wire.CreateProjectCredentialsIn, []string{"workspace", "project"}, ""},
		{wire.GetWorkspace, []string{"workspace"}, "workspace"},
		{wire.GetWorkspace, []string{"default"}, ""},
		{wire.ResetWorkspaceCredentials, []string{"workspace", "member", "client"}, "client"},
		{wire.GetUsage, []string{"workspace", "daily"}, ""},
	} {
		if got := tt.op.Resource(tt.ids); got != tt.want {
			t.Errorf("%s: Resource(%q) = %q, want %q", tt.op.Name, tt.ids, got, tt.want)
		}
	}
}

func TestTitle(t *testing.T) {
	t.Parallel()

	if got := wire.Title("phone_check.create"); got != "create PhoneCheck" {
		t.Errorf("Title(%q) = %q, want %q", "phone_check.create", got, "create PhoneCheck")
	}
	if got := wire.Title("unknown"); got != "unknown" {
		t.Errorf("Title(%q) = %q, want the name", "unknown", got)
	}
}
