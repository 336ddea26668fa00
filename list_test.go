package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestPhoneCheckService_ListQuery(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options idverify.ListOptions
		want    string
	}{
		{idverify.ListOptions{}, "/phone_check/v0.1/checks"},
		{idverify.ListOptions{Page: 2}, "/phone_check/v0.1/checks?page=2"},
		{idverify.ListOptions{Page: 3, Size: 100, Sort: "created_at,asc", Search: "status==COMPLETED;created_at>=2026-01-02T00:00:00+0000"},
			"/phone_check/v0.1/checks?page=3&search=status%3D%3DCOMPLETED%3Bcreated_at%3E%3D2026-01-02T00%3A00%3A00%2B0000&size=100&sort=created_at%2Casc"},
		{idverify.ListOptions{Page: -1, Size: 101, Sort: "color"}, "/phone_check/v0.1/checks?page=-1&size=101&sort=color"}, // the service rejects this
	} {
		srv := newService(t, respondWith(200, string(fixture(t, "phone_checks.json"))))

		must(srv.client(t).PhoneChecks.List(t.Context(), tt.options))(t)

		if got := srv.calls()[0].uri; got != tt.want {
			t.Errorf("%+v: URI = %q, want %q", tt.options, got, tt.want)
		}
	}
}

func TestPhoneCheckService_AllPages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		pages     [][]string
		start     int
		take      int // number of items before break; 0 means all
		want      string
		wantPages string
	}{
		{"three pages", [][]string{{"a", "b"}, {"c", "d"}, {"e"}}, 0, 0, "a b c d e", "1 2 3"},
		{"from the second page", [][]string{{"a", "b"}, {"c", "d"}, {"e"}}, 2, 0, "c d e", "2 3"},
		{"empty page in the middle", [][]string{{"a", "b"}, {}, {"e"}}, 0, 0, "a b e", "1 2 3"},
		{"no items", nil, 0, 0, "", "1"},
		{"past the end", [][]string{{"a"}}, 7, 0, "", "7"},
		{"stopped on the first page", [][]string{{"a", "b"}, {"c"}}, 0, 1, "a", "1"},
		{"stopped at the end of a page", [][]string{{"a", "b"}, {"c"}}, 0, 2, "a b", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var requested []string
			srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
				n := 0
				fmt.Sscan(r.FormValue("page"), &n)
				requested = append(requested, fmt.Sprint(n))
				var ids []string
				if n <= len(tt.pages) {
					ids = tt.pages[n-1]
				}
				writePage(w, n, len(tt.pages), ids)
			})

			checks := srv.client(t).PhoneChecks.All(t.Context(), idverify.ListOptions{Page: tt.start})
			for range 2 { // the iterator can be used again
				var got []string
				for check, err := range checks {
					noError(t, err)
					if got = append(got, check.CheckID); len(got) == tt.take {
						break
					}
				}

				if strings.Join(got, " ") != tt.want {
					t.Errorf("checks = %q, want %q", got, tt.want)
				}
				if strings.Join(requested, " ") != tt.wantPages {
					t.Errorf("requested pages = %q, want %q", requested, tt.wantPages)
				}
				requested = nil
			}
		})
	}
}

// TestServices_All compares the first request of each iterator with that of its List.
func TestServices_All(t *testing.T) {
	t.Parallel()
	ctx, o := t.Context(), idverify.ListOptions{Page: 7, Size: 3}
	srv := newService(t, func(w http.ResponseWriter, _ *http.Request) { writePage(w, 7, 7, nil) })
	client, console := srv.client(t), srv.console(t)
	for name, calls := range map[string][2]func() error{
		"phone checks":          {func() error { return errorOf(client.PhoneChecks.List(ctx, o)) }, func() error { return iterate(client.PhoneChecks.All(ctx, o)) }},
		"SIM checks":            {func() error { return errorOf(client.SIMChecks.List(ctx, o)) }, func() error { return iterate(client.SIMChecks.All(ctx, o)) }},
		"subscriber checks":     {func() error { return errorOf(client.SubscriberChecks.List(ctx, o)) }, func() error { return iterate(client.SubscriberChecks.All(ctx, o)) }},
		"workspaces":            {func() error { return errorOf(console.Workspaces.List(ctx, o)) }, func() error { return iterate(console.Workspaces.All(ctx, o)) }},
		"members":               {func() error { return errorOf(console.Members.List(ctx, o)) }, func() error { return iterate(console.Members.All(ctx, o)) }},
		"invitations":           {func() error { return errorOf(console.Invitations.List(ctx, o)) }, func() error { return iterate(console.Invitations.All(ctx, o)) }},
		"payment methods":       {func() error { return errorOf(console.PaymentMethods.List(ctx, o)) }, func() error { return iterate(console.PaymentMethods.All(ctx, o)) }},
		"top-ups":               {func() error { return errorOf(console.TopUps.List(ctx, o)) }, func() error { return iterate(console.TopUps.All(ctx, o)) }},
		"projects":              {func() error { return errorOf(console.Projects.List(ctx, o)) }, func() error { return iterate(console.Projects.All(ctx, o)) }},
		"project credentials":   {func() error { return errorOf(console.ProjectCredentials.List(ctx, "p", o)) }, func() error { return iterate(console.ProjectCredentials.All(ctx, "p", o)) }},
		"workspace credentials": {func() error { return errorOf(console.WorkspaceCredentials.List(ctx, "m", o)) }, func() error { return iterate(console.WorkspaceCredentials.All(ctx, "m", o)) }},
	} {
		sent := len(srv.calls())
		for _, call := range calls {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		got := srv.calls()[sent:]
		if len(got) != 2 || got[0].uri != got[1].uri || !strings.Contains(got[1].uri, "page=7") {
			t.Errorf("%s: requests = %+v, want two equal ones of page 7", name, got)
		}
	}
}

// iterate returns the last error of an iterator.
func iterate[T any](items iter.Seq2[*T, error]) (last error) {
	for _, err := range items {
		last = err
	}
	return last
}

func TestPhoneCheckService_AllStopsAtError(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondInTurn(
		func(w http.ResponseWriter, _ *http.Request) { writePage(w, 1, 9, []string{"a"}) },
		respondWithProblem(403, "forbidden", "the scope was removed"),
	))

	var got []string
	for check, err := range srv.client(t).PhoneChecks.All(t.Context(), idverify.ListOptions{}) {
		if check != nil {
			got = append(got, check.CheckID)
		} else if errors.Is(err, idverify.ErrForbidden) {
			got = append(got, "forbidden")
		}
	}

	if !slices.Equal(got, []string{"a", "forbidden"}) {
		t.Errorf("yielded %q, want a and forbidden", got)
	}
}

func TestPhoneCheckService_ListMalformed(t *testing.T) {
	t.Parallel()
	const item = `{"check_id":"a","status":"COMPLETED"}`
	for body, want := range map[string]string{
		``:                                 "invalid JSON",
		`null`:                             "missing page: body begins \"null\"",
		`{}`:                               "missing page",
		`{"page":null}`:                    "missing page",
		`[]`:                               "not a JSON object",
		`"page"`:                           `not a JSON object: body begins "\"page\""`,
		`<html>`:                           `invalid JSON: body begins "<html>"`,
		`{"page":7}`:                       `wrong type of field "page"`,
		`{"page":{"size":"many"}}`:         `wrong type of field "page.size"`,
		`{"page":{},"_embedded":[]}`:       `wrong type of field "_embedded"`,
		`{"page":{},"_embedded":{},}`:      "invalid JSON",
		`{"page":{},"_embedded":{}}}`:      "invalid JSON",
		`{"page":{},"_embedded":{}}{}`:     "invalid JSON",
		`{"page":{},"_embedded":{]}`:       "invalid JSON",
		`{"page":{},"_embedded":{}`:        "invalid JSON",
		`{"page":{},"x":[1,{]}`:            "invalid JSON",
		embedded(`{}`):                     "invalid value of a field",
		embedded(`[{}]`):                   "missing check_id",
		embedded(`[null]`):                 "missing check_id",
		embedded(`[7]`):                    "not a JSON object",
		embedded(`[` + item + `,]`):        "invalid JSON",
		embedded(`[` + item + item + `]`):  "invalid JSON",
		embedded(`[` + item + `}`):         "invalid JSON",
		embedded(`[{"check_id":7}]`):       `wrong type of field "check_id"`,
		embedded(`[{"created_at":7}]`):     "timestamp is not a string",
		embedded(`[{"check_id":7}]`) + `x`: "invalid JSON",
	} {
		c := newTransportClient(t, always(200, []byte(body)))

		page, err := c.PhoneChecks.List(t.Context(), idverify.ListOptions{})

		if e, ok := errors.AsType[*idverify.DecodeError](err); !ok || page != nil || e.Reason != want {
			t.Errorf("%s: page = %v, error = %v, want only a *DecodeError with reason %q", body, page, err, want)
		}
	}
}

// embedded returns a page with a list of checks.
func embedded(list string) string { return `{"page":{},"_embedded":{"checks":` + list + `}}` }

func TestPhoneCheckService_ListUnusual(t *testing.T) {
	t.Parallel()
	const item = `{"check_id":"a","status":"COMPLETED","match":true}`
	for body, want := range map[string]string{
		`{"page":{}}`:                  "",
		`{"page":{},"_embedded":null}`: "",
		`{"page":{},"_embedded":{"checks":[` + item + `]},"_embedded":null}`: "",
		embedded(`null`): "",
		embedded(`[ ]`):  "",
		` {"PAGE":{},"_EMBEDDED":{"checks":[` + item + `]}} `:                                                    "a: yes",
		`{"page":{},"_embedded":{"CHECKS":[7]}}`:                                                                 "",
		`{"_links":{"next":[{}]},"_embedded":{"other":[7],"checks":[` + item + `],"more":null},"page":{},"x":7}`: "a: yes",
		// An item contains nothing of the items before it.
		embedded(`[` + item + `,{"check_id":"b","status":"COMPLETED"}]`):            "a: yes, b: unknown",
		embedded(`[` + item + `],"checks":[{"check_id":"b","status":"COMPLETED"}]`): "b: unknown",
	} {
		c := newTransportClient(t, always(200, []byte(body)))

		page, err := c.PhoneChecks.List(t.Context(), idverify.ListOptions{})

		if err != nil {
			t.Errorf("%s: error = %v, want none", body, err)
			continue
		}
		var got []string
		for _, check := range page.Items {
			got = append(got, fmt.Sprintf("%s: %v", check.CheckID, check.Match))
		}
		if page.Items == nil || strings.Join(got, ", ") != want {
			t.Errorf("%s: items = %q, want %q in a slice that is not nil", body, got, want)
		}
	}
}

func writePage(w http.ResponseWriter, n, of int, ids []string) {
	var items []string
	for _, id := range ids {
		items = append(items, fmt.Sprintf(`{"check_id":%q,"status":"COMPLETED"}`, id))
	}
	fmt.Fprintf(w, `{"page":{"size":2,"number":%d,"total_pages":%d,"total_elements":%d},"_embedded":{"checks":[%s]}}`, n, of, 2*of, strings.Join(items, ","))
}

// A service that announces endless pages must not occupy the caller forever.
func TestPhoneCheckService_AllStopsAtEmptyPages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		total   int          // pages that the service announces
		items   map[int]bool // pages that are not empty
		want    int          // requests
		wantErr bool
	}{
		{"ten empty pages", 10, nil, 10, false},
		{"eleventh is the last", 11, nil, 11, false},
		{"eleventh is not the last", 12, nil, 11, true},
		{"endless", 1_000_000, nil, 11, true},
		{"item in between", 22, map[int]bool{11: true}, 22, false},
		{"item in between, then endless", 1_000_000, map[int]bool{11: true}, 22, true},
		{"item first", 1_000_000, map[int]bool{1: true}, 12, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
				if requests++; requests > 100 {
					return response(400, nil), nil // end the test
				}
				var ids []string
				n := 0
				if fmt.Sscan(r.URL.Query().Get("page"), &n); tt.items[n] {
					ids = []string{"a"}
				}
				w := httptest.NewRecorder()
				writePage(w, n, tt.total, ids)
				return w.Result(), nil
			})

			items := 0
			var last error
			for check, err := range c.PhoneChecks.All(t.Context(), idverify.ListOptions{}) {
				if check != nil {
					items++
				}
				last = err
			}

			if requests != tt.want || items != len(tt.items) || (last != nil) != tt.wantErr {
				t.Errorf("requests = %d, items = %d, error = %v, want %d, %d and an error: %v", requests, items, last, tt.want, len(tt.items), tt.wantErr)
			}
		})
	}
}

func TestPhoneCheckService_TracesLimit(t *testing.T) {
	t.Parallel()
	page := `"_embedded":{"traces":[` + strings.Repeat(`{"trace_id":"a","logs":[]},`, 99) + `{"trace_id":"a","logs":[]}]}}`
	for pages, want := range map[int]bool{100: true, 101: false} {
		c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
			return response(200, fmt.Appendf(nil, `{"page":{"number":%s,"total_pages":%d},%s`, r.URL.Query().Get("page"), pages, page)), nil
		})

		traces, err := c.PhoneChecks.Traces(t.Context(), "a")

		if want != (err == nil) || want != (len(traces) == 10_000) {
			t.Errorf("%d pages: traces = %d, error = %v, want success: %v", pages, len(traces), err, want)
		}
		if want {
			continue
		}
		if e, ok := errors.AsType[*idverify.DecodeError](err); !ok || e.Operation != "phone_check.traces" || e.Status != 200 || e.Reason != "more than 10000 items" {
			t.Errorf("error = %#v, want a *DecodeError with operation, status and reason", err)
		}
	}
}

// referenceProduct creates and finds the checks of one product. All checks of its number are
// listed.
type referenceProduct struct {
	name   string
	list   wire.Operation
	create func(context.Context, *idverify.Client, string) (checkID string, err error)
	find   func(context.Context, *idverify.Client, string) (checkIDs []string, err error)
}

// typedNumber is matchingNumber as a person writes it.
const typedNumber = "+44 (7700) 900-012"

var referenceProducts = []referenceProduct{
	{"PhoneCheck", wire.ListPhoneChecks, func(ctx context.Context, c *idverify.Client, reference string) (string, error) {
		check, err := c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: typedNumber, ReferenceID: reference})
		return idOf(check, err, func(c *idverify.PhoneCheck) string { return c.CheckID })
	}, func(ctx context.Context, c *idverify.Client, reference string) ([]string, error) {
		checks, err := c.PhoneChecks.FindByReferenceID(ctx, reference)
		return idsOf(checks, err, func(c *idverify.PhoneCheck) string { return c.CheckID })
	}},
	{"SIMCheck", wire.ListSIMChecks, func(ctx context.Context, c *idverify.Client, reference string) (string, error) {
		check, err := c.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: typedNumber, ReferenceID: reference})
		return idOf(check, err, func(c *idverify.SIMCheck) string { return c.CheckID })
	}, func(ctx context.Context, c *idverify.Client, reference string) ([]string, error) {
		checks, err := c.SIMChecks.FindByReferenceID(ctx, reference)
		return idsOf(checks, err, func(c *idverify.SIMCheck) string { return c.CheckID })
	}},
	{"SubscriberCheck", wire.ListSubscriberChecks, func(ctx context.Context, c *idverify.Client, reference string) (string, error) {
		check, err := c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: typedNumber, ReferenceID: reference})
		return idOf(check, err, func(c *idverify.SubscriberCheck) string { return c.CheckID })
	}, func(ctx context.Context, c *idverify.Client, reference string) ([]string, error) {
		checks, err := c.SubscriberChecks.FindByReferenceID(ctx, reference)
		return idsOf(checks, err, func(c *idverify.SubscriberCheck) string { return c.CheckID })
	}},
}

// idOf returns "" if there is no check.
func idOf[T any](check *T, err error, id func(*T) string) (string, error) {
	if check == nil {
		return "", err
	}
	return id(check), err
}

func idsOf[T any](checks []*T, err error, id func(*T) string) (ids []string, _ error) {
	if checks != nil && len(checks) == 0 {
		return nil, errors.New("the result is an empty slice, not nil")
	}
	for _, check := range checks {
		ids = append(ids, id(check))
	}
	return ids, err
}

// references are valid reference IDs that are difficult to search for.
var references = []string{
	"order-1", "order 1", "ORDER-1", "order", "order-1 ", " order-1", "*", "order*", "%", "a+b", "a%20b", "a&size=1", "#",
	`"`, `""`, `\`, `\\`, `\"`, `"\`, `a"b\c`, `'`, `'order-1'`, `"order-1"`,
	`x");status==COMPLETED,reference_id!=("`, `");status==ACCEPTED`, `order-1";reference_id=="order-2`, `order-1,status==ACCEPTED`, "==", "!=", "(", ")", ";", ",", "~", "=in=(a,b)",
	"a\nb", "a\r\nb", "a\tb", "\x00", "\x7f", "é", "e\u0301", "日本", "👍🏽", "\u2028", "\ufffd", "<b>&amp;", "null", strings.Repeat("a", 1024), strings.Repeat(`"`, 1024), strings.Repeat(`\`, 1024),
}

// Each reference finds only its own check. Other references find nothing.
func TestFindByReferenceID_Exact(t *testing.T) {
	t.Parallel()
	for _, p := range referenceProducts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			c := srv.Client()
			created := make(map[string]string)
			for _, reference := range append(references, "") {
				created[reference] = must(p.create(t.Context(), c, reference))(t)
				if len(reference) < 1000 { // others with the same prefix or suffix
					must(p.create(t.Context(), c, reference+"~decoy"))(t)
					must(p.create(t.Context(), c, "decoy~"+reference))(t)
				}
			}

			for _, reference := range references {
				got, err := p.find(t.Context(), c, reference)

				if diff := cmp.Diff([]string{created[reference]}, got); diff != "" || err != nil {
					t.Errorf("%.60q: found (-want +got)\n%s error = %v", reference, diff, err)
				}
			}
			for _, reference := range []string{"order-", "order-1x", "Order-1", strings.Repeat("a", 10_000), strings.Repeat(`"`, 5000), strings.Repeat("👍", 2500)} {
				if got, err := p.find(t.Context(), c, reference); got != nil || err != nil {
					t.Errorf("%.20q: found %q, error = %v, want nothing", reference, got, err)
				}
			}
		})
	}
}

func TestFindByReferenceID_Pages(t *testing.T) {
	t.Parallel()
	for _, p := range referenceProducts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			c := srv.Client()
			var want []string
			for range 205 {
				want = append(want, must(p.create(t.Context(), c, "order-1"))(t))
				must(p.create(t.Context(), c, "order-10"))(t)
			}

			got, err := p.find(t.Context(), c, "order-1")

			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("found (-want +got)\n%s error = %v", diff, err)
			}
			if n := countRequests(srv, p.list.Name); n != 3 {
				t.Errorf("%d pages were read, want 3", n)
			}
		})
	}
}

func TestFindByReferenceID_RejectsArgument(t *testing.T) {
	t.Parallel()
	for _, p := range referenceProducts {
		for name, reference := range map[string]string{"empty": "", "invalid UTF-8": "order-\xff"} {
			srv := newService(t, respondWith(500, ""))

			got, err := p.find(t.Context(), srv.client(t), reference)

			if got != nil || !errors.Is(err, idverify.ErrBadRequest) || errors.Is(err, idverify.ErrOutcomeUnknown) {
				t.Errorf("%s: %s: found %q, error = %v, want ErrBadRequest", p.name, name, got, err)
			}
			if n := len(srv.calls()) + len(srv.tokens()); n != 0 {
				t.Errorf("%s: %s: %d requests, want none", p.name, name, n)
			}
		}
	}
}

// A service may ignore case or search for wildcards, and may list a check on two pages.
func TestFindByReferenceID_FiltersPages(t *testing.T) {
	t.Parallel()
	page := func(number, total int, checks ...string) http.HandlerFunc {
		return respondWith(200, fmt.Sprintf(`{"page":{"number":%d,"size":100,"total_pages":%d},"_embedded":{"checks":[%s]}}`, number, total, strings.Join(checks, ",")))
	}
	check := func(id, more string) string { return fmt.Sprintf(`{"check_id":%q,"status":"ACCEPTED"%s}`, id, more) }
	const same = `,"reference_id":"a*"`
	for _, p := range referenceProducts {
		srv := newService(t, respondInTurn(
			page(1, 3, check("1", `,"reference_id":"abc"`), check("2", same), check("3", ""), check("4", `,"reference_id":"A*"`)),
			page(2, 3, check("2", same), check("5", same), check("5", same)),
			page(3, 3, check("6", `,"reference_id":"a* "`), check("2", same)),
		))

		got, err := p.find(t.Context(), srv.client(t), "a*")

		if diff := cmp.Diff([]string{"2", "5"}, got); diff != "" || err != nil {
			t.Errorf("%s: found (-want +got)\n%s error = %v", p.name, diff, err)
		}
		if _, query, _ := strings.Cut(srv.calls()[1].uri, "?"); query != "page=2&search=reference_id%3D%3D%22a%2A%22&size=100&sort=created_at%2Casc" {
			t.Errorf("%s: query = %q, want page 2 of 100 checks, oldest first", p.name, query)
		}
	}
}

// An incomplete result would look like a complete one.
func TestFindByReferenceID_Fails(t *testing.T) {
	t.Parallel()
	const found = `{"check_id":"1","status":"ACCEPTED","reference_id":"a"}`
	full := pageOf(99, found)
	endless := strings.Replace(full, `"total_pages":1`, `"total_pages":1000000`, 1)
	for _, tt := range []struct {
		name    string
		respond http.HandlerFunc
		pages   int // that are read
	}{
		{"second page", respondInTurn(respondWith(200, endless), respondWith(404, "")), 2},
		{"invalid check", respondWith(200, pageOf(2, `{"check_id":"","status":"ACCEPTED","reference_id":"a"}`)), 1},
		{"endless pages", respondWith(200, endless), 101},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, tt.respond)

			got, err := srv.client(t).PhoneChecks.FindByReferenceID(t.Context(), "a")

			if got != nil || err == nil || errors.Is(err, idverify.ErrOutcomeUnknown) {
				t.Errorf("found %d checks, error = %v, want an error of a GET", len(got), err)
			}
			if n := len(srv.calls()); n != tt.pages {
				t.Errorf("%d pages were read, want %d", n, tt.pages)
			}
		})
	}
}

// The size of all pages is limited, not only their number of checks.
func TestFindByReferenceID_LimitsBytes(t *testing.T) {
	t.Parallel()
	const found = `{"check_id":"1","status":"ACCEPTED","reference_id":"a","error_code":"%s"}`
	page := fmt.Sprintf(pageOf(0, found), strings.Repeat("x", 9<<20))
	for total, want := range map[int]int{7: 7, 1000: 8} { // pages of the service and pages that are read
		srv := newService(t, respondWith(200, strings.Replace(page, `"total_pages":1`, fmt.Sprintf(`"total_pages":%d`, total), 1)))

		got, err := srv.client(t, withoutRetries).PhoneChecks.FindByReferenceID(t.Context(), "a")

		if n := len(srv.calls()); n != want {
			t.Errorf("%d of %d pages were read, want %d", n, total, want)
		}
		if total == want {
			if len(got) != 1 || err != nil {
				t.Errorf("found %d checks on %d pages, error = %v, want one", len(got), total, err)
			}
			continue
		}
		if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || got != nil || !strings.Contains(err.Error(), "more than 64 MiB of checks") {
			t.Errorf("found %d checks, error = %v, want a DecodeError for more than 64 MiB", len(got), err)
		}
	}
}

// FuzzFindByReferenceID creates a check with any reference ID and another with a similar one.
func FuzzFindByReferenceID(f *testing.F) {
	for _, reference := range references {
		f.Add(reference, "x")
	}
	f.Add("a", `");status==ACCEPTED`)
	srv := sandboxfake.New(f, sandboxfake.WithInMemory())
	c, p := srv.Client(), referenceProducts[1]
	created := make(map[string][]string) // check IDs by reference ID
	f.Fuzz(func(t *testing.T, reference, more string) {
		if more == "" || len(reference)+len(more) > 1024 || !utf8.ValidString(reference) || !utf8.ValidString(more) {
			return
		}
		if len(created) > 100 {
			srv.Reset()
			clear(created)
		}
		for _, r := range []string{reference, reference + more} {
			created[r] = append(created[r], must(p.create(t.Context(), c, r))(t))
		}

		for _, r := range []string{reference, reference + more} {
			if r == "" {
				continue
			}
			got, err := p.find(t.Context(), c, r)
			if diff := cmp.Diff(created[r], got); diff != "" || err != nil {
				t.Errorf("%q: found (-want +got)\n%s error = %v", r, diff, err)
			}
		}
	})
}
