package sandboxfake_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

const phoneChecks = "/phone_check/v0.1/checks"

func TestServer_ErrorPrecedence(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	simOnly := a.tokenFor(srv.Credentials(), "sim_check")
	large := `{"phone_number":"` + strings.Repeat("4", 64<<10) + `"}`
	// Each row has the errors of the rows below it and one more, which takes precedence.
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
		{"400 for the content", a.token, "POST", phoneChecks, "application/json", `{"phone_number":`, 400, "bad_request"},
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
				t.Error("missing Allow header")
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
		{"truncated", phoneChecks, `{"phone_number":"44770090`, 400, "bad_request"},
		{"not JSON", phoneChecks, `phone_number=447700900000`, 400, "bad_request"},
		{"array", phoneChecks, `[]`, 400, "bad_request"},
		{"trailing text", phoneChecks, `{"phone_number":"447700900000"} and more`, 400, "bad_request"},
		{"second document", phoneChecks, `{"phone_number":"447700900000"}{}`, 400, "bad_request"},
		{"no number", phoneChecks, `{}`, 400, "bad_request"},
		{"null", phoneChecks, `{"phone_number":null}`, 400, "bad_request"},
		{"JSON number", phoneChecks, `{"phone_number":447700900000}`, 400, "bad_request"},
		{"empty number", phoneChecks, `{"phone_number":""}`, 400, "phone_format_invalid"},
		{"two plus signs", phoneChecks, `{"phone_number":"++447700900000"}`, 400, "phone_format_invalid"},
		{"plus sign at the end", phoneChecks, `{"phone_number":"447700900000+"}`, 400, "phone_format_invalid"},
		{"plus sign only", phoneChecks, `{"phone_number":"+"}`, 400, "phone_format_invalid"},
		{"plus sign before a zero", phoneChecks, `{"phone_number":"+07700900000"}`, 400, "phone_format_invalid"},
		{"plus sign before 6 digits", phoneChecks, `{"phone_number":"+447700"}`, 400, "phone_format_invalid"},
		{"plus sign before 15 digits", phoneChecks, `{"phone_number":"+447700900000000"}`, 201, ""},
		{"plus sign before 16 digits", phoneChecks, `{"phone_number":"+4477009000000000"}`, 400, "phone_format_invalid"},
		{"spaces", phoneChecks, `{"phone_number":"4477 00900000"}`, 400, "phone_format_invalid"},
		{"leading zero", phoneChecks, `{"phone_number":"07700900000"}`, 400, "phone_format_invalid"},
		{"6 digits", phoneChecks, `{"phone_number":"447700"}`, 400, "phone_format_invalid"},
		{"7 digits", phoneChecks, `{"phone_number":"4477009"}`, 201, ""},
		{"15 digits", phoneChecks, `{"phone_number":"447700900000000"}`, 201, ""},
		{"16 digits", phoneChecks, `{"phone_number":"4477009000000000"}`, 400, "phone_format_invalid"},
		{"Arabic digits", phoneChecks, `{"phone_number":"٤٤٧٧٠٠٩٠٠٠٠٠"}`, 400, "phone_format_invalid"},
		{"unknown fields", phoneChecks, `{"phone_number":"447700900000","colour":"red"}`, 201, ""},
		{"field name in another case", phoneChecks, `{"Phone_Number":"447700900000"}`, 400, "bad_request"},
		{"other field name in another case", phoneChecks, `{"phone_number":"447700900000","Callback_url":7}`, 201, ""},
		{"field name with a Kelvin sign", phoneChecks, `{"phone_number":"447700900000","callbacK_url":7}`, 201, ""},
		{"field name with an escaped letter", phoneChecks, `{"phone_number":"447700900000","c\u0041llback_url":7}`, 201, ""},
		{"relative callback URL", phoneChecks, `{"phone_number":"447700900000","callback_url":"/callbacks"}`, 400, "bad_request"},
		{"unsupported scheme", phoneChecks, `{"phone_number":"447700900000","callback_url":"ftp://app.sandbox.test"}`, 400, "bad_request"},
		{"userinfo", phoneChecks, `{"phone_number":"447700900000","callback_url":"https://me:pw@app.sandbox.test"}`, 400, "bad_request"},
		{"fragment", phoneChecks, `{"phone_number":"447700900000","callback_url":"https://app.sandbox.test/#here"}`, 400, "bad_request"},
		{"callback URL of the wrong type", phoneChecks, `{"phone_number":"447700900000","callback_url":7}`, 400, "bad_request"},
		{"invalid address", phoneChecks, `{"phone_number":"447700900000","phone_ip":"here"}`, 400, "bad_request"},
		{"address with a zone", phoneChecks, `{"phone_number":"447700900000","phone_ip":"fe80::1%eth0"}`, 400, "bad_request"},
		{"IPv4 address", phoneChecks, `{"phone_number":"447700900000","phone_ip":"192.0.2.1"}`, 201, ""},
		{"IPv6 address", phoneChecks, `{"phone_number":"447700900000","phone_ip":"2001:db8::1"}`, 201, ""},
		{"redirect URL with a code", "/phone_check/v0.2/checks", `{"phone_number":"447700900000","redirect_url":"https://app.sandbox.test/?co%64e=1"}`, 400, "bad_request"},
		{"redirect URL with a query", "/phone_check/v0.2/checks", `{"phone_number":"447700900000","redirect_url":"https://app.sandbox.test/?a=1"}`, 201, ""},
		{"redirect URL ignored in v0.1", phoneChecks, `{"phone_number":"447700900000","redirect_url":"nonsense"}`, 201, ""},
		{"59 minutes", "/sim_check/v0.1/checks", `{"phone_number":"447700900000","period":59}`, 400, "bad_request"},
		{"60 minutes", "/sim_check/v0.1/checks", `{"phone_number":"447700900000","period":60}`, 201, ""},
		{"540000 minutes", "/sim_check/v0.1/checks", `{"phone_number":"447700900000","period":540000}`, 201, ""},
		{"540001 minutes", "/sim_check/v0.1/checks", `{"phone_number":"447700900000","period":540001}`, 400, "bad_request"},
		{"fraction of a minute", "/subscriber_check/v0.1/checks", `{"phone_number":"447700900000","period":60.5}`, 400, "bad_request"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			r := a.post(row.path, row.body)

			if row.status == 201 {
				if r.status != 201 {
					t.Errorf("response = %d %s, want 201", r.status, r.body)
				}
				return
			}
			r.wantProblem(t, row.status, row.fragment)
			if strings.Contains(string(r.body), "4477") {
				t.Errorf("problem contains the phone number: %s", r.body)
			}
		})
	}
}

// Responses and lists show digits only.
func TestServer_DropsPlusSign(t *testing.T) {
	t.Parallel()
	const number = "447700900012"
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	for _, path := range []string{phoneChecks, phoneChecks02, "/subscriber_check/v0.1/checks", "/sim_check/v0.1/checks"} {
		created := a.post(path, `{"phone_number":"+`+number+`"}`)
		if created.status != http.StatusCreated || created.text("phone_number") != number {
			t.Fatalf("%s: create = %d %s, want phone_number %s", path, created.status, created.body, number)
		}
		check := path + "/" + created.text("check_id")

		read := a.get(check)
		listed := a.get(path + "?search=phone_number==" + number)

		if got := read.text("phone_number"); got != number {
			t.Errorf("%s: phone_number of the read check = %q, want %s", path, got, number)
		}
		if strings.Contains(string(listed.body), "+"+number) || !strings.Contains(string(listed.body), created.text("check_id")) {
			t.Errorf("%s: list = %s, want the check with phone_number %s", path, listed.body, number)
		}
	}
}

func TestServer_BodyProblems(t *testing.T) {
	t.Parallel()
	owner, method := payer(t, consoleServer(t), newCard)
	path := workspaces + "/default/topups"
	for _, row := range []struct{ name, body, want string }{
		{"empty", ``, "the body is empty"},
		{"spaces", `   `, "the body is empty"},
		{"truncated", `{"currency":"EU`, "the JSON in the body is truncated"},
		{"not JSON", `currency=EUR`, "the body is not valid JSON"},
		{"trailing text", `{"currency":"EUR"} and more`, "unexpected text after the JSON value in the body"},
		{"second document", `{"currency":"EUR"}{}`, "unexpected text after the JSON value in the body"},
		{"wrong type of a field", `{"currency":7}`, "the field currency has the wrong type"},
		{"array", `[]`, "the body has the wrong JSON type"},
		{"amount that is not a number", fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":"abc"}`, method), "a value in the body is not valid"},
		{"amount of the wrong type", `{"currency":"EUR","amount":true}`, "a value in the body is not valid"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			r := owner.post(path, row.body)

			r.wantProblem(t, 400, "bad_request")
			if got := r.text("detail"); got != row.want {
				t.Errorf("detail = %q, want %q", got, row.want)
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
		{"colour=red", 200}, // unknown parameters are ignored
		{"page=0", 400}, {"page=-1", 400}, {"page=x", 400}, {"page=", 400}, {"page=99999999999999999999", 400}, {"page=1&page=2", 400},
		{"page=1000000", 200}, // past the end
		{"size=0", 400}, {"size=1", 200}, {"size=100", 200}, {"size=101", 400},
		{"sort=created_at,desc", 200}, {"sort=created_at,asc", 200}, {"sort=created_at", 200}, {"sort=updated_at,asc", 200},
		{"sort=name,asc", 400}, {"sort=created_at,sideways", 400}, {"sort=", 400},
		{"search=status==COMPLETED", 200}, {"search=status%3D%3DCOMPLETED", 200}, {"search=status==COMPLETED;match==true", 200},
		{"search=(status==A,status!=B);created_at>=2026-01-02T03", 200},
		{"search=", 400}, {"search=status", 400}, {"search=status==", 400}, {"search=colour==red", 400}, {"search=status=in=(A", 400},
		{"search=(status==A", 400}, {"search=status==A)", 400}, {"search=match==maybe", 400}, {"search=created_at>soon", 400},
		{"search=status===COMPLETED", 400}, {"search=status<>COMPLETED", 400}, {"search=status>==COMPLETED", 400}, {"search=reference_id==a!b", 400},
		{"search=status=='A", 400}, {"search=charge_amount>1e3", 400}, {"search=" + strings.Repeat("(", 1000), 400},
		{"search=%zz", 400},
	} {
		t.Run(row.query, func(t *testing.T) {
			t.Parallel()

			r := a.get(phoneChecks + "?" + row.query)

			if row.status == 200 && r.status != 200 {
				t.Errorf("response = %d %s, want 200", r.status, r.body)
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
		t.Errorf("HEAD = %d, want 405", r.status)
	}
	if status := a.get(phoneChecks + "/" + id).json["status"]; status != "ACCEPTED" {
		t.Errorf("status after HEAD = %v, want ACCEPTED", status)
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
			t.Errorf("plain HTTP = %d, want an error", response.StatusCode)
		}
	}
}
