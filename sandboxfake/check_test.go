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

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// location opens the Check URL of a new v0.2 check and returns the URL of the redirect.
func (a *api) location(body string) *url.URL {
	a.t.Helper()
	r := a.get(phoneChecks02 + "/" + a.create(phoneChecks02, body) + "/redirect")
	if r.status != http.StatusFound {
		a.t.Fatalf("open: %d %s, want a redirect", r.status, r.body)
	}
	location, err := url.Parse(r.header.Get("Location"))
	if err != nil {
		a.t.Fatal(err)
	}
	return location
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
			PhoneCheck: idverify.ProductURLs{RedirectURL: row.origin + "/Back?A=%2f"},
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

// The redirect URL is written as browsers do (WHATWG URL), so that its signature covers what they
// send. cmd/sandboxfake/browsertest compares the same with Chromium.
func TestServer_RedirectURLOfBrowsers(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	for _, row := range []struct{ given, want string }{
		{"https://app.test", "https://app.test/?"},
		{"https://app.test?", "https://app.test/?"},
		{"https://app.test?a", "https://app.test/?a&"},
		{`https://app.test/a"b<c>d` + "`e{f}g^h", "https://app.test/a%22b%3Cc%3Ed%60e%7Bf%7Dg%5Eh?"},
		{"https://app.test/!$&'()*+,;=:@-._~[]|%2f%zZ", ""},
		{"https://app.test/!$&'()*+,;=:@-._~[]|%2f%C3%bc", "https://app.test/!$&'()*+,;=:@-._~[]%7C%2f%C3%bc?"},
		{"https://app.test/a b/?c d", "https://app.test/a%20b/?c%20d&"},
		{`https://app.test/?"<>'` + "`{}|^[]" + `\/?:@!$()*+,=%2f%7E~`, "https://app.test/?%22%3C%3E%27`{}|^[]" + `\/?:@!$()*+,=%2f%7E~&`},
		{"https://app.test/?flag&empty=&=value&&a=1&a=2&", "https://app.test/?flag&empty=&=value&&a=1&a=2&&"},
		{"https://app.test/a/./b/../c", "https://app.test/a/c?"},
		{"https://app.test/../../a/..", "https://app.test/?"},
		{"https://app.test/a/b/.", "https://app.test/a/b/?"},
		{"https://app.test/a/%2E/%2e%2E/.%2e/b%2e", "https://app.test/b%2e?"},
		{"https://app.test//a//../b/...", "https://app.test//a/b/...?"},
		{`https://app.test\a\..\b\`, "https://app.test/b/?"},
		{"HTTP://APP.Test:080/A", "http://app.test/A?"},
		{"http://app.test:0443/", "http://app.test:443/?"},
		{"https://app.test:0/", "https://app.test:0/?"},
		{"https://app.test:65536/", ""},
		{"https://app.test./", "https://app.test./?"},
		{"http://127.1:8080/", "http://127.0.0.1:8080/?"},
		{"http://0x7f.1/", "http://127.0.0.1/?"},
		{"http://0X7F000001/", "http://127.0.0.1/?"},
		{"http://017700000001./", "http://127.0.0.1/?"},
		{"http://1.2.770/", "http://1.2.3.2/?"},
		{"http://192.0.2.0x/", "http://192.0.2.0/?"},
		{"http://4294967295/", "http://255.255.255.255/?"},
		{"http://4294967296/", ""},
		{"http://0xffffffffffffffffffff/", ""},
		{"http://256.0.2.1/", ""},
		{"http://192.0.2.08/", ""},
		{"http://192..2.1/", ""},
		{"http://1.2.3.4.5/", ""},
		{"http://1.2.3.app/", "http://1.2.3.app/?"},
		{"http://[2001:0DB8:0000:0000:0001:0000:0000:0001]/", "http://[2001:db8::1:0:0:1]/?"},
		{"http://[0:0:0:0:0:0:0:1]:80/", "http://[::1]/?"},
		{"http://[::FFFF:192.0.2.1]:81/", "http://[::ffff:c000:201]:81/?"},
		{"http://[::192.0.2.1]/", "http://[::c000:201]/?"},
		{"http://[1:2:3]/", ""},
		{"http://[::1/", ""},
		{"https://BÜCHER.test/", "https://xn--bcher-kva.test/?"},
		{"https://xn--BCHER-kva.test/", "https://xn--bcher-kva.test/?"},
		{"https://straße.test/", "https://xn--strae-oqa.test/?"},
		{"https://STRAẞE.test/", "https://xn--strae-oqa.test/?"},
		{"https://xn--bcher-kva.xn--/", ""},
		{"https://xn--bcher-kva.xn--\u200b/", ""},
		{"https://bücher.test./", "https://xn--bcher-kva.test./?"},
		{"https://例え。テスト/", "https://xn--r8jz45g.xn--zckzah/?"},
		{"https://ｅｘ_ａ--mple.test/", "https://ex_a--mple.test/?"},
		{"http://１２７.１/", "http://127.0.0.1/?"},
		{"https://xn--a.test/", ""},
		{"https://a\u00adb.test/", "https://ab.test/?"},
		{"https://אa.test/", ""},
		{"https://a!b.test/", ""},
		{"https://app.test/ü", ""},
		{"https://user@bücher.test/", ""},
		{"https://bücher.test/#", ""},
	} {
		created := a.post(phoneChecks02, fmt.Sprintf(`{"phone_number":"447700900012","redirect_url":%q}`, row.given))
		if row.want == "" {
			if created.status != 400 || created.fragment() != "bad_request" {
				t.Errorf("%s: %d %s, want 400", row.given, created.status, created.body)
			}
			continue
		}
		opened := a.get(phoneChecks02 + "/" + created.text("check_id") + "/redirect")

		location := opened.header.Get("Location")
		if written, _, _ := strings.Cut(location, "check_id="); created.status != 201 || opened.status != 302 || written != row.want {
			t.Errorf("%s: create = %d, Location = %s, want %s…", row.given, created.status, location, row.want)
			continue
		}
		_, rest, _ := strings.Cut(location, "://")
		host, target, _ := strings.Cut(rest, "/")
		received := httptest.NewRequest(http.MethodGet, "/"+target, nil)
		received.Host = host
		if _, err := srv.Verifier([]string{host}, nil).VerifyRedirect(received); err != nil {
			t.Errorf("%s: redirect that a browser sends to %s is rejected: %v", row.given, host, err)
		}
	}
}

// A check's own redirect URL replaces the project's, and each product has its own.
func TestServer_RedirectProjectURL(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	project := srv.NewProject(idverify.ProjectParams{
		Name: "Shop", Mode: idverify.ModeSandbox,
		PhoneCheck:      idverify.ProductURLs{RedirectURL: "https://phone.sandbox.test/back"},
		SubscriberCheck: idverify.ProductURLs{RedirectURL: "https://subscriber.sandbox.test/back"},
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

// Without a redirect URL the device gets the check ID and code as JSON.
func TestServer_OpenWithoutRedirectURL(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	id := a.create(phoneChecks02, `{"phone_number":"447700900012"}`)

	r := a.get(phoneChecks02 + "/" + id + "/redirect")

	if r.status != 200 || r.header.Get("Content-Type") != "application/json" || r.text("check_id") != id || r.text("code") == "" {
		t.Errorf("response = %d %s %s, want 200 with JSON", r.status, r.header.Get("Content-Type"), r.body)
	}
}

// The body of an opened check contains the reference ID. Without a redirect URL, a phone on Wi-Fi
// receives a problem.
func TestServer_OpenedBody(t *testing.T) {
	t.Parallel()
	var errorCode string
	srv := consoleServer(t, sandboxfake.WithOutcomeFunc(func(idverify.Product, string) sandboxfake.Outcome {
		if errorCode == "" {
			return sandboxfake.Outcome{Status: idverify.StatusCompleted, Match: idverify.VerdictYes}
		}
		return sandboxfake.Outcome{Status: idverify.StatusError, Match: idverify.VerdictNo, ErrorCode: errorCode}
	}))
	var receiver recordingReceiver
	callbacks := srv.Handle("shop.sandbox.test", &receiver)
	product := newProductAPI(t, srv, srv.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive}).Credentials)
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
				if diff := cmp.Diff(row.names, slices.Sorted(maps.Keys(r.json))); diff != "" || r.text("check_id") != id {
					t.Errorf("%s: body = %s, fields (-want +got):\n%s", label, r.body, diff)
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
			if err := srv.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}
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
		var receiver recordingReceiver
		callbacks := srv.Handle("shop.sandbox.test", &receiver)
		a := newAPI(t, srv)
		for _, path := range []string{phoneChecks, phoneChecks02, "/subscriber_check/v0.1/checks", "/subscriber_check/v0.2/checks"} {
			id := a.create(path, fmt.Sprintf(`{"phone_number":"447700900012","callback_url":%q%s}`, callbacks, row.phoneIP))

			opened := a.get(path + "/" + id + "/redirect")
			if strings.Contains(path, "v0.2") && row.end == "" {
				a.call(http.MethodPatch, path+"/"+id, fmt.Sprintf(`[{"op":"add","path":"/code","value":%q}]`, opened.text("code")))
			}

			if err := srv.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}
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

func TestServer_RejectsInvalidURLs(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a, owner := newAPI(t, srv), newOwnerAPI(t, srv)
	invalid := []string{
		" ", "back", "/back", "//app.sandbox.test", "app.sandbox.test/back", "mailto:me@app.sandbox.test", "https:", "https://", "https:///back", "https://:443/back", "https:app.sandbox.test",
		"ftp://app.sandbox.test", "javascript:alert(1)", "https://user@app.sandbox.test", "https://user:password@app.sandbox.test", "https://@app.sandbox.test",
		"https://app.sandbox.test/#", "https://app.sandbox.test/#fragment", "https://app.sandbox.test/ä", "https://app.sandbox.test/a?b=ä",
		" https://app.sandbox.test", "https://app.sandbox.test ", "https://app.sandbox.test/a\u007fb", "https://app.sandbox.test/a\tb", "https://app.sandbox.test:port", "https://app.sandbox.test/%zz",
		"https://b%C3%BCcher.sandbox.test", "https://[fe80::1%25eth0]/",
	}
	valid := []string{
		"https://app.sandbox.test", "http://app.sandbox.test", "HTTPS://app.sandbox.test", "https://app.sandbox.test:8443/a/b?c=d&e", "https://192.0.2.1", "https://[2001:db8::1]/", "https://xn--bcher-kva.sandbox.test",
		"https://app.sandbox.test/~!$&'()*+,;=:@%2F?~!$&'()*+,:@/?", "https://localhost",
	}
	// The parameters that the service adds are not allowed in a redirect URL, escaped or not.
	var added []string
	for _, param := range []string{"check_id", "code", "error", "error_description", "authorization", "date"} {
		added = append(added, "https://app.sandbox.test/?"+param+"=1", "https://app.sandbox.test/?a=b&"+param, fmt.Sprintf("https://app.sandbox.test/?%%%02x%s=1", param[0], param[1:]))
	}
	added = append(added, "https://app.sandbox.test/?a=%zz", "https://app.sandbox.test/?a;b")
	similar := []string{"https://app.sandbox.test/?codes=1&Code=2&check-id=3", "https://app.sandbox.test/?a=code&b=date"}

	post := func(field, value string) map[string]response {
		pair := fmt.Sprintf("{%q:%q}", field, value)
		return map[string]response{
			"check":   a.post(phoneChecks02, fmt.Sprintf(`{"phone_number":"447700900012",%s`, pair[1:])),
			"project": owner.post(projects, fmt.Sprintf(`{"name":%q,"configuration":{"phone_check":%s}}`, field+value, pair)),
		}
	}
	expect := func(field string, values []string, status int) {
		t.Helper()
		for _, value := range values {
			for where, r := range post(field, value) {
				if r.status != status || status == 400 && r.fragment() != "bad_request" {
					t.Errorf("%s %q of a %s: %d %s, want %d", field, value, where, r.status, r.body, status)
				}
			}
		}
	}
	for _, field := range []string{"callback_url", "redirect_url"} {
		expect(field, invalid, 400)
		expect(field, valid, 201)
	}
	// Browsers encode these, and the client that sends callbacks does not.
	encoded := []string{"https://bücher.sandbox.test", "https://app.sandbox.test/a b", "https://app.sandbox.test/?a b"}
	expect("callback_url", encoded, 400)
	expect("redirect_url", encoded, 201)
	expect("redirect_url", added, 400)
	expect("redirect_url", similar, 201)
	expect("callback_url", added[:1], 201)
}

// A URL that is an empty text counts as absent: that of the project applies.
func TestServer_EmptyURLs(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	var receiver recordingReceiver
	callbacks := srv.Handle("shop.sandbox.test", &receiver)
	owner := newOwnerAPI(t, srv)
	_, credentials := owner.newProject(fmt.Sprintf(`{"name":"Shop","mode":"sandbox","callback_url":%q,"configuration":{"phone_check":{"callback_url":"","redirect_url":"https://app.sandbox.test/back"}}}`, callbacks))
	product := newProductAPI(t, srv, credentials)
	const urls = `"callback_url":"","redirect_url":""`

	created := product.post(phoneChecks02, `{"phone_number":"447700900055",`+urls+`}`)
	opened := product.get(phoneChecks02 + "/" + created.text("check_id") + "/redirect")
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	project := owner.post(projects, `{"name":"Empty","callback_url":"","configuration":{"phone_check":{`+urls+`},"subscriber_check":{`+urls+`}}}`)
	patched := owner.call(http.MethodPatch, projects+"/"+project.text("project_id"), `[{"op":"add","path":"/callback_url","value":""},{"op":"add","path":"/configuration/phone_check","value":{`+urls+`}}]`)

	if _, ok := created.json["callback_url"]; ok || created.status != http.StatusCreated {
		t.Errorf("create = %d %s, want 201 without callback_url", created.status, created.body)
	}
	if to := opened.header.Get("Location"); opened.status != http.StatusFound || !strings.HasPrefix(to, "https://app.sandbox.test/back?") {
		t.Errorf("open = %d to %q, want a redirect to the project's URL", opened.status, to)
	}
	if n := receiver.count(); n != 1 {
		t.Errorf("the project's callback URL received %d callbacks, want 1", n)
	}
	for name, r := range map[string]response{"create": project, "patch": patched} {
		if r.status/100 != 2 || strings.Contains(string(r.body), "_url") {
			t.Errorf("%s of a project = %d %s, want success without URLs", name, r.status, r.body)
		}
	}
}

func TestServer_DescribesInvalidURLs(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a, owner := newAPI(t, srv), newOwnerAPI(t, srv)
	for _, row := range []struct{ url, want string }{
		{"/back", "must be absolute: begin with https:// or http://"},
		{"https:///back", "must be absolute: the host is missing"},
		{"ftp://app.sandbox.test", "must have the scheme https or http"},
		{"localhost:8080/back", "must have the scheme https or http"},
		{"https://user:secret@app.sandbox.test", "must not contain userinfo"},
		{"https://app.sandbox.test/#here", "must not have a fragment"},
		{"https://app.sandbox.test#/here", "must not have a fragment"},
		{"https://app.sandbox.test:8443#here/there", "must not have a fragment"},
		{"https://app.sandbox.test/ä", "must have a path and query in ASCII (percent-encode other characters)"},
		{"https://app.sandbox.test/?a=ä", "must have a path and query in ASCII (percent-encode other characters)"},
		{"https://אa.sandbox.test", "must have a host in ASCII (write an internationalized name as punycode, xn--…)"},
		{"https://[fe80::1%25eth0]/", "must have a host without percent escapes and zones"},
		{"https://app.sandbox.test/a\tb", "must not contain spaces or control characters (percent-encode them)"},
		{"https://app.sandbox.test:port", "is malformed: the host, the port or a percent escape is not valid"},
		{"https://app.sandbox.test/" + strings.Repeat("u", urlLimit), "must have at most 2048 bytes"},
	} {
		for _, field := range []string{"callback_url", "redirect_url"} {
			pair := fmt.Sprintf("%q:%q", field, row.url)
			for where, r := range map[string]response{
				"check":   a.post(phoneChecks02, `{"phone_number":"447700900012",`+pair+`}`),
				"project": owner.post(projects, `{"name":"Shop","configuration":{"phone_check":{`+pair+`}}}`),
			} {
				r.wantProblem(t, 400, "bad_request")
				if got, want := r.text("detail"), field+" "+row.want; got != want {
					t.Errorf("%s %s of a %s: detail = %q, want %q", field, row.url, where, got, want)
				}
			}
		}
	}
	r := a.post(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"https://app.sandbox.test/?code=1"}`)
	if want := "redirect_url must not have a query parameter that the service adds: check_id, code, error, error_description, authorization, date"; r.text("detail") != want {
		t.Errorf("redirect URL with a code: detail = %q, want %q", r.text("detail"), want)
	}
}
