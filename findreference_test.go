package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

// referenceProduct creates and finds the checks of one product. All checks of its number are
// listed.
type referenceProduct struct {
	name   string
	list   wire.Operation
	create func(context.Context, *idverify.Client, string) (checkID string, err error)
	find   func(context.Context, *idverify.Client, string) (checkIDs []string, err error)
}

var referenceProducts = []referenceProduct{
	{"PhoneCheck", wire.ListPhoneChecks, func(ctx context.Context, c *idverify.Client, reference string) (string, error) {
		check, err := c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: matchingNumber, ReferenceID: reference})
		return idOf(check, err, func(c *idverify.PhoneCheck) string { return c.CheckID })
	}, func(ctx context.Context, c *idverify.Client, reference string) ([]string, error) {
		checks, err := c.PhoneChecks.FindByReferenceID(ctx, reference)
		return idsOf(checks, err, func(c *idverify.PhoneCheck) string { return c.CheckID })
	}},
	{"SIMCheck", wire.ListSIMChecks, func(ctx context.Context, c *idverify.Client, reference string) (string, error) {
		check, err := c.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: matchingNumber, ReferenceID: reference})
		return idOf(check, err, func(c *idverify.SIMCheck) string { return c.CheckID })
	}, func(ctx context.Context, c *idverify.Client, reference string) ([]string, error) {
		checks, err := c.SIMChecks.FindByReferenceID(ctx, reference)
		return idsOf(checks, err, func(c *idverify.SIMCheck) string { return c.CheckID })
	}},
	{"SubscriberCheck", wire.ListSubscriberChecks, func(ctx context.Context, c *idverify.Client, reference string) (string, error) {
		check, err := c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: matchingNumber, ReferenceID: reference})
		return idOf(check, err, func(c *idverify.SubscriberCheck) string { return c.CheckID })
	}, func(ctx context.Context, c *idverify.Client, reference string) ([]string, error) {
		checks, err := c.SubscriberChecks.FindByReferenceID(ctx, reference)
		return idsOf(checks, err, func(c *idverify.SubscriberCheck) string { return c.CheckID })
	}},
}

func idOf[T any](check *T, err error, id func(*T) string) (string, error) {
	if err != nil {
		return "", err
	}
	return id(check), nil
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

// Each reference is found, and only its check.
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
		})
	}
}

func TestFindByReferenceID_NotFound(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	c := srv.Client()
	for _, p := range referenceProducts {
		must(p.create(t.Context(), c, "order-1"))(t)

		for _, reference := range []string{"order", "order-", "order-1x", "Order-1", strings.Repeat("a", 10_000), strings.Repeat(`"`, 5000), strings.Repeat("👍", 2500)} {
			if got, err := p.find(t.Context(), c, reference); got != nil || err != nil {
				t.Errorf("%s: %.20q: found %q, error = %v, want nothing", p.name, reference, got, err)
			}
		}
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

		got, err := srv.client(t).PhoneChecks.FindByReferenceID(t.Context(), "a")

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
