package wire

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Operation is a row of the route table. An operation with several routes has several rows with the
// same Name.
type Operation struct {
	Name    string // used in logs, errors, faults and journals: "phone_check.create"
	Title   string // used in error texts: "create PhoneCheck"
	Method  string
	Path    string // with {v} for the version and {name} for each ID
	Scope   string // required scope of the bearer token; empty if the operation requires no token
	Success int    // status of a successful response
}

// The route table, in the order of docs/protocol.md, section 1.
var (
	Token  = Operation{"token.create", "get token", http.MethodPost, "/oauth2/v1/token", "", 200}
	Revoke = Operation{"token.revoke", "revoke token", http.MethodPost, "/oauth2/v1/revoke", "", 200}
	JWKS   = Operation{"jwks.get", "get key set", http.MethodGet, "/.well-known/jwks.json", "", 200}

	CreatePhoneCheck     = Operation{"phone_check.create", "create PhoneCheck", http.MethodPost, "/phone_check/{v}/checks", ScopePhoneCheck, 201}
	GetPhoneCheck        = Operation{"phone_check.get", "get PhoneCheck", http.MethodGet, "/phone_check/{v}/checks/{check_id}", ScopePhoneCheck, 200}
	ListPhoneChecks      = Operation{"phone_check.list", "list PhoneChecks", http.MethodGet, "/phone_check/{v}/checks", ScopePhoneCheck, 200}
	OpenPhoneCheck       = Operation{"phone_check.open", "open Check URL", http.MethodGet, "/phone_check/{v}/checks/{check_id}/redirect", "", 200}
	CompletePhoneCheck   = Operation{"phone_check.complete", "complete PhoneCheck", http.MethodPatch, "/phone_check/{v}/checks/{check_id}", ScopePhoneCheck, 200}
	ListPhoneCheckTraces = Operation{"phone_check.traces", "list traces of PhoneCheck", http.MethodGet, "/phone_check/{v}/checks/{check_id}/traces", ScopePhoneCheck, 200}
	GetPhoneCheckTrace   = Operation{"phone_check.trace", "get trace of PhoneCheck", http.MethodGet, "/phone_check/{v}/checks/{check_id}/traces/{trace_id}", ScopePhoneCheck, 200}

	CreateSubscriberCheck     = Operation{"subscriber_check.create", "create SubscriberCheck", http.MethodPost, "/subscriber_check/{v}/checks", ScopeSubscriberCheck, 201}
	GetSubscriberCheck        = Operation{"subscriber_check.get", "get SubscriberCheck", http.MethodGet, "/subscriber_check/{v}/checks/{check_id}", ScopeSubscriberCheck, 200}
	ListSubscriberChecks      = Operation{"subscriber_check.list", "list SubscriberChecks", http.MethodGet, "/subscriber_check/{v}/checks", ScopeSubscriberCheck, 200}
	OpenSubscriberCheck       = Operation{"subscriber_check.open", "open Check URL", http.MethodGet, "/subscriber_check/{v}/checks/{check_id}/redirect", "", 200}
	CompleteSubscriberCheck   = Operation{"subscriber_check.complete", "complete SubscriberCheck", http.MethodPatch, "/subscriber_check/{v}/checks/{check_id}", ScopeSubscriberCheck, 200}
	ListSubscriberCheckTraces = Operation{"subscriber_check.traces", "list traces of SubscriberCheck", http.MethodGet, "/subscriber_check/{v}/checks/{check_id}/traces", ScopeSubscriberCheck, 200}
	GetSubscriberCheckTrace   = Operation{"subscriber_check.trace", "get trace of SubscriberCheck", http.MethodGet, "/subscriber_check/{v}/checks/{check_id}/traces/{trace_id}", ScopeSubscriberCheck, 200}

	CreateSIMCheck     = Operation{"sim_check.create", "create SIMCheck", http.MethodPost, "/sim_check/{v}/checks", ScopeSIMCheck, 201}
	GetSIMCheck        = Operation{"sim_check.get", "get SIMCheck", http.MethodGet, "/sim_check/{v}/checks/{check_id}", ScopeSIMCheck, 200}
	ListSIMChecks      = Operation{"sim_check.list", "list SIMChecks", http.MethodGet, "/sim_check/{v}/checks", ScopeSIMCheck, 200}
	ListSIMCheckTraces = Operation{"sim_check.traces", "list traces of SIMCheck", http.MethodGet, "/sim_check/{v}/checks/{check_id}/traces", ScopeSIMCheck, 200}
	GetSIMCheckTrace   = Operation{"sim_check.trace", "get trace of SIMCheck", http.MethodGet, "/sim_check/{v}/checks/{check_id}/traces/{trace_id}", ScopeSIMCheck, 200}

	LookupDeviceIP      = Operation{"reachability.device_ip", "look up reachability", http.MethodGet, "/coverage/{v}/device_ips/{ip}", ScopeCoverage, 200}
	LookupDeviceIPQuery = Operation{"reachability.device_ip", "look up reachability", http.MethodGet, "/coverage/{v}/device_ip", ScopeCoverage, 200}
	LookupCallerIP      = Operation{"reachability.caller_ip", "look up reachability of the caller", http.MethodGet, "/public/coverage/{v}/device_ip", "", 200}
	GetCountry          = Operation{"reachability.country", "get country reachability", http.MethodGet, "/coverage/{v}/countries/{code}", ScopeCoverage, 200}

	CreateProject = Operation{"projects.create", "create project", http.MethodPost, "/console/{v}/projects", ScopeProjects, 201}
	ListProjects  = Operation{"projects.list", "list projects", http.MethodGet, "/console/{v}/projects", ScopeProjects, 200}
	GetProject    = Operation{"projects.get", "get project", http.MethodGet, "/console/{v}/projects/{project_id}", ScopeProjects, 200}
	UpdateProject = Operation{"projects.update", "update project", http.MethodPatch, "/console/{v}/projects/{project_id}", ScopeProjects, 200}
	DeleteProject = Operation{"projects.delete", "delete project", http.MethodDelete, "/console/{v}/projects/{project_id}", ScopeProjects, 204}

	CreateProjectCredentials = Operation{"project_credentials.create", "create project credentials", http.MethodPost, "/console/{v}/projects/{project_id}/credentials", ScopeProjects, 201}
	ListProjectCredentials   = Operation{"project_credentials.list", "list project credentials", http.MethodGet, "/console/{v}/projects/{project_id}/credentials", ScopeProjects, 200}
	GetProjectCredentials    = Operation{"project_credentials.get", "get project credentials", http.MethodGet, "/console/{v}/projects/{project_id}/credentials/{client_id}", ScopeProjects, 200}
	DeleteProjectCredentials = Operation{"project_credentials.delete", "delete project credentials", http.MethodDelete, "/console/{v}/projects/{project_id}/credentials/{client_id}", ScopeProjects, 204}

	ListWorkspaces  = Operation{"workspaces.list", "list workspaces", http.MethodGet, "/console/{v}/workspaces", ScopeWorkspaces, 200}
	GetWorkspace    = Operation{"workspaces.get", "get workspace", http.MethodGet, "/console/{v}/workspaces/{workspace_id}", ScopeWorkspaces, 200}
	UpdateWorkspace = Operation{"workspaces.update", "rename workspace", http.MethodPatch, "/console/{v}/workspaces/{workspace_id}", ScopeWorkspaces, 200}

	ListMembers = Operation{"members.list", "list members", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/members", ScopeWorkspaces, 200}
	GetMember   = Operation{"members.get", "get member", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/members/{member_id}", ScopeWorkspaces, 200}

	CreateInvitation = Operation{"invitations.create", "create invitation", http.MethodPost, "/console/{v}/workspaces/{workspace_id}/invitations", ScopeWorkspaces, 201}
	ListInvitations  = Operation{"invitations.list", "list invitations", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/invitations", ScopeWorkspaces, 200}

	CreateWorkspaceCredentials = Operation{"workspace_credentials.create", "create workspace credentials", http.MethodPost, "/console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials", ScopeWorkspaces, 201}
	ListWorkspaceCredentials   = Operation{"workspace_credentials.list", "list workspace credentials", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials", ScopeWorkspaces, 200}
	GetWorkspaceCredentials    = Operation{"workspace_credentials.get", "get workspace credentials", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}", ScopeWorkspaces, 200}
	DeleteWorkspaceCredentials = Operation{"workspace_credentials.delete", "delete workspace credentials", http.MethodDelete, "/console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}", ScopeWorkspaces, 204}
	ResetWorkspaceCredentials  = Operation{"workspace_credentials.reset", "reset workspace secret", http.MethodPost, "/console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}/reset", ScopeWorkspaces, 200}

	GetBillingAccount    = Operation{"billing.account", "get billing account", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/billing_account", ScopeWorkspaces, 200}
	UpdateBillingAccount = Operation{"billing.update_account", "update billing account", http.MethodPut, "/console/{v}/workspaces/{workspace_id}/billing_account", ScopeWorkspaces, 200}
	AddPaymentMethod     = Operation{"payment_methods.create", "add payment method", http.MethodPost, "/console/{v}/workspaces/{workspace_id}/payment_methods", ScopeWorkspaces, 201}
	ListPaymentMethods   = Operation{"payment_methods.list", "list payment methods", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/payment_methods", ScopeWorkspaces, 200}
	GetPaymentMethod     = Operation{"payment_methods.get", "get payment method", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/payment_methods/{payment_method_id}", ScopeWorkspaces, 200}
	DeletePaymentMethod  = Operation{"payment_methods.delete", "delete payment method", http.MethodDelete, "/console/{v}/workspaces/{workspace_id}/payment_methods/{payment_method_id}", ScopeWorkspaces, 204}
	CreateTopUp          = Operation{"topups.create", "top up", http.MethodPost, "/console/{v}/workspaces/{workspace_id}/topups", ScopeWorkspaces, 201}
	ListTopUps           = Operation{"topups.list", "list top-ups", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/topups", ScopeWorkspaces, 200}
	GetUsage             = Operation{"usage.get", "get usage", http.MethodGet, "/console/{v}/workspaces/{workspace_id}/usage/{period}", ScopeWorkspaces, 200}

	// The project operations for a workspace in the path, for members of several workspaces.
	CreateProjectIn            = CreateProject.below(ScopeWorkspaces)
	ListProjectsIn             = ListProjects.below(ScopeWorkspaces)
	GetProjectIn               = GetProject.below(ScopeWorkspaces)
	UpdateProjectIn            = UpdateProject.below(ScopeWorkspaces)
	DeleteProjectIn            = DeleteProject.below(ScopeWorkspaces)
	CreateProjectCredentialsIn = CreateProjectCredentials.below(ScopeWorkspaces)
	ListProjectCredentialsIn   = ListProjectCredentials.below(ScopeWorkspaces)
	GetProjectCredentialsIn    = GetProjectCredentials.below(ScopeWorkspaces)
	DeleteProjectCredentialsIn = DeleteProjectCredentials.below(ScopeWorkspaces)
)

// Operations returns every row of the route table.
func Operations() []Operation {
	return []Operation{
		Token, Revoke, JWKS,
		CreatePhoneCheck, GetPhoneCheck, ListPhoneChecks, OpenPhoneCheck, CompletePhoneCheck, ListPhoneCheckTraces, GetPhoneCheckTrace,
		CreateSubscriberCheck, GetSubscriberCheck, ListSubscriberChecks, OpenSubscriberCheck, CompleteSubscriberCheck, ListSubscriberCheckTraces, GetSubscriberCheckTrace,
		CreateSIMCheck, GetSIMCheck, ListSIMChecks, ListSIMCheckTraces, GetSIMCheckTrace,
		LookupDeviceIP, LookupDeviceIPQuery, LookupCallerIP, GetCountry,
		CreateProject, ListProjects, GetProject, UpdateProject, DeleteProject,
		CreateProjectCredentials, ListProjectCredentials, GetProjectCredentials, DeleteProjectCredentials,
		ListWorkspaces, GetWorkspace, UpdateWorkspace,
		ListMembers, GetMember,
		CreateInvitation, ListInvitations,
		CreateWorkspaceCredentials, ListWorkspaceCredentials, GetWorkspaceCredentials, DeleteWorkspaceCredentials, ResetWorkspaceCredentials,
		GetBillingAccount, UpdateBillingAccount, AddPaymentMethod, ListPaymentMethods, GetPaymentMethod, DeletePaymentMethod, CreateTopUp, ListTopUps, GetUsage,
		CreateProjectIn, ListProjectsIn, GetProjectIn, UpdateProjectIn, DeleteProjectIn,
		CreateProjectCredentialsIn, ListProjectCredentialsIn, GetProjectCredentialsIn, DeleteProjectCredentialsIn,
	}
}

// Action returns the last part of the name, such as "create". Only operations of checks have the
// actions "open" and "complete".
func (o Operation) Action() string {
	_, action, _ := strings.Cut(o.Name, ".")
	return action
}

// Title returns the title of the operation with the given name. For an unknown operation it returns
// the name.
func Title(name string) string {
	for _, o := range Operations() {
		if o.Name == name {
			return o.Title
		}
	}
	return name
}

// below returns the same operation with the given scope and a path below
// /console/{v}/workspaces/{workspace_id}.
func (o Operation) below(scope string) Operation {
	o.Path = strings.Replace(o.Path, "/console/{v}/", "/console/{v}/workspaces/{workspace_id}/", 1)
	o.Scope = scope
	return o
}

// Public is the first segment of paths that browsers use without a token. The second segment is the
// product.
const Public = "public"

// Product returns the product in the path: the first segment, or the second segment after Public.
func (o Operation) Product() string {
	product, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(o.Path, "/"+Public), "/"), "/")
	return product
}

// URL returns base, a scheme and host, followed by the operation's path with each ID escaped.
//
// It returns an error for an ID that could change the rest of the path: see checkID. The error does
// not contain the ID.
func (o Operation) URL(base, version string, ids ...string) (string, error) {
	const usualIDs = 64
	var b strings.Builder
	b.Grow(len(base) + len(o.Path) + usualIDs)
	b.WriteString(base)
	for rest := o.Path; rest != ""; {
		text, after, _ := strings.Cut(rest, "{")
		b.WriteString(text)
		var name string
		name, rest, _ = strings.Cut(after, "}")
		switch {
		case name == "": // the path ends with text
		case name == "v":
			b.WriteString(version)
		case len(ids) == 0:
			return "", fmt.Errorf("missing %s", name)
		default:
			if err := checkID(ids[0]); err != nil {
				return "", fmt.Errorf("%s %w", name, err)
			}
			b.WriteString(url.PathEscape(ids[0]))
			ids = ids[1:]
		}
	}
	return b.String(), nil
}

// checkID rejects an ID that a proxy could turn into another path. Escaping is not enough: some
// proxies decode the path before they forward it. Then %2F becomes a separator again, and %3F and
// %23 end the path.
func checkID(id string) error {
	// Some servers drop everything from a semicolon before they resolve dot segments.
	segment, _, _ := strings.Cut(id, ";")
	switch {
	case id == "":
		return errors.New("must not be empty")
	case strings.TrimSpace(segment) == "." || strings.TrimSpace(segment) == "..":
		return errors.New("must not be a dot segment")
	case strings.ContainsAny(id, `/\%?#`):
		return errors.New("must not contain any of the characters / \\ % ? #")
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("must be valid UTF-8 without control characters")
	}
	return nil
}

// Resource returns the ID of the resource that the operation reads, changes or returns. This is the
// last element of ids if the path ends with an ID or with an ID and /reset. Resource returns "" for
// collections and for the workspace alias "default". It also returns "" for coverage, because the
// keys in its responses may have another form.
func (o Operation) Resource(ids []string) string {
	path := strings.TrimSuffix(o.Path, "/reset")
	if len(ids) == 0 || !strings.HasSuffix(path, "_id}") {
		return ""
	}
	id := ids[len(ids)-1]
	if id == DefaultWorkspace && strings.HasSuffix(path, "/{workspace_id}") {
		return ""
	}
	return id
}

// DefaultWorkspace is the path segment for the workspace of the credentials.
const DefaultWorkspace = "default"
