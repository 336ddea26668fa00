package sandboxfake_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

// requests returns the paths of a page of the requests in the control plane.
func (a *api) requests(query string) (paths []string, next string) {
	a.t.Helper()
	got := a.control(http.MethodGet, "requests?"+query, "")
	if got.status != http.StatusOK {
		a.t.Fatalf("requests?%s: %d %s", query, got.status, got.body)
	}
	paths = []string{}
	for _, r := range got.json["requests"].([]any) {
		paths = append(paths, r.(map[string]any)["path"].(string))
	}
	next, _ = got.json["next"].(string)
	return paths, next
}

func TestServer_ControlRequestsPages(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithJournalLimit(7))
	for i := range 10 {
		a.get(fmt.Sprintf("/phone_check/v0.1/checks/%d", i))
	}
	a.get(phoneChecks)
	var pages [][]string

	for next := ""; ; {
		query := "limit=3&operation=phone_check.get"
		if next != "" {
			query += "&before=" + next
		}
		paths, following := a.requests(query)
		pages = append(pages, paths)
		if next = following; next == "" || len(pages) > 5 {
			break
		}
	}

	path := func(i int) string { return fmt.Sprintf("/phone_check/v0.1/checks/%d", i) }
	if diff := cmp.Diff([][]string{{path(9), path(8), path(7)}, {path(6), path(5), path(4)}}, pages); diff != "" {
		t.Errorf("pages of a journal of 7 requests, newest first (-want +got):\n%s", diff)
	}
}

func TestServer_ControlRequestsFilters(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	missing, first, second := "/phone_check/v0.1/checks/x", phoneChecks+"?size=2", phoneChecks+"?size=-1"
	for _, path := range []string{missing, first, second} {
		a.get(path)
	}
	const token = "/oauth2/v1/token"
	for _, row := range []struct {
		query string
		want  []string
	}{
		{"", []string{token, missing, first, second}},
		{"limit=10", []string{second, first, missing, token}},
		{"status=404", []string{missing}},
		{"status=4xx", []string{missing, second}},
		{"limit=10&status=4xx", []string{second, missing}},
		{"status=2xx&search=checks", []string{first}},
		{"search=size", []string{first, second}},
		{"limit=1&search=size%3D2", []string{first}},
		{"operation=phone_check.list&operation=phone_check.get&limit=10", []string{second, first, missing}},
		{"status=500", []string{}},
	} {
		paths, _ := a.requests(row.query)

		if diff := cmp.Diff(row.want, paths); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.query, diff)
		}
	}
}

// Without a limit, a page after the first has the default length.
func TestServer_ControlRequestsBefore(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	var paths []string
	for i := range 60 {
		path := fmt.Sprintf("/phone_check/v0.1/checks?page=%d", i)
		a.get(path)
		paths = append(paths, path)
	}
	slices.Reverse(paths)
	_, next := a.requests("limit=5")

	second, third := a.requests("before=" + next)
	last, end := a.requests("before=" + third)

	if diff := cmp.Diff(paths[5:55], second); diff != "" {
		t.Errorf("second page (-want +got):\n%s", diff)
	}
	if len(last) != 6 || end != "" { // and the request for the token
		t.Errorf("last page = %v, next %q, want six requests", last, end)
	}
}

func TestServer_ControlListsInvalid(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	for _, query := range []string{
		"requests?limit=0", "requests?limit=201", "requests?limit=x", "requests?limit=", "requests?limit=1&limit=2",
		"requests?before=x", "requests?limit=1&before=x", "requests?limit=1&before=1", "requests?limit=1&before=0--1", "requests?limit=1&before=0-99999999999999999999",
		"requests?status=4", "requests?status=xx", "requests?status=0xx", "requests?status=6xx", "requests?status=99", "requests?status=+44", "requests?status=",
		"checks?limit=0", "checks?limit=201", "checks?limit=-1", "checks?before=", "checks?status=DONE", "checks?status=", "checks?product=sim", "checks?product=",
		"checks?search=a&search=b", "checks?page=2", "timeline?check_id=a&check_id=b", "state?x=1",
	} {
		a.control(http.MethodGet, query, "").wantProblem(t, http.StatusBadRequest, "bad_request")
	}
	for _, list := range []string{"requests?limit=10&before=0-18446744073709551615", "checks?before=0-18446744073709551615", "checks?before=0-0"} {
		if got := a.control(http.MethodGet, list, ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s, want 200", list, got.status, got.body)
		}
	}
	a.control(http.MethodGet, "requests?limit=10&before=1-5", "").wantStatus(t, http.StatusConflict)
}

// wantStatus fails the test if r has another status.
func (r response) wantStatus(t testing.TB, status int) {
	t.Helper()
	if r.status != status {
		t.Errorf("response = %d %s, want %d", r.status, r.body, status)
	}
}
