package sandboxfake

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
)

// OpenAPI returns a description of the service in OpenAPI 3.1, as JSON. It contains every
// operation of the route table, with the members of each request and response, and the callbacks.
// The extension x-status of operations, parameters and members says "specified" or "our decision",
// as docs/protocol.md does.
func OpenAPI() []byte {
	d := &describer{schemas: make(schema), responses: make(schema)}
	paths := make(schema)
	for _, op := range wire.Operations() {
		methods, ok := paths[op.Path].(schema)
		if !ok {
			methods = make(schema)
			paths[op.Path] = methods
		}
		methods[strings.ToLower(op.Method)] = d.operation(op)
	}
	document := schema{
		"openapi": "3.1.0",
		"info": schema{
			"title":   "Mobile-identity service",
			"version": "1",
			"summary": "Verifies phone numbers by the mobile network, as sandboxfake implements it.",
			"description": "Generated from the route table and the types of sandboxfake. The operation IDs are the names that logs, faults and journals use; an operation with several paths has an ID for each. " +
				"x-status says whether the path of an operation, a parameter or a member is specified by the service's documentation, or our decision where the documentation leaves a gap. docs/protocol.md lists all rules. " +
				"Responses may contain members and values that are not described.",
			"license": schema{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []any{schema{"url": "/", "description": "The server that serves this document."}},
		"paths":   paths,
		"components": schema{
			"schemas":         d.schemas,
			"responses":       d.responses,
			"headers":         describedHeaders(),
			"securitySchemes": securitySchemes(),
		},
	}
	// The document contains only values that JSON can represent.
	text, _ := json.MarshalIndent(document, "", "  ")
	return append(text, '\n')
}

// controlService handles GET /_sandbox/service.json.
func (s *Server) controlService(*http.Request) (any, error) {
	return &response{status: http.StatusOK, media: wire.MediaJSON, raw: OpenAPI()}, nil
}

// schema is a JSON Schema, or another object of the description.
type schema = map[string]any

// Values of x-status.
const (
	specified   = "specified"
	ourDecision = "our decision"
)

// described contains what the route table does not say about an operation.
type described struct {
	text     string
	status   string   // of its method and path; by default ourDecision
	versions []string // by default those of the product
	query    []string // names of query parameters besides those of a list
	media    []string // of the request body, if not JSON
	request  any      // a struct, or a patchOf; nil for none
	required []string // members of request
	response any      // a struct, or a pageOf; nil for none
	json     bool     // the media type of the response is JSON, not HAL
	problems []string // fragments besides those that the path and the body imply
}

// descriptions returns the description of each operation, by name.
func descriptions() map[string]described {
	all := make(map[string]described)
	for _, row := range []struct {
		ops []wire.Operation
		described
	}{
		{[]wire.Operation{wire.Token}, described{text: "The scopes of one token are separated by single spaces.", status: specified, media: formMedia, request: tokenParams{}, required: []string{"grant_type", "scope"}, response: tokenView{}, json: true}},
		{[]wire.Operation{wire.Revoke}, described{text: "The status is 200 whether or not the token exists.", media: formMedia, request: revokeParams{}, required: []string{"token"}}},
		{[]wire.Operation{wire.JWKS}, described{status: specified, response: keySetView{}, json: true}},

		{[]wire.Operation{wire.CreatePhoneCheck}, described{text: creates, status: specified, request: checkParams{}, required: []string{"phone_number"}, response: checkJSON{}, problems: createProblems}},
		{[]wire.Operation{wire.CreateSubscriberCheck}, described{text: creates, request: checkParams{}, required: []string{"phone_number"}, response: checkJSON{}, problems: createProblems}},
		{[]wire.Operation{wire.CreateSIMCheck}, described{text: "The check ends when it is created. The response is the only report of a check with the status ERROR.", request: checkParams{}, required: []string{"phone_number"}, response: checkJSON{}, problems: createProblems}},
		{[]wire.Operation{wire.GetPhoneCheck, wire.GetSubscriberCheck, wire.GetSIMCheck}, described{text: "A check that ended as EXPIRED or ERROR is not found.", response: checkJSON{}}},
		{[]wire.Operation{wire.ListPhoneChecks, wire.ListSubscriberChecks, wire.ListSIMChecks}, described{text: "Checks that ended as EXPIRED or ERROR are not listed.", response: pageOf{checkListing, checkJSON{}}}},
		{[]wire.Operation{wire.OpenPhoneCheck, wire.OpenSubscriberCheck}, described{text: "The device requests this URL once, over its mobile connection. If the check has a redirect URL (v0.2), the response is a signed redirect.", response: openedView{}, json: true, problems: []string{wire.NotMobileIP, wire.MNORedirectUnsupported}}},
		{[]wire.Operation{wire.CompletePhoneCheck, wire.CompleteSubscriberCheck}, described{text: "Exchanges the code of an opened check for its result.", versions: []string{wire.V02}, request: patchOf{verbs: []string{"add"}, paths: []string{"/code"}, value: schema{"type": "string"}, once: true}, response: checkJSON{}}},
		{[]wire.Operation{wire.ListPhoneCheckTraces, wire.ListSubscriberCheckTraces, wire.ListSIMCheckTraces}, described{text: "Traces older than seven days are not listed.", response: pageOf{traceListing, traceView{}}}},
		{[]wire.Operation{wire.GetPhoneCheckTrace, wire.GetSubscriberCheckTrace, wire.GetSIMCheckTrace}, described{response: traceView{}}},

		{[]wire.Operation{wire.LookupDeviceIP}, described{text: "The parameter ip is a parameter of the path or, optionally, of the query. Without it, the response is about the caller.", query: []string{"ip"}, response: reachabilityView{}, problems: reachabilityProblems}},
		{[]wire.Operation{wire.LookupCallerIP}, described{response: reachabilityView{}, problems: reachabilityProblems}},
		{[]wire.Operation{wire.GetCountry}, described{response: countryView{}}},

		{[]wire.Operation{wire.CreateProject}, described{text: "The response contains the first pair of credentials.", request: projectParams{}, required: []string{"name"}, response: projectView{}, problems: []string{wire.ProjectNameTaken}}},
		{[]wire.Operation{wire.ListProjects}, described{query: []string{"name"}, response: pageOf{projectListing(nil), projectView{}}}},
		{[]wire.Operation{wire.GetProject}, described{response: projectView{}}},
		{[]wire.Operation{wire.UpdateProject}, described{text: "The patch is applied completely or not at all.", request: projectPatch(), response: projectView{}, problems: []string{wire.ProjectNameTaken}}},
		{[]wire.Operation{wire.DeleteProject, wire.DeleteProjectCredentials, wire.DeleteWorkspaceCredentials, wire.DeletePaymentMethod}, described{}},
		{[]wire.Operation{wire.CreateProjectCredentials}, described{text: "The response contains the secret, which cannot be read again.", response: credentialView{}, problems: []string{wire.CredentialsLimitReached}}},
		{[]wire.Operation{wire.ListProjectCredentials, wire.ListWorkspaceCredentials}, described{response: pageOf{credentialListing, credentialView{}}}},
		{[]wire.Operation{wire.GetProjectCredentials, wire.GetWorkspaceCredentials}, described{response: credentialView{}}},

		{[]wire.Operation{wire.ListWorkspaces}, described{response: pageOf{workspaceListing(nil), workspaceView{}}}},
		{[]wire.Operation{wire.GetWorkspace}, described{response: workspaceView{}}},
		{[]wire.Operation{wire.UpdateWorkspace}, described{request: patchOf{verbs: []string{"add", "replace"}, paths: []string{"/name"}, value: schema{"type": "string"}}, response: workspaceView{}}},
		{[]wire.Operation{wire.ListMembers}, described{response: pageOf{memberListing, memberView{}}}},
		{[]wire.Operation{wire.GetMember}, described{response: memberView{}}},
		{[]wire.Operation{wire.CreateInvitation}, described{text: "The invitation is accepted by signing up, outside the API.", request: invitationParams{}, required: []string{"name", "role"}, response: invitationView{}}},
		{[]wire.Operation{wire.ListInvitations}, described{text: "Lists open invitations.", response: pageOf{invitationListing, invitationView{}}}},
		{[]wire.Operation{wire.CreateWorkspaceCredentials, wire.ResetWorkspaceCredentials}, described{text: "The response contains the secret, which cannot be read again.", response: credentialView{}}},

		{[]wire.Operation{wire.GetBillingAccount}, described{response: billingAccount{}}},
		{[]wire.Operation{wire.UpdateBillingAccount}, described{text: "Replaces all members.", request: billingAccount{}, required: []string{"company_name"}, response: billingAccount{}}},
		{[]wire.Operation{wire.AddPaymentMethod}, described{request: paymentMethodParams{}, required: []string{"card_number", "expiry_month", "expiry_year", "currencies"}, response: paymentMethodView{}, problems: []string{wire.CompanyDetailsRequired, wire.CurrencyNotSupported}}},
		{[]wire.Operation{wire.ListPaymentMethods}, described{response: pageOf{paymentMethodListing, paymentMethodView{}}}},
		{[]wire.Operation{wire.GetPaymentMethod}, described{response: paymentMethodView{}}},
		{[]wire.Operation{wire.CreateTopUp}, described{request: topUpParams{}, required: []string{"payment_method_id", "currency", "amount"}, response: topUpView{}, problems: []string{wire.CompanyDetailsRequired, wire.PaymentDetailsRequired, wire.CurrencyFixed, wire.CurrencyNotSupported}}},
		{[]wire.Operation{wire.ListTopUps}, described{response: pageOf{topUpListing, topUpView{}}}},
		{[]wire.Operation{wire.GetUsage}, described{text: "Returns each period with at least one check. The search must compare date.", query: []string{"group_by"}, response: pageOf{usageListing("", nil), usageView{}}}},
	} {
		for _, op := range row.ops {
			all[op.Name] = row.described
		}
	}
	return all
}

const creates = "A live check is charged when it is created. The device then requests the Check URL, _links.check_url."

// Fragments that several operations return.
var (
	createProblems       = []string{wire.PhoneFormatInvalid, wire.InsufficientBalance, wire.IPMSISDNMismatch}
	reachabilityProblems = []string{wire.BadRequest, wire.MNONotSupported, wire.NotMobileIP}
)

var formMedia = []string{wire.MediaMultipart, wire.MediaForm}

// tokenParams is the form of a token request.
type tokenParams struct {
	GrantType string `json:"grant_type"`
	Scope     string `json:"scope"`
}

// revokeParams is the form of a request to revoke a token.
type revokeParams struct {
	Token         string `json:"token"`
	TokenTypeHint string `json:"token_type_hint"`
}

// patchOf describes a JSON Patch.
type patchOf struct {
	verbs, paths []string
	value        schema // nil for any value
	once         bool   // the patch has exactly one operation
}

// projectPatch describes a patch of a project.
func projectPatch() patchOf {
	p := patchOf{verbs: []string{"add", "replace", "remove"}}
	for _, row := range patchPaths {
		p.paths = append(p.paths, row.path)
	}
	return p
}

// pageOf describes a page of a list whose items have the type of item.
type pageOf struct {
	list interface {
		properties() (embedded string, search, sort []string)
	}
	item any
}

// properties returns the name of the items, the fields of a search and the properties to sort by.
func (l listing[T]) properties() (embedded string, search, sort []string) {
	sort = []string{"created_at"}
	if l.updated != nil {
		sort = append(sort, "updated_at")
	}
	if l.name != nil {
		sort = append(sort, "name")
	}
	return l.embedded, slices.Sorted(maps.Keys(l.fields)), sort
}

// describer collects the components of a description.
type describer struct {
	schemas, responses schema
	seen               []string // IDs of operations
}

// operation describes a row of the route table.
func (d *describer) operation(op wire.Operation) schema {
	about := descriptions()[op.Name]
	id := op.Name
	for n := 2; slices.Contains(d.seen, id); n++ {
		id = op.Name + "." + strconv.Itoa(n)
	}
	d.seen = append(d.seen, id)
	object := schema{
		"operationId": id,
		"summary":     strings.ToUpper(op.Title[:1]) + op.Title[1:],
		"tags":        []string{op.Product()},
		"security":    security(op),
		"responses":   d.allResponses(op, about),
		"x-status":    ourDecision,
	}
	if about.status != "" {
		object["x-status"] = about.status
	}
	if about.text != "" {
		object["description"] = about.text
	}
	if parameters := d.parameters(op, about); len(parameters) > 0 {
		object["parameters"] = parameters
	}
	if p := productNamed(op.Product()); p != nil && p.callbacks && op.Success == http.StatusCreated {
		object["callbacks"] = d.callback(p.name)
	}
	if about.request != nil {
		content, media := make(schema), about.media
		if _, ok := about.request.(patchOf); ok {
			media = []string{wire.MediaJSONPatch}
		} else if media == nil {
			media = bodyMedia
		}
		for _, name := range media {
			content[name] = schema{"schema": d.request(about)}
		}
		object["requestBody"] = schema{"required": true, "content": content}
	}
	return object
}

// security returns the credentials that an operation requires.
func security(op wire.Operation) []any {
	switch {
	case op.Product() == wire.Token.Product():
		return []any{schema{"basic": []string{}}}
	case op.Scope == "":
		return []any{}
	case slices.Contains(workspaceScopes, op.Scope):
		return []any{schema{"token": []string{op.Scope}}, schema{"token": []string{wire.ScopeConsole}}}
	}
	return []any{schema{"token": []string{op.Scope}}}
}

func securitySchemes() schema {
	scopes := make(schema)
	for _, scope := range slices.Concat(projectScopes, workspaceScopes) {
		scopes[scope] = "The operations of " + scope + "."
	}
	scopes[wire.ScopeConsole] = "The operations of projects and workspaces."
	return schema{
		"basic": schema{"type": "http", "scheme": "basic", "description": "The client ID and client secret of a project or workspace. Only the token endpoints accept them.", "x-status": specified},
		"token": schema{"type": "oauth2", "x-status": specified, "flows": schema{"clientCredentials": schema{"tokenUrl": wire.Token.Path, "scopes": scopes}}},
	}
}

// parameters describes the parameters of the path and the query.
func (d *describer) parameters(op wire.Operation, about described) []any {
	var all []any
	add := func(in, name string, required bool, s schema) {
		p := schema{"name": name, "in": in, "required": required, "schema": s}
		moveUp(p, s)
		all = append(all, p)
	}
	for segment := range strings.SplitSeq(op.Path, "/") {
		name, isParam := strings.CutPrefix(segment, "{")
		name = strings.TrimSuffix(name, "}")
		s := d.member("path", name, schema{"type": "string"})
		switch {
		case !isParam:
			continue
		case name == "v" && about.versions != nil:
			s["enum"] = about.versions
		case name == "v":
			s["enum"] = wire.Versions[op.Product()]
		}
		add("path", name, true, s)
	}
	if page, ok := about.response.(pageOf); ok {
		_, search, sort := page.list.properties()
		add("query", "page", false, d.member("query", "page", schema{"type": "integer"}))
		add("query", "size", false, d.member("query", "size", schema{"type": "integer"}))
		s := d.member("query", "sort", schema{"type": "string"})
		s["pattern"] = "^(" + strings.Join(sort, "|") + ")(,(asc|desc))?$"
		add("query", "sort", false, s)
		if len(search) > 0 {
			s := d.member("query", "search", schema{"type": "string"})
			s["description"] = s["description"].(string) + " The fields are " + strings.Join(search, ", ") + "."
			add("query", "search", op.Name == wire.GetUsage.Name, s)
		}
	}
	for _, name := range about.query {
		if !strings.Contains(op.Path, "{"+name+"}") {
			add("query", name, false, d.member("query", name, schema{"type": "string"}))
		}
	}
	return all
}

// moveUp moves the description and the status of a schema to the object that contains it.
func moveUp(object, s schema) {
	for _, name := range []string{"description", "x-status"} {
		object[name] = s[name]
		delete(s, name)
	}
}

// request describes the body of a request.
func (d *describer) request(about described) schema {
	patch, ok := about.request.(patchOf)
	if !ok {
		t := reflect.TypeOf(about.request)
		return d.object(t, strings.TrimSuffix(schemaName(t), "Params")+"Params", about.required)
	}
	value := maps.Clone(patch.value)
	if value == nil {
		value = schema{}
	}
	required := []string{"op", "path"}
	if !slices.Contains(patch.verbs, "remove") {
		required = append(required, "value")
	}
	s := schema{"type": "array", "items": schema{
		"type":     "object",
		"required": required,
		"properties": schema{
			"op":    d.member("patch", "op", schema{"type": "string", "enum": patch.verbs}),
			"path":  d.member("patch", "path", schema{"type": "string", "enum": patch.paths}),
			"value": d.member("patch", "value", value),
		},
	}}
	if patch.once {
		s["minItems"], s["maxItems"] = 1, 1
	}
	return s
}

// allResponses describes the responses of an operation, by status.
func (d *describer) allResponses(op wire.Operation, about described) schema {
	success := schema{"description": http.StatusText(op.Success), "headers": headers(wire.RequestIDHeader)}
	if about.response != nil {
		media := wire.MediaHAL
		if about.json {
			media = wire.MediaJSON
		}
		success["content"] = schema{media: schema{"schema": d.response(about.response)}}
	}
	all := schema{strconv.Itoa(op.Success): success}
	if _, ok := about.response.(openedView); ok {
		all["302"] = schema{"description": "The signed redirect to the redirect URL.", "headers": headers(wire.RequestIDHeader, "Location")}
	}
	if op.Product() == wire.Token.Product() {
		content := schema{wire.MediaJSON: schema{"schema": d.response(tokenErrorView{})}}
		all["400"] = schema{"description": "Bad Request", "content": content, "headers": headers(wire.RequestIDHeader)}
		all["401"] = schema{"description": "Unauthorized", "content": content, "headers": headers(wire.RequestIDHeader, "WWW-Authenticate")}
	}
	fragments := problemsOf(op, about)
	for _, kind := range problemKinds {
		if slices.Contains(fragments, kind.fragment) {
			all[strconv.Itoa(kind.status)] = d.problem(kind.status, fragments)
		}
	}
	all["5XX"] = d.problem(http.StatusInternalServerError, nil)
	return all
}

// problemsOf returns the fragments of the problems of an operation.
func problemsOf(op wire.Operation, about described) []string {
	fragments := slices.Clone(about.problems)
	if op.Scope != "" {
		fragments = append(fragments, wire.Unauthorized, wire.Forbidden, wire.TooManyRequests)
	}
	for _, row := range []struct {
		in        string
		fragments []string
	}{
		{"{", []string{wire.NotFound}}, // an unknown version
		{"{check_id}", []string{wire.CheckNotFound}},
		{"{trace_id}", []string{wire.TraceNotFound, wire.TraceGone}},
		{"{workspace_id}", []string{wire.WorkspaceNotFound}},
	} {
		if strings.Contains(op.Path, row.in) {
			fragments = append(fragments, row.fragments...)
		}
	}
	if about.request != nil && about.media == nil {
		fragments = append(fragments, wire.BadRequest, wire.UnsupportedMediaType, wire.PayloadTooLarge)
	}
	if _, ok := about.response.(pageOf); ok {
		fragments = append(fragments, wire.BadRequest)
	}
	return fragments
}

// problem describes the problems with the given status, among fragments.
func (d *describer) problem(status int, fragments []string) schema {
	name, text := "", ""
	for _, kind := range problemKinds {
		if kind.status == status && slices.Contains(fragments, kind.fragment) {
			name += "_or_" + kind.fragment
			text += "\n- `" + kind.fragment + "`: " + kind.detail
		}
	}
	names := []string{wire.RequestIDHeader}
	switch status {
	case http.StatusUnauthorized:
		names = append(names, "WWW-Authenticate")
	case http.StatusTooManyRequests:
		names = append(names, "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	case http.StatusInternalServerError:
		name, text = "_or_server_error", "\nThe service failed. Whether it performed the operation is unknown."
	}
	name = strings.TrimPrefix(name, "_or_")
	d.responses[name] = schema{
		"description": http.StatusText(status) + text,
		"headers":     headers(names...),
		"content":     schema{wire.MediaProblem: schema{"schema": d.response(problem{})}},
	}
	return schema{"$ref": "#/components/responses/" + name}
}

// headers refers to headers of responses.
func headers(names ...string) schema {
	all := make(schema)
	for _, name := range names {
		all[name] = schema{"$ref": "#/components/headers/" + name}
	}
	return all
}

// describedHeaders describes the headers of responses.
func describedHeaders() schema {
	all := make(schema)
	for _, row := range []struct{ name, kind, text string }{
		{wire.RequestIDHeader, "string", "The ID of the request, for support."},
		{"Location", "string", "The redirect URL with the parameters check_id, code or error, error_description, authorization and date."},
		{"WWW-Authenticate", "string", "The scheme of the credentials that the operation requires."},
		{"Retry-After", "integer", "The time to wait before a retry, in seconds."},
		{"X-RateLimit-Limit", "integer", "The number of requests per hour."},
		{"X-RateLimit-Remaining", "integer", "The number of requests that remain."},
		{"X-RateLimit-Reset", "integer", "The time at which the limit is reset, in Unix seconds."},
	} {
		all[row.name] = schema{"description": row.text, "schema": schema{"type": row.kind}, "x-status": ourDecision}
	}
	return all
}

// callback describes the callback of a product.
func (d *describer) callback(product string) schema {
	return schema{"ended": schema{"{$request.body#/callback_url}": schema{"post": schema{
		"operationId": product + ".callback",
		"summary":     "Receive a callback",
		"description": "Sent when the check ends, to the callback_url of the check, or else of the project. docs/protocol.md, section 7, describes the signature in the Authorization header, and the Digest of the body.",
		"x-status":    specified,
		"parameters": []any{schema{
			"name": wire.CallbackHeader, "in": "header", "required": true, "description": "The product. The name of the header can be configured.",
			"x-status": specified, "schema": schema{"type": "string", "enum": []string{product}},
		}},
		"requestBody": schema{"required": true, "content": schema{wire.MediaJSON: schema{"schema": d.response(callbackJSON{})}}},
		"responses": schema{
			"2XX": schema{"description": "The callback was received."},
			"5XX": schema{"description": "The service retries. After any other status it does not."},
		},
	}}}}
}

// response describes the body of a response.
func (d *describer) response(body any) schema {
	page, ok := body.(pageOf)
	if !ok {
		return d.typeSchema(reflect.TypeOf(body))
	}
	embedded, _, _ := page.list.properties()
	name := schemaName(reflect.TypeOf(page.item)) + "Page"
	d.schemas[name] = schema{
		"type":     "object",
		"required": []string{"page", "_embedded", "_links"},
		"properties": schema{
			"page":   d.member(name, "page", d.typeSchema(reflect.TypeFor[pageJSON]())),
			"_links": d.member(name, "_links", d.typeSchema(reflect.TypeFor[pageLinksJSON]())),
			"_embedded": d.member(name, "_embedded", schema{
				"type":       "object",
				"required":   []string{embedded},
				"properties": schema{embedded: schema{"type": "array", "items": d.response(page.item), "description": "The items of the page.", "x-status": ourDecision}},
			}),
		},
	}
	return ref(name)
}

func ref(name string) schema { return schema{"$ref": "#/components/schemas/" + name} }

// schemaName returns the name of the schema of a type, or "" for an anonymous type.
func schemaName(t reflect.Type) string {
	name := strings.TrimSuffix(strings.TrimSuffix(t.Name(), "View"), "JSON")
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// typeSchema describes a value of a type. The members of a named struct are a component.
func (d *describer) typeSchema(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[json.Number]():
		return schema{"type": "number"}
	case reflect.TypeFor[map[string]productURLsView](), reflect.TypeFor[map[string]json.RawMessage]():
		properties := make(schema)
		for _, name := range configuredProducts {
			properties[name] = d.member("configuration", name, d.typeSchema(reflect.TypeFor[productURLsView]()))
		}
		return schema{"type": "object", "properties": properties}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.typeSchema(t.Elem())
	case reflect.Slice:
		return schema{"type": "array", "items": d.typeSchema(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": d.typeSchema(t.Elem())}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		return schema{"type": "integer"}
	case reflect.Struct:
		return d.object(t, schemaName(t), nil)
	}
	return schema{"type": "string"}
}

// object describes a struct. If required is nil, the members without omitempty are required. name
// is empty for an anonymous struct, which is not a component.
func (d *describer) object(t reflect.Type, name string, required []string) schema {
	properties := make(schema)
	implied := []string{}
	for _, field := range reflect.VisibleFields(t) {
		member, options, tagged := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || member == "" {
			continue
		}
		properties[member] = d.member(name, member, d.typeSchema(field.Type))
		if !tagged || options != "omitempty" {
			implied = append(implied, member)
		}
	}
	if required == nil {
		required = implied
	}
	s := schema{"type": "object", "properties": properties, "required": required}
	if name == "" {
		return s
	}
	d.schemas[name] = s
	return ref(name)
}

// member adds the description of a member or parameter to its schema. owner is the name of the
// schema that contains it, or "path", "query" or "patch".
func (d *describer) member(owner, name string, s schema) schema {
	for _, row := range members {
		if row.name == name || row.name == owner+"."+name {
			s["description"], s["x-status"] = row.text, row.status
			maps.Copy(s, row.limits)
			maps.DeleteFunc(s, func(_ string, limit any) bool { return limit == nil })
			break
		}
	}
	return s
}

// timeLimits describes a time in wire.TimeFormat.
var timeLimits = schema{"pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+0000$`, "examples": []string{"2026-01-02T03:04:05+0000"}}

// members describes the members of requests and responses, and the parameters. A name with an owner
// precedes the name alone.
var members = []struct {
	name, status, text string
	limits             schema
}{
	{"path.v", ourDecision, "The version of the API.", nil},
	{"path.workspace_id", ourDecision, `The ID of a workspace. "default" is the workspace of the credentials.`, nil},
	{"path.code", ourDecision, "The ISO code or the dialing code of a country.", nil},
	{"path.period", ourDecision, "The period of each row.", schema{"enum": slices.Sorted(maps.Keys(usagePeriods))}},
	{"ip", ourDecision, "An IPv4 or IPv6 address.", nil},
	{"query.name", ourDecision, "Selects the project with exactly this name.", nil},
	{"query.page", ourDecision, "The page, counted from 1.", schema{"minimum": 1, "default": 1}},
	{"query.size", ourDecision, "The maximum number of items.", schema{"minimum": 1, "maximum": maxPageSize, "default": defaultPageSize}},
	{"query.sort", ourDecision, "The property to sort by, and the direction, which is desc by default.", nil},
	{"query.search", ourDecision, "RSQL: comparisons of a field with ==, !=, >, >=, < and <=, joined by ; (and) and , (or).", nil},
	{"query.group_by", ourDecision, "product_id, project_id or both, separated by a comma.", nil},
	{"patch.op", ourDecision, "The operation of JSON Patch (RFC 6902).", nil},
	{"patch.path", ourDecision, "The member to change.", nil},
	{"patch.value", ourDecision, "The new value. It is absent for remove.", nil},

	{"grant_type", specified, "The grant of OAuth 2.0 (RFC 6749, section 4.4).", schema{"enum": []string{"client_credentials"}}},
	{"TokenParams.scope", specified, "One or more scopes, separated by single spaces.", nil},
	{"token", ourDecision, "The access token to revoke.", nil},
	{"token_type_hint", ourDecision, "Ignored.", nil},
	{"access_token", ourDecision, "An opaque token for the header Authorization: Bearer.", nil},
	{"token_type", ourDecision, "The type of the token.", schema{"enum": []string{"bearer"}}},
	{"expires_in", ourDecision, "The lifetime of the token, in seconds.", nil},
	{"scope", ourDecision, "The scopes of the token, separated by spaces.", nil},
	{"TokenError.error", ourDecision, "The error code (RFC 6749, section 5.2).", schema{"enum": []string{wire.InvalidRequest, wire.InvalidClient, wire.UnsupportedGrantType, wire.InvalidScope}}},

	{"keys", specified, "The public keys that sign callbacks and redirects (RFC 7517).", nil},
	{"kty", specified, "The type of the key.", schema{"enum": []string{"RSA"}}},
	{"e", specified, "The exponent, in base64url.", nil},
	{"n", specified, "The modulus, in base64url.", nil},
	{"use", specified, "The use of the key.", schema{"enum": []string{"sig"}}},
	{"kid", specified, "The key ID, which signatures contain as keyId.", nil},
	{"alg", specified, "The algorithm of the key.", schema{"enum": []string{"RS256"}}},

	{"CheckParams.phone_number", specified, "The number in international format: the digits, optionally after a plus sign (our decision).", schema{"pattern": `^\+?[1-9][0-9]{6,14}$`}},
	{"CheckParams.redirect_url", ourDecision, "Where the device is redirected (v0.2, not for a SIMCheck). Empty means none.", schema{"maxLength": maxURL}},
	{"CheckParams.reference_id", ourDecision, "Your own ID of the check, at most 1,024 bytes. It need not be unique.", schema{"maxLength": maxReferenceID}},
	{"phone_ip", ourDecision, "The public address of the device, as your backend sees it.", nil},
	{"CheckParams.period", ourDecision, "The time before the check in which a SIM change counts, in minutes (not for a PhoneCheck).", schema{"minimum": minPeriod, "maximum": maxPeriod, "default": defaultPeriod}},
	{"Opened.check_id", ourDecision, "The ID of the check.", nil},
	{"check_id", specified, "The ID of the check.", nil},
	{"Check.phone_number", specified, "The digits of the number in international format.", schema{"pattern": `^[1-9][0-9]{6,14}$`}},
	{"CheckParams.callback_url", specified, "Where the callback is sent. It overrides that of the project. Empty means none (our decision).", schema{"maxLength": maxURL}},
	{"Check.callback_url", specified, "The callback_url of the create request.", nil},
	{"reference_id", ourDecision, "The reference_id of the create request.", nil},
	{"Problem.status", specified, "The HTTP status.", nil},
	{"Callback.status", specified, "How the check ended.", schema{"enum": []string{wire.StatusCompleted, wire.StatusExpired, wire.StatusError}}},
	{"status", specified, "The status. ACCEPTED and PENDING are our decision.", schema{"enum": []string{wire.StatusAccepted, wire.StatusPending, wire.StatusCompleted, wire.StatusExpired, wire.StatusError}}},
	{"match", specified, "Whether the number belongs to the device. Valid only if the status is COMPLETED.", nil},
	{"Callback.no_sim_change", ourDecision, "Whether the SIM was not changed. Valid only if the status is COMPLETED.", nil},
	{"no_sim_change", specified, "Whether the SIM was not changed. Valid only if the status is COMPLETED.", nil},
	{"no_sim_change_period", ourDecision, "The period of the create request, in minutes.", nil},
	{"sim_change_within", ourDecision, "The shortest period in which the SIM was changed, in minutes; 525601 if it was not changed within a year.", schema{"enum": simChangeBuckets}},
	{"charge_amount", specified, "The amount charged.", nil},
	{"charge_currency", specified, "The currency of the charge.", nil},
	{"Check.created_at", specified, "When the check was created.", timeLimits},
	{"Callback.created_at", specified, "When the check was created.", timeLimits},
	{"created_at", ourDecision, "When it was created.", timeLimits},
	{"updated_at", ourDecision, "When it was last changed.", timeLimits},
	{"ttl", ourDecision, "The time from the creation of the check to its expiry, in seconds.", nil},
	{"snapshot_balance", ourDecision, "The balance after the charge, only in the response to the create request.", nil},
	{"Reachability.network_id", specified, "The mobile network of the address.", nil},
	{"network_id", ourDecision, "The mobile network.", nil},
	{"error_code", ourDecision, "Why the check ended as ERROR.", nil},
	{"_links", ourDecision, "HAL links.", nil},
	{"check_url", ourDecision, "The Check URL, while it can be opened.", nil},
	{"code", ourDecision, "The code to exchange for the result (v0.2).", nil},
	{"error", ourDecision, "The error_code of a check that ended as ERROR (v0.2).", nil},
	{"error_description", ourDecision, "The error as text.", nil},

	{"trace_id", ourDecision, "The ID of the trace.", nil},
	{"logs", ourDecision, "The steps.", nil},
	{"timestamp", ourDecision, "When the step happened.", timeLimits},
	{"message", ourDecision, "What happened.", nil},
	{"attributes", ourDecision, "Details.", nil},

	{"page", ourDecision, "The position in the list.", nil},
	{"size", ourDecision, "The requested size.", nil},
	{"number", ourDecision, "The requested page.", nil},
	{"total_pages", ourDecision, "The number of pages.", nil},
	{"total_elements", ourDecision, "The number of items on all pages.", nil},
	{"first", ourDecision, "The first page.", nil},
	{"last", ourDecision, "The last page.", nil},
	{"next", ourDecision, "The next page, if there is one.", nil},
	{"prev", ourDecision, "The previous page, if there is one.", nil},
	{"self", ourDecision, "The resource itself.", nil},
	{"href", ourDecision, "An absolute URL.", nil},

	{"Reachability.network_name", specified, "The name of the network.", nil},
	{"network_name", ourDecision, "The name of the network.", nil},
	{"Reachability.country_code", specified, "The ISO code of the country.", nil},
	{"country_code", ourDecision, "The ISO code of the country.", nil},
	{"supported_products", specified, "The products that the network supports. Their names are our decision.", nil},
	{"products", ourDecision, "The products.", nil},
	{"product_id", ourDecision, "The ID of the product.", nil},
	{"product_name", ourDecision, "The name of the product.", nil},
	{"coverage", ourDecision, "FULL, PARTIAL or COMING_SOON.", nil},
	{"networks", ourDecision, "The covered networks.", nil},
	{"prices", ourDecision, "The price of a check in each currency.", nil},
	{"dialing_code", ourDecision, "The dialing code of the country.", nil},

	{"project_id", ourDecision, "The ID of the project.", nil},
	{"ProjectParams.mode", ourDecision, "A live project is charged for its checks. Without mode, the project is live.", schema{"enum": []mode{modeLive, modeSandbox}}},
	{"mode", ourDecision, "Whether checks are sent to mobile networks and charged.", schema{"enum": []mode{modeLive, modeSandbox}}},
	{"ProjectParams.callback_url", ourDecision, "Where callbacks are sent for products without their own URL. Empty means none.", schema{"maxLength": maxURL}},
	{"callback_url", ourDecision, "Where callbacks are sent. Empty means none.", schema{"maxLength": maxURL}},
	{"redirect_url", ourDecision, "Where devices are redirected (v0.2). Empty means none.", schema{"maxLength": maxURL}},
	{"configuration", ourDecision, "The URLs of each product.", nil},
	{"phone_check", ourDecision, "The URLs of PhoneChecks.", nil},
	{"subscriber_check", ourDecision, "The URLs of SubscriberChecks.", nil},
	{"member_id", ourDecision, "The ID of the member.", nil},
	{"_embedded", ourDecision, "Embedded resources.", nil},
	{"credentials", ourDecision, "The first pair of credentials.", nil},
	{"client_id", ourDecision, "The client ID.", nil},
	{"client_secret", ourDecision, "The secret, only in the response to create or reset.", nil},
	{"scopes", ourDecision, "The scopes that the credentials can obtain.", nil},

	{"workspace_id", ourDecision, "The ID of the workspace.", nil},
	{"name", ourDecision, "The name, of 1 to 255 characters.", schema{"minLength": 1, "maxLength": maxNameLength}},
	{"data_residency", ourDecision, "Where the data is stored.", nil},
	{"balance", ourDecision, "The balance.", nil},
	{"me", ourDecision, "The caller as a member of the workspace.", nil},
	{"TopUpParams.currency", ourDecision, "The currency, which the first top-up determines.", schema{"enum": currencies}},
	{"currency", ourDecision, "The currency. API is the currency before the first top-up.", nil},
	{"amount_available", ourDecision, "The amount available for checks.", nil},
	{"amount_reserved", ourDecision, "Always 0.", nil},
	{"credit_limit", ourDecision, "Always 0.", nil},
	{"InvitationParams.role", ourDecision, "The role of the invited user.", schema{"enum": []role{roleAdmin, roleViewer}}},
	{"role", ourDecision, "The role in the workspace.", schema{"enum": []role{roleOwner, roleAdmin, roleViewer}}},
	{"invitation_id", ourDecision, "The ID of the invitation.", nil},
	{"reference", ourDecision, "Your own text.", nil},

	{"company_name", ourDecision, "The name of the company. Required.", nil},
	{"contact_name", ourDecision, "The name of the contact.", nil},
	{"contact_email", ourDecision, "The email address of the contact.", nil},
	{"address1", ourDecision, "The first line of the address.", nil},
	{"address2", ourDecision, "The second line of the address.", nil},
	{"city", ourDecision, "The city.", nil},
	{"zip", ourDecision, "The postal code.", nil},
	{"country", ourDecision, "The country.", nil},
	{"id", ourDecision, "The same as payment_method_id.", nil},
	{"payment_method_id", ourDecision, "The ID of the payment method.", nil},
	{"card_number", ourDecision, "The number of the card. Only its last four digits are stored.", schema{"pattern": "^[0-9]{12,19}$"}},
	{"last_four_digits", ourDecision, "The last four digits of the number of the card.", nil},
	{"expiry_month", ourDecision, "The month of expiry.", schema{"minimum": 1, "maximum": 12}},
	{"expiry_year", ourDecision, "The year of expiry.", schema{"minimum": 1000, "maximum": 9999}},
	{"currencies", ourDecision, "The currencies that the payment method supports.", schema{"items": schema{"type": "string", "enum": currencies}, "minItems": 1}},
	{"top_up_id", ourDecision, "The ID of the top-up.", nil},
	{"TopUpParams.amount", ourDecision, "The amount above 0, as a number or a string without an exponent.", schema{"type": nil, "anyOf": []any{schema{"type": "number"}, schema{"type": "string"}}}},
	{"amount", ourDecision, "The amount.", nil},
	{"date", ourDecision, "The start of the period, in UTC.", nil},
	{"counter", ourDecision, "The number of checks.", nil},

	{"type", specified, "The URL of the documentation, whose fragment identifies the problem.", nil},
	{"title", specified, "The text of the HTTP status.", nil},
	{"detail", specified, "The problem as text.", nil},
}
