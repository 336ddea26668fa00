package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

const publicURL = "https://sandbox.example.com"

// forwarded contains the headers with which a proxy, or an attacker, names another client and host.
var forwarded = http.Header{
	"Forwarded":          {"for=192.0.2.2;host=evil.example;proto=http"},
	"X-Forwarded-For":    {"192.0.2.2"},
	"X-Forwarded-Host":   {"evil.example"},
	"X-Forwarded-Server": {"evil.example"},
	"X-Forwarded-Port":   {"81"},
	"X-Forwarded-Proto":  {"http"},
	"X-Forwarded-Prefix": {"/evil"},
	"X-Original-Host":    {"evil.example"},
	"X-Real-Ip":          {"192.0.2.2"},
}

// hrefs returns the values of the fields "href" in a JSON value.
func hrefs(value any) []string {
	var found []string
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text, ok := v[name].(string); ok && name == "href" {
				found = append(found, text)
			}
			found = append(found, hrefs(v[name])...)
		}
	case []any:
		for _, element := range v {
			found = append(found, hrefs(element)...)
		}
	}
	return found
}

func TestWithPublicURL_Links(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		opts []sandboxfake.Option
		base string // if empty, URL
	}{
		{"without", nil, ""},
		{"with", []sandboxfake.Option{sandboxfake.WithPublicURL(publicURL), sandboxfake.WithFreshKeys()}, publicURL},
		{"in memory", []sandboxfake.Option{sandboxfake.WithPublicURL(publicURL), sandboxfake.WithInMemory()}, publicURL},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, row.opts...)
			a := newAPI(t, srv)
			console := newScopedAPI(t, srv, srv.ConsoleCredentials(), "projects workspaces")
			id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
			base := row.base
			if base == "" {
				base = srv.URL()
			}
			var found []string
			for _, r := range []struct {
				a            *api
				method, path string
				body         string
			}{
				{a, http.MethodPost, phoneChecks, `{"phone_number":"447700900012"}`},
				{a, http.MethodGet, phoneChecks + "/" + id, ""},
				{a, http.MethodGet, phoneChecks + "?size=1", ""},
				{console, http.MethodPost, "/console/v0.1/projects", `{"name":"Shop"}`},
				{console, http.MethodGet, "/console/v0.1/workspaces/default", ""},
			} {
				request := r.a.request(r.method, r.path, r.body)
				request.Header = forwarded.Clone()
				request.Header.Set("Authorization", "Bearer "+r.a.token)
				request.Header.Set("Content-Type", "application/json")
				request.Host = "evil.example"

				got := r.a.do(request)

				if strings.Contains(string(got.body), "evil") {
					t.Errorf("%s %s: %s, want no host of the request", r.method, r.path, got.body)
				}
				found = append(found, hrefs(any(got.json))...)
			}

			for _, href := range found {
				if !strings.HasPrefix(href, base+"/") {
					t.Errorf("link %s does not start with %s", href, base)
				}
			}
			if len(found) < 8 {
				t.Errorf("%d links, want those of checks, pages and projects: %s", len(found), found)
			}
			if srv.PublicURL() != base || srv.URL() == publicURL {
				t.Errorf("PublicURL = %s, URL = %s, want %s and a local URL", srv.PublicURL(), srv.URL(), base)
			}
		})
	}
}

func TestWithPublicURL_Values(t *testing.T) {
	t.Parallel()
	const rejected = ""
	for _, row := range []struct{ value, want string }{
		{"https://sandbox.example.com", "https://sandbox.example.com"},
		{"HTTPS://Sandbox.Example.COM/", "https://sandbox.example.com"},
		{"https://sandbox.example.com:443", "https://sandbox.example.com"},
		{"https://sandbox.example.com:8443/", "https://sandbox.example.com:8443"},
		{"https://192.0.2.1:8443", "https://192.0.2.1:8443"},
		{"https://[2001:DB8:0::1]", "https://[2001:db8::1]"},
		{"https://[::ffff:192.0.2.1]:1", "https://192.0.2.1:1"},
		{"", rejected},
		{"sandbox.example.com", rejected},
		{"http://sandbox.example.com", rejected},
		{"https://", rejected},
		{"https://:8443", rejected},
		{"https:sandbox.example.com", rejected},
		{"https://sandbox.example.com/path", rejected},
		{"https://sandbox.example.com//", rejected},
		{"https://sandbox.example.com?", rejected},
		{"https://sandbox.example.com#", rejected},
		{"https://ada:secret@sandbox.example.com", rejected},
		{"https://sandbox.example.com:65536", rejected},
		{"https://sandbox.example.com:https", rejected},
		{"https://sandbox.example.com.", rejected},
		{"https://.example.com", rejected},
		{"https://b\u00fccher.example", rejected},
		{"https://sand%62ox.example.com", rejected},
		{"https://sandbox_example com", rejected},
		{"https://0.0.0.0:8443", rejected},
		{"https://[::]:8443", rejected},
		{"https://224.0.0.1", rejected},
		{"https://[fe80::1%25eth0]:8443", rejected},
	} {
		srv, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithPublicURL(row.value))

		got := rejected
		if err == nil {
			got = srv.PublicURL()
			srv.Close()
		} else if !strings.HasPrefix(err.Error(), "sandboxfake: public URL: ") || strings.Contains(err.Error(), "example") {
			t.Errorf("%q: error %q, want one that names the option and not the URL", row.value, err)
		}
		if got != row.want {
			t.Errorf("%q: public URL %q, want %q: %v", row.value, got, row.want, err)
		}
	}
}

// Port 0 is the port of the listener, which may be unknown before the start.
func TestWithPublicURL_ListenerPort(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithFreshKeys(), sandboxfake.WithPublicURL("https://sandbox.example.com:0"))
	local := must(url.Parse(srv.URL()))(t)

	if want := publicURL + ":" + local.Port(); srv.PublicURL() != want {
		t.Errorf("PublicURL = %s, want %s", srv.PublicURL(), want)
	}
	if r := (&api{t: t, srv: srv}).get(srv.PublicURL() + "/.well-known/jwks.json"); r.status != http.StatusOK {
		t.Errorf("key set at the public URL: %d, want 200", r.status)
	}
}

// In-process clients reach the service without a tunnel. They trust its certificate, whoever has
// issued it.
func TestServer_InProcessClients(t *testing.T) {
	t.Parallel()
	public := sandboxfake.WithPublicURL(publicURL)
	own := func(name string) sandboxfake.Option { return sandboxfake.WithCertificate(newCertificate(t, name)) }
	for name, row := range map[string]struct {
		host string
		opts []sandboxfake.Option
	}{
		"public host, fresh keys":      {"sandbox.example.com", []sandboxfake.Option{public, sandboxfake.WithFreshKeys()}},
		"public host, own certificate": {"sandbox.example.com", []sandboxfake.Option{public, own("sandbox.example.com")}},
		"public host, in memory":       {"sandbox.example.com", []sandboxfake.Option{public, sandboxfake.WithInMemory()}},
		"localhost, own certificate":   {"localhost", []sandboxfake.Option{sandboxfake.WithAddr("localhost:0"), own("localhost")}},
		"address, own certificate":     {"127.0.0.1", []sandboxfake.Option{sandboxfake.WithAddr("127.0.0.1:0"), own("127.0.0.1")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, row.opts...)
			receiver, callbacks := newRecordingReceiver(srv)
			check := must(srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: callbacks}))(t)

			visit := must(srv.Device().Open(t.Context(), check.CheckURL))(t)
			waitIdle(t, srv)

			if visit.Status != http.StatusOK || visit.URL.Hostname() != row.host {
				t.Errorf("device ended at %s with %d, want 200 from %s", visit.URL, visit.Status, row.host)
			}
			if receiver.count() != 1 {
				t.Errorf("%d callbacks, want 1: %+v", receiver.count(), srv.Deliveries())
			}
			srv.Close()
			if _, err := srv.HTTPClient().Get(srv.URL()); err == nil {
				t.Error("the closed server responds")
			}
		})
	}
}

// Another server of the public host, such as a web page under development, is reached over the
// network.
func TestWithPublicURL_OtherPort(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(page.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(page.URL, "http://"), ":")
	srv := sandboxfake.New(t, sandboxfake.WithPublicURL("https://127.0.0.1:9")) // nothing listens on port 9

	other := must(srv.Device().Open(t.Context(), "http://127.0.0.1:"+port))(t)
	own := must(srv.Device().Open(t.Context(), "https://127.0.0.1:9/.well-known/jwks.json"))(t)

	if other.Status != http.StatusTeapot || own.Status != http.StatusOK {
		t.Errorf("other port: %d, public port: %d, want 418 from the page and 200 from the server", other.Status, own.Status)
	}
}

func TestWithPublicURL_HandleRejectsOwnHost(t *testing.T) {
	t.Parallel()
	srv := must(sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithPublicURL(publicURL+":8443")))(t)
	defer srv.Close()
	defer func() {
		if message := fmt.Sprint(recover()); !strings.Contains(message, "must not be the service's own host") {
			t.Errorf("Handle of the public host: %s, want it rejected", message)
		}
	}()

	srv.Handle("Sandbox.example.com", http.NotFoundHandler())
}

// The caller's address and the access to the control plane depend only on the connection.
func TestServer_IgnoresForwardedHeaders(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{}))
	for _, row := range []struct {
		path, from, forwarded string
		status                int
	}{
		{callerPath, "192.0.2.2:5000", "192.0.2.1", 200}, // an even address is a mobile one
		{callerPath, "192.0.2.1:5000", "192.0.2.2", 412},
		{"/_sandbox/time", "127.0.0.1:5000", "192.0.2.2", 200},
		{"/_sandbox/time", "192.0.2.2:5000", "127.0.0.1", 403},
	} {
		header := bearer(srv.ControlToken())
		header.Set("Forwarded", "for="+row.forwarded)
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip"} {
			header.Set(name, row.forwarded)
		}

		got := serveFrom(t, srv, row.from, nil, http.MethodGet, row.path, header)

		if got.Code != row.status {
			t.Errorf("%s from %s, forwarded for %s: %d, want %d", row.path, row.from, row.forwarded, got.Code, row.status)
		}
	}
}

// The signature of a redirect covers the host of the customer, whatever the host of the Check URL.
func TestWithPublicURL_SignedRedirect(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithFreshKeys(), sandboxfake.WithPublicURL(publicURL), sandboxfake.WithFrozenClock(frozenAt))
	client := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	var got *idverify.Redirect
	back := srv.Handle("shop.sandbox.test", idverify.RedirectHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(_ http.ResponseWriter, _ *http.Request, r *idverify.Redirect) { got = r }))
	check := must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", RedirectURL: back}))(t)

	visit := must(srv.Device().Open(t.Context(), check.CheckURL))(t)

	if got == nil || got.CheckID != check.CheckID {
		text, _ := json.Marshal(got)
		t.Errorf("redirect = %s after status %d, want it verified", text, visit.Status)
	}
}

func TestWithPrices_UnknownProduct(t *testing.T) {
	t.Parallel()

	err := startError(sandboxfake.WithInMemory(), sandboxfake.WithPrices(map[idverify.Product]string{"phone_chek": "1"}))

	if err == nil || !strings.Contains(err.Error(), "phone_chek") {
		t.Errorf("error = %v, want one that names the unknown product", err)
	}
}
