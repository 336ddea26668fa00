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
	"github.com/idverify/idverify-go/sandboxfake"
)

// listed returns the reference IDs of a page's checks.
func (r response) listed() []string { return r.column("checks", "reference_id") }

// createSixChecks creates the checks a to f: three in the first second, two in the next and one in
// the third. All except the last are finished.
func createSixChecks(t *testing.T) *api {
	t.Helper()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if i == 3 || i == 5 {
			advance(t, srv, time.Second)
		}
		id := a.create(phoneChecks, fmt.Sprintf(`{"phone_number":"44770090001%d","reference_id":%q}`, i, name))
		if name != "f" {
			a.get(phoneChecks + "/" + id + "/redirect")
		}
	}
	return a
}

func TestServer_ListSort(t *testing.T) {
	t.Parallel()
	a := createSixChecks(t)
	for _, row := range []struct {
		sort string
		want []string
	}{
		{"", []string{"f", "d", "e", "a", "b", "c"}},
		{"?sort=created_at,desc", []string{"f", "d", "e", "a", "b", "c"}},
		{"?sort=created_at,asc", []string{"a", "b", "c", "d", "e", "f"}},
		{"?sort=updated_at,desc", []string{"f", "d", "e", "a", "b", "c"}},
		{"?sort=updated_at,asc", []string{"a", "b", "c", "d", "e", "f"}},
	} {
		wantEqual(t, row.want, a.get(phoneChecks+row.sort).listed(), "%s", row.sort)
	}
}

func TestServer_ListAfterExpiry(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	ids := make(map[string]string)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		ids[name] = a.create(phoneChecks, fmt.Sprintf(`{"phone_number":"447700900012","reference_id":%q}`, name))
	}
	for _, step := range []struct {
		expire string
		want   []string
	}{
		{"b", []string{"a", "c", "d", "e", "f"}},
		{"e", []string{"a", "c", "d", "f"}},
		{"a", []string{"c", "d", "f"}},
		{"d", []string{"c", "f"}},
		{"f", []string{"c"}},
		{"c", []string{}},
	} {
		srv.Expire(ids[step.expire])

		got := a.get(phoneChecks + "?sort=created_at,asc").listed()
		wantEqual(t, step.want, got, "checks after the expiry of %s", step.expire)
	}
}

func TestServer_ListPages(t *testing.T) {
	t.Parallel()
	a := createSixChecks(t)
	for size := 1; size <= 7; size++ {
		var all []string
		next := fmt.Sprintf("%s%s?size=%d", a.srv.URL(), phoneChecks, size)
		for next != "" {
			r := a.get(next)
			all = append(all, r.listed()...)
			next = r.text("_links", "next", "href")
		}
		wantEqual(t, []string{"f", "d", "e", "a", "b", "c"}, all, "size %d", size)
	}
}

func TestServer_ListEmptyPages(t *testing.T) {
	t.Parallel()
	a := createSixChecks(t)

	past, nothing := a.get(phoneChecks+"?page=9&size=4"), a.get("/sim_check/v0.1/checks")
	for _, query := range []string{"", "?page=2"} {
		empty := a.get("/sim_check/v0.1/checks" + query)
		for _, name := range []string{"self", "first", "last", "prev"} {
			href := empty.text("_links", name, "href")
			if (href == "") != (name == "prev" && query == "") {
				t.Errorf("empty list%s: %s link = %q", query, name, href)
			}
			if href == "" {
				continue
			}
			if r := a.get(href); r.status != 200 || len(r.listed()) != 0 {
				t.Errorf("empty list%s: %s link %q returns %d %s, want an empty page", query, name, href, r.status, r.body)
			}
		}
	}

	if diff := cmp.Diff(map[string]any{"size": 4.0, "number": 9.0, "total_pages": 2.0, "total_elements": 6.0}, past.json["page"]); diff != "" || len(past.listed()) != 0 {
		t.Errorf("page past the end = %s, want an empty page", past.body)
	}
	if diff := cmp.Diff(map[string]any{"size": 10.0, "number": 1.0, "total_pages": 0.0, "total_elements": 0.0}, nothing.json["page"]); diff != "" || len(nothing.listed()) != 0 {
		t.Errorf("empty list = %s, want an empty page", nothing.body)
	}
}

func TestServer_SearchOperators(t *testing.T) {
	t.Parallel()
	a := createSixChecks(t)
	for _, row := range []struct {
		search string
		want   []string
	}{
		{"reference_id==b", []string{"b"}},
		{"reference_id!=b", []string{"f", "d", "e", "a", "c"}},
		{"reference_id>d", []string{"f", "e"}},
		{"reference_id>=d", []string{"f", "d", "e"}},
		{"reference_id<b", []string{"a"}},
		{"reference_id<=b", []string{"a", "b"}},
		{"status==COMPLETED;match==true", []string{"e", "a", "c"}},
		{"match!=true", []string{"f", "d", "b"}}, // f has no result yet
		{"match==false", []string{"d", "b"}},
		{"reference_id==a,reference_id==f", []string{"f", "a"}},
		{"reference_id==a,reference_id==b;match==true", []string{"a"}}, // "and" has precedence
		{"(reference_id==a,reference_id==b);match==false", []string{"b"}},
		{"created_at>2026-01-02T03:04:05", []string{"f", "d", "e"}},
		{"created_at>='2026-01-02T03:04:06+0000';created_at<2026-01-02T03:04:07Z", []string{"d", "e"}},
		{"created_at<2026-01-02T03", []string{}},
		{"phone_number=='447700900010'", []string{"a"}},
		{`reference_id=="\a"`, []string{"a"}},
		{"charge_amount==0", []string{"f", "d", "e", "a", "b", "c"}},
		{"charge_amount>0.5", []string{}},
		{"no_sim_change==true", []string{}},
	} {
		r := a.get(phoneChecks + "?search=" + url.QueryEscape(row.search))
		if r.status != 200 {
			t.Errorf("%s: %d %s", row.search, r.status, r.body)
			continue
		}
		wantEqual(t, row.want, r.listed(), "%s", row.search)
	}
}

// RSQL reserves these characters: unquoted, they end a value or make the search invalid.
func TestServer_SearchReservedCharacters(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	for _, reserved := range `"'();,=!~<> ` {
		value := "a" + string(reserved) + "b"
		a.create(phoneChecks, fmt.Sprintf(`{"phone_number":"447700900012","reference_id":%q}`, value))
		search := func(value string) response {
			return a.get(phoneChecks + "?search=" + url.QueryEscape("reference_id=="+value))
		}

		for _, unquoted := range []string{value, string(reserved) + "b", "a" + string(reserved)} {
			if r := search(unquoted); r.status != 400 || r.fragment() != "bad_request" {
				t.Errorf("unquoted %s: %d %s, want 400: an empty list would hide the mistake", unquoted, r.status, r.body)
			}
		}
		quoted := `"` + value + `"`
		if reserved == '"' {
			quoted = `'` + value + `'`
		}
		for _, text := range []string{quoted, `"a\` + string(reserved) + `b"`} {
			if r := search(text); r.status != 200 || len(r.listed()) != 1 || r.listed()[0] != value {
				t.Errorf("quoted %s: %d %s, want the check with that reference ID", text, r.status, r.body)
			}
		}
	}
}

func TestServer_NextLinkKeepsSearch(t *testing.T) {
	t.Parallel()
	a := createSixChecks(t)

	first := a.get(phoneChecks + "?size=1&search=" + url.QueryEscape("match==false"))
	next := first.text("_links", "next", "href")

	wantEqual(t, []string{"b"}, a.get(next).listed(), "next page")
}

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
	var product *api
	var projectIDs, cardIDs, topUpIDs, invitationIDs, checkIDs []string
	credentialIDs := []string{account.Credentials.ClientID}
	for i := range 3 {
		advance(t, srv, 30*time.Second)
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
		advance(t, srv, 15*time.Second)
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
	byName := map[string][]int{"": all, "created_at,asc": {0, 1, 2}, "name,asc": {1, 0, 2}, "name,desc": {2, 0, 1}, "name": {2, 0, 1}, "updated_at,asc": {1, 0, 2}, "updated_at,desc": {2, 0, 1}}
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
			"project_id==" + projectIDs[1]: {1}, "name==Alpha": {1}, "name!=Alpha": {2, 0}, "name>Alpha": {2, 0}, "mode==sandbox": {1}, "mode==live": {2, 0}, "member_id==" + account.MemberID: all, "member_id!=" + account.MemberID: none,
		}), byName, []string{"mode", "project_id"}},
		{owner, invitations, "invitations", "invitation_id", invitationIDs, map[string][]int{
			"invitation_id==" + invitationIDs[1]: {1}, `name=="Guest 1"`: {1}, "role==ADMIN": {2, 0}, `reference=="ref 2"`: {2},
		}, byCreation, []string{"name", "updated_at"}},
		{product, "/subscriber_check/v0.1/checks", "checks", "check_id", checkIDs, updated(map[string][]int{
			"check_id==" + checkIDs[1]: {1}, "phone_number==447700900016": {1}, `reference_id=="check 0"`: {0}, "status==COMPLETED": all, "match==true": {1, 0}, "match==false": {2}, "match!=true": {2}, "match<true": {2},
			"no_sim_change==true": {0}, "no_sim_change==false": {1}, "no_sim_change!=true": {2, 1}, "no_sim_change>false": {0}, "no_sim_change<=true": {1, 0}, // the last check has no value
			"charge_amount==1": all, "charge_amount>1": none, "charge_amount<=0.999999": none, "charge_currency==EUR": all, "charge_currency==API": none,
			"created_at=gt=2026-01-02T03:05:05": {2}, "created_at=le=2026-01-02T03:05:05": {1, 0}, "charge_amount=ge=1": all, "charge_amount=lt=1": none, "charge_amount=in=(2,1)": all, "match=out=(true)": {2}, "check_id=in=(" + checkIDs[2] + "," + checkIDs[0] + ")": {2, 0}, "check_id=out=(" + checkIDs[2] + ")": {1, 0},
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

			wantEqual(t, c.pick(want), r.column(c.embedded, c.id), "%s %s", c.embedded, search)
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

			wantEqual(t, want, forward, "%s sort=%s, by next links", c.embedded, sort)
			wantEqual(t, want, back, "%s sort=%s, from the last page by prev links", c.embedded, sort)
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
		wantEqual(t, c.pick(c.sorts[""][2:]), last.column(c.embedded, c.id), "%s: last page of size 2", c.embedded)
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

func TestServer_ListQueries(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	for _, row := range []struct {
		query  string
		status int
	}{
		{"", 200},
		{"colour=red", 200}, // unknown parameters are ignored
		{"page=0", 400}, {"page=-1", 400}, {"page=x", 400}, {"page=", 400}, {"page=99999999999999999999", 400}, {"page=1&page=2", 400},
		{"page=1000000", 200}, // past the end
		{"size=0", 400}, {"size=1", 200}, {"size=100", 200}, {"size=101", 400},
		{"sort=created_at,desc", 200}, {"sort=created_at,asc", 200}, {"sort=created_at", 200}, {"sort=updated_at,asc", 200},
		{"sort=name,asc", 400}, {"sort=created_at,sideways", 400}, {"sort=", 400},
		{"search=status==COMPLETED", 200}, {"search=status%3D%3DCOMPLETED", 200}, {"search=status==COMPLETED;match==true", 200},
		{"search=(status==A,status!=B);created_at>=2026-01-02T03", 200},
		{"search=", 400}, {"search=status", 400}, {"search=status==", 400}, {"search=colour==red", 400}, {"search=status=in=(A", 400},
		{"search=(status==A", 400}, {"search=status==A)", 400}, {"search=match==maybe", 400}, {"search=created_at>soon", 400},
		{"search=status===COMPLETED", 400}, {"search=status<>COMPLETED", 400}, {"search=status>==COMPLETED", 400}, {"search=reference_id==a!b", 400},
		{"search=status=='A", 400}, {"search=charge_amount>1e3", 400}, {"search=" + strings.Repeat("(", 1000), 400},
		{"search=%zz", 400},
	} {
		t.Run(row.query, func(t *testing.T) {
			t.Parallel()

			r := a.get(phoneChecks + "?" + row.query)

			if row.status == 200 && r.status != 200 {
				t.Errorf("response = %d %s, want 200", r.status, r.body)
			}
			if row.status != 200 {
				r.wantProblem(t, row.status, "bad_request")
			}
		})
	}
}
