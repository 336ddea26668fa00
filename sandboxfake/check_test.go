package sandboxfake_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// location opens the Check URL of a new v0.2 check and returns the URL of the redirect.
func (a *api) location(body string) *url.URL {
	a.t.Helper()
	r := a.get(phoneChecks02+"/"+a.create(phoneChecks02, body)+"/redirect").wantStatus(a.t, http.StatusFound)
	return must(url.Parse(r.header.Get("Location")))(a.t)
}

// browserRequest returns the request that a redirect receiver gets when a browser follows location.
func browserRequest(location *url.URL, host string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, location.RequestURI(), nil)
	r.Host = host
	return r
}

// A browser sends the host in lower case and without the default port, and the signature must
// match.
func TestServer_RedirectHost(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	account := srv.NewWorkspace("Shop")
	plain := account.NewProject(idverify.ProjectParams{Name: "Plain", Mode: idverify.ModeSandbox})
	for i, row := range []struct{ origin, location, host string }{
		{"https://app.sandbox.test", "https://app.sandbox.test", "app.sandbox.test"},
		{"https://APP.Sandbox.TEST", "https://app.sandbox.test", "app.sandbox.test"},
		{"https://app.sandbox.test:443", "https://app.sandbox.test", "app.sandbox.test"},
		{"HTTPS://APP.sandbox.test:0443", "https://app.sandbox.test", "app.sandbox.test"},
		{"https://app.sandbox.test:", "https://app.sandbox.test", "app.sandbox.test"},
		{"http://App.sandbox.test:80", "http://app.sandbox.test", "app.sandbox.test"},
		{"http://app.sandbox.test:443", "http://app.sandbox.test:443", "app.sandbox.test:443"},
		{"https://app.sandbox.test:80", "https://app.sandbox.test:80", "app.sandbox.test:80"},
		{"https://APP.sandbox.test:8443", "https://app.sandbox.test:8443", "app.sandbox.test:8443"},
		{"https://[2001:DB8::A]:443", "https://[2001:db8::a]", "[2001:db8::a]"},
		{"https://[2001:DB8::A]:8443", "https://[2001:db8::a]:8443", "[2001:db8::a]:8443"},
	} {
		configured := account.NewProject(idverify.ProjectParams{
			Name: fmt.Sprintf("Configured %d", i), Mode: idverify.ModeSandbox,
			PhoneCheckURLs: idverify.ProductURLs{RedirectURL: row.origin + "/Back?A=%2f"},
		})
		for name, location := range map[string]*url.URL{
			"of the check":            newProductAPI(t, srv, plain.Credentials).location(fmt.Sprintf(`{"phone_number":"447700900012","redirect_url":%q}`, row.origin+"/Back?A=%2f")),
			"of the check, in ERROR":  newProductAPI(t, srv, plain.Credentials).location(fmt.Sprintf(`{"phone_number":"447700900055","redirect_url":%q}`, row.origin+"/Back?A=%2f")),
			"of the project":          newProductAPI(t, srv, configured.Credentials).location(`{"phone_number":"447700900012"}`),
			"of the project in ERROR": newProductAPI(t, srv, configured.Credentials).location(`{"phone_number":"447700900055"}`),
		} {
			if got := location.Scheme + "://" + location.Host; got != row.location || location.Path != "/Back" {
				t.Errorf("%s %s: redirect = %s%s, want %s/Back", row.origin, name, got, location.Path, row.location)
			}
			if _, err := srv.Verifier([]string{row.host}, nil).VerifyRedirect(browserRequest(location, row.host)); err != nil {
				t.Errorf("%s %s: redirect sent by a browser does not verify: %v", row.origin, name, err)
			}
		}
	}
}

// A check's own redirect URL replaces the project's, and each product has its own.
func TestServer_RedirectProjectURL(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	project := srv.NewProject(idverify.ProjectParams{
		Name: "Shop", Mode: idverify.ModeSandbox,
		PhoneCheckURLs:      idverify.ProductURLs{RedirectURL: "https://phone.sandbox.test/back"},
		SubscriberCheckURLs: idverify.ProductURLs{RedirectURL: "https://subscriber.sandbox.test/back"},
	})
	product := newProductAPI(t, srv, project.Credentials)
	for _, row := range []struct{ path, body, want string }{
		{phoneChecks02, `{"phone_number":"447700900012"}`, "phone.sandbox.test"},
		{phoneChecks02, `{"phone_number":"447700900012","redirect_url":"https://check.sandbox.test"}`, "check.sandbox.test"},
		{"/subscriber_check/v0.2/checks", `{"phone_number":"447700900012"}`, "subscriber.sandbox.test"},
	} {
		id := product.create(row.path, row.body)

		r := product.get(row.path + "/" + id + "/redirect")

		location, err := url.Parse(r.header.Get("Location"))
		if err != nil || r.status != http.StatusFound || location.Host != row.want {
			t.Errorf("%s %s: %d to %q, want a redirect to %s", row.path, row.body, r.status, location, row.want)
			continue
		}
		if query := location.Query(); query.Get("check_id") != id || query.Get("code") == "" {
			t.Errorf("%s: redirect %s does not contain the check's ID and code", row.path, location)
		}
		if _, err := srv.Verifier([]string{row.want}, nil).VerifyRedirect(browserRequest(location, row.want)); err != nil {
			t.Errorf("%s: %v", row.path, err)
		}
	}
}

// The body of an opened check contains the reference ID. Without a redirect URL, a phone on Wi-Fi
// receives a problem.
func TestServer_OpenedBody(t *testing.T) {
	t.Parallel()
	var errorCode string
	srv := consoleServer(t, sandboxfake.WithLiveProject(), sandboxfake.WithOutcomeFunc(func(idverify.Product, string) sandboxfake.Outcome {
		if errorCode == "" {
			return sandboxfake.Outcome{Status: idverify.StatusCompleted, Match: idverify.VerdictYes}
		}
		return sandboxfake.Outcome{Status: idverify.StatusError, Match: idverify.VerdictNo, ErrorCode: errorCode}
	}))
	receiver, callbacks := newRecordingReceiver(srv)
	product := newProductAPI(t, srv, srv.Credentials())
	for _, row := range []struct {
		version, errorCode, fields string
		status                     int
		names                      []string // of the body; nil for a problem or redirect
	}{
		{"v0.1", "", ``, 200, []string{"check_id"}},
		{"v0.1", "", `,"reference_id":"order 7"`, 200, []string{"check_id", "reference_id"}},
		{"v0.1", "mno_timeout", `,"reference_id":"order 7"`, 200, []string{"check_id", "reference_id"}},
		{"v0.1", "not_mobile_ip", `,"reference_id":"order 7"`, 412, nil},
		{"v0.1", "not_mobile_ip", `,"redirect_url":"https://app.sandbox.test/"`, 412, nil},
		{"v0.2", "", ``, 200, []string{"check_id", "code"}},
		{"v0.2", "", `,"reference_id":"order 7"`, 200, []string{"check_id", "code", "reference_id"}},
		{"v0.2", "mno_timeout", `,"reference_id":"order 7"`, 200, []string{"check_id", "error", "error_description", "reference_id"}},
		{"v0.2", "not_mobile_ip", `,"reference_id":"order 7"`, 412, nil},
		{"v0.2", "not_mobile_ip", `,"reference_id":"order 7","redirect_url":"https://app.sandbox.test/"`, 302, nil},
	} {
		for _, name := range []string{"phone_check", "subscriber_check"} {
			label := strings.Join([]string{name, row.version, row.errorCode, row.fields}, " ")
			path := "/" + name + "/" + row.version + "/checks"
			errorCode = row.errorCode
			id := product.create(path, fmt.Sprintf(`{"phone_number":"447700900012","callback_url":%q%s}`, callbacks, row.fields))

			r := product.get(path + "/" + id + "/redirect")

			if r.status != row.status {
				t.Errorf("%s: open = %d %s, want %d", label, r.status, r.body, row.status)
				continue
			}
			switch row.status {
			case 200:
				if diff := cmp.Diff(row.names, slices.Sorted(maps.Keys(r.json))); diff != "" || r.text("check_id") != id || r.header.Get("Content-Type") != "application/json" {
					t.Errorf("%s: body = %s of type %s, fields (-want +got):\n%s", label, r.body, r.header.Get("Content-Type"), diff)
				}
				if got := r.text("reference_id"); row.fields != "" && got != "order 7" {
					t.Errorf("%s: reference_id = %q, want that of the create request", label, got)
				}
			case 302:
				to, err := url.Parse(r.header.Get("Location"))
				if err != nil || to.Query().Get("error") != row.errorCode || to.Query().Has("reference_id") {
					t.Errorf("%s: redirect to %s, want the error without reference_id", label, to)
				}
			case 412:
				r.wantProblem(t, 412, "not_mobile_ip")
			}
			waitIdle(t, srv)
			if row.errorCode != "" {
				if got := receiver.last(t); got["check_id"] != id || got["error_code"] != row.errorCode {
					t.Errorf("%s: callback = %v, want the error", label, got)
				}
				product.get(path+"/"+id).wantProblem(t, 404, "check_not_found")
			}
		}
	}
}

func TestWithPhoneIPCheck(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		option       sandboxfake.Option
		phoneIP, end string
	}{
		{sandboxfake.WithPhoneIPCheck(), `,"phone_ip":"192.0.2.10"`, "ip_mismatch"},
		{sandboxfake.WithPhoneIPCheck(), `,"phone_ip":"127.0.0.1"`, ""},
		{sandboxfake.WithPhoneIPCheck(), `,"phone_ip":"::ffff:127.0.0.1"`, ""},
		{sandboxfake.WithPhoneIPCheck(), ``, ""},
		{sandboxfake.WithSeed(1), `,"phone_ip":"192.0.2.10"`, ""},
	} {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory(), row.option)
		receiver, callbacks := newRecordingReceiver(srv)
		a := newAPI(t, srv)
		for _, path := range []string{phoneChecks, phoneChecks02, "/subscriber_check/v0.1/checks", "/subscriber_check/v0.2/checks"} {
			id := a.create(path, fmt.Sprintf(`{"phone_number":"447700900012","callback_url":%q%s}`, callbacks, row.phoneIP))

			opened := a.get(path + "/" + id + "/redirect")
			if strings.Contains(path, "v0.2") && row.end == "" {
				a.exchange(path, id, opened.text("code"))
			}

			waitIdle(t, srv)
			got := receiver.last(t)
			if want := map[bool]string{true: "COMPLETED", false: "ERROR"}[row.end == ""]; opened.status != 200 || got["check_id"] != id || got["status"] != want || row.end != "" && got["error_code"] != row.end {
				t.Errorf("%s%s: open = %d %s, callback = %v, want %s %s", path, row.phoneIP, opened.status, opened.body, got, want, row.end)
			}
			if strings.Contains(path, "v0.2") && (opened.text("error") != row.end || (opened.text("code") == "") != (row.end != "")) {
				t.Errorf("%s%s: body = %s, want error %q", path, row.phoneIP, opened.body, row.end)
			}
		}
	}
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
			receiver, host := newRecordingReceiver(srv)
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
				waitIdle(t, srv)
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
		{"longest reference ID", phoneChecks, `{"phone_number":"447700900000","reference_id":"` + strings.Repeat("r", referenceIDLimit) + `"}`, 201, ""},
		{"reference ID over the limit", phoneChecks, `{"phone_number":"447700900000","reference_id":"` + strings.Repeat("r", referenceIDLimit+1) + `"}`, 400, "bad_request"},
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

// The check also expires if it was opened, and its code not used.
func TestServer_CheckExpires(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		before time.Duration // time from the first read to the expiry; a running clock can be late
		opts   []sandboxfake.Option
	}{
		{"frozen", time.Second, []sandboxfake.Option{sandboxfake.WithFrozenClock(frozenAt)}},
		{"running", 10 * time.Second, nil},
		{"in memory", 10 * time.Second, []sandboxfake.Option{sandboxfake.WithInMemory()}},
	} {
		for path, status := range map[string]string{phoneChecks: "ACCEPTED", phoneChecks02: "PENDING"} {
			t.Run(row.name+" "+status, func(t *testing.T) {
				t.Parallel()
				srv := sandboxfake.New(t, row.opts...)
				a := newAPI(t, srv)
				receiver, host := newRecordingReceiver(srv)
				id := a.create(path, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
				if status == "PENDING" {
					a.open(path, id)
				}

				advance(t, srv, 2*time.Minute-row.before)
				if r := a.get(path + "/" + id); r.json["status"] != status {
					t.Errorf("read before the TTL: %d %s, want %s", r.status, r.body, status)
				}
				advance(t, srv, row.before)

				a.get(path+"/"+id).wantProblem(t, 404, "check_not_found")
				a.get(path+"/"+id+"/redirect").wantProblem(t, 404, "check_not_found")
				if list := a.get(path); list.at("page", "total_elements") != 0.0 {
					t.Errorf("list contains the expired check: %s", list.body)
				}
				body := receiver.last(t)
				if got := outcome(body); got != "EXPIRED - -" || body["check_id"] != id {
					t.Errorf("callback = %q for check %v, want EXPIRED without match", got, body["check_id"])
				}
			})
		}
	}
}
