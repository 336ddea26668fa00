package sandboxfake

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/idverify/idverify-go/internal/wire"
)

// handlers returns the handler of each operation in the route table. Console handlers also check
// the required role.
//
// Protocol: docs/protocol.md, sections 1 and 10.
func handlers() map[string]handler {
	return map[string]handler{
		wire.Token.Name:  (*service).issueTokenFor,
		wire.Revoke.Name: (*service).revokeToken,
		wire.JWKS.Name:   (*service).keySet,

		wire.CreatePhoneCheck.Name:     (*service).createCheck,
		wire.GetPhoneCheck.Name:        (*service).getCheck,
		wire.ListPhoneChecks.Name:      (*service).listChecks,
		wire.OpenPhoneCheck.Name:       (*service).openCheck,
		wire.CompletePhoneCheck.Name:   (*service).completeCheck,
		wire.ListPhoneCheckTraces.Name: (*service).listTraces,
		wire.GetPhoneCheckTrace.Name:   (*service).getTrace,

		wire.CreateSubscriberCheck.Name:     (*service).createCheck,
		wire.GetSubscriberCheck.Name:        (*service).getCheck,
		wire.ListSubscriberChecks.Name:      (*service).listChecks,
		wire.OpenSubscriberCheck.Name:       (*service).openCheck,
		wire.CompleteSubscriberCheck.Name:   (*service).completeCheck,
		wire.ListSubscriberCheckTraces.Name: (*service).listTraces,
		wire.GetSubscriberCheckTrace.Name:   (*service).getTrace,

		wire.CreateSIMCheck.Name:     (*service).createCheck,
		wire.GetSIMCheck.Name:        (*service).getCheck,
		wire.ListSIMChecks.Name:      (*service).listChecks,
		wire.ListSIMCheckTraces.Name: (*service).listTraces,
		wire.GetSIMCheckTrace.Name:   (*service).getTrace,

		wire.LookupDeviceIP.Name: (*service).deviceIP,
		wire.LookupCallerIP.Name: (*service).callerIP,
		wire.GetCountry.Name:     (*service).country,

		wire.CreateProject.Name: console(roleAdmin, (*service).createProject),
		wire.ListProjects.Name:  console(roleViewer, (*service).listProjects),
		wire.GetProject.Name:    console(roleViewer, (*service).getProject),
		wire.UpdateProject.Name: console(roleAdmin, (*service).updateProject),
		wire.DeleteProject.Name: console(roleAdmin, (*service).deleteProject),

		wire.CreateProjectCredentials.Name: console(roleViewer, (*service).createProjectCredentials),
		wire.ListProjectCredentials.Name:   console(roleViewer, (*service).listProjectCredentials),
		wire.GetProjectCredentials.Name:    console(roleViewer, (*service).getProjectCredentials),
		wire.DeleteProjectCredentials.Name: console(roleViewer, (*service).deleteProjectCredentials),

		wire.ListWorkspaces.Name:  console(roleViewer, (*service).listWorkspaces),
		wire.GetWorkspace.Name:    console(roleViewer, (*service).getWorkspace),
		wire.UpdateWorkspace.Name: console(roleAdmin, (*service).updateWorkspace),

		wire.ListMembers.Name:      console(roleViewer, (*service).listMembers),
		wire.GetMember.Name:        console(roleViewer, (*service).getMember),
		wire.CreateInvitation.Name: console(roleAdmin, (*service).createInvitation),
		wire.ListInvitations.Name:  console(roleAdmin, (*service).listInvitations),

		wire.CreateWorkspaceCredentials.Name: console(roleViewer, (*service).createWorkspaceCredentials),
		wire.ListWorkspaceCredentials.Name:   console(roleViewer, (*service).listWorkspaceCredentials),
		wire.GetWorkspaceCredentials.Name:    console(roleViewer, (*service).getWorkspaceCredentials),
		wire.DeleteWorkspaceCredentials.Name: console(roleViewer, (*service).deleteWorkspaceCredentials),
		wire.ResetWorkspaceCredentials.Name:  console(roleViewer, (*service).resetWorkspaceCredentials),

		wire.GetBillingAccount.Name:    console(roleOwner, (*service).getBillingAccount),
		wire.UpdateBillingAccount.Name: console(roleOwner, (*service).updateBillingAccount),
		wire.AddPaymentMethod.Name:     console(roleOwner, (*service).addPaymentMethod),
		wire.ListPaymentMethods.Name:   console(roleOwner, (*service).listPaymentMethods),
		wire.GetPaymentMethod.Name:     console(roleOwner, (*service).getPaymentMethod),
		wire.DeletePaymentMethod.Name:  console(roleOwner, (*service).deletePaymentMethod),
		wire.CreateTopUp.Name:          console(roleOwner, (*service).createTopUp),
		wire.ListTopUps.Name:           console(roleOwner, (*service).listTopUps),
		wire.GetUsage.Name:             console(roleViewer, (*service).getUsage),
	}
}

// router is a node in the tree of path segments.
type router struct {
	segments map[string]*router // by literal text
	param    *router            // any one segment
	name     string             // of the parameter, if the segment is one
	methods  map[string]endpoint
	public   bool // an operation of the path requires no token
}

// endpoint is an operation at a path.
type endpoint struct {
	op     wire.Operation
	handle handler
}

// routes returns the route table as a tree. All servers share it.
var routes = sync.OnceValue(func() *router {
	root := new(router)
	table := handlers()
	for _, op := range wire.Operations() {
		if handle, ok := table[op.Name]; ok {
			root.add(op, handle)
		}
	}
	return root
})

func (n *router) add(op wire.Operation, handle handler) {
	for segment := range strings.SplitSeq(op.Path[1:], "/") {
		name, isParam := strings.CutPrefix(segment, "{")
		switch {
		case isParam:
			if n.param == nil {
				n.param = &router{name: strings.TrimSuffix(name, "}")}
			}
			n = n.param
		default:
			if n.segments == nil {
				n.segments = make(map[string]*router)
			}
			if n.segments[segment] == nil {
				n.segments[segment] = new(router)
			}
			n = n.segments[segment]
		}
	}
	if n.methods == nil {
		n.methods = make(map[string]endpoint)
	}
	n.methods[op.Method] = endpoint{op, handle}
	n.public = n.public || op.Scope == ""
}

// route is the result of a lookup.
type route struct {
	*router
	version string
	ids     map[string]string
}

// find returns the route of a path, or nil for an unknown path or version. The path is still
// escaped, so that %2F can be part of a parameter.
func (n *router) find(escapedPath string) *route {
	found := &route{}
	product := ""
	for segment := range strings.SplitSeq(strings.TrimPrefix(escapedPath, "/"), "/") {
		text, err := url.PathUnescape(segment)
		if err != nil || text == "" {
			return nil
		}
		if product == "" || product == wire.Public {
			product = text
		}
		literal := n.segments[text]
		switch {
		case literal != nil:
			n = literal
		case n.param == nil:
			return nil
		case n.param.name == "v":
			if !slices.Contains(wire.Versions[product], text) {
				return nil
			}
			n, found.version = n.param, text
		default:
			n = n.param
			if found.ids == nil {
				found.ids = make(map[string]string)
			}
			found.ids[n.name] = text
		}
	}
	if n.methods == nil {
		return nil
	}
	found.router = n
	return found
}

// requiresToken reports whether the operations of a path require a bearer token. Those of unknown
// paths do. The token endpoints, the key set, Check URLs, and the reachability of the caller do
// not.
func (r *route) requiresToken() bool { return r == nil || !r.public }

// allow returns the value of the Allow header.
func (r *route) allow() string {
	var methods []string
	for _, method := range slices.Sorted(maps.Keys(r.methods)) {
		if r.methods[method].serves(r.version) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

// serves reports whether the operation exists in version. Version 0.1 has no code exchange.
func (e endpoint) serves(version string) bool {
	switch e.op.Name {
	case wire.CompletePhoneCheck.Name, wire.CompleteSubscriberCheck.Name:
		return version == wire.V02
	}
	return true
}
