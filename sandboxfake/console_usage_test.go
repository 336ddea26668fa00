package sandboxfake_test

import (
	"fmt"
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

// usageRows returns the rows of a usage response as text: date, product, project, counter, amount,
// currency.
func (r response) usageRows(names map[string]string) []string {
	rows := []string{}
	items, _ := r.at("_embedded", "usage").([]any)
	for _, item := range items {
		u := item.(map[string]any)
		row := []string{fmt.Sprint(u["date"])}
		if product, ok := u["product_id"]; ok {
			row = append(row, fmt.Sprint(product))
		}
		if project, ok := u["project_id"]; ok {
			row = append(row, names[fmt.Sprint(project)])
		}
		rows = append(rows, strings.Join(append(row, fmt.Sprint(u["counter"]), fmt.Sprint(u["amount"]), fmt.Sprint(u["currency"])), " "))
	}
	return rows
}

// newUsageWorkspace returns a workspace with checks in three hours of two days and two checks in
// the next month, the last one after the first top-up.
func newUsageWorkspace(t *testing.T) (owner *api, names map[string]string) {
	t.Helper()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 30, 22, 59, 59, 0, time.UTC)))
	account := srv.NewWorkspace("Busy")
	live, sandbox := account.NewProject(idverify.ProjectParams{Name: "live", Mode: idverify.ModeLive}), account.NewProject(idverify.ProjectParams{Name: "sandbox", Mode: idverify.ModeSandbox})
	check := func(p *sandboxfake.Project, paths ...string) {
		t.Helper()
		a := newProductAPI(t, srv, p.Credentials)
		for _, path := range paths {
			a.create(path, `{"phone_number":"447700900012"}`)
		}
	}
	advance := func(d time.Duration) {
		t.Helper()
		if err := srv.Advance(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	const sim = "/sim_check/v0.1/checks"
	check(live, phoneChecks, phoneChecks, sim)
	check(sandbox, phoneChecks)
	advance(time.Second) // 23:00:00
	check(live, phoneChecks)
	advance(time.Hour) // the 31st
	check(sandbox, sim)
	advance(24 * time.Hour) // February
	check(live, phoneChecks)
	owner = newConsoleAPI(t, srv, account.Credentials)
	owner.want(200, http.MethodPut, workspaces+"/default/billing_account", `{"company_name":"Sandbox Ltd"}`)
	method := owner.want(201, http.MethodPost, workspaces+"/default/payment_methods", newCard).text("payment_method_id")
	owner.want(201, http.MethodPost, workspaces+"/default/topups", fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":5}`, method))
	check(live, phoneChecks)
	return owner, map[string]string{live.ProjectID: "live", sandbox.ProjectID: "sandbox"}
}

func TestServer_UsageGroups(t *testing.T) {
	t.Parallel()
	owner, names := newUsageWorkspace(t)
	for _, row := range []struct {
		period, search, groupBy string
		want                    []string
	}{
		{"hourly", "date>=2026-01-30T22", "", []string{"2026-01-30T22 4 3 API", "2026-01-30T23 1 1 API", "2026-01-31T00 1 0 API", "2026-02-01T00 1 1 API", "2026-02-01T00 1 1 EUR"}},
		{"hourly", "date>2026-01-30T22;date<2026-02-01T00", "", []string{"2026-01-30T23 1 1 API", "2026-01-31T00 1 0 API"}},
		{"hourly", "date==2026-01-30T22", "product_id", []string{"2026-01-30T22 pck 3 2 API", "2026-01-30T22 sck 1 1 API"}},
		{"hourly", "date==2026-01-30T22", "project_id", []string{"2026-01-30T22 live 3 3 API", "2026-01-30T22 sandbox 1 0 API"}},
		{"daily", "date>=2026-01-30", "", []string{"2026-01-30 5 4 API", "2026-01-31 1 0 API", "2026-02-01 1 1 API", "2026-02-01 1 1 EUR"}},
		{"daily", "date<=2026-01-31", "product_id,project_id", []string{"2026-01-30 pck live 3 3 API", "2026-01-30 pck sandbox 1 0 API", "2026-01-30 sck live 1 1 API", "2026-01-31 sck sandbox 1 0 API"}},
		{"daily", "date<=2026-01-31", "product_id&group_by=project_id", []string{"2026-01-30 pck live 3 3 API", "2026-01-30 pck sandbox 1 0 API", "2026-01-30 sck live 1 1 API", "2026-01-31 sck sandbox 1 0 API"}},
		{"daily", "date>=2026-01-30;product_id!=pck", "product_id", []string{"2026-01-30 sck 1 1 API", "2026-01-31 sck 1 0 API"}},
		{"daily", "date>=2026-01-30;product_id==sim_check", "", []string{}},
		{"daily", "date>=2026-01-30;product_id==sck", "", []string{"2026-01-30 1 1 API", "2026-01-31 1 0 API"}},
		{"monthly", "date>=2026-01", "", []string{"2026-01 6 4 API", "2026-02 1 1 API", "2026-02 1 1 EUR"}},
		{"monthly", "date==2026-01", "project_id,product_id", []string{"2026-01 pck live 3 3 API", "2026-01 pck sandbox 1 0 API", "2026-01 sck live 1 1 API", "2026-01 sck sandbox 1 0 API"}},
		{"monthly", "date<2026-01", "", []string{}},
	} {
		query := "?search=" + url.QueryEscape(row.search)
		if row.groupBy != "" {
			query += "&group_by=" + row.groupBy
		}

		r := owner.want(200, http.MethodGet, workspaces+"/default/usage/"+row.period+query, "")

		got := r.usageRows(names)
		if strings.Contains(row.groupBy, "project_id") {
			// Groups are sorted by ID, not by name.
			got = sorted(got)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s %s %s (-want +got):\n%s", row.period, row.search, row.groupBy, diff)
		}
	}
}

// usagePages returns the rows of all pages of the usage at path, by following the links.
func (a *api) usagePages(path string, names map[string]string) []string {
	a.t.Helper()
	var rows []string
	for next := a.srv.URL() + workspaces + "/default/usage/" + path; next != ""; {
		r := a.want(200, http.MethodGet, next, "")
		rows = append(rows, r.usageRows(names)...)
		next = r.text("_links", "next", "href")
	}
	return rows
}

func TestServer_UsagePages(t *testing.T) {
	t.Parallel()
	owner, names := newUsageWorkspace(t)

	got := owner.usagePages("daily?size=2&group_by=product_id&search="+url.QueryEscape("date>=2026-01-30"), names)

	want := []string{"2026-01-30 pck 4 3 API", "2026-01-30 sck 1 1 API", "2026-01-31 sck 1 0 API", "2026-02-01 pck 1 1 API", "2026-02-01 pck 1 1 EUR"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows of all pages (-want +got):\n%s", diff)
	}
}

func TestServer_UsageLinksKeepGroups(t *testing.T) {
	t.Parallel()
	owner, names := newUsageWorkspace(t)

	got := owner.usagePages("monthly?size=1&group_by=product_id&group_by=project_id&search="+url.QueryEscape("date==2026-01"), names)

	want := []string{"2026-01 pck live 3 3 API", "2026-01 pck sandbox 1 0 API", "2026-01 sck live 1 1 API", "2026-01 sck sandbox 1 0 API"}
	if diff := cmp.Diff(want, sorted(got)); diff != "" {
		t.Errorf("rows of all pages (-want +got):\n%s", diff)
	}
}

func TestServer_UsageOfDeletedProject(t *testing.T) {
	t.Parallel()
	owner, names := newUsageWorkspace(t)
	path := workspaces + "/default/usage/monthly?group_by=project_id&search=date%3E2025"
	before := owner.get(path).usageRows(names)

	for id := range names {
		owner.want(204, http.MethodDelete, projects+"/"+id, "")
	}

	if diff := cmp.Diff(before, owner.get(path).usageRows(names)); diff != "" || len(before) == 0 {
		t.Errorf("usage after the projects were deleted (-before +after):\n%s", diff)
	}
}

func TestServer_UsageRejectsQueries(t *testing.T) {
	t.Parallel()
	owner, _ := newUsageWorkspace(t)
	for _, query := range []string{
		"", "?search=", "?search=product_id==pck", "?search=date", "?search=date>=soon", "?search=date>2026,", "?search=colour==red;date>2026",
		"?search=date>2026&group_by=", "?search=date>2026&group_by=colour", "?search=date>2026&group_by=product_id,", "?search=date>2026&group_by=product_id,product_id",
		"?search=date>2026&group_by=product_id&group_by=product_id", "?search=date>2026&group_by=product_id&group_by=", "?search=date>2026&search=date>2026",
		"?search=date>2026&size=0", "?search=date>2026&sort=name,asc",
	} {
		r := owner.get(workspaces + "/default/usage/daily" + query)

		if r.status != 400 || r.fragment() != "bad_request" {
			t.Errorf("%s: %d %s, want 400", query, r.status, r.body)
		}
	}
	owner.get(workspaces+"/default/usage/weekly?search=date>2026").wantProblem(t, 404, "not_found")
}

func sorted(rows []string) []string { return slices.Sorted(slices.Values(rows)) }
