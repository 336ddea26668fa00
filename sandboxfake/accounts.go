package sandboxfake

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// accounts is who uses the service: workspaces with members, projects and credentials (specification, sections 1 and 2).
type accounts struct {
	workspaces  map[string]*workspace
	projects    map[string]*project
	credentials map[string]*credential // by client id
}

// user is a person, who may be a member of any number of workspaces and owns one of them: the first.
type user struct {
	name        string
	memberships []*member
}

// in is the user as a member of w, or nil.
func (u *user) in(w *workspace) *member {
	for _, m := range u.memberships {
		if m.workspace == w {
			return m
		}
	}
	return nil
}

// workspace is a container of members, projects and one account.
type workspace struct {
	id, name       string
	seq            int // numbers the workspaces, in order of creation
	created        time.Time
	members        []*member
	invitations    []*invitation // that are open
	projects       []*project
	currency       string
	balance        money
	paidIn         money // of all top-ups together
	billing        *billingAccount
	paymentMethods []*paymentMethod
	topUps         []*topUp
	usage          map[usageKey]*usage
	counter        counter
}

// initialBalance is what a new workspace may spend before its first top-up, in the platform's own currency, so that a live project can be tried.
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
	credentials []*credential // of the workspace
	counter     counter
}

// project is how an application reaches the products.
type project struct {
	id string
	settings
	workspace        *workspace
	member           *member // who made it
	created, updated time.Time
	credentials      []*credential
	checks           map[string][]*check // what lists show, by product, in order of creation
	checkSeq         uint64
	counter          counter
}

// settings is what the members decide about a project.
type settings struct {
	name        string
	mode        mode
	callbackURL string                 // for every product that has none of its own
	products    map[string]productURLs // by product; never changed, but replaced
}

// mode is how a project's checks are answered (specification, section 1, "Project modes").
type mode string

const (
	modeLive    mode = "live"
	modeSandbox mode = "sandbox"
)

// productURLs is a project's configuration for one product.
type productURLs struct{ callbackURL, redirectURL string }

// credential is a client id with its secret. The secret is shown once; only its hash is kept.
type credential struct {
	clientID   string
	secretHash [sha256.Size]byte
	workspace  *workspace
	member     *member  // whose it is
	project    *project // nil: it is the workspace's
	created    time.Time
	deleted    bool
	counter    counter
}

// bootstrap makes what every server begins with.
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
	s.initial.workspace, s.initial.project = owner.Credentials, p.Credentials
	return nil
}

// newUser makes a user and the workspace that they own.
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

// newProject makes a project of m's workspace. Its id comes from its name, so that it does not depend on what other projects there are.
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

// removeProject takes a project away with its credentials, their tokens and its checks, which do not expire any more. Callbacks that are on their way arrive.
func (s *service) removeProject(p *project) {
	for _, c := range slices.Clone(p.credentials) {
		s.removeCredential(c)
	}
	for _, checks := range p.checks {
		for _, ck := range checks {
			s.clock.Cancel(ck.expiry)
			delete(s.checks, ck.id)
		}
	}
	p.workspace.projects = without(p.workspace.projects, p)
	delete(s.accounts.projects, p.id)
}

// newCredential makes a pair for m: of project p, or of the workspace when p is nil. The answer is the only place where the secret is ever seen.
func (s *service) newCredential(m *member, p *project) (c *credential, secret string) {
	c = &credential{workspace: m.workspace, member: m, project: p, created: wireTime(s.clock.Now())}
	owner, counter := c.owner()
	c.clientID = s.ids.uuid("client_id", owner, counter)
	s.accounts.credentials[c.clientID] = c
	list := c.list()
	*list = append(*list, c)
	return c, s.newSecret(c)
}

// newSecret gives a pair its secret, or another one.
func (s *service) newSecret(c *credential) string {
	owner, counter := c.owner()
	secret := s.ids.secret("client_secret", owner, counter)
	c.secretHash = sha256.Sum256([]byte(secret))
	return secret
}

// removeCredential takes a pair away, and its tokens with it.
func (s *service) removeCredential(c *credential) {
	c.deleted = true
	delete(s.accounts.credentials, c.clientID)
	list := c.list()
	*list = without(*list, c)
}

// owner is whom the pair's ids are counted for.
func (c *credential) owner() (id string, of *counter) {
	if c.project != nil {
		return c.project.id, &c.project.counter
	}
	return c.member.id, &c.member.counter
}

// list is where the pair is listed.
func (c *credential) list() *[]*credential {
	if c.project != nil {
		return &c.project.credentials
	}
	return &c.member.credentials
}

// without is list but for one item.
func without[T comparable](list []T, item T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == item })
}

// authenticate finds the credential of a client id and its secret, or returns nil.
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

// Scopes by kind of credential (specification, section 5.2; contract, section 2).
var (
	projectScopes   = []string{wire.ScopePhoneCheck, wire.ScopeSIMCheck, wire.ScopeSubscriberCheck, wire.ScopeCoverage}
	workspaceScopes = []string{wire.ScopeProjects, wire.ScopeWorkspaces, wire.ScopeConsole}
)

// scopes is what the pair may be exchanged for.
func (c *credential) scopes() []string {
	if c.project != nil {
		return projectScopes
	}
	return workspaceScopes
}

// mayHave reports whether tokens for the scope are given to this kind of credential.
func (c *credential) mayHave(scope string) bool { return slices.Contains(c.scopes(), scope) }
