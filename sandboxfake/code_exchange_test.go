package sandboxfake_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

const phoneChecks02 = "/phone_check/v0.2/checks"

// exchange completes a check with a code.
func (a *api) exchange(path, id, code string) response {
	a.t.Helper()
	return a.call(http.MethodPatch, path+"/"+id, fmt.Sprintf(`[{"op":"add","path":"/code","value":%q}]`, code))
}

func TestServer_OutcomesAtCodeExchange(t *testing.T) {
	t.Parallel()
	for _, table := range sandboxTables {
		if !table.opened {
			continue
		}
		path := strings.Replace(table.path, "v0.1", "v0.2", 1)
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
			a := newAPI(t, srv)
			var receiver recordingReceiver
			host := srv.Handle("app.sandbox.test", &receiver)
			for i := range 100 {
				suffix, want, overrides := table.outcome(i)
				id := a.create(path, `{"phone_number":"4477009000`+suffix+`","callback_url":"`+host+`"}`)

				opened := a.get(path + "/" + id + "/redirect")
				code, _ := opened.json["code"].(string)
				if overrides {
					if opened.json["error"] != "mno_server_error" || opened.json["error_description"] == nil || code != "" {
						t.Errorf("%s: response to the device = %s, want an error and no code", suffix, opened.body)
					}
					a.exchange(path, id, "anything").wantProblem(t, 404, "check_not_found")
				} else {
					if got := a.get(path + "/" + id).json["status"]; got != "PENDING" {
						t.Errorf("%s: status after opening = %v, want PENDING", suffix, got)
					}
					if got := outcome(a.exchange(path, id, code).json); got != want {
						t.Errorf("%s: result of the exchange = %q, want %q", suffix, got, want)
					}
				}
				if err := srv.Idle(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := outcome(receiver.last(t)); got != want || receiver.count() != i+1 {
					t.Errorf("%s: callback %d = %q, want one callback per check with %q", suffix, receiver.count(), got, want)
				}
			}
		})
	}
}

func TestServer_SingleUseCode(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	create := func(path string) string { return a.create(path, `{"phone_number":"447700900012"}`) }
	one, other, unopened, old := create(phoneChecks02), create(phoneChecks02), create(phoneChecks02), create(phoneChecks)
	codeOf := func(id string) string {
		// Paths of another product do not find the check.
		a.get("/subscriber_check/v0.2/checks/"+id+"/redirect").wantProblem(t, 404, "check_not_found")
		a.get("/subscriber_check/v0.2/checks/"+id).wantProblem(t, 404, "check_not_found")
		return a.get(phoneChecks02 + "/" + id + "/redirect").json["code"].(string)
	}
	code, otherCode := codeOf(one), codeOf(other)

	a.get(phoneChecks02+"/"+one+"/redirect").wantProblem(t, 404, "check_not_found") // opened twice
	a.exchange(phoneChecks02, one, otherCode).wantProblem(t, 404, "check_not_found")
	a.exchange(phoneChecks02, unopened, code).wantProblem(t, 404, "check_not_found")
	a.exchange(phoneChecks02, unopened, "").wantProblem(t, 404, "check_not_found")
	a.exchange(phoneChecks02, old, code).wantProblem(t, 404, "check_not_found")
	a.exchange(phoneChecks, one, code).wantProblem(t, 405, "method_not_allowed") // v0.1 has no exchange
	if r := a.exchange(phoneChecks02, one, code); outcome(r.json) != "COMPLETED yes -" {
		t.Errorf("exchange after the rejected ones: %d %s, want COMPLETED with a match", r.status, r.body)
	}
	a.exchange(phoneChecks02, one, code).wantProblem(t, 404, "check_not_found")
	for _, patch := range []string{`{}`, `[]`, `null`, `[{"op":"replace","path":"/code","value":"x"}]`, `[{"op":"add","path":"/match","value":true}]`, `[{"op":"add","path":"/code"}]`, `[{"op":"add","path":"/code","value":7}]`, `[{"op":"add","path":"/codes","value":"` + otherCode + `"}]`, `[{"op":"replace","path":"/code","value":"` + otherCode + `"}]`,
		`[{"op":"add","path":"/code","value":"x"},{"op":"add","path":"/code","value":"x"}]`} {
		a.call(http.MethodPatch, phoneChecks02+"/"+other, patch).wantProblem(t, 400, "bad_request")
	}
}

func TestServer_ChecksAcrossVersions(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	old := a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	opened := a.get(phoneChecks02 + "/" + old + "/redirect")

	if opened.status != 200 || opened.json["code"] != nil {
		t.Errorf("v0.1 check opened with a v0.2 path: %d %s, want 200 without a code", opened.status, opened.body)
	}
	if got := outcome(a.get(phoneChecks02 + "/" + old).json); got != "COMPLETED yes -" {
		t.Errorf("check read with the v0.2 path = %q, want COMPLETED with a match", got)
	}
	a.get("/subscriber_check/v0.1/checks/"+old).wantProblem(t, 404, "check_not_found")
}

// The device arrives at the redirect URL with the added parameters, and the signature verifies.
func TestDevice_FollowsSignedRedirect(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
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

			visit, err := srv.Device().Open(t.Context(), srv.URL()+phoneChecks02+"/"+id+"/redirect")

			if err != nil {
				t.Fatal(err)
			}
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
			if diff := cmp.Diff(row.names, names); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
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

func TestServer_CodeExpiresWithCheck(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	id := a.create(phoneChecks02, `{"phone_number":"447700900012"}`)
	code := a.get(phoneChecks02 + "/" + id + "/redirect").json["code"].(string)

	if err := srv.Advance(t.Context(), 2*time.Minute); err != nil {
		t.Fatal(err)
	}

	a.exchange(phoneChecks02, id, code).wantProblem(t, 404, "check_not_found")
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

	visit, err := srv.Device().Open(t.Context(), srv.URL()+phoneChecks02+"/"+id+"/redirect")

	if err != nil {
		t.Fatal(err)
	}
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

	response, err := device.Client().PostForm(host+"/start", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()

	back := response.Request.URL
	if back.Path != "/back" || back.Query().Get("code") == "" || response.StatusCode != http.StatusOK {
		t.Errorf("browser ended at %s with status %d, want /back with a code and 200", back.Path, response.StatusCode)
	}
	for want, d := range map[int]*sandboxfake.Device{http.StatusOK: device, http.StatusForbidden: srv.Device()} {
		visit, err := d.Open(t.Context(), back.String())
		if err != nil {
			t.Fatal(err)
		}
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
