package sandboxfake_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

// listed returns the reference IDs of a page's checks.
func (r response) listed() []string {
	ids := []string{}
	embedded, _ := r.json["_embedded"].(map[string]any)
	for _, check := range embedded["checks"].([]any) {
		ids = append(ids, fmt.Sprint(check.(map[string]any)["reference_id"]))
	}
	return ids
}

// createSixChecks creates the checks a to f: three in the first second, two in the next and one in
// the third. All except the last are finished.
func createSixChecks(t *testing.T) *api {
	t.Helper()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if i == 3 || i == 5 {
			if err := srv.Advance(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
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
		if diff := cmp.Diff(row.want, a.get(phoneChecks+row.sort).listed()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.sort, diff)
		}
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
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("checks after the expiry of %s (-want +got):\n%s", step.expire, diff)
		}
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
			link, _ := r.json["_links"].(map[string]any)["next"].(map[string]any)
			next, _ = link["href"].(string)
		}
		if diff := cmp.Diff([]string{"f", "d", "e", "a", "b", "c"}, all); diff != "" {
			t.Errorf("size %d (-want +got):\n%s", size, diff)
		}
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
		if diff := cmp.Diff(row.want, r.listed()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.search, diff)
		}
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
	next := first.json["_links"].(map[string]any)["next"].(map[string]any)["href"].(string)

	if diff := cmp.Diff([]string{"b"}, a.get(next).listed()); diff != "" {
		t.Errorf("next page (-want +got):\n%s", diff)
	}
}

func TestServer_Traces(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a.get(phoneChecks + "/" + id + "/redirect")
	path := phoneChecks + "/" + id + "/traces"

	traces := a.get(path).json["_embedded"].(map[string]any)["traces"].([]any)
	if len(traces) != 3 {
		t.Fatalf("%d traces, want 3: accepted, opened, finished", len(traces))
	}
	trace := path + "/" + traces[0].(map[string]any)["trace_id"].(string)
	if diff := cmp.Diff(traces[0], any(a.get(trace).json)); diff != "" {
		t.Errorf("single trace (-listed +read):\n%s", diff)
	}
	a.get(path+"/unknown").wantProblem(t, 404, "trace_not_found")
	a.get(phoneChecks+"/unknown/traces").wantProblem(t, 404, "check_not_found")
	if err := srv.Advance(t.Context(), 7*24*time.Hour+time.Second); err != nil {
		t.Fatal(err)
	}
	a.token = a.tokenFor(srv.Credentials(), "phone_check")
	a.get(trace).wantProblem(t, 410, "trace_gone")
}

func TestServer_Countries(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	for _, row := range []struct {
		code, country string
	}{{"GB", "GB"}, {"gb", "GB"}, {"44", "GB"}, {"DE", "DE"}, {"1", "US"}} {
		if r := a.get("/coverage/v0.1/countries/" + row.code); r.json["country_code"] != row.country {
			t.Errorf("%s: %d %s, want %s", row.code, r.status, r.body, row.country)
		}
	}

	r := a.get("/coverage/v0.1/countries/XX")

	r.wantProblem(t, 404, "not_found")
	if r.json["detail"] != "No Reach" {
		t.Errorf("detail = %q, want No Reach", r.json["detail"])
	}
}
