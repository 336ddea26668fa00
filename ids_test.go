package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// ids returns the ID for a placeholder of a path, such as "check_id".
type ids func(placeholder string) string

// callsWithIDs contains a call for every operation of the route table whose path contains IDs.
var callsWithIDs = map[string]func(context.Context, *idverify.Client, *idverify.Console, ids) error{
	"phone_check.get": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.PhoneChecks.Get(ctx, id("check_id")))
	},
	"phone_check.complete": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.PhoneChecks.Complete(ctx, id("check_id"), "code"))
	},
	"phone_check.traces": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.PhoneChecks.Traces(ctx, id("check_id")))
	},
	"subscriber_check.get": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.SubscriberChecks.Get(ctx, id("check_id")))
	},
	"subscriber_check.complete": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.SubscriberChecks.Complete(ctx, id("check_id"), "code"))
	},
	"subscriber_check.traces": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.SubscriberChecks.Traces(ctx, id("check_id")))
	},
	"sim_check.get": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.SIMChecks.Get(ctx, id("check_id")))
	},
	"sim_check.traces": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.SIMChecks.Traces(ctx, id("check_id")))
	},
	"reachability.country": func(ctx context.Context, c *idverify.Client, _ *idverify.Console, id ids) error {
		return errorOf(c.Reachability.Country(ctx, id("code")))
	},

	"projects.create": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Projects.Create(ctx, idverify.ProjectParams{Name: "n", Mode: idverify.ModeLive}))
	},
	"projects.list": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Projects.List(ctx, idverify.ListOptions{}))
	},
	"projects.get": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.Projects.Get(ctx, id("project_id")))
	},
	"projects.update": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.Projects.Update(ctx, id("project_id"), idverify.ProjectUpdate{Name: new("n")}))
	},
	"projects.delete": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return o.Projects.Delete(ctx, id("project_id"))
	},
	"project_credentials.create": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.ProjectCredentials.Create(ctx, id("project_id")))
	},
	"project_credentials.list": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.ProjectCredentials.List(ctx, id("project_id"), idverify.ListOptions{}))
	},
	"project_credentials.get": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.ProjectCredentials.Get(ctx, id("project_id"), id("client_id")))
	},
	"project_credentials.delete": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return o.ProjectCredentials.Delete(ctx, id("project_id"), id("client_id"))
	},

	"workspaces.get": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errors.Join(errorOf(o.Workspaces.Get(ctx)), errorOf(o.Billing.Balance(ctx)))
	},
	"workspaces.update": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Workspaces.Rename(ctx, "n"))
	},
	"members.list": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Members.List(ctx, idverify.ListOptions{}))
	},
	"members.get": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.Members.Get(ctx, id("member_id")))
	},
	"invitations.create": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Invitations.Create(ctx, idverify.InvitationParams{Name: "n", Role: idverify.RoleViewer}))
	},
	"invitations.list": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Invitations.List(ctx, idverify.ListOptions{}))
	},
	"workspace_credentials.create": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.WorkspaceCredentials.Create(ctx, id("member_id")))
	},
	"workspace_credentials.list": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.WorkspaceCredentials.List(ctx, id("member_id"), idverify.ListOptions{}))
	},
	"workspace_credentials.get": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.WorkspaceCredentials.Get(ctx, id("member_id"), id("client_id")))
	},
	"workspace_credentials.delete": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return o.WorkspaceCredentials.Delete(ctx, id("member_id"), id("client_id"))
	},
	"workspace_credentials.reset": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.WorkspaceCredentials.ResetSecret(ctx, id("member_id"), id("client_id")))
	},
	"billing.account": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Billing.Get(ctx))
	},
	"billing.update_account": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "n"}))
	},
	"payment_methods.create": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.PaymentMethods.Create(ctx, idverify.PaymentMethodParams{}))
	},
	"payment_methods.list": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.PaymentMethods.List(ctx, idverify.ListOptions{}))
	},
	"payment_methods.get": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return errorOf(o.PaymentMethods.Get(ctx, id("payment_method_id")))
	},
	"payment_methods.delete": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, id ids) error {
		return o.PaymentMethods.Delete(ctx, id("payment_method_id"))
	},
	"topups.create": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.TopUps.Create(ctx, idverify.TopUpParams{Amount: "1"}))
	},
	"topups.list": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.TopUps.List(ctx, idverify.ListOptions{}))
	},
	"usage.get": func(ctx context.Context, _ *idverify.Client, o *idverify.Console, _ ids) error {
		return errorOf(o.Usage.Daily(ctx, idverify.UsageQuery{From: newClock().now()}))
	},
}

// notCalled contains the operations whose IDs a caller cannot choose freely. Devices, not the
// client, open Check URLs. An IP address is a netip.Addr. A single trace has no method.
var notCalled = map[string]bool{
	"phone_check.open": true, "subscriber_check.open": true, "reachability.device_ip": true,
	"phone_check.trace": true, "subscriber_check.trace": true, "sim_check.trace": true,
}

// withIDs returns the operations whose path contains IDs, with their placeholders.
func withIDs(t testing.TB) map[wire.Operation][]string {
	t.Helper()
	found := make(map[wire.Operation][]string)
	for _, op := range wire.Operations() {
		for segment := range strings.SplitSeq(op.Path, "/") {
			name := strings.Trim(segment, "{}")
			if name == segment || name == "v" || name == "period" || notCalled[op.Name] {
				continue
			}
			if callsWithIDs[op.Name] == nil {
				t.Errorf("callsWithIDs has no call for %s", op.Name)
				continue
			}
			found[op] = append(found[op], name)
		}
	}
	if len(found) < 40 {
		t.Errorf("operations with IDs = %d, want at least 40", len(found))
	}
	return found
}

// callWithIDs calls op. Operations of a workspace use id("workspace_id").
func (s *service) callWithIDs(t testing.TB, op wire.Operation, id ids) error {
	t.Helper()
	v02 := idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"})
	console := s.console(t)
	if strings.Contains(op.Path, "{workspace_id}") {
		console = console.ForWorkspace(id("workspace_id"))
	}
	return callsWithIDs[op.Name](t.Context(), s.client(t, v02), console, id)
}

func TestClient_RejectsUnsafeIDs(t *testing.T) {
	t.Parallel()
	unsafe := []string{
		"", ".", "..", "..;", "..;v=1", " .. ", "..?", "p?", "p#x",
		"../../project-2", "a/b", "/", `..\..\project-2`, `a\b`,
		"a%2fb", "%2e%2e", "a%", "a\x00", "a\r\nb", "a\tb", "a\x7f", "a\u0085b", "a\xff",
	}
	for op, placeholders := range withIDs(t) {
		t.Run(op.Method+" "+op.Path, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(500, ""))
			for _, placeholder := range placeholders {
				for _, bad := range unsafe {
					if placeholder == "code" && strings.TrimSpace(bad) != bad {
						continue // Country trims spaces around the code
					}

					err := srv.callWithIDs(t, op, func(name string) string {
						if name == placeholder {
							return bad
						}
						return "good"
					})

					if !errors.Is(err, idverify.ErrBadRequest) {
						t.Errorf("%s %q: error = %v, want ErrBadRequest", placeholder, bad, err)
					}
					if len(bad) > 2 && strings.Contains(fmt.Sprint(err), bad) {
						t.Errorf("%s %q: error = %q, want it without the ID", placeholder, bad, err)
					}
				}
			}
			if n := len(srv.calls()) + len(srv.tokens()); n != 0 {
				t.Errorf("requests = %d, want 0: a proxy may decode the path", n)
			}
		})
	}
}

func TestClient_EscapesIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"a b":    "a%20b",
		"a;b":    "a%3Bb",
		"...":    "...",
		"..a":    "..a",
		"größe":  "gr%C3%B6%C3%9Fe",
		"a+b@:c": "a+b@:c",
	} {
		srv := newService(t, respondWithProblem(http.StatusNotFound, "check_not_found", "no such check"))

		_, err := srv.client(t).PhoneChecks.Get(t.Context(), id)

		if !errors.Is(err, idverify.ErrNotFound) {
			t.Fatalf("Get(%q): error = %v, want ErrNotFound", id, err)
		}
		if got := srv.calls()[0].uri; got != "/phone_check/v0.1/checks/"+want {
			t.Errorf("Get(%q): URI = %q, want %q", id, got, "/phone_check/v0.1/checks/"+want)
		}
	}
}
