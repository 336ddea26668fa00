package sandboxfake_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

const phoneChecks = "/phone_check/v0.1/checks"

func TestServer_TokenRequests(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := &api{t: t, srv: srv}
	project, workspace := srv.Credentials(), srv.ConsoleCredentials()
	wrong := project
	wrong.ClientSecret = workspace.ClientSecret
	form := func(pairs ...string) url.Values {
		v := make(url.Values)
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v
	}
	for _, row := range []struct {
		name        string
		credentials string
		form        url.Values
		status      int
		error       string
	}{
		{"a project may have a product's scope", "project", form("grant_type", "client_credentials", "scope", "phone_check"), 200, ""},
		{"and several", "project", form("grant_type", "client_credentials", "scope", "phone_check sim_check subscriber_check coverage"), 200, ""},
		{"but no management scope", "project", form("grant_type", "client_credentials", "scope", "projects"), 400, "invalid_scope"},
		{"and no partial grant", "project", form("grant_type", "client_credentials", "scope", "phone_check projects"), 400, "invalid_scope"},
		{"a workspace may have management scopes", "workspace", form("grant_type", "client_credentials", "scope", "projects workspaces"), 200, ""},
		{"and their alias", "workspace", form("grant_type", "client_credentials", "scope", "console"), 200, ""},
		{"but no product's", "workspace", form("grant_type", "client_credentials", "scope", "phone_check"), 400, "invalid_scope"},
		{"an unknown scope", "project", form("grant_type", "client_credentials", "scope", "everything"), 400, "invalid_scope"},
		{"a scope twice", "project", form("grant_type", "client_credentials", "scope", "phone_check phone_check"), 400, "invalid_scope"},
		{"two spaces", "project", form("grant_type", "client_credentials", "scope", "phone_check  sim_check"), 400, "invalid_scope"},
		{"a space at the end", "project", form("grant_type", "client_credentials", "scope", "phone_check "), 400, "invalid_scope"},
		{"an empty scope", "project", form("grant_type", "client_credentials", "scope", ""), 400, "invalid_request"},
		{"no scope", "project", form("grant_type", "client_credentials"), 400, "invalid_request"},
		{"no grant type", "project", form("scope", "phone_check"), 400, "invalid_request"},
		{"another grant type", "project", form("grant_type", "password", "scope", "phone_check"), 400, "unsupported_grant_type"},
		{"a parameter twice", "project", form("grant_type", "client_credentials", "scope", "phone_check", "scope", "sim_check"), 400, "invalid_request"},
		{"a wrong secret, before all else", "wrong", form(), 401, "invalid_client"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			credentials := project
			switch row.credentials {
			case "workspace":
				credentials = workspace
			case "wrong":
				credentials = wrong
			}

			r := a.tokenCall(credentials, row.form)

			if code, _ := r.json["error"].(string); r.status != row.status || code != row.error {
				t.Errorf("answer is %d %s, want %d %q", r.status, r.body, row.status, row.error)
			}
			if got := r.header.Get("Www-Authenticate"); (row.status == 401) != strings.HasPrefix(got, "Basic") {
				t.Errorf("WWW-Authenticate is %q", got)
			}
		})
	}
}

func TestServer_TokenMediaTypes(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := &api{t: t, srv: srv}
	multipart := "--b\r\nContent-Disposition: form-data; name=\"grant_type\"\r\n\r\nclient_credentials\r\n--b\r\nContent-Disposition: form-data; name=\"scope\"\r\n\r\nphone_check\r\n--b--\r\n"
	for _, row := range []struct {
		name, contentType, body string
		status                  int
	}{
		{"multipart", "multipart/form-data; boundary=b", multipart, 200},
		{"urlencoded", "application/x-www-form-urlencoded", "grant_type=client_credentials&scope=phone_check", 200},
		{"JSON", "application/json", `{"grant_type":"client_credentials","scope":"phone_check"}`, 400},
		{"nothing", "", "", 400},
		{"multipart cut off", "multipart/form-data; boundary=b", multipart[:len(multipart)/2], 400},
		{"multipart without a boundary", "multipart/form-data", multipart, 400},
		{"over 64 KiB", "application/x-www-form-urlencoded", "scope=" + strings.Repeat("x", 64<<10), 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			request := a.request(http.MethodPost, "/oauth2/v1/token", row.body)
			request.SetBasicAuth(srv.Credentials().ClientID, srv.Credentials().ClientSecret.Reveal())
			if row.contentType != "" {
				request.Header.Set("Content-Type", row.contentType)
			}

			r := a.do(request)

			if r.status != row.status {
				t.Errorf("answer is %d %s, want %d", r.status, r.body, row.status)
			}
			if row.status == 400 && r.json["error"] != "invalid_request" {
				t.Errorf("error is %s, want invalid_request", r.body)
			}
		})
	}
}

func TestServer_TokenExpiryAndRevocation(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	revoked := a.tokenFor(srv.Credentials(), "phone_check")
	advance := func(d time.Duration) {
		t.Helper()
		if err := srv.Advance(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}

	advance(time.Hour - time.Second)
	if r := a.get(phoneChecks); r.status != 200 {
		t.Errorf("a second before its end the token gets %d", r.status)
	}
	for range 2 { // the answer does not tell whether there was such a token
		request := a.request(http.MethodPost, "/oauth2/v1/revoke", url.Values{"token": {revoked}}.Encode())
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.SetBasicAuth(srv.Credentials().ClientID, srv.Credentials().ClientSecret.Reveal())
		if r := a.do(request); r.status != 200 {
			t.Errorf("revoke: %d %s, want 200", r.status, r.body)
		}
	}
	kept := a.token
	a.token = revoked
	a.get(phoneChecks).wantProblem(t, 401, "unauthorized")
	a.token = kept
	advance(time.Second)
	r := a.get(phoneChecks)
	r.wantProblem(t, 401, "unauthorized")
	if got := r.header.Get("Www-Authenticate"); !strings.HasPrefix(got, "Bearer") {
		t.Errorf("WWW-Authenticate is %q, want Bearer", got)
	}
}

// The table of section 4, "Scope to path mapping", with the scopes that the contract adds: a token of one scope reaches its paths and nothing else.
func TestServer_TokenScopes(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	paths := map[string]string{
		"phone_check":      "/phone_check/v0.1/checks",
		"sim_check":        "/sim_check/v0.1/checks",
		"subscriber_check": "/subscriber_check/v0.1/checks",
		"coverage":         "/coverage/v0.1/device_ips/192.0.2.2",
	}
	for scope := range paths {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			a := &api{t: t, srv: srv}
			a.token = a.tokenFor(srv.Credentials(), scope)
			for owner, path := range paths {
				r := a.get(path)
				if owner == scope {
					if r.status != 200 {
						t.Errorf("%s: %d %s, want 200", path, r.status, r.body)
					}
					continue
				}
				r.wantProblem(t, 403, "forbidden")
			}
		})
	}
}

func TestServer_ErrorPrecedence(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	simOnly := a.tokenFor(srv.Credentials(), "sim_check")
	large := `{"phone_number":"` + strings.Repeat("4", 64<<10) + `"}`
	// Each row has the faults of those below it, and one more, which is told first.
	for _, row := range []struct {
		name, token, method, path, contentType, body string
		status                                       int
		fragment                                     string
	}{
		{"401 before an unknown route", "", "POST", "/phone_check/v9/nothing", "text/plain", large, 401, "unauthorized"},
		{"404 for an unknown route", simOnly, "POST", "/phone_check/v9/nothing", "text/plain", large, 404, "not_found"},
		{"405 before the scope", simOnly, "PUT", "/phone_check/v0.2/checks/unknown", "text/plain", large, 405, "method_not_allowed"},
		{"403 before the resource", simOnly, "PATCH", "/phone_check/v0.2/checks/unknown", "text/plain", large, 403, "forbidden"},
		{"404 for the resource before its body", a.token, "PATCH", "/phone_check/v0.2/checks/unknown", "text/plain", large, 404, "check_not_found"},
		{"415 before the size", a.token, "POST", phoneChecks, "text/plain", large, 415, "unsupported_media_type"},
		{"413 before the content", a.token, "POST", phoneChecks, "application/json", large, 413, "payload_too_large"},
		{"400 at last", a.token, "POST", phoneChecks, "application/json", `{"phone_number":`, 400, "bad_request"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			request := a.request(row.method, row.path, row.body)
			request.Header.Set("Content-Type", row.contentType)
			if row.token != "" {
				request.Header.Set("Authorization", "Bearer "+row.token)
			}

			r := a.do(request)

			r.wantProblem(t, row.status, row.fragment)
			if row.status == 405 && r.header.Get("Allow") == "" {
				t.Error("no Allow header")
			}
		})
	}
}

func TestServer_CreateCheckBodies(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	for _, row := range []struct {
		name, path, body string
		status           int
		fragment         string
	}{
		{"empty", phoneChecks, ``, 400, "bad_request"},
		{"cut off", phoneChecks, `{"phone_number":"44770090`, 400, "bad_request"},
		{"not JSON", phoneChecks, `phone_number=447700900000`, 400, "bad_request"},
		{"an array", phoneChecks, `[]`, 400, "bad_request"},
		{"text behind", phoneChecks, `{"phone_number":"447700900000"} and more`, 400, "bad_request"},
		{"a second document", phoneChecks, `{"phone_number":"447700900000"}{}`, 400, "bad_request"},
		{"no number", phoneChecks, `{}`, 400, "bad_request"},
		{"null", phoneChecks, `{"phone_number":null}`, 400, "bad_request"},
		{"a JSON number", phoneChecks, `{"phone_number":447700900000}`, 400, "bad_request"},
		{"an empty number", phoneChecks, `{"phone_number":""}`, 400, "phone_format_invalid"},
		{"a plus", phoneChecks, `{"phone_number":"+447700900000"}`, 400, "phone_format_invalid"},
		{"spaces", phoneChecks, `{"phone_number":"4477 00900000"}`, 400, "phone_format_invalid"},
		{"a leading zero", phoneChecks, `{"phone_number":"07700900000"}`, 400, "phone_format_invalid"},
		{"6 digits", phoneChecks, `{"phone_number":"447700"}`, 400, "phone_format_invalid"},
		{"7 digits", phoneChecks, `{"phone_number":"4477009"}`, 201, ""},
		{"15 digits", phoneChecks, `{"phone_number":"447700900000000"}`, 201, ""},
		{"16 digits", phoneChecks, `{"phone_number":"4477009000000000"}`, 400, "phone_format_invalid"},
		{"digits of another script", phoneChecks, `{"phone_number":"٤٤٧٧٠٠٩٠٠٠٠٠"}`, 400, "phone_format_invalid"},
		{"unknown fields", phoneChecks, `{"phone_number":"447700900000","colour":"red"}`, 201, ""},
		{"a name in another case", phoneChecks, `{"Phone_Number":"447700900000"}`, 400, "bad_request"},
		{"a relative callback URL", phoneChecks, `{"phone_number":"447700900000","callback_url":"/callbacks"}`, 400, "bad_request"},
		{"another scheme", phoneChecks, `{"phone_number":"447700900000","callback_url":"ftp://app.sandbox.test"}`, 400, "bad_request"},
		{"userinfo", phoneChecks, `{"phone_number":"447700900000","callback_url":"https://me:pw@app.sandbox.test"}`, 400, "bad_request"},
		{"a fragment", phoneChecks, `{"phone_number":"447700900000","callback_url":"https://app.sandbox.test/#here"}`, 400, "bad_request"},
		{"a callback URL of the wrong type", phoneChecks, `{"phone_number":"447700900000","callback_url":7}`, 400, "bad_request"},
		{"an address that is none", phoneChecks, `{"phone_number":"447700900000","phone_ip":"here"}`, 400, "bad_request"},
		{"an address with a zone", phoneChecks, `{"phone_number":"447700900000","phone_ip":"fe80::1%eth0"}`, 400, "bad_request"},
		{"an IPv4 address", phoneChecks, `{"phone_number":"447700900000","phone_ip":"192.0.2.1"}`, 201, ""},
		{"an IPv6 address", phoneChecks, `{"phone_number":"447700900000","phone_ip":"2001:db8::1"}`, 201, ""},
		{"a redirect URL with a code", "/phone_check/v0.2/checks", `{"phone_number":"447700900000","redirect_url":"https://app.sandbox.test/?co%64e=1"}`, 400, "bad_request"},
		{"a redirect URL with its own query", "/phone_check/v0.2/checks", `{"phone_number":"447700900000","redirect_url":"https://app.sandbox.test/?a=1"}`, 201, ""},
		{"a redirect URL where there is none", phoneChecks, `{"phone_number":"447700900000","redirect_url":"nonsense"}`, 201, ""},
		{"59 minutes", "/sim_check/v0.1/checks", `{"phone_number":"447700900000","period":59}`, 400, "bad_request"},
		{"60 minutes", "/sim_check/v0.1/checks", `{"phone_number":"447700900000","period":60}`, 201, ""},
		{"540000 minutes", "/sim_check/v0.1/checks", `{"phone_number":"447700900000","period":540000}`, 201, ""},
		{"540001 minutes", "/sim_check/v0.1/checks", `{"phone_number":"447700900000","period":540001}`, 400, "bad_request"},
		{"half a minute", "/subscriber_check/v0.1/checks", `{"phone_number":"447700900000","period":60.5}`, 400, "bad_request"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			r := a.post(row.path, row.body)

			if row.status == 201 {
				if r.status != 201 {
					t.Errorf("answer is %d %s, want 201", r.status, r.body)
				}
				return
			}
			r.wantProblem(t, row.status, row.fragment)
			if strings.Contains(string(r.body), "4477") {
				t.Errorf("the problem repeats the number: %s", r.body)
			}
		})
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
		{"colour=red", 200}, // unknown parameters are ignored, as unknown fields are
		{"page=0", 400}, {"page=-1", 400}, {"page=x", 400}, {"page=", 400}, {"page=99999999999999999999", 400}, {"page=1&page=2", 400},
		{"page=1000000", 200}, // past the end: empty
		{"size=0", 400}, {"size=1", 200}, {"size=100", 200}, {"size=101", 400},
		{"sort=created_at,desc", 200}, {"sort=created_at,asc", 200}, {"sort=created_at", 200}, {"sort=updated_at,asc", 200},
		{"sort=name,asc", 400}, {"sort=created_at,sideways", 400}, {"sort=", 400},
		{"search=status==COMPLETED", 200}, {"search=status%3D%3DCOMPLETED", 200}, {"search=status==COMPLETED;match==true", 200},
		{"search=(status==A,status!=B);created_at>=2026-01-02T03", 200},
		{"search=", 400}, {"search=status", 400}, {"search=status==", 400}, {"search=colour==red", 400}, {"search=status=in=A", 400},
		{"search=(status==A", 400}, {"search=status==A)", 400}, {"search=match==maybe", 400}, {"search=created_at>soon", 400},
		{"search=status===COMPLETED", 400}, {"search=status<>COMPLETED", 400}, {"search=status>==COMPLETED", 400}, {"search=reference_id==a!b", 400},
		{"search=status=='A", 400}, {"search=charge_amount>1e3", 400}, {"search=" + strings.Repeat("(", 1000), 400},
		{"search=%zz", 400},
	} {
		t.Run(row.query, func(t *testing.T) {
			t.Parallel()

			r := a.get(phoneChecks + "?" + row.query)

			if row.status == 200 && r.status != 200 {
				t.Errorf("answer is %d %s, want 200", r.status, r.body)
			}
			if row.status != 200 {
				r.wantProblem(t, row.status, "bad_request")
			}
		})
	}
}

func TestServer_HeadCheckURL(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	id := a.create(phoneChecks, `{"phone_number":"447700900000"}`)

	r := a.call(http.MethodHead, phoneChecks+"/"+id+"/redirect", "")

	if r.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD gets %d, want 405", r.status)
	}
	if status := a.get(phoneChecks + "/" + id).json["status"]; status != "ACCEPTED" {
		t.Errorf("the check is %v, want ACCEPTED still", status)
	}
}

func TestServer_Preflight(t *testing.T) {
	t.Parallel()
	a := &api{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory())}
	request := a.request(http.MethodOptions, phoneChecks, "")
	request.Header.Set("Access-Control-Request-Headers", "authorization, content-type")

	r := a.do(request)

	got := []any{r.status, r.header.Get("Access-Control-Allow-Origin"), r.header.Get("Access-Control-Allow-Headers")}
	if diff := cmp.Diff([]any{204, "*", "authorization, content-type"}, got); diff != "" {
		t.Errorf("preflight (-want +got):\n%s", diff)
	}
}

func TestServer_RejectsPlainHTTP(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)

	response, err := http.Get("http" + strings.TrimPrefix(srv.URL(), "https") + phoneChecks)

	if err == nil {
		defer response.Body.Close()
		if response.StatusCode < 400 {
			t.Errorf("plain HTTP gets %d, want a failure", response.StatusCode)
		}
	}
}
