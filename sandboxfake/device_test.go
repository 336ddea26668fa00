package sandboxfake_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// The device arrives at the redirect URL with the added parameters, and the signature verifies.
func TestDevice_FollowsSignedRedirect(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	verifier := srv.Verifier([]string{"app.sandbox.test"}, nil)
	var message *signature.Message
	var query string
	host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		query = r.URL.RawQuery
		if message, err = verifier.VerifyRedirect(r); err != nil {
			t.Errorf("redirect does not verify: %v", err)
		}
	}))
	for _, row := range []struct {
		name, number, target string
		own                  string // the redirect URL's query, which stays unchanged
		names                []string
	}{
		{"success", "447700900012", "/done", "", []string{"check_id", "code", "authorization", "date"}},
		{"error", "447700900099", "/done", "", []string{"check_id", "error", "error_description", "authorization", "date"}},
		{"with a query", "447700900012", "/done?b=%2f&a=x%20y&empty&plus=1+1", "b=%2f&a=x%20y&empty&plus=1+1", []string{"check_id", "code", "authorization", "date"}},
		{"without a path", "447700900012", "", "", []string{"check_id", "code", "authorization", "date"}},
		{"with an escaped path", "447700900012", "/a%2Fb/%7Ec", "", []string{"check_id", "code", "authorization", "date"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			id := a.create(phoneChecks02, fmt.Sprintf(`{"phone_number":%q,"redirect_url":%q}`, row.number, host+row.target))
			message = nil

			visit := must(srv.Device().Open(t.Context(), srv.URL()+phoneChecks02+"/"+id+"/redirect"))(t)

			if visit.Status != 200 || len(visit.Hops) != 2 || message == nil {
				t.Fatalf("visit = %d after %d hops, want 200 after 2 with a verified redirect", visit.Status, len(visit.Hops))
			}
			added, hasOwn := strings.CutPrefix(query, row.own)
			if !hasOwn {
				t.Errorf("query = %q, want it to start with %q of the redirect URL", query, row.own)
			}
			var names []string
			for pair := range strings.SplitSeq(strings.TrimPrefix(added, "&"), "&") {
				name, value, _ := strings.Cut(pair, "=")
				names = append(names, name)
				if strings.Contains(value, "+") {
					t.Errorf("%s contains an unescaped plus, which forms decode as a space", name)
				}
			}
			wantEqual(t, row.names, names, "parameters")
			values, _ := url.ParseQuery(added)
			if header, err := base64.StdEncoding.DecodeString(values.Get("authorization")); err != nil || !strings.HasPrefix(string(header), "Signature keyId=") {
				t.Errorf("authorization decodes to %q, %v, want a Signature", header, err)
			}
			if message.Query.Get("check_id") != id {
				t.Errorf("verified check_id = %q, want the check's ID", message.Query.Get("check_id"))
			}
		})
	}
}

func TestDevice_CookiesAndRelativeRedirects(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	mux := http.NewServeMux()
	mux.HandleFunc("/back", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s1", Path: "/"})
		w.Header().Set("Location", "step/two")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/step/two", func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("session")
		if err != nil || cookie.Value != "s1" {
			t.Errorf("session cookie is missing: %v", err)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	host := srv.Handle("app.sandbox.test", mux)
	id := a.create(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"`+host+`/back"}`)

	visit := must(srv.Device().Open(t.Context(), srv.URL()+phoneChecks02+"/"+id+"/redirect"))(t)

	if visit.Status != http.StatusTeapot || visit.URL.Path != "/step/two" || len(visit.Hops) != 3 {
		t.Errorf("visit = %d at %s after %d hops, want 418 at /step/two after 3", visit.Status, visit.URL.Path, len(visit.Hops))
	}
}

// A browser submits a form, opens the Check URL, and returns with its cookie.
func TestDevice_ClientSharesCookies(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	service := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	mux := http.NewServeMux()
	host := srv.Handle("app.sandbox.test", mux)
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, r *http.Request) {
		check, err := service.PhoneChecks.Create(r.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", RedirectURL: host + "/back"})
		if err != nil {
			t.Error(err)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "check", Value: check.CheckID, Path: "/", Secure: true})
		http.Redirect(w, r, check.CheckURL, http.StatusSeeOther)
	})
	mux.HandleFunc("GET /back", func(w http.ResponseWriter, r *http.Request) {
		if cookie, err := r.Cookie("check"); err != nil || cookie.Value != r.FormValue("check_id") {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	device := srv.Device()
	stay := device.Client() // a copy: the device still follows redirects
	stay.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	response := must(device.Client().PostForm(host+"/start", nil))(t)
	response.Body.Close()

	back := response.Request.URL
	if back.Path != "/back" || back.Query().Get("code") == "" || response.StatusCode != http.StatusOK {
		t.Errorf("browser ended at %s with status %d, want /back with a code and 200", back.Path, response.StatusCode)
	}
	for want, d := range map[int]*sandboxfake.Device{http.StatusOK: device, http.StatusForbidden: srv.Device()} {
		visit := must(d.Open(t.Context(), back.String()))(t)
		if visit.Status != want {
			t.Errorf("status of /back = %d, want %d: only Open and Client of one device share cookies", visit.Status, want)
		}
	}
}

func TestDevice_RedirectLoop(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	host := srv.Handle("app.sandbox.test", http.RedirectHandler("/", http.StatusFound))

	_, err := srv.Device().Open(t.Context(), host)

	if err == nil || strings.Contains(err.Error(), "app.sandbox.test") {
		t.Errorf("error = %v, want an error without the URL", err)
	}
}
