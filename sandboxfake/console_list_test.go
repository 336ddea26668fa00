package sandboxfake_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
)

// collection is a list whose items were created 30 seconds apart.
type collection struct {
	caller             *api
	path, embedded, id string
	items              []string         // IDs in order of creation
	searches           map[string][]int // indexes of the items that a search finds, newest first
	sorts              map[string][]int
	unsorted           []string // properties that do not support sorting
}

// collections returns a list of each kind in one workspace.
func collections(t *testing.T) []collection {
	t.Helper()
	srv := consoleServer(t)
	account := srv.NewWorkspace("Shop")
	owner := newConsoleAPI(t, srv, account.Credentials)
	owner.want(200, http.MethodPut, workspaces+"/default/billing_account", `{"company_name":"Sandbox Ltd"}`)
	owned := workspaces + "/default/members/" + account.MemberID + "/credentials"
	const cards, topUps, invitations = workspaces + "/default/payment_methods", workspaces + "/default/topups", workspaces + "/default/invitations"
	advance := func(d time.Duration) {
		t.Helper()
		if err := srv.Advance(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	var product *api
	var projectIDs, cardIDs, topUpIDs, invitationIDs, checkIDs []string
	credentialIDs := []string{account.Credentials.ClientID}
	for i := range 3 {
		advance(30 * time.Second)
		card := owner.want(201, http.MethodPost, cards, fmt.Sprintf(`{"card_number":"424242424242000%d","expiry_month":%d,"expiry_year":%d,"currencies":["EUR","USD"]}`, i, i+1, 2030+i)).text("payment_method_id")
		cardIDs = append(cardIDs, card)
		credentialIDs = append(credentialIDs, owner.want(201, http.MethodPost, owned, "").text("client_id"))
		topUpIDs = append(topUpIDs, owner.want(201, http.MethodPost, topUps, fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":%d.5}`, card, i+1)).text("top_up_id"))
		project := account.NewProject(idverify.ProjectParams{Name: []string{"Beta", "Alpha", "Gamma"}[i], Mode: []idverify.ProjectMode{idverify.ModeLive, idverify.ModeSandbox, idverify.ModeLive}[i]})
		projectIDs = append(projectIDs, project.ProjectID)
		invitationIDs = append(invitationIDs, owner.want(201, http.MethodPost, invitations, fmt.Sprintf(`{"name":"Guest %d","role":%q,"reference":"ref %d"}`, i, []string{"ADMIN", "VIEWER", "ADMIN"}[i], i)).text("invitation_id"))
		if product == nil {
			product = newProductAPI(t, srv, project.Credentials)
		}
		checkIDs = append(checkIDs, product.create("/subscriber_check/v0.1/checks", fmt.Sprintf(`{"phone_number":"44770090001%d","reference_id":"check %d"}`, []int{2, 6, 3}[i], i)))
	}
	// Update them in a different order.
	for _, i := range []int{1, 0, 2} {
		advance(15 * time.Second)
		owner.want(200, http.MethodPatch, projects+"/"+projectIDs[i], `[{"op":"add","path":"/callback_url","value":"https://app.sandbox.test"}]`)
		product.want(200, http.MethodGet, "/subscriber_check/v0.1/checks/"+checkIDs[i]+"/redirect", "")
	}

	all, none := []int{2, 1, 0}, []int{}
	dated := func(searches map[string][]int) map[string][]int {
		maps.Copy(searches, map[string][]int{
			"created_at<2026-01-02T03:05": {0}, "created_at>=2026-01-02T03:05": {2, 1}, "created_at==2026-01-02T03:05:05": {1}, "created_at<2026-01-02": none, "created_at>2026": all,
		})
		return searches
	}
	updated := func(searches map[string][]int) map[string][]int {
		searches["updated_at<=2026-01-02T03:05:50"] = []int{1}
		searches["updated_at==2026-01-02T03:06:05"] = []int{0}
		searches["updated_at>2026-01-02T03:06:05"] = []int{2}
		return dated(searches)
	}
	byCreation := map[string][]int{"": all, "created_at,desc": all, "created_at": all, "created_at,asc": {0, 1, 2}}
	byUpdate := map[string][]int{"": all, "created_at,asc": {0, 1, 2}, "updated_at,asc": {1, 0, 2}, "updated_at,desc": {2, 0, 1}, "updated_at": {2, 0, 1}}
	byName := map[string][]int{"": all, "name,asc": {1, 0, 2}, "name,desc": {2, 0, 1}, "name": {2, 0, 1}, "updated_at,asc": {1, 0, 2}, "updated_at,desc": {2, 0, 1}}
	return []collection{
		{owner, owned, "credentials", "client_id", credentialIDs, map[string][]int{
			"client_id==" + credentialIDs[2]: {2}, "client_id!=" + credentialIDs[2]: {3, 1, 0}, "client_id==unknown": none,
			"created_at<2026-01-02T03:04:30": {0}, "created_at>2026-01-02T03:05": {3, 2}, "created_at==2026-01-02T03:05:05": {2},
		}, map[string][]int{"": {3, 2, 1, 0}, "created_at,asc": {0, 1, 2, 3}}, []string{"name", "updated_at", "client_id"}},
		{owner, cards, "payment_methods", "payment_method_id", cardIDs, map[string][]int{
			"payment_method_id==" + cardIDs[1]: {1}, "payment_method_id==unknown": none, "last_four_digits==0002": {2}, "last_four_digits!=0002": {1, 0},
		}, byCreation, []string{"name", "updated_at", "expiry_year"}},
		{owner, topUps, "top_ups", "top_up_id", topUpIDs, dated(map[string][]int{
			"top_up_id==" + topUpIDs[1]: {1}, "payment_method_id==" + cardIDs[2]: {2}, "currency==EUR": all, "currency==USD": none, "amount>1.5": {2, 1}, "amount==2.5": {1}, "amount<1.500001": {0},
		}), byCreation, []string{"name", "updated_at", "amount"}},
		{owner, projects, "projects", "project_id", projectIDs, updated(map[string][]int{
			"project_id==" + projectIDs[1]: {1}, "name==Alpha": {1}, "name>Alpha": {2, 0}, "mode==sandbox": {1}, "mode==live": {2, 0}, "member_id==" + account.MemberID: all, "member_id!=" + account.MemberID: none,
		}), byName, []string{"mode", "project_id"}},
		{owner, invitations, "invitations", "invitation_id", invitationIDs, map[string][]int{
			"invitation_id==" + invitationIDs[1]: {1}, `name=="Guest 1"`: {1}, "role==ADMIN": {2, 0}, `reference=="ref 2"`: {2},
		}, byCreation, []string{"name", "updated_at"}},
		{product, "/subscriber_check/v0.1/checks", "checks", "check_id", checkIDs, updated(map[string][]int{
			"check_id==" + checkIDs[1]: {1}, "phone_number==447700900016": {1}, `reference_id=="check 0"`: {0}, "status==COMPLETED": all, "match==true": {1, 0}, "match==false": {2}, "match!=true": {2}, "match<true": {2},
			"no_sim_change==true": {0}, "no_sim_change==false": {1}, "no_sim_change!=true": {2, 1}, "no_sim_change>false": {0}, "no_sim_change<=true": {1, 0}, // the last check has no value
			"charge_amount==1": all, "charge_amount>1": none, "charge_amount<=0.999999": none, "charge_currency==EUR": all, "charge_currency==API": none,
			"charge_amount=ge=1": all, "charge_amount=lt=1": none, "charge_amount=in=(2,1)": all, "match=out=(true)": {2}, "check_id=in=(" + checkIDs[2] + "," + checkIDs[0] + ")": {2, 0}, "check_id=out=(" + checkIDs[2] + ")": {1, 0},
			"reference_id==check*": all, "reference_id==*1": {1}, "reference_id!=*1": {2, 0}, `reference_id=="c*k 1"`: {1}, `reference_id=="check \\*"`: none, "phone_number==44*16 or match==false": {2, 1},
			"match==true and no_sim_change==true": {0}, "(match==false or no_sim_change==true) and status==COMPLETED": {2, 0}, "match==false or match==true and no_sim_change==true": {2, 0},
		}), byUpdate, []string{"name", "status", "match"}},
	}
}

// pick returns the IDs of the items at indexes.
func (c collection) pick(indexes []int) []string {
	ids := make([]string, len(indexes))
	for i, index := range indexes {
		ids[i] = c.items[index]
	}
	return ids
}

func TestServer_ListSearch(t *testing.T) {
	t.Parallel()
	for _, c := range collections(t) {
		for search, want := range c.searches {
			r := c.caller.want(200, http.MethodGet, c.path+"?search="+url.QueryEscape(search), "")

			if diff := cmp.Diff(c.pick(want), r.column(c.embedded, c.id)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", c.embedded, search, diff)
			}
		}
		for _, search := range []string{"", "colour==red", c.id, c.id + "==", c.id + `=="a`, c.id + `=="a\`, c.id + "==a;", "created_at==soon", "created_at==2026*", c.id + "=in=(a", c.id + "=in=()", c.id + "==a and", c.id + "=like=a", "(" + c.id + "==a", strings.Repeat("(", 33) + c.id + "==a" + strings.Repeat(")", 33)} {
			if r := c.caller.get(c.path + "?search=" + url.QueryEscape(search)); r.status != 400 || r.fragment() != "bad_request" {
				t.Errorf("%s %q: %d %s, want 400", c.embedded, search, r.status, r.body)
			}
		}
		deep := strings.Repeat("(", 32) + c.id + "!=a" + strings.Repeat(")", 32)
		if r := c.caller.get(c.path + "?search=" + url.QueryEscape(deep)); r.status != 200 {
			t.Errorf("%s with 32 parentheses: %d %s, want 200", c.embedded, r.status, r.body)
		}
	}
}

// The links of a page keep its search, order and size in both directions.
func TestServer_ListLinksKeepQuery(t *testing.T) {
	t.Parallel()
	for _, c := range collections(t) {
		for sort, indexes := range c.sorts {
			query := "?size=1&search=" + url.QueryEscape(c.id+"!=none;"+c.id+"!='no one'")
			if sort != "" {
				query += "&sort=" + url.QueryEscape(sort)
			}
			want := c.pick(indexes)
			var pages []response
			var forward []string
			for next := c.path + query; next != ""; next = pages[len(pages)-1].text("_links", "next", "href") {
				pages = append(pages, c.caller.want(200, http.MethodGet, next, ""))
				forward = append(forward, pages[len(pages)-1].column(c.embedded, c.id)...)
			}
			var back []string
			for prev := pages[0].text("_links", "last", "href"); prev != ""; {
				r := c.caller.want(200, http.MethodGet, prev, "")
				back = append(back, r.column(c.embedded, c.id)...)
				prev = r.text("_links", "prev", "href")
			}
			slices.Reverse(back)

			if diff := cmp.Diff(want, forward); diff != "" {
				t.Errorf("%s sort=%s, by next links (-want +got):\n%s", c.embedded, sort, diff)
			}
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("%s sort=%s, from the last page by prev links (-want +got):\n%s", c.embedded, sort, diff)
			}
			for i, page := range pages {
				self, first := c.caller.get(page.text("_links", "self", "href")), c.caller.get(page.text("_links", "first", "href"))
				if string(self.body) != string(page.body) || string(first.body) != string(c.caller.get(pages[0].text("_links", "self", "href")).body) {
					t.Errorf("%s sort=%s: the self or first link of page %d returns another page", c.embedded, sort, i+1)
				}
			}
		}
		// A page past the end links to the last page.
		past := c.caller.want(200, http.MethodGet, c.path+"?size=2&page=9", "")
		last := c.caller.want(200, http.MethodGet, past.text("_links", "prev", "href"), "")
		if n := last.at("page", "number"); n != 2.0 || past.text("_links", "next", "href") != "" || past.text("_links", "last", "href") != past.text("_links", "prev", "href") {
			t.Errorf("%s: a page past the end links to page %v, want the last: %s", c.embedded, n, past.body)
		}
	}
}

func TestServer_ListRejectsUnsupportedSorts(t *testing.T) {
	t.Parallel()
	for _, c := range collections(t) {
		for _, property := range append(c.unsorted, "", "colour") {
			for _, sort := range []string{property, property + ",asc", property + ",desc"} {
				if r := c.caller.get(c.path + "?sort=" + sort); r.status != 400 || r.fragment() != "bad_request" {
					t.Errorf("%s sort=%s: %d %s, want 400", c.embedded, sort, r.status, r.body)
				}
			}
		}
		for _, query := range []string{"sort=created_at,", "sort=created_at,ASC", "sort=created_at,asc,", "sort=created_at,desc&sort=created_at,asc", "size=x", "page=1.5", "%zz=1", "a=%zz"} {
			if r := c.caller.get(c.path + "?" + query); r.status != 400 || r.fragment() != "bad_request" {
				t.Errorf("%s %s: %d %s, want 400", c.embedded, query, r.status, r.body)
			}
		}
		if r := c.caller.get(c.path + "?&size=2&&"); r.status != 200 || len(r.column(c.embedded, c.id)) != 2 {
			t.Errorf("%s with empty parameters: %d %s, want them ignored", c.embedded, r.status, r.body)
		}
	}
}

func TestServer_SearchesOwnWorkspace(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	account := srv.NewWorkspace("Shop")
	owner := newConsoleAPI(t, srv, account.Credentials)
	members := workspaces + "/default/members"
	member := owner.get(members + "/" + account.MemberID)

	for _, tt := range []struct {
		path, embedded, search string
		want                   int
	}{
		{workspaces, "workspaces", "workspace_id==" + account.WorkspaceID, 1},
		{workspaces, "workspaces", "workspace_id!=" + account.WorkspaceID, 0},
		{workspaces, "workspaces", "name==Shop", 1},
		{workspaces, "workspaces", "name==Other", 0},
		{members, "members", "member_id==" + account.MemberID, 1},
		{members, "members", "name=='" + member.text("name") + "'", 1},
		{members, "members", "name==Nobody", 0},
		{members, "members", "role==OWNER", 1},
		{members, "members", "role==VIEWER", 0},
	} {
		got := owner.want(200, http.MethodGet, tt.path+"?search="+url.QueryEscape(tt.search), "").column(tt.embedded, "name")

		if len(got) != tt.want {
			t.Errorf("search %s finds %d %s, want %d", tt.search, len(got), tt.embedded, tt.want)
		}
	}
}
