package sandboxfake_test

// tenantTable contains the result of each operation for each intruder, who uses the victim's IDs.
var tenantTable = map[string][intruders]string{
	"POST /oauth2/v1/token":      {"401 invalid_client", "401 invalid_client", skip, skip, skip}, // with the victim's client ID
	"POST /oauth2/v1/revoke":     {ownData, ownData, skip, skip, skip},                           // of the victim's token
	"GET /.well-known/jwks.json": {public, public, skip, skip, skip},

	"POST /phone_check/{v}/checks":                                  {ownData, ownData, skip, skip, skip},
	"GET /phone_check/{v}/checks":                                   {ownData, ownData, skip, skip, skip},
	"GET /phone_check/{v}/checks/{check_id}":                        {noCheck, noCheck, skip, skip, skip},
	"GET /phone_check/{v}/checks/{check_id}/redirect":               {public, public, skip, skip, skip}, // the device has no credentials
	"PATCH /phone_check/{v}/checks/{check_id}":                      {noCheck, noCheck, skip, skip, skip},
	"GET /phone_check/{v}/checks/{check_id}/traces":                 {noCheck, noCheck, skip, skip, skip},
	"GET /phone_check/{v}/checks/{check_id}/traces/{trace_id}":      {noCheck, noCheck, skip, skip, skip},
	"POST /subscriber_check/{v}/checks":                             {ownData, ownData, skip, skip, skip},
	"GET /subscriber_check/{v}/checks":                              {ownData, ownData, skip, skip, skip},
	"GET /subscriber_check/{v}/checks/{check_id}":                   {noCheck, noCheck, skip, skip, skip},
	"GET /subscriber_check/{v}/checks/{check_id}/redirect":          {public, public, skip, skip, skip},
	"PATCH /subscriber_check/{v}/checks/{check_id}":                 {noCheck, noCheck, skip, skip, skip},
	"GET /subscriber_check/{v}/checks/{check_id}/traces":            {noCheck, noCheck, skip, skip, skip},
	"GET /subscriber_check/{v}/checks/{check_id}/traces/{trace_id}": {noCheck, noCheck, skip, skip, skip},
	"POST /sim_check/{v}/checks":                                    {ownData, ownData, skip, skip, skip},
	"GET /sim_check/{v}/checks":                                     {ownData, ownData, skip, skip, skip},
	"GET /sim_check/{v}/checks/{check_id}":                          {noCheck, noCheck, skip, skip, skip},
	"GET /sim_check/{v}/checks/{check_id}/traces":                   {noCheck, noCheck, skip, skip, skip},
	"GET /sim_check/{v}/checks/{check_id}/traces/{trace_id}":        {noCheck, noCheck, skip, skip, skip},

	"GET /coverage/{v}/device_ips/{ip}":  {ownData, ownData, skip, skip, skip},
	"GET /coverage/{v}/device_ip":        {ownData, ownData, skip, skip, skip},
	"GET /public/coverage/{v}/device_ip": {public, public, skip, skip, skip},
	"GET /coverage/{v}/countries/{code}": {ownData, ownData, skip, skip, skip},

	"POST /console/{v}/projects":                                        {noScope, ownData, skip, skip, skip},
	"GET /console/{v}/projects":                                         {noScope, ownData, skip, skip, skip},
	"GET /console/{v}/projects/{project_id}":                            {noScope, missing404, skip, skip, skip},
	"PATCH /console/{v}/projects/{project_id}":                          {noScope, missing404, skip, skip, noScope},
	"DELETE /console/{v}/projects/{project_id}":                         {noScope, missing404, skip, skip, noScope},
	"POST /console/{v}/projects/{project_id}/credentials":               {noScope, missing404, skip, skip, skip},
	"GET /console/{v}/projects/{project_id}/credentials":                {noScope, missing404, skip, skip, skip},
	"GET /console/{v}/projects/{project_id}/credentials/{client_id}":    {noScope, missing404, skip, skip, skip},
	"DELETE /console/{v}/projects/{project_id}/credentials/{client_id}": {noScope, missing404, skip, skip, noScope},

	"GET /console/{v}/workspaces":                                    {noScope, ownData, skip, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}":                     {noScope, noWorkspace, ownData, skip, skip},
	"PATCH /console/{v}/workspaces/{workspace_id}":                   {noScope, noWorkspace, ownData, skip, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/members":             {noScope, noWorkspace, ownData, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}/members/{member_id}": {noScope, noWorkspace, missing404, skip, skip},
	"POST /console/{v}/workspaces/{workspace_id}/invitations":        {noScope, noWorkspace, ownData, skip, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/invitations":         {noScope, noWorkspace, ownData, skip, noScope},

	// No member can create or reset credentials of another member: only the owner of credentials may
	// know their secret.
	"POST /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials":                   {noScope, noWorkspace, noScope, noScope, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials":                    {noScope, noWorkspace, missing404, skip, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}":        {noScope, noWorkspace, missing404, skip, noScope},
	"DELETE /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}":     {noScope, noWorkspace, missing404, skip, noScope},
	"POST /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}/reset": {noScope, noWorkspace, noScope, noScope, noScope},

	"GET /console/{v}/workspaces/{workspace_id}/billing_account":                        {noScope, noWorkspace, ownData, noScope, noScope},
	"PUT /console/{v}/workspaces/{workspace_id}/billing_account":                        {noScope, noWorkspace, ownData, noScope, noScope},
	"POST /console/{v}/workspaces/{workspace_id}/payment_methods":                       {noScope, noWorkspace, ownData, noScope, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/payment_methods":                        {noScope, noWorkspace, ownData, noScope, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/payment_methods/{payment_method_id}":    {noScope, noWorkspace, missing404, noScope, noScope},
	"DELETE /console/{v}/workspaces/{workspace_id}/payment_methods/{payment_method_id}": {noScope, noWorkspace, missing404, noScope, noScope},
	"POST /console/{v}/workspaces/{workspace_id}/topups":                                {noScope, noWorkspace, "400 bad_request", noScope, noScope}, // with the victim's card
	"GET /console/{v}/workspaces/{workspace_id}/topups":                                 {noScope, noWorkspace, ownData, noScope, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/usage/{period}":                         {noScope, noWorkspace, ownData, skip, skip},

	"POST /console/{v}/workspaces/{workspace_id}/projects":                                        {noScope, noWorkspace, ownData, skip, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/projects":                                         {noScope, noWorkspace, ownData, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}/projects/{project_id}":                            {noScope, noWorkspace, missing404, skip, skip},
	"PATCH /console/{v}/workspaces/{workspace_id}/projects/{project_id}":                          {noScope, noWorkspace, missing404, skip, noScope},
	"DELETE /console/{v}/workspaces/{workspace_id}/projects/{project_id}":                         {noScope, noWorkspace, missing404, skip, noScope},
	"POST /console/{v}/workspaces/{workspace_id}/projects/{project_id}/credentials":               {noScope, noWorkspace, missing404, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}/projects/{project_id}/credentials":                {noScope, noWorkspace, missing404, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}":    {noScope, noWorkspace, missing404, skip, skip},
	"DELETE /console/{v}/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}": {noScope, noWorkspace, missing404, skip, noScope},
}

// The intruders of tenantTable. All have valid credentials. The victim is the owner of a workspace
// with a project, an admin and a viewer.
const (
	otherProject        = iota // a project of the victim's workspace
	otherWorkspace             // a project, or for the console the owner, of another workspace
	throughOwnWorkspace        // the same, with the path of their own workspace and the victim's IDs
	otherAdmin                 // an admin of the victim's workspace
	otherViewer                // a viewer of the victim's workspace
	intruders
)

var intruderNames = [intruders]string{"another project", "another workspace", "another workspace with its own path", "an admin", "a viewer"}

// The results of tenantTable.
const (
	ownData     = "own"    // succeeds for the intruder's own data, without access to the victim's
	public      = "public" // requires no credentials
	skip        = ""       // not applicable, or allowed by the intruder's role
	noCheck     = "404 check_not_found"
	noWorkspace = "404 workspace_not_found"
	missing404  = "404 not_found"
	noScope     = "403 forbidden" // the scope or the role does not allow the operation
)
