package sandboxfake

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/renewals"
	"github.com/idverify/idverify-go/internal/wire"
)

// Account is a user as a member of a workspace, with credentials. [Server.SignUp] and
// [Server.NewWorkspace] create accounts. [Server.Reset] invalidates them.
type Account struct {
	WorkspaceID string
	MemberID    string
	Role        idverify.Role
	Credentials idverify.Credentials // for idverify.NewConsole, with the management scopes
	Joined      []*Account           // the user's accounts in the inviting workspaces, in the order of the invitations

	server *Server
}

// Project is a project with its first pair of credentials. [Server.NewProject] and
// [Account.NewProject] create projects. [Server.Reset] invalidates them.
type Project struct {
	ProjectID   string
	Credentials idverify.Credentials // for idverify.NewClient, with the product scopes

	server *Server
}

// SignUp creates a user and a workspace of the same name, which the user owns. The workspace has a
// balance of 100 API. The user also joins the workspaces of the invitations, which
// Console.Invitations.Create returns, with the roles that they grant.
//
// The API has no operation for this: people sign up on the service's website. The credentials of
// each account give access to all workspaces of the user; Console.ForWorkspace selects one.
//
// If name is empty or longer than 255 characters, or if an invitation is unknown or was accepted
// before, the test fails and nobody is signed up.
func (s *Server) SignUp(name string, invitationIDs ...string) *Account {
	svc := s.lock()
	defer svc.mu.Unlock()
	account, err := svc.signUp(name, name, invitationIDs)
	s.must(err)
	return account.bind(s)
}

// NewWorkspace signs up a user without invitations and returns the owner's account of the new
// workspace. Tests that share a server can each have a workspace, with its own balance and members.
// If name is empty or longer than 255 characters, the test fails.
func (s *Server) NewWorkspace(name string) *Account {
	svc := s.lock()
	defer svc.mu.Unlock()
	account, err := svc.signUp("Owner", name, nil)
	s.must(err)
	return account.bind(s)
}

// NewProject creates a project in the initial workspace, as Console.Projects.Create does. Checks of
// a live project are charged. See [Account.NewProject].
func (s *Server) NewProject(params idverify.ProjectParams) *Project {
	return s.projectFor(s.ConsoleCredentials().ClientID, params)
}

// NewProject creates a project in the account's workspace, as Console.Projects.Create does. If the
// client or the service would reject the request, the test fails: for example if the mode is empty,
// the name is taken, a URL is invalid, or the account is a viewer's.
func (a *Account) NewProject(params idverify.ProjectParams) *Project {
	return a.server.projectFor(a.Credentials.ClientID, params)
}

// Console returns a console of the account that uses the server's HTTP client and clock. Options in
// opts are applied after these and can override them.
func (a *Account) Console(opts ...idverify.Option) *idverify.Console {
	console, err := idverify.NewConsole(a.server.url, a.Credentials, a.server.withDefaults(opts)...)
	a.server.must(err)
	return console
}

// Console returns a console of the owner of the initial workspace, as [Account.Console] does.
func (s *Server) Console(opts ...idverify.Option) *idverify.Console {
	return (&Account{Credentials: s.ConsoleCredentials(), server: s}).Console(opts...)
}

// Client returns a client of the project that uses the server's HTTP client and clock. Options in
// opts are applied after these and can override them.
func (p *Project) Client(opts ...idverify.Option) *idverify.Client {
	client, err := idverify.NewClient(p.server.url, p.Credentials, p.server.withDefaults(opts)...)
	p.server.must(err)
	return client
}

// withDefaults prepends the server's HTTP client and clock to opts. The server counts the token
// renewals of a client with these options.
func (s *Server) withDefaults(opts []idverify.Option) []idverify.Option {
	c := &http.Client{Transport: &renewals.Transport{Transport: s.network.Transport(), Counter: s.renewals}}
	return append([]idverify.Option{idverify.WithHTTPClient(c), idverify.WithClock(s.Now)}, opts...)
}

// bind sets the server of the account, and of the accounts in Joined.
func (a *Account) bind(s *Server) *Account {
	a.server = s
	for _, joined := range a.Joined {
		joined.bind(s)
	}
	return a
}

// newAccount returns an account of m with new credentials.
func (s *service) newAccount(m *member) *Account {
	c, secret := s.newCredential(m, nil)
	return &Account{
		WorkspaceID: m.workspace.id,
		MemberID:    m.id,
		Role:        idverify.Role(m.role),
		Credentials: idverify.Credentials{ClientID: c.clientID, ClientSecret: idverify.NewSecret(secret)},
	}
}

// errEndedAccount is returned for an account whose credentials were deleted, or that was created
// before a Reset.
var errEndedAccount = errors.New("new project: the account's credentials no longer exist (they were deleted, or the server was reset)")

// projectFor creates a project for the member with the given credentials.
func (s *Server) projectFor(clientID string, params idverify.ProjectParams) *Project {
	if params.Mode == "" {
		s.must(errors.New("new project: Mode is empty (set idverify.ModeSandbox or idverify.ModeLive)"))
	}
	svc := s.lock()
	defer svc.mu.Unlock()
	p, err := svc.provisionProject(clientID, provisionParams(params))
	s.must(err)
	p.server = s
	return p
}

// provisionProject creates a project as createProject does, but without an HTTP request.
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

// provisionParams returns the parameters that a client would send.
func provisionParams(p idverify.ProjectParams) *projectParams {
	urls := func(u idverify.ProductURLs) json.RawMessage {
		text, _ := json.Marshal(productURLsView(u))
		return text
	}
	return &projectParams{
		Name:        &p.Name,
		Mode:        new(string(p.Mode)),
		CallbackURL: p.CallbackURL,
		Configuration: map[string]json.RawMessage{
			wire.PhoneCheck:      urls(p.PhoneCheckURLs),
			wire.SubscriberCheck: urls(p.SubscriberCheckURLs),
		},
	}
}
