package sandboxfake

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/idverify/idverify-go/internal/wire"
)

// handlers names what answers each operation of the route table, and the least role that it takes in the console (specification, section 1, "Roles").
func handlers() map[string]handler {
	return map[string]handler{
		wire.Token.Name:  (*Server).issueTokenFor,
		wire.Revoke.Name: (*Server).revokeToken,
		wire.JWKS.Name:   (*Server).keySet,

		wire.CreatePhoneCheck.Name:     (*Server).createCheck,
		wire.GetPhoneCheck.Name:        (*Server).getCheck,
		wire.ListPhoneChecks.Name:      (*Server).listChecks,
		wire.OpenPhoneCheck.Name:       (*Server).openCheck,
		wire.CompletePhoneCheck.Name:   (*Server).completeCheck,
		wire.ListPhoneCheckTraces.Name: (*Server).listTraces,
		wire.GetPhoneCheckTrace.Name:   (*Server).getTrace,

		wire.CreateSubscriberCheck.Name:     (*Server).createCheck,
		wire.GetSubscriberCheck.Name:        (*Server).getCheck,
		wire.ListSubscriberChecks.Name:      (*Server).listChecks,
		wire.OpenSubscriberCheck.Name:       (*Server).openCheck,
		wire.CompleteSubscriberCheck.Name:   (*Server).completeCheck,
		wire.ListSubscriberCheckTraces.Name: (*Server).listTraces,
		wire.GetSubscriberCheckTrace.Name:   (*Server).getTrace,

		wire.CreateSIMCheck.Name:     (*Server).createCheck,
		wire.GetSIMCheck.Name:        (*Server).getCheck,
		wire.ListSIMChecks.Name:      (*Server).listChecks,
		wire.ListSIMCheckTraces.Name: (*Server).listTraces,
		wire.GetSIMCheckTrace.Name:   (*Server).getTrace,

		wire.LookupDeviceIP.Name: (*Server).deviceIP,
		wire.LookupCallerIP.Name: (*Server).callerIP,
		wire.GetCountry.Name:     (*Server).country,

		wire.CreateProject.Name: console(roleAdmin, (*Server).createProject),
		wire.ListProjects.Name:  console(roleViewer, (*Server).listProjects),
		wire.GetProject.Name:    console(roleViewer, (*Server).getProject),
		wire.UpdateProject.Name: console(roleAdmin, (*Server).updateProject),
		wire.DeleteProject.Name: console(roleAdmin, (*Server).deleteProject),

		wire.CreateProjectCredentials.Name: console(roleViewer, (*Server).createProjectCredentials),
		wire.ListProjectCredentials.Name:   console(roleViewer, (*Server).listProjectCredentials),
		wire.GetProjectCredentials.Name:    console(roleViewer, (*Server).getProjectCredentials),
		wire.DeleteProjectCredentials.Name: console(roleViewer, (*Server).deleteProjectCredentials),

		wire.ListWorkspaces.Name:  console(roleViewer, (*Server).listWorkspaces),
		wire.GetWorkspace.Name:    console(roleViewer, (*Server).getWorkspace),
		wire.UpdateWorkspace.Name: console(roleAdmin, (*Server).updateWorkspace),

		wire.ListMembers.Name:      console(roleViewer, (*Server).listMembers),
		wire.GetMember.Name:        console(roleViewer, (*Server).getMember),
		wire.CreateInvitation.Name: console(roleAdmin, (*Server).createInvitation),
		wire.ListInvitations.Name:  console(roleAdmin, (*Server).listInvitations),

		wire.CreateWorkspaceCredentials.Name: console(roleViewer, (*Server).createWorkspaceCredentials),
		wire.ListWorkspaceCredentials.Name:   console(roleViewer, (*Server).listWorkspaceCredentials),
		wire.GetWorkspaceCredentials.Name:    console(roleViewer, (*Server).getWorkspaceCredentials),
		wire.DeleteWorkspaceCredentials.Name: console(roleViewer, (*Server).deleteWorkspaceCredentials),
		wire.ResetWorkspaceCredentials.Name:  console(roleViewer, (*Server).resetWorkspaceCredentials),

		wire.GetBillingAccount.Name:    console(roleOwner, (*Server).getBillingAccount),
		wire.UpdateBillingAccount.Name: console(roleOwner, (*Server).updateBillingAccount),
		wire.AddPaymentMethod.Name:     console(roleOwner, (*Server).addPaymentMethod),
		wire.ListPaymentMethods.Name:   console(roleOwner, (*Server).listPaymentMethods),
		wire.GetPaymentMethod.Name:     console(roleOwner, (*Server).getPaymentMethod),
		wire.DeletePaymentMethod.Name:  console(roleOwner, (*Server).deletePaymentMethod),
		wire.CreateTopUp.Name:          console(roleOwner, (*Server).createTopUp),
		wire.ListTopUps.Name:           console(roleOwner, (*Server).listTopUps),
		wire.GetUsage.Name:             console(roleViewer, (*Server).getUsage),
	}
}

// router is a tree of path segments.
type router struct {
	segments map[string]*router // by literal text
	param    *router            // any one segment
	name     string             // of the segment, when it is a parameter
	methods  map[string]endpoint
}

// endpoint is an operation at a path.
type endpoint struct {
	op     wire.Operation
	handle handler
}

// routes is the route table as a tree, the same for every server.
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
}

// route is the place in the tree that a path leads to.
type route struct {
	methods map[string]endpoint
	version string
	ids     map[string]string
}

// find follows a path as it was sent, still escaped, so that a %2F is part of an id. It returns nil for a path that is none of the service's, or a version that there is not.
func (n *router) find(escapedPath string) *route {
	found := &route{ids: make(map[string]string)}
	product := ""
	for segment := range strings.SplitSeq(strings.TrimPrefix(escapedPath, "/"), "/") {
		text, err := url.PathUnescape(segment)
		if err != nil || text == "" {
			return nil
		}
		if product == "" || product == wire.Public {
			product = text
		}
		switch {
		case n.segments[text] != nil:
			n = n.segments[text]
		case n.param == nil:
			return nil
		case n.param.name == "v":
			if !slices.Contains(wire.Versions[product], text) {
				return nil
			}
			n, found.version = n.param, text
		default:
			n = n.param
			found.ids[n.name] = text
		}
	}
	if n.methods == nil {
		return nil
	}
	found.methods = n.methods
	return found
}

// public reports whether the path needs no bearer token: the token endpoints, the key set, Check
// URLs and the reachability of the caller.
func (r *route) public() bool {
	if r == nil {
		return false
	}
	for _, e := range r.methods {
		if e.op.Scope == "" {
			return true
		}
	}
	return false
}

// allow is the value of the Allow header.
func (r *route) allow() string {
	var methods []string
	for _, method := range slices.Sorted(maps.Keys(r.methods)) {
		if r.methods[method].serves(r.version) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

// serves reports whether a version has the operation: the exchange of a code came with the second.
func (e endpoint) serves(version string) bool {
	switch e.op.Name {
	case wire.CompletePhoneCheck.Name, wire.CompleteSubscriberCheck.Name:
		return version == wire.V02
	}
	return true
}
