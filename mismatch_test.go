package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	idverify "github.com/idverify/idverify-go"
)

// resourceWithIDs returns JSON with every kind of ID. All IDs are id.
func resourceWithIDs(id string) string {
	return fmt.Sprintf(`{"check_id":%[1]q,"status":"COMPLETED","match":true,"trace_id":%[1]q,"project_id":%[1]q,"client_id":%[1]q,"client_secret":"new-secret",
		"workspace_id":%[1]q,"member_id":%[1]q,"payment_method_id":%[1]q}`, id)
}

func TestClient_RejectsMismatchedIDs(t *testing.T) {
	t.Parallel()
	const requested, other = "requested-1", "requested-2"
	for op, placeholders := range withIDs(t) {
		// The end of the path is the kind of the resource in the response.
		path := strings.TrimSuffix(op.Path, "/reset")
		if !strings.HasSuffix(path, "_id}") || op.Method == http.MethodDelete {
			continue
		}
		t.Run(op.Method+" "+op.Path, func(t *testing.T) {
			t.Parallel()
			last := placeholders[len(placeholders)-1]
			id := func(name string) string {
				if name == last {
					return requested
				}
				return other // the parents are not in the response
			}

			matchErr := newService(t, respondWith(op.Success, resourceWithIDs(requested))).callWithIDs(t, op, id)
			srv := newService(t, withRequestID("req-7", respondWith(op.Success, resourceWithIDs(other))))
			err := srv.callWithIDs(t, op, id)

			if matchErr != nil {
				t.Errorf("response about the requested resource: error = %v, want nil", matchErr)
			}
			e, ok := errors.AsType[*idverify.DecodeError](err)
			if !ok {
				t.Fatalf("error = %v, want a *DecodeError: the response is about another resource", err)
			}
			if e.Status != op.Success || e.Operation != op.Name || e.RequestID != "req-7" {
				t.Errorf("error = %+v, want status, operation and request ID of the response", e)
			}
			unknown := errors.Is(err, idverify.ErrOutcomeUnknown)
			if want := op.Method == http.MethodPost || op.Method == http.MethodPatch; unknown != want {
				t.Errorf("error = %v, matches ErrOutcomeUnknown: %t, want %t", err, unknown, want)
			}
			if strings.Contains(err.Error(), "requested-") {
				t.Errorf("error = %q contains an ID", err)
			}
			sent := srv.requests(func(r recordedRequest) bool { return r.uri != tokenPath && r.method == op.Method })
			if len(sent) != 1 && op.Name != "workspaces.get" {
				t.Errorf("%d requests, want 1", len(sent))
			}
		})
	}
}

func TestPhoneCheckService_WaitRejectsMismatchedID(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, `{"check_id":"another","status":"COMPLETED","match":true}`))

	check, err := srv.client(t).PhoneChecks.Wait(t.Context(), "mine")

	if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || check != nil {
		t.Errorf("check = %+v, error = %v, want a *DecodeError and no result of another check", check, err)
	}
}

func TestConsole_AcceptsDefaultWorkspace(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, resourceWithIDs("workspace-7")))

	for _, c := range []*idverify.Console{srv.console(t), srv.console(t).ForWorkspace("default"), srv.console(t).ForWorkspace("workspace-7")} {
		w, err := c.Workspaces.Get(t.Context())
		if err != nil || w.WorkspaceID != "workspace-7" {
			t.Errorf("workspace = %+v, error = %v, want workspace-7", w, err)
		}
	}
}

func TestClient_CreateComparesPhoneNumber(t *testing.T) {
	t.Parallel()
	const typed = "+44 (7700) 900-000"
	creates := map[string]func(context.Context, *idverify.Client) error{
		"PhoneCheck": func(ctx context.Context, c *idverify.Client) error {
			return errorOf(c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: typed}))
		},
		"SIMCheck": func(ctx context.Context, c *idverify.Client) error {
			return errorOf(c.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: typed}))
		},
		"SubscriberCheck": func(ctx context.Context, c *idverify.Client) error {
			return errorOf(c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: typed}))
		},
	}
	for _, tt := range []struct {
		name, number string // as JSON in the response
		same         bool
	}{
		{"same number", `,"phone_number":"447700900000"`, true},
		{"same number in another notation", `,"phone_number":"+44 7700 900000"`, true},
		{"absent", ``, true},
		{"null", `,"phone_number":null`, true},
		{"empty", `,"phone_number":""`, true},
		{"number of another person", `,"phone_number":"447700900001"`, false},
		{"longer", `,"phone_number":"4477009000001"`, false},
		{"not a number", `,"phone_number":"4477009xxxxx"`, false},
	} {
		for product, create := range creates {
			t.Run(product+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				srv := newService(t, respondWith(201, `{"check_id":"a","status":"ACCEPTED"`+tt.number+`}`))

				err := create(t.Context(), srv.client(t))

				if tt.same {
					if err != nil {
						t.Errorf("error = %v, want nil", err)
					}
					return
				}
				if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || !errors.Is(err, idverify.ErrOutcomeUnknown) {
					t.Errorf("error = %v, want a *DecodeError that matches ErrOutcomeUnknown", err)
				}
				if strings.Contains(fmt.Sprint(err), "4477009") {
					t.Errorf("error = %q contains a phone number", err)
				}
				if n := len(srv.calls()); n != 1 {
					t.Errorf("%d creates, want 1: each one is charged", n)
				}
			})
		}
	}
}
