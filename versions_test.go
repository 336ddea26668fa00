package idverify_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// versionCalls contains an operation of each product.
var versionCalls = []struct {
	product, path string // the path contains {v}
	call          func(context.Context, *idverify.Client) error
}{
	{"phone_check", "/phone_check/{v}/checks", func(ctx context.Context, c *idverify.Client) error {
		_, err := c.PhoneChecks.List(ctx, idverify.ListOptions{})
		return err
	}},
	{"sim_check", "/sim_check/{v}/checks", func(ctx context.Context, c *idverify.Client) error {
		_, err := c.SIMChecks.List(ctx, idverify.ListOptions{})
		return err
	}},
	{"subscriber_check", "/subscriber_check/{v}/checks", func(ctx context.Context, c *idverify.Client) error {
		_, err := c.SubscriberChecks.List(ctx, idverify.ListOptions{})
		return err
	}},
	{"coverage", "/coverage/{v}/countries/GB", func(ctx context.Context, c *idverify.Client) error {
		_, err := c.Reachability.Country(ctx, "GB")
		return err
	}},
}

// paths returns the paths of the operations that the fake received, without queries.
func paths(srv *sandboxfake.Server) []string {
	var paths []string
	for _, r := range srv.Requests() {
		if r.Operation != "token.create" {
			path, _, _ := strings.Cut(r.Path, "?")
			paths = append(paths, path)
		}
	}
	return paths
}

// TestClient_WithVersions derives clients and compares the versions on the wire. The service does
// not have some of them, and responds with 404.
func TestClient_WithVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		derive func(*idverify.Client) *idverify.Client
		want   []string // of phone_check, sim_check, subscriber_check and reachability
	}{
		{"base", func(c *idverify.Client) *idverify.Client { return c }, []string{"v0.1", "v0.1", "v0.2", "v0.1"}},
		{"empty", func(c *idverify.Client) *idverify.Client { return c.WithVersions(idverify.Versions{}) }, []string{"v0.1", "v0.1", "v0.2", "v0.1"}},
		{"one", func(c *idverify.Client) *idverify.Client {
			return c.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
		}, []string{"v0.2", "v0.1", "v0.2", "v0.1"}},
		{"all", func(c *idverify.Client) *idverify.Client {
			return c.WithVersions(idverify.Versions{PhoneCheck: "v1", SIMCheck: "v2", SubscriberCheck: "v3.1.4", Reachability: "v4", Console: "v5"})
		}, []string{"v1", "v2", "v3.1.4", "v4"}},
		{"derived twice", func(c *idverify.Client) *idverify.Client {
			return c.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.1"}).WithVersions(idverify.Versions{SIMCheck: "v0.3", SubscriberCheck: "v0.2"})
		}, []string{"v0.2", "v0.3", "v0.2", "v0.1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			base := srv.Client(idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2"}))
			c := tt.derive(base)

			for i, call := range versionCalls {
				if err := call.call(t.Context(), c); err != nil && !errors.Is(err, idverify.ErrNotFound) {
					t.Errorf("%s %s: error = %v, want at most ErrNotFound", call.product, tt.want[i], err)
				}
			}
			_ = versionCalls[0].call(t.Context(), base) // the derived client does not change it

			want := make([]string, 0, len(versionCalls)+1)
			for i, call := range versionCalls {
				want = append(want, strings.Replace(call.path, "{v}", tt.want[i], 1))
			}
			want = append(want, "/phone_check/v0.1/checks")
			if diff := cmp.Diff(want, paths(srv)); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithVersions_UsedTwice(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	c := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"}), idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.1", Reachability: "v7"}))

	var want []string
	for i, call := range versionCalls {
		_ = call.call(t.Context(), c)
		want = append(want, strings.Replace(call.path, "{v}", []string{"v0.2", "v0.1", "v0.1", "v7"}[i], 1))
	}

	if diff := cmp.Diff(want, paths(srv)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestClient_WithVersionsMalformed(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	base := srv.Client()
	for _, version := range []string{"0.1", "v", "V0.1", "v0.1/x", "v0.1 ", "../v0.1", "v0..1", "v0.1\n", "latest"} {
		all := idverify.Versions{PhoneCheck: version, SIMCheck: version, SubscriberCheck: version, Reachability: version}
		c := base.WithVersions(all).WithVersions(idverify.Versions{}) // keeps the malformed versions
		for _, call := range versionCalls {
			err := call.call(t.Context(), c)

			if !errors.Is(err, idverify.ErrBadRequest) || !strings.Contains(err.Error(), `not sent: bad request: version of `+call.product+` must have the form "v0.1"`) {
				t.Errorf("%s %q: error = %v, want ErrBadRequest with the product", call.product, version, err)
			}
		}
	}
	if requests := srv.Requests(); len(requests) > 0 {
		t.Errorf("%d requests, want none", len(requests))
	}

	one := base.WithVersions(idverify.Versions{SIMCheck: "latest"})
	repaired := one.WithVersions(idverify.Versions{SIMCheck: "v0.1"})

	if err := versionCalls[0].call(t.Context(), one); err != nil {
		t.Errorf("another product: error = %v, want none", err)
	}
	if err := versionCalls[1].call(t.Context(), repaired); err != nil {
		t.Errorf("malformed version replaced: error = %v, want none", err)
	}
}

func TestClient_WithVersionsSharesToken(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	base := srv.Client()
	const callers = 50

	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			c := base
			if i%2 == 0 {
				c = base.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
			}
			if err := versionCalls[0].call(t.Context(), c); err != nil {
				t.Errorf("error = %v, want none", err)
			}
		})
	}
	wg.Wait()

	if n := countRequests(srv, "token.create"); n != 1 {
		t.Errorf("%d token requests by %d derived clients, want 1", n, callers/2)
	}
	sent := make(map[string]int)
	for _, path := range paths(srv) {
		sent[path]++
	}
	if diff := cmp.Diff(map[string]int{"/phone_check/v0.1/checks": callers / 2, "/phone_check/v0.2/checks": callers / 2}, sent); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestClient_WithVersionsSharesBudget uses up the retry budget with one client. The derived one
// must not retry then, and the options apply to both.
func TestClient_WithVersionsSharesBudget(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	base := srv.Client(idverify.WithRetry(idverify.RetryPolicy{Budget: 1, MinWait: time.Nanosecond, MaxWait: time.Nanosecond}))
	derived := base.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list", Repeat: true}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

	first := versionCalls[0].call(t.Context(), base)
	second := versionCalls[0].call(t.Context(), derived)

	if first == nil || second == nil {
		t.Errorf("errors = %v and %v, want one each", first, second)
	}
	want := []string{"/phone_check/v0.1/checks", "/phone_check/v0.1/checks", "/phone_check/v0.2/checks"}
	if diff := cmp.Diff(want, paths(srv)); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}
