package sandboxfake_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestServer_NewProjectMatchesHTTP(t *testing.T) {
	t.Parallel()
	params := idverify.ProjectParams{
		Name: "Shop", Mode: idverify.ModeSandbox, CallbackURL: "https://shop.sandbox.test/",
		PhoneCheckURLs:      idverify.ProductURLs{CallbackURL: "https://shop.sandbox.test/phone", RedirectURL: "https://shop.sandbox.test/return"},
		SubscriberCheckURLs: idverify.ProductURLs{RedirectURL: "https://shop.sandbox.test/return"},
	}
	provisioned, viaHTTP := consoleServer(t), consoleServer(t)

	project := provisioned.NewProject(params)
	created := must(viaHTTP.Console().Projects.Create(t.Context(), params))(t)

	if project.ProjectID != created.ProjectID || project.Credentials.ClientID != created.Credentials[0].ClientID || project.Credentials.ClientSecret.Reveal() != created.Credentials[0].ClientSecret.Reveal() {
		t.Errorf("provisioned project %s with client ID %s, created over HTTP %s with %s, want the same", project.ProjectID, project.Credentials.ClientID, created.ProjectID, created.Credentials[0].ClientID)
	}
	read := func(srv *sandboxfake.Server) *idverify.Project {
		return must(srv.Console().Projects.Get(t.Context(), project.ProjectID))(t)
	}
	wantEqual(t, read(viaHTTP), read(provisioned), "provisioned project")
}

func TestServer_ProvisioningErrors(t *testing.T) {
	t.Parallel()
	tb := fatalTB{t}
	srv := sandboxfake.New(tb, sandboxfake.WithInMemory())
	viewer := newOwnerAPI(t, srv).invite("Grace", "VIEWER")
	deleted := srv.SignUp("Ada")
	newConsoleAPI(t, srv, deleted.Credentials).want(204, http.MethodDelete, workspaces+"/default/members/"+deleted.MemberID+"/credentials/"+deleted.Credentials.ClientID, "")
	srv.NewProject(idverify.ProjectParams{Name: "Taken", Mode: idverify.ModeLive})
	for _, row := range []struct {
		name string
		call func()
		want string
	}{
		{"project without a name", func() { srv.NewProject(idverify.ProjectParams{Mode: idverify.ModeLive}) }, "name"},
		{"project without a mode", func() { srv.NewProject(idverify.ProjectParams{Name: "A"}) }, "Mode is empty (set idverify.ModeSandbox or idverify.ModeLive)"},
		{"duplicate project name", func() { srv.NewProject(idverify.ProjectParams{Name: "Taken", Mode: idverify.ModeLive}) }, "name"},
		{"unknown mode", func() { srv.NewProject(idverify.ProjectParams{Name: "A", Mode: "half"}) }, "mode"},
		{"relative URL", func() {
			srv.NewProject(idverify.ProjectParams{Name: "A", Mode: idverify.ModeLive, CallbackURL: "shop"})
		}, "callback_url"},
		{"project of a viewer", func() { viewer.NewProject(idverify.ProjectParams{Name: "A", Mode: idverify.ModeLive}) }, "viewer"},
		{"project with deleted credentials", func() { deleted.NewProject(idverify.ProjectParams{Name: "A", Mode: idverify.ModeLive}) }, "no longer exist"},
		{"workspace without a name", func() { srv.NewWorkspace("") }, "name"},
		{"user name over the limit", func() { srv.SignUp(strings.Repeat("n", 256)) }, "name"},
	} {
		if message := tb.catch(row.call); !strings.Contains(message, row.want) {
			t.Errorf("%s: failure message = %q, want it to contain %q", row.name, message, row.want)
		}
	}
}

func TestServer_ResetRemovesAccounts(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	account := srv.NewWorkspace("Shop")
	project := account.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})

	srv.Reset()

	a := &api{t: t, srv: srv}
	if c, p := a.tokenStatus(account.Credentials, "console"), a.tokenStatus(project.Credentials, "phone_check"); c != 401 || p != 401 {
		t.Errorf("token statuses after the reset = %d and %d, want 401", c, p)
	}
	if again := srv.NewWorkspace("Shop"); again.WorkspaceID != account.WorkspaceID {
		t.Errorf("workspace ID after the reset = %s, want %s as before", again.WorkspaceID, account.WorkspaceID)
	}
}

// IDs depend only on names and on counters of their owner, so a test that shares a server gets the
// same IDs as a test with its own server.
func TestServer_SharedServerReproducesIDs(t *testing.T) {
	t.Parallel()
	quiet, busy := consoleServer(t), consoleServer(t)
	for i := range 3 {
		other := busy.NewWorkspace(fmt.Sprintf("Other %d", i))
		other.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
		busy.NewProject(idverify.ProjectParams{Name: fmt.Sprintf("Other %d", i), Mode: idverify.ModeLive})
	}
	ids := func(srv *sandboxfake.Server) []string {
		account := srv.NewWorkspace("Mine")
		own, shared := account.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive}), srv.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
		check := newProductAPI(t, srv, shared.Credentials).create(phoneChecks, `{"phone_number":"447700900012"}`)
		return []string{account.WorkspaceID, account.MemberID, account.Credentials.ClientID, account.Credentials.ClientSecret.Reveal(),
			own.ProjectID, own.Credentials.ClientID, shared.ProjectID, shared.Credentials.ClientID, check}
	}

	wantEqual(t, ids(quiet), ids(busy), "IDs among others")
}

// The initial project stays a live one after a reset.
func TestWithLiveProject_Charge(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithLiveProject())

	for _, when := range []string{"at the start", "after a reset"} {
		check, err := srv.Client(idverify.WithLiveOnly()).PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		projects := must(srv.Console().Projects.List(t.Context(), idverify.ListOptions{}))(t).Items
		if check.ChargeAmount != "1" || check.SnapshotBalance != "99" || len(projects) != 1 || projects[0].Mode != idverify.ModeLive || projects[0].Name != "Live project" {
			t.Errorf("%s: charge %s, balance %s, projects %+v, want a charge of 1 of 100, and one live project", when, check.ChargeAmount, check.SnapshotBalance, projects)
		}
		srv.Reset()
	}
}

func TestWithCredentials_InitialProject(t *testing.T) {
	t.Parallel()
	want := idverify.Credentials{ClientID: "my app", ClientSecret: idverify.NewSecret("a+secret/=")}
	plain, srv := sandboxfake.New(t, sandboxfake.WithInMemory()), sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithCredentials(want))

	for _, when := range []string{"at the start", "after a reset"} {
		if got := srv.Credentials(); got.ClientID != want.ClientID || !got.ClientSecret.Equal(want.ClientSecret) {
			t.Errorf("%s: credentials %v, want those of the option", when, got)
		}
		if _, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"}); err != nil {
			t.Errorf("%s: create: %v", when, err)
		}
		srv.Reset()
	}

	generated := must(idverify.NewClient(srv.URL(), plain.Credentials(), idverify.WithHTTPClient(srv.HTTPClient())))(t)
	if _, err := generated.PhoneChecks.List(t.Context(), idverify.ListOptions{}); !errors.Is(err, idverify.ErrUnauthorized) {
		t.Errorf("list with the generated credentials: %v, want ErrUnauthorized", err)
	}
	if srv.ConsoleCredentials().ClientID != plain.ConsoleCredentials().ClientID {
		t.Error("the option changes the credentials of the workspace")
	}
}

func TestWithCredentials_Invalid(t *testing.T) {
	t.Parallel()
	workspace := sandboxfake.New(t, sandboxfake.WithInMemory()).ConsoleCredentials().ClientID
	for _, row := range []struct{ id, secret, want string }{
		{"", "secret", "missing"},
		{"id", "", "missing"},
		{" id", "secret", "white space"},
		{"id", "secret\n", "white space"},
		{"a:b", "secret", "colon"},
		{"a\tb", "secret", "control character"},
		{workspace, "secret", "client ID is that of the workspace"},
	} {
		err := startError(sandboxfake.WithInMemory(), sandboxfake.WithCredentials(idverify.Credentials{ClientID: row.id, ClientSecret: idverify.NewSecret(row.secret)}))

		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q, %q: %v, want an error with %q", row.id, row.secret, err, row.want)
		}
	}
}
