package idverify_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

// faultRows lists the result of an operation after one fault: what the caller gets, such as "ok" or
// "503", and how many requests of the operation the service received.
var faultRows = []struct {
	name  string
	fault sandboxfake.Fault

	idempotent    string // GET, PUT and DELETE
	nonIdempotent string // POST and PATCH
	forDelete     string // DELETE, if different: its response has no body to truncate or change
}{
	{"400", status(400), "400 after 1", "400 after 1", ""},
	{"401", status(401), "ok after 2", "ok after 2", ""}, // with another token
	{"402", status(402), "402 after 1", "402 after 1", ""},
	{"403", status(403), "403 after 1", "403 after 1", ""},
	{"404", status(404), "404 after 1", "404 after 1", ""},
	{"409", status(409), "409 after 1", "409 after 1", ""},
	{"412", status(412), "412 after 1", "412 after 1", ""},
	{"429", status(429), "ok after 2", "ok after 2", ""},
	{"429 for 3 s", sandboxfake.Fault{Status: 429, RetryAfter: 3 * time.Second}, "ok after 2", "ok after 2", ""},
	{"429 for an hour", sandboxfake.Fault{Status: 429, RetryAfter: time.Hour}, "429 after 1", "429 after 1", ""},
	{"500", status(500), "ok after 2", "500 after 1", ""},
	{"501", status(501), "501 after 1", "501 after 1", ""},
	{"502", status(502), "ok after 2", "502 after 1", ""},
	{"503", status(503), "ok after 2", "503 after 1", ""},
	{"503 for 3 s", sandboxfake.Fault{Status: 503, RetryAfter: 3 * time.Second}, "ok after 2", "503 after 1", ""},
	{"504", status(504), "ok after 2", "504 after 1", ""},
	{"505", status(505), "505 after 1", "505 after 1", ""},
	{"redirect", status(302), "302 after 1", "302 after 1", ""}, // not followed
	{"lost after the request", sandboxfake.Fault{Drop: true}, "ok after 2", "lost after 1", ""},
	{"truncated response", sandboxfake.Fault{Truncate: true}, "ok after 2", "lost after 1", "ok after 1"},
	{"no response", sandboxfake.Fault{Latency: time.Hour}, "ok after 2", "lost after 1", ""},
	{"slow response", sandboxfake.Fault{Latency: 20 * time.Second}, "ok after 1", "ok after 1", ""},
	{"HTML instead of JSON", sandboxfake.Fault{Body: "<html><h1>Bad gateway</h1></html>"}, "unusable after 1", "unusable after 1", "ok after 1"},
	{"other JSON", sandboxfake.Fault{Body: "[1]"}, "unusable after 1", "unusable after 1", "ok after 1"},
}

// tokenRows lists the result of an operation after a fault of its token request. The operation was
// not sent, so all methods have the same result.
var tokenRows = []struct {
	name  string
	fault sandboxfake.Fault
	want  string
}{
	{"400", status(400), "token 400 after 0"},
	{"401", sandboxfake.Fault{Status: 401, Code: "invalid_client"}, "token 401 after 0"},
	{"403", status(403), "token 403 after 0"},
	{"429", status(429), "ok after 1"},
	{"429 for 3 s", sandboxfake.Fault{Status: 429, RetryAfter: 3 * time.Second}, "ok after 1"},
	{"429 for an hour", sandboxfake.Fault{Status: 429, RetryAfter: time.Hour}, "token 429 after 0"},
	{"500", status(500), "ok after 1"},
	{"501", status(501), "token 501 after 0"},
	{"502", status(502), "ok after 1"},
	{"503", status(503), "ok after 1"},
	{"504", status(504), "ok after 1"},
	{"redirect", status(302), "token 302 after 0"},
	{"lost after the request", sandboxfake.Fault{Drop: true}, "ok after 1"},
	{"truncated response", sandboxfake.Fault{Truncate: true}, "ok after 1"},
	{"no response", sandboxfake.Fault{Latency: time.Hour}, "ok after 1"},
	{"slow response", sandboxfake.Fault{Latency: 20 * time.Second}, "ok after 1"},
	{"HTML instead of JSON", sandboxfake.Fault{Body: "<html></html>"}, "unusable after 0"},
}

func status(code int) sandboxfake.Fault { return sandboxfake.Fault{Status: code} }

// matrixTest is a service and the resources that an operation requires.
type matrixTest struct {
	t       testing.TB
	srv     *sandboxfake.Server
	client  *idverify.Client
	console *idverify.Console
	id      func(name string) string // value for a placeholder of a path, such as check_id
	names   int                      // number of names used

	failDial int           // number of the connection that fails, from 1; 0 means none
	timeout  time.Duration // of the caller; 0 means none
}

// matrixOperation is an operation of the client. prepare creates the resources that do requires.
type matrixOperation struct {
	op      wire.Operation
	prepare func(*matrixTest) ids
	do      func(context.Context, *matrixTest) error
}

// ids contains the values of placeholders.
type ids map[string]string

func (i ids) get(name string) string { return i[name] }

// matrixOperations lists all operations of a Client and a Console.
var matrixOperations = slices.Concat(productOperations, consoleOperations)

// productOperations lists all operations of a Client.
var productOperations = []matrixOperation{
	{wire.CreatePhoneCheck, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))
	}},
	{wire.GetPhoneCheck, newPhoneCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.Get(ctx, s.id("check_id")))
	}},
	{wire.ListPhoneChecks, newPhoneCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.List(ctx, idverify.ListOptions{}))
	}},
	{wire.CompletePhoneCheck, newOpenedPhoneCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.Complete(ctx, s.id("check_id"), s.id("code")))
	}},
	{wire.ListPhoneCheckTraces, newPhoneCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.PhoneChecks.Traces(ctx, s.id("check_id")))
	}},
	{wire.CreateSubscriberCheck, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: matchingNumber}))
	}},
	{wire.GetSubscriberCheck, newSubscriberCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.Get(ctx, s.id("check_id")))
	}},
	{wire.ListSubscriberChecks, newSubscriberCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.List(ctx, idverify.ListOptions{}))
	}},
	{wire.CompleteSubscriberCheck, newOpenedSubscriberCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.Complete(ctx, s.id("check_id"), s.id("code")))
	}},
	{wire.ListSubscriberCheckTraces, newSubscriberCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SubscriberChecks.Traces(ctx, s.id("check_id")))
	}},
	{wire.CreateSIMCheck, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: matchingNumber}))
	}},
	{wire.GetSIMCheck, newSIMCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SIMChecks.Get(ctx, s.id("check_id")))
	}},
	{wire.ListSIMChecks, newSIMCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SIMChecks.List(ctx, idverify.ListOptions{}))
	}},
	{wire.ListSIMCheckTraces, newSIMCheck, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.SIMChecks.Traces(ctx, s.id("check_id")))
	}},
	{wire.LookupDeviceIP, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.Reachability.Lookup(ctx, netip.MustParseAddr("203.0.113.8")))
	}},
	{wire.GetCountry, newCountry, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.client.Reachability.LookupCountry(ctx, s.id("code")))
	}},
}

// TestClient_FaultMatrix tests each operation with 24 faults of its own, 17 faults of its token
// request, failed connections, and a caller's deadline. The service must never process a POST or
// PATCH twice.
func TestClient_FaultMatrix(t *testing.T) {
	t.Parallel()
	for _, m := range matrixOperations {
		t.Run(m.op.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &matrixTest{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithJournalLimit(32))}
				for _, row := range faultRows {
					want := row.nonIdempotent
					if retryable(m.op) {
						want = row.idempotent
					}
					if m.op.Method == http.MethodDelete && row.forDelete != "" {
						want = row.forDelete
					}
					s.check(m, "fault "+row.name, m.op, row.fault, want)
				}
				for _, row := range tokenRows {
					s.check(m, "token fault "+row.name, wire.Token, row.fault, row.want)
				}
				// Nothing was written, so even a POST is retried.
				for _, s.failDial = range []int{1, 2} {
					s.check(m, fmt.Sprintf("connection %d fails", s.failDial), m.op, sandboxfake.Fault{}, "ok after 1")
				}
				s.failDial = 0
				s.timeout = 7 * time.Second
				s.check(m, "caller's deadline", m.op, sandboxfake.Fault{Latency: time.Hour}, "given up after 1")
				s.check(m, "caller's deadline during the token request", wire.Token, sandboxfake.Fault{Latency: time.Hour}, "given up after 0")
				s.check(m, "wait longer than the caller's deadline", wire.Token, sandboxfake.Fault{Status: 503, RetryAfter: 8 * time.Second}, "token 503 after 0")
			})
		})
	}
}

// retryable reports whether the method of op is idempotent. It follows RFC 9110, section 9.2.2, and
// not the client's table.
func retryable(op wire.Operation) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodPut, http.MethodDelete}, op.Method)
}

// check runs m with one fault and compares the result.
func (s *matrixTest) check(m matrixOperation, name string, target wire.Operation, fault sandboxfake.Fault, want string) {
	s.t.Helper()
	h := s.srv.HTTPClient()
	h.Timeout = 30 * time.Second
	s.connect(h)
	if m.prepare != nil {
		s.id = m.prepare(s).get
	}
	if s.failDial > 0 {
		h.Transport = failDials(h.Transport.(*http.Transport), func(n int) bool { return n == s.failDial })
	}
	s.connect(h)
	before := s.srv.DroppedRequests() + len(s.srv.Requests())
	remove := s.srv.Inject(sandboxfake.Match{Operation: target.Name}, fault)
	defer remove()
	ctx := withDeadline(s.t, s.timeout)
	began := time.Now()

	err := m.do(ctx, s)

	switch took := time.Since(began); {
	case s.timeout > 0 && took > s.timeout:
		s.t.Errorf("%s: took %v, want at most the caller's %v", name, took, s.timeout)
	case err == nil && took < fault.RetryAfter:
		s.t.Errorf("%s: retried within %v, want at least the Retry-After of %v", name, took, fault.RetryAfter)
	}

	synctest.Wait() // the service may still process a request whose caller has returned
	seen, accepted := 0, 0
	for _, r := range s.srv.Requests()[before-s.srv.DroppedRequests():] {
		if r.Operation == m.op.Name {
			seen++
			if r.Status == m.op.Success {
				accepted++
			}
		}
	}
	if got := fmt.Sprintf("%s after %d", classify(err), seen); got != want {
		s.t.Errorf("%s: result = %s, want %s (%v)", name, got, want, err)
	}
	if accepted > 1 && !retryable(m.op) {
		s.t.Errorf("%s: processed %d times, want once: each may be charged", name, accepted)
	}
}

// v02 makes each product use its latest version.
var v02 = idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"})

// connect creates clients without a cached token.
func (s *matrixTest) connect(h *http.Client) {
	s.client = s.srv.Client(idverify.WithHTTPClient(h), v02)
	s.console = s.srv.Console(idverify.WithHTTPClient(h))
}

// failDials returns a transport that opens a connection per request and fails to open the nth if
// fails(n).
func failDials(t *http.Transport, fails func(n int) bool) *http.Transport {
	t = t.Clone()
	t.DisableKeepAlives = true
	dial, dials := t.DialContext, 0
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; fails(dials) {
			return nil, errors.New("connection refused")
		}
		return dial(ctx, network, address)
	}
	return t
}

// classify returns what a caller learns from err.
func classify(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*idverify.Error](err); ok {
		return fmt.Sprint(e.Status)
	}
	if e, ok := errors.AsType[*idverify.TokenError](err); ok {
		return fmt.Sprintf("token %d", e.Status)
	}
	if _, ok := errors.AsType[*idverify.DecodeError](err); ok {
		return "unusable"
	}
	if errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "attempt timeout") {
		return "given up"
	}
	return "lost"
}

func TestFaultMatrix_IsComplete(t *testing.T) {
	t.Parallel()
	for field := range reflect.TypeFor[sandboxfake.Fault]().NumField() {
		used := false
		for _, row := range faultRows {
			used = used || !reflect.ValueOf(row.fault).Field(field).IsZero()
		}
		for _, row := range tokenRows {
			used = used || !reflect.ValueOf(row.fault).Field(field).IsZero()
		}
		if name := reflect.TypeFor[sandboxfake.Fault]().Field(field).Name; !used && name != "WrongKey" { // of callbacks
			t.Errorf("Fault.%s is not in the fault matrix", name)
		}
	}
}

// Prepare functions.

func newPhoneCheck(s *matrixTest) ids {
	return ids{"check_id": must(s.client.PhoneChecks.Create(s.t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))(s.t).CheckID}
}

func newSubscriberCheck(s *matrixTest) ids {
	return ids{"check_id": must(s.client.SubscriberChecks.Create(s.t.Context(), idverify.SubscriberCheckParams{PhoneNumber: matchingNumber}))(s.t).CheckID}
}

func newSIMCheck(s *matrixTest) ids {
	return ids{"check_id": must(s.client.SIMChecks.Create(s.t.Context(), idverify.SIMCheckParams{PhoneNumber: matchingNumber}))(s.t).CheckID}
}

func newOpenedPhoneCheck(s *matrixTest) ids {
	check := must(s.client.PhoneChecks.Create(s.t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))(s.t)
	return ids{"check_id": check.CheckID, "code": s.open(check.CheckURL)}
}

func newOpenedSubscriberCheck(s *matrixTest) ids {
	check := must(s.client.SubscriberChecks.Create(s.t.Context(), idverify.SubscriberCheckParams{PhoneNumber: matchingNumber}))(s.t)
	return ids{"check_id": check.CheckID, "code": s.open(check.CheckURL)}
}

// open opens a Check URL and returns the code that the device receives.
func (s *matrixTest) open(checkURL string) (code string) {
	visit := must(s.srv.Device().Open(s.t.Context(), checkURL))(s.t)
	var body struct{ Code string }
	if err := json.Unmarshal(visit.Body, &body); err != nil || body.Code == "" {
		s.t.Fatalf("response of the Check URL = %s, %v, want a code", visit.Body, err)
	}
	return body.Code
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }

// wantEqual reports the difference between want and got.
func wantEqual(t testing.TB, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

// wantContains reports each of the parts that text does not contain.
func wantContains(t testing.TB, name, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s = %s, want it to contain %s", name, text, part)
		}
	}
}

// consoleOperations lists all operations of a Console.
var consoleOperations = []matrixOperation{
	{wire.CreateProject, newName, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Projects.Create(ctx, idverify.ProjectParams{Name: s.id("name"), Mode: idverify.ModeLive}))
	}},
	{wire.ListProjects, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Projects.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetProject, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Projects.Get(ctx, s.id("project_id")))
	}},
	{wire.UpdateProject, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Projects.Update(ctx, s.id("project_id"), idverify.ProjectUpdate{Mode: new(idverify.ModeSandbox)}))
	}},
	{wire.DeleteProject, newProject, func(ctx context.Context, s *matrixTest) error {
		return s.console.Projects.Delete(ctx, s.id("project_id"))
	}},

	{wire.CreateProjectCredentials, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.ProjectCredentials.Create(ctx, s.id("project_id")))
	}},
	{wire.ListProjectCredentials, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.ProjectCredentials.List(ctx, s.id("project_id"), idverify.ListOptions{}))
	}},
	{wire.GetProjectCredentials, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.ProjectCredentials.Get(ctx, s.id("project_id"), s.id("client_id")))
	}},
	{wire.DeleteProjectCredentials, newProject, func(ctx context.Context, s *matrixTest) error {
		return s.console.ProjectCredentials.Delete(ctx, s.id("project_id"), s.id("client_id"))
	}},

	{wire.ListWorkspaces, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Workspaces.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetWorkspace, nil, func(ctx context.Context, s *matrixTest) error { return errorOf(s.console.Workspaces.Get(ctx)) }},
	{wire.GetWorkspace, nil, func(ctx context.Context, s *matrixTest) error { return errorOf(s.console.Billing.Balance(ctx)) }},
	{wire.UpdateWorkspace, newName, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Workspaces.Rename(ctx, s.id("name")))
	}},

	{wire.ListMembers, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Members.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetMember, newMember, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Members.Get(ctx, s.id("member_id")))
	}},

	{wire.CreateInvitation, newName, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Invitations.Create(ctx, idverify.InvitationParams{Name: s.id("name"), Role: idverify.RoleViewer}))
	}},
	{wire.ListInvitations, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Invitations.List(ctx, idverify.ListOptions{}))
	}},

	{wire.CreateWorkspaceCredentials, newMember, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.WorkspaceCredentials.Create(ctx, s.id("member_id")))
	}},
	{wire.ListWorkspaceCredentials, newMember, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.WorkspaceCredentials.List(ctx, s.id("member_id"), idverify.ListOptions{}))
	}},
	{wire.GetWorkspaceCredentials, newMemberCredentials, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.WorkspaceCredentials.Get(ctx, s.id("member_id"), s.id("client_id")))
	}},
	{wire.DeleteWorkspaceCredentials, newMemberCredentials, func(ctx context.Context, s *matrixTest) error {
		return s.console.WorkspaceCredentials.Delete(ctx, s.id("member_id"), s.id("client_id"))
	}},
	{wire.ResetWorkspaceCredentials, newMemberCredentials, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.WorkspaceCredentials.ResetSecret(ctx, s.id("member_id"), s.id("client_id")))
	}},

	{wire.GetBillingAccount, newBillingAccount, func(ctx context.Context, s *matrixTest) error { return errorOf(s.console.Billing.Get(ctx)) }},
	{wire.UpdateBillingAccount, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "Shop Ltd"}))
	}},
	{wire.AddPaymentMethod, newBillingAccount, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.PaymentMethods.Create(ctx, cardParams))
	}},
	{wire.ListPaymentMethods, newPaymentMethod, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.PaymentMethods.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetPaymentMethod, newPaymentMethod, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.PaymentMethods.Get(ctx, s.id("payment_method_id")))
	}},
	{wire.DeletePaymentMethod, newPaymentMethod, func(ctx context.Context, s *matrixTest) error {
		return s.console.PaymentMethods.Delete(ctx, s.id("payment_method_id"))
	}},
	{wire.CreateTopUp, newPaymentMethod, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.TopUps.Create(ctx, idverify.TopUpParams{PaymentMethodID: s.id("payment_method_id"), Currency: "EUR", Amount: "5"}))
	}},
	{wire.ListTopUps, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.TopUps.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetUsage, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Usage.Daily(ctx, idverify.UsageQuery{From: time.Now().Add(-time.Hour)}))
	}},
}

var cardParams = idverify.PaymentMethodParams{CardNumber: idverify.NewSecret("4242424242424242"), ExpiryMonth: 12, ExpiryYear: 2080, Currencies: []string{"EUR"}}

// Prepare functions.

func newCountry(*matrixTest) ids { return ids{"code": "GB"} }

func newName(s *matrixTest) ids {
	s.names++
	return ids{"name": fmt.Sprint("name ", s.names)}
}

func newProject(s *matrixTest) ids {
	p := must(s.console.Projects.Create(s.t.Context(), idverify.ProjectParams{Name: newName(s)["name"], Mode: idverify.ModeLive}))(s.t)
	return ids{"project_id": p.ProjectID, "client_id": p.Credentials[0].ClientID}
}

func newMember(s *matrixTest) ids {
	return ids{"member_id": must(s.console.Members.List(s.t.Context(), idverify.ListOptions{}))(s.t).Items[0].MemberID}
}

func newMemberCredentials(s *matrixTest) ids {
	member := newMember(s)["member_id"]
	return ids{"member_id": member, "client_id": must(s.console.WorkspaceCredentials.Create(s.t.Context(), member))(s.t).ClientID}
}

func newBillingAccount(s *matrixTest) ids {
	must(s.console.Billing.Update(s.t.Context(), idverify.BillingAccount{CompanyName: "Shop Ltd"}))(s.t)
	return nil
}

func newPaymentMethod(s *matrixTest) ids {
	newBillingAccount(s)
	return ids{"payment_method_id": must(s.console.PaymentMethods.Create(s.t.Context(), cardParams))(s.t).PaymentMethodID}
}

// TestErrOutcomeUnknown_FaultMatrix tests each operation with each fault. Only the effect of the
// fault and the method determine whether the error matches ErrOutcomeUnknown.
func TestErrOutcomeUnknown_FaultMatrix(t *testing.T) {
	t.Parallel()
	for _, m := range matrixOperations {
		t.Run(m.op.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutcomeTest(t)
				for _, fault := range outcomeFaults() {
					if !fault.mismatch || comparesResponse(m.op) {
						o.check(m, fault)
					}
				}
			})
		})
	}
}

// comparesResponse reports whether the client compares the response to op with the request. The
// workspace of the tests is "default", which stands for any ID.
func comparesResponse(op wire.Operation) bool {
	path := strings.TrimSuffix(op.Path, "/reset")
	return strings.HasSuffix(path, "_id}") && !strings.HasSuffix(path, "{workspace_id}") || op.Method == http.MethodPost && strings.HasSuffix(path, "/checks")
}

// outcomeTest is a service with a fault. Its fields are set while no request is in flight.
type outcomeTest struct {
	t      *testing.T
	srv    *sandboxfake.Server
	base   string
	cancel context.CancelFunc // cancels the caller's context

	respond, token http.HandlerFunc // nil means no fault
}

func newOutcomeTest(t *testing.T) *outcomeTest {
	o := &outcomeTest{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory())}
	o.base = o.srv.Handle("faulty.sandbox.test", o)
	return o
}

func (o *outcomeTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isToken := r.URL.Path == tokenPath
	switch {
	case isToken && o.token != nil:
		o.token(w, r)
	case isToken:
		io.WriteString(w, validToken)
	case o.respond != nil:
		o.respond(w, r)
	default:
		o.t.Errorf("%s %s reached the service", r.Method, r.URL.Path)
	}
}

// check runs m with fault and compares the error.
func (o *outcomeTest) check(m matrixOperation, fault outcomeFault) {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	defer cancel()
	o.cancel = cancel
	if fault.canceled {
		cancel()
	}
	if fault.deadline > 0 {
		ctx, cancel = context.WithTimeout(ctx, fault.deadline)
		defer cancel()
	}
	o.respond, o.token = nil, nil
	if fault.respond != nil {
		o.respond = fault.respond(o)
	}
	if fault.token != nil {
		o.token = fault.token(o)
	}
	h := o.srv.HTTPClient()
	defer h.CloseIdleConnections()
	h.Timeout = fault.timeout
	if fault.transport != nil {
		h.Transport = fault.transport(o)
	}
	s := &matrixTest{t: o.t, srv: o.srv, id: func(name string) string { return name }}
	s.client = must(idverify.NewClient(o.base, credentials, idverify.WithHTTPClient(h), v02))(o.t)
	s.console = must(idverify.NewConsole(o.base, credentials, idverify.WithHTTPClient(h)))(o.t)

	err := m.do(ctx, s)

	synctest.Wait() // handlers may still run after the caller has returned
	o.compare(m.op, fault, err)
}

// compare compares err with the error that fault causes.
func (o *outcomeTest) compare(op wire.Operation, fault outcomeFault, err error) {
	o.t.Helper()
	if fault.effect == 0 {
		o.t.Errorf("fault %s has no effect: set one", fault.name)
	}
	if succeeds := fault.deletes && op.Method == http.MethodDelete; (err == nil) != succeeds {
		o.t.Errorf("%s: error = %v, want success: %t", fault.name, err, succeeds)
	}
	unknown := err != nil && fault.effect == maybeProcessed && !retryable(op)
	if got := errors.Is(err, idverify.ErrOutcomeUnknown); got != unknown {
		o.t.Errorf("%s: error = %v, matches ErrOutcomeUnknown: %t, want %t", fault.name, err, got, unknown)
	}
	if err != nil && strings.Contains(err.Error(), "outcome unknown") != unknown {
		o.t.Errorf("%s: error = %v, want a text with \"outcome unknown\": %t", fault.name, err, unknown)
	}
	for _, sentinel := range append([]error{context.Canceled, context.DeadlineExceeded}, sentinels...) {
		if got, want := errors.Is(err, sentinel), sentinel == fault.is; got != want {
			o.t.Errorf("%s: error = %v, matches %q: %t, want %t", fault.name, err, sentinel, got, want)
		}
	}
}

// cancelDuringRequest cancels the caller's context when the service has read the request.
func (o *outcomeTest) cancelDuringRequest() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		o.cancel()
		hang(w, r)
	}
}

// cancelAfterBody returns a transport that cancels the caller's context when a response was read.
func (o *outcomeTest) cancelAfterBody() http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		resp, err := o.newTransport().RoundTrip(r)
		if err == nil && r.URL.Path != tokenPath {
			resp.Body = &cancelingBody{resp.Body, o.cancel}
		}
		return resp, err
	})
}

type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelingBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// newTransport returns a transport that opens a connection for each request. The first one is for
// the token.
func (o *outcomeTest) newTransport() *http.Transport {
	transport := o.srv.HTTPClient().Transport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return transport
}

func (o *outcomeTest) refuseConnections() http.RoundTripper {
	return failDials(o.newTransport(), func(n int) bool { return n > 1 })
}

func (o *outcomeTest) failHandshakes() http.RoundTripper {
	transport, handshakes := o.newTransport(), 0
	transport.TLSClientConfig.VerifyConnection = func(tls.ConnectionState) error {
		if handshakes++; handshakes > 1 {
			return errors.New("certificate revoked")
		}
		return nil
	}
	return transport
}

// failWrites returns a transport whose connections are closed during the write after the first n.
func (o *outcomeTest) failWrites(n int) http.RoundTripper {
	transport, dials := o.newTransport(), 0
	dial, config := transport.DialContext, transport.TLSClientConfig.Clone()
	config.ServerName, _, _ = strings.Cut(strings.TrimPrefix(o.base, "https://"), ":")
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		if dials == 1 {
			return secure, nil
		}
		return &limitedConn{secure, n}, secure.HandshakeContext(ctx)
	}
	return transport
}

// limitedConn closes the connection during a write when left is 0. It sends no TLS alert, to which
// the server could respond with 400.
type limitedConn struct {
	*tls.Conn
	left int // number of writes
}

func (c *limitedConn) Write(p []byte) (int, error) {
	if c.left--; c.left >= 0 {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:len(p)/2])
	c.NetConn().Close()
	return n, errors.New("broken pipe")
}

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
	is     error // the sentinel that the error matches; nil means none

	respond, token func(*outcomeTest) http.HandlerFunc  // of operations and of token requests; nil means no fault
	transport      func(*outcomeTest) http.RoundTripper // nil: the usual one
	timeout        time.Duration                        // of the HTTP client
	deadline       time.Duration                        // of the caller; 0 means none
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
			token: faultsInTurn(respondWith(200, validToken), respondWith(403, ""))},
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
	tooManyValues := respondWith(200, "["+strings.Repeat("1,", 1<<16)+"1]")
	return []outcomeFault{
		{name: "another resource", effect: maybeProcessed, respond: everyTime(respondWith(200, mismatched)), deletes: true, mismatch: true},
		{name: "empty 200", effect: maybeProcessed, respond: everyTime(respondWith(200, "")), deletes: true},
		{name: "empty 201", effect: maybeProcessed, respond: everyTime(respondWith(201, "")), deletes: true},
		{name: "HTML", effect: maybeProcessed, respond: everyTime(respondWith(200, "<html>")), deletes: true},
		{name: "other JSON", effect: maybeProcessed, respond: everyTime(respondWith(200, "[1]")), deletes: true},
		{name: "too many values", effect: maybeProcessed, respond: everyTime(tooManyValues)},
		{name: "too many values, then canceled", effect: maybeProcessed, is: context.Canceled, respond: everyTime(tooManyValues), transport: (*outcomeTest).cancelAfterBody},
		{name: "truncated", effect: maybeProcessed, respond: everyTime(respondTruncated(200, "{"))},
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
