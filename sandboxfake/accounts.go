package sandboxfake

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// accounts is who uses the service: workspaces with members, projects and credentials (specification, sections 1 and 2).
type accounts struct {
	workspaces  map[string]*workspace
	projects    map[string]*project
	credentials map[string]*credential // by client id
}

// role is what a member may do in a workspace (specification, section 1, "Roles").
type role string

const (
	roleOwner  role = "OWNER"
	roleAdmin  role = "ADMIN"
	roleViewer role = "VIEWER"
)

// mode is how a project's checks are answered (specification, section 1, "Project modes").
type mode string

const (
	modeLive    mode = "live"
	modeSandbox mode = "sandbox"
)

// workspace is a container of members, projects and one account.
type workspace struct {
	id, name string
	created  time.Time
	members  []*member
	projects []*project
	currency string
	balance  money
	counter  counter
}

// member is a user in a workspace.
type member struct {
	id, name  string
	role      role
	workspace *workspace
	created   time.Time
}

// project is how an application reaches the products.
type project struct {
	id, name         string
	mode             mode
	workspace        *workspace
	member           *member // who made it
	created, updated time.Time
	callbackURL      string                 // for every product that has none of its own
	products         map[string]productURLs // by product
	checks           map[string][]*check    // what lists show, by product, in order of creation
	checkSeq         uint64
	counter          counter
}

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
func (st *state) bootstrap() error {
	st.accounts = accounts{
		workspaces:  make(map[string]*workspace),
		projects:    make(map[string]*project),
		credentials: make(map[string]*credential),
	}
	owner := st.newWorkspace("Sandbox workspace", "Owner")
	st.initial.workspace = st.newCredential(owner, nil)
	p := st.newProject(owner, "Sandbox project", modeSandbox)
	st.initial.project = st.newCredential(owner, p)
	return nil
}

// newWorkspace makes a workspace and its owner.
func (st *state) newWorkspace(name, ownerName string) *member {
	now := wireTime(st.clock.now())
	w := &workspace{id: st.ids.uuid("workspace", "", &st.ids.root), name: name, created: now, currency: "API"}
	owner := &member{id: st.ids.uuid("member", w.id, &w.counter), name: ownerName, role: roleOwner, workspace: w, created: now}
	w.members = append(w.members, owner)
	st.accounts.workspaces[w.id] = w
	return owner
}

// newProject makes a project of m's workspace. Its id comes from its name, so that it does not depend on what other projects there are.
func (st *state) newProject(m *member, name string, mode mode) *project {
	w := m.workspace
	now := wireTime(st.clock.now())
	p := &project{
		id:        st.ids.uuid("project "+name, w.id, &w.counter),
		name:      name,
		mode:      mode,
		workspace: w,
		member:    m,
		created:   now,
		updated:   now,
		products:  make(map[string]productURLs),
		checks:    make(map[string][]*check),
	}
	w.projects = append(w.projects, p)
	st.accounts.projects[p.id] = p
	return p
}

// newCredential makes a pair for m: of project p, or of the workspace when p is nil. The answer is the only place where the secret is ever seen.
func (st *state) newCredential(m *member, p *project) idverify.Credentials {
	owner, counter := m.workspace.id, &m.workspace.counter
	if p != nil {
		owner, counter = p.id, &p.counter
	}
	c := &credential{
		clientID:  st.ids.uuid("client_id", owner, counter),
		workspace: m.workspace,
		member:    m,
		project:   p,
		created:   wireTime(st.clock.now()),
	}
	secret := st.ids.secret("client_secret", owner, counter)
	c.secretHash = sha256.Sum256([]byte(secret))
	st.accounts.credentials[c.clientID] = c
	return idverify.Credentials{ClientID: c.clientID, ClientSecret: idverify.NewSecret(secret)}
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

// mayHave reports whether tokens for the scope are given to this kind of credential.
func (c *credential) mayHave(scope string) bool {
	if c.project != nil {
		return slices.Contains(projectScopes, scope)
	}
	return slices.Contains(workspaceScopes, scope)
}
