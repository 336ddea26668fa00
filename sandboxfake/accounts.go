package sandboxfake

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// accounts contains the workspaces, projects and credentials of the service.
type accounts struct {
	workspaces  map[string]*workspace
	inOrder     []*workspace // the same, in order of creation
	projects    map[string]*project
	credentials map[string]*credential // by client ID
}

// user is a person. A user is a member of one or more workspaces, and owns the first.
type user struct {
	name        string
	memberships []*member
}

// in returns the user's membership of w, or nil.
func (u *user) in(w *workspace) *member {
	for _, m := range u.memberships {
		if m.workspace == w {
			return m
		}
	}
	return nil
}

// workspace has members, projects and one balance.
type workspace struct {
	id, name       string
	seq            int // order of creation
	created        time.Time
	members        []*member
	invitations    []*invitation // open ones only
	projects       []*project
	currency       string
	balance        money
	paidIn         money // total of all top-ups
	billing        *billingAccount
	paymentMethods []*paymentMethod
	topUps         []*topUp
	usage          map[usageKey]*usage
	counter        counter
}

// Initial balance and currency of a workspace. Live projects can use them before the first top-up.
const (
	initialBalance  = 100 * moneyUnit
	initialCurrency = "API"
)

// member is a user in a workspace.
type member struct {
	id          string
	user        *user
	role        role
	workspace   *workspace
	created     time.Time
	credentials []*credential // the member's workspace credentials
	counter     counter
}

// project contains the credentials, settings and checks of an application.
type project struct {
	id string
	settings
	workspace        *workspace
	member           *member // its creator
	created, updated time.Time
	credentials      []*credential
	checks           map[string][]*check // the checks that lists return, by product, in order of creation
	checkSeq         uint64
	counter          counter
}

// settings contains the fields of a project that members can change.
type settings struct {
	name        string
	mode        mode
	callbackURL string                 // for products without their own
	products    map[string]productURLs // by product; the map is replaced, not modified
}

// mode is the mode of a project. Only checks of live projects are charged, and only they use
// [WithOutcomeFunc].
type mode string

const (
	modeLive    mode = "live"
	modeSandbox mode = "sandbox"
)

// productURLs is a project's configuration for one product.
type productURLs struct{ callbackURL, redirectURL string }

// credential is a client ID and the hash of its secret. The secret itself is not stored.
type credential struct {
	clientID   string
	secretHash [sha256.Size]byte
	workspace  *workspace
	member     *member  // its owner
	project    *project // nil for workspace credentials
	created    time.Time
	deleted    bool
	counter    counter
}

// bootstrap creates the accounts that every server starts with.
func (s *service) bootstrap() error {
	s.accounts = accounts{
		workspaces:  make(map[string]*workspace),
		projects:    make(map[string]*project),
		credentials: make(map[string]*credential),
	}
	owner, err := s.signUp("Owner", "Sandbox workspace", nil)
	if err != nil {
		return err
	}
	p, err := s.provisionProject(owner.Credentials.ClientID, &projectParams{Name: new("Sandbox project"), Mode: new(string(modeSandbox))})
	if err != nil {
		return err
	}
	if fixed := s.opts.credentials; fixed.ClientID != "" {
		if fixed.ClientID == owner.Credentials.ClientID {
			return errors.New("project credentials: the client ID is that of the workspace")
		}
		c := s.accounts.credentials[p.Credentials.ClientID]
		delete(s.accounts.credentials, c.clientID)
		c.clientID, c.secretHash = fixed.ClientID, sha256.Sum256([]byte(fixed.ClientSecret.Reveal()))
		s.accounts.credentials[c.clientID] = c
		p.Credentials = fixed
	}
	s.initial.workspace, s.initial.workspaceID = owner.Credentials, owner.WorkspaceID
	s.initial.project, s.initial.projectID = p.Credentials, p.ProjectID
	return nil
}

// newUser creates a user and the workspace that they own.
func (s *service) newUser(name, workspaceName string) *user {
	w := &workspace{
		id:       s.ids.uuid("workspace "+workspaceName, "", &s.ids.root),
		name:     workspaceName,
		seq:      len(s.accounts.workspaces),
		created:  wireTime(s.clock.Now()),
		currency: initialCurrency,
		balance:  initialBalance,
		usage:    make(map[usageKey]*usage),
	}
	s.accounts.workspaces[w.id] = w
	s.accounts.inOrder = append(s.accounts.inOrder, w)
	u := &user{name: name}
	s.join(u, w, roleOwner)
	return u
}

// join makes u a member of w.
func (s *service) join(u *user, w *workspace, r role) *member {
	m := &member{id: s.ids.uuid("member "+u.name, w.id, &w.counter), user: u, role: r, workspace: w, created: wireTime(s.clock.Now())}
	w.members = append(w.members, m)
	u.memberships = append(u.memberships, m)
	return m
}

// newProject creates a project in m's workspace. Its ID is derived from its name, so that it does
// not depend on other projects.
func (s *service) newProject(m *member, chosen settings) *project {
	w := m.workspace
	now := wireTime(s.clock.Now())
	p := &project{
		id:        s.ids.uuid("project "+chosen.name, w.id, &w.counter),
		settings:  chosen,
		workspace: w,
		member:    m,
		created:   now,
		updated:   now,
		checks:    make(map[string][]*check),
	}
	w.projects = append(w.projects, p)
	s.accounts.projects[p.id] = p
	return p
}

// removeProject removes a project with its credentials, their tokens and its checks, and cancels
// the expiry of the checks. Queued callbacks are still delivered.
func (s *service) removeProject(p *project) {
	for _, c := range slices.Clone(p.credentials) {
		s.removeCredential(c)
	}
	for _, checks := range p.checks {
		for _, ck := range checks {
			s.clock.Cancel(ck.expiry)
			delete(s.checks, ck.id)
			if ck.expiry != nil {
				ck.expiry = nil
				s.note(ck, eventRemoved, s.clock.Now())
			}
		}
	}
	p.workspace.projects = without(p.workspace.projects, p)
	delete(s.accounts.projects, p.id)
}

// newCredential creates credentials of m for the project p, or for the workspace if p is nil. It
// also returns the secret. Only the hash of the secret is stored.
func (s *service) newCredential(m *member, p *project) (c *credential, secret string) {
	c = &credential{workspace: m.workspace, member: m, project: p, created: wireTime(s.clock.Now())}
	owner, counter := c.owner()
	c.clientID = s.ids.uuid("client_id", owner, counter)
	s.accounts.credentials[c.clientID] = c
	list := c.list()
	*list = append(*list, c)
	return c, s.newSecret(c)
}

// newSecret sets a new secret of c and returns it.
func (s *service) newSecret(c *credential) string {
	owner, counter := c.owner()
	secret := s.ids.secret("client_secret", owner, counter)
	c.secretHash = sha256.Sum256([]byte(secret))
	return secret
}

// removeCredential removes credentials. Their tokens become invalid.
func (s *service) removeCredential(c *credential) {
	c.deleted = true
	delete(s.accounts.credentials, c.clientID)
	list := c.list()
	*list = without(*list, c)
}

// owner returns the ID of the project or member that c belongs to, and its counter for new IDs.
func (c *credential) owner() (id string, of *counter) {
	if c.project != nil {
		return c.project.id, &c.project.counter
	}
	return c.member.id, &c.member.counter
}

// list returns the list that contains c.
func (c *credential) list() *[]*credential {
	if c.project != nil {
		return &c.project.credentials
	}
	return &c.member.credentials
}

// without returns list without item. It modifies list.
func without[T comparable](list []T, item T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == item })
}

// authenticate returns the credential of a client ID, or nil if the ID is unknown or the secret is
// wrong.
func (a *accounts) authenticate(clientID, secret string) *credential {
	c := a.credentials[clientID]
	if c == nil {
		return nil
	}
	hash := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(hash[:], c.secretHash[:]) != 1 {
		return nil
	}
	return c
}

// Scopes that project and workspace credentials can request.
//
// Protocol: docs/protocol.md, section 2.
var (
	projectScopes   = []string{wire.ScopePhoneCheck, wire.ScopeSIMCheck, wire.ScopeSubscriberCheck, wire.ScopeCoverage}
	workspaceScopes = []string{wire.ScopeProjects, wire.ScopeWorkspaces, wire.ScopeConsole}
)

// scopes returns the scopes that c can request.
func (c *credential) scopes() []string {
	if c.project != nil {
		return projectScopes
	}
	return workspaceScopes
}

// mayHave reports whether c can request the scope.
func (c *credential) mayHave(scope string) bool { return slices.Contains(c.scopes(), scope) }
