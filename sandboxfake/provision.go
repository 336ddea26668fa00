package sandboxfake

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// Account is a user as a member of a workspace, with credentials for it. Get it from [Server.SignUp] or [Server.NewWorkspace]. It ends with [Server.Reset].
type Account struct {
	WorkspaceID string
	MemberID    string
	Role        idverify.Role
	Credentials idverify.Credentials // for idverify.NewConsole; they may have the management scopes
	Joined      []*Account           // the same user in each workspace that the sign-up accepted an invitation to, in the order given

	server *Server
}

// Project is a project with its first pair of credentials. Get it from [Server.NewProject] or [Account.NewProject]. It ends with [Server.Reset].
type Project struct {
	ProjectID   string
	Credentials idverify.Credentials // for idverify.NewClient; they may have the product scopes

	server *Server
}

// SignUp makes a user with that name and a workspace of the same name that they own, which begins with a balance of 100 API. With invitations, which Console.Invitations.Create makes, the user also joins each inviter's workspace with the role that it grants.
// It is what a person does on the service's web pages, so there is no call of the API for it. The credentials of any of the user's accounts reach all their workspaces: Console.Workspace chooses.
//
// It fails the test when the name is empty or over 255 characters, or when an invitation is unknown or was accepted before; nobody is signed up then.
func (s *Server) SignUp(name string, invitationIDs ...string) *Account {
	svc := s.lock()
	defer svc.mu.Unlock()
	account, err := svc.signUp(name, name, invitationIDs)
	s.must(err)
	return account.bind(s)
}

// NewWorkspace has somebody sign up alone, and names their workspace: a test that shares its server has a workspace, a balance and roles to itself. It returns the owner's account.
// It fails the test when the name is empty or over 255 characters.
func (s *Server) NewWorkspace(name string) *Account {
	svc := s.lock()
	defer svc.mu.Unlock()
	account, err := svc.signUp("Owner", name, nil)
	s.must(err)
	return account.bind(s)
}

// NewProject makes a project in the workspace that every server begins with, as Console.Projects.Create does: by default it is live and its checks cost balance. See [Account.NewProject].
func (s *Server) NewProject(params idverify.ProjectParams) *Project {
	return s.projectFor(s.ConsoleCredentials().ClientID, params)
}

// NewProject makes a project in the account's workspace, as Console.Projects.Create does.
// It fails the test where that would be refused: for a name that is taken, a URL that cannot be called, a viewer's account.
func (a *Account) NewProject(params idverify.ProjectParams) *Project {
	return a.server.projectFor(a.Credentials.ClientID, params)
}

// Console returns a console of the account, over the server's HTTP client and its clock. Options come after these and may replace them.
func (a *Account) Console(opts ...idverify.Option) *idverify.Console {
	console, err := idverify.NewConsole(a.server.url, a.Credentials, a.server.withDefaults(opts)...)
	a.server.must(err)
	return console
}

// Console returns a console of the owner of the workspace that every server begins with, as [Account.Console] does.
func (s *Server) Console(opts ...idverify.Option) *idverify.Console {
	return (&Account{Credentials: s.ConsoleCredentials(), server: s}).Console(opts...)
}

// Client returns a client of the project, over the server's HTTP client and its clock. Options come after these and may replace them.
func (p *Project) Client(opts ...idverify.Option) *idverify.Client {
	client, err := idverify.NewClient(p.server.url, p.Credentials, p.server.withDefaults(opts)...)
	p.server.must(err)
	return client
}

// withDefaults puts the server's HTTP client and clock in front of the caller's options.
func (s *Server) withDefaults(opts []idverify.Option) []idverify.Option {
	return append([]idverify.Option{idverify.WithHTTPClient(s.HTTPClient()), idverify.WithClock(s.Now)}, opts...)
}

// bind makes the account, and those that it joined, use the server.
func (a *Account) bind(s *Server) *Account {
	a.server = s
	for _, joined := range a.Joined {
		joined.bind(s)
	}
	return a
}

// newAccount makes credentials for m, and shows them with the rest.
func (s *service) newAccount(m *member) *Account {
	c, secret := s.newCredential(m, nil)
	return &Account{
		WorkspaceID: m.workspace.id,
		MemberID:    m.id,
		Role:        idverify.Role(m.role),
		Credentials: idverify.Credentials{ClientID: c.clientID, ClientSecret: idverify.NewSecret(secret)},
	}
}

// errEndedAccount is the use of an account from before a Reset, or whose credentials were deleted.
var errEndedAccount = errors.New("new project: the account's credentials are gone: they were deleted, or the server was reset")

// projectFor makes a project for the member whose credentials have the client id.
func (s *Server) projectFor(clientID string, params idverify.ProjectParams) *Project {
	svc := s.lock()
	defer svc.mu.Unlock()
	p, err := svc.provisionProject(clientID, provisionParams(params))
	s.must(err)
	p.server = s
	return p
}

// provisionProject is createProject without the wire.
func (s *service) provisionProject(clientID string, params *projectParams) (*Project, error) {
	c := s.accounts.credentials[clientID]
	switch {
	case c == nil || c.project != nil:
		return nil, errEndedAccount
	case !c.member.role.covers(roleAdmin):
		return nil, errors.New("new project: a viewer cannot create projects")
	}
	p, shown, err := s.addProject(c.member, params)
	if err != nil {
		return nil, fmt.Errorf("new project: %w", err)
	}
	credentials := idverify.Credentials{ClientID: shown.ClientID, ClientSecret: idverify.NewSecret(shown.ClientSecret)}
	return &Project{ProjectID: p.id, Credentials: credentials}, nil
}

// provisionParams is what a client would send.
func provisionParams(p idverify.ProjectParams) *projectParams {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	urls := func(u idverify.ProductURLs) json.RawMessage {
		text, _ := json.Marshal(productURLsView(u))
		return text
	}
	return &projectParams{
		Name:        &p.Name,
		Mode:        given(string(p.Mode)),
		CallbackURL: given(p.CallbackURL),
		Configuration: map[string]json.RawMessage{
			wire.PhoneCheck:      urls(p.PhoneCheck),
			wire.SubscriberCheck: urls(p.SubscriberCheck),
		},
	}
}
