package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// manyDigits has more digits than a float64 can represent, so that rounding would change it.
const manyDigits = "499999999999.999999"

// Amounts in responses are JSON numbers, and the client returns their exact digits.
func TestServer_ExactAmounts(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t, sandboxfake.WithPrices(map[idverify.Product]string{idverify.ProductPhoneCheck: "0.333333"}))
	account := srv.NewWorkspace("Shop")
	owner := newConsoleAPI(t, srv, account.Credentials)
	method := owner.addCard()
	project := account.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive})
	console, client := account.Console(), project.Client()

	topUp := must(console.TopUps.Create(t.Context(), idverify.TopUpParams{PaymentMethodID: method, Currency: "EUR", Amount: manyDigits}))(t)
	check := must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"}))(t)
	balance := must(console.Billing.Balance(t.Context()))(t)
	topUps := must(console.TopUps.List(t.Context(), idverify.ListOptions{}))(t)
	usage := must(console.Usage.Daily(t.Context(), idverify.UsageQuery{From: frozenAt, GroupBy: []idverify.UsageGroup{idverify.UsageByProduct}}))(t)
	country := must(client.Reachability.LookupCountry(t.Context(), "GB"))(t)

	const left = "499999999999.666666"
	got := map[string]json.Number{
		"top-up": topUp.Amount, "listed top-up": topUps.Items[0].Amount, "charge": check.ChargeAmount, "snapshot": check.SnapshotBalance,
		"balance": balance.AmountAvailable, "reserved": balance.AmountReserved, "credit": balance.CreditLimit,
		"usage": usage[0].Amount, "price": country.Products[0].Networks[0].Prices[0].Amount,
	}
	want := map[string]json.Number{
		"top-up": manyDigits, "listed top-up": manyDigits, "charge": "0.333333", "snapshot": left,
		"balance": left, "reserved": "0", "credit": "0", "usage": "0.333333", "price": "0.333333",
	}
	wantEqual(t, want, got, "amounts of the client")
	if usage[0].Product != idverify.ProductPhoneCheck {
		t.Errorf("usage of product %q, want %q", usage[0].Product, idverify.ProductPhoneCheck)
	}
	product := newProductAPI(t, srv, project.Credentials)
	for _, r := range []response{
		owner.get(workspaces + "/default"), owner.get(workspaces + "/default/topups"), owner.get(workspaces + "/default/usage/daily?search=date%3E2000"),
		product.get(phoneChecks), product.get("/coverage/v0.1/countries/GB"),
	} {
		for _, field := range []string{"amount", "amount_available", "amount_reserved", "credit_limit", "charge_amount", "snapshot_balance"} {
			if strings.Contains(string(r.body), fmt.Sprintf("%q:\"", field)) {
				t.Errorf("%s is text, want a JSON number: %s", field, r.body)
			}
		}
	}
}

// The redirect URL is written as browsers do (WHATWG URL), so that its signature covers what they
// send. internal/e2e/browser compares the same with Chromium.
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

func TestServer_RejectsInvalidURLs(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a, owner := newAPI(t, srv), newOwnerAPI(t, srv)
	invalid := []struct {
		want string
		urls []string
	}{
		{"must be absolute: begin with https:// or http://", []string{"back", "/back", "//app.sandbox.test", "app.sandbox.test/back"}},
		{"must be absolute: the host is missing", []string{"https:", "https://", "https:///back", "https://:443/back", "https:app.sandbox.test"}},
		{"must have the scheme https or http", []string{"mailto:me@app.sandbox.test", "ftp://app.sandbox.test", "javascript:alert(1)", "localhost:8080/back"}},
		{"must not contain userinfo", []string{"https://user@app.sandbox.test", "https://user:password@app.sandbox.test", "https://@app.sandbox.test"}},
		{"must not have a fragment", []string{"https://app.sandbox.test/#", "https://app.sandbox.test/#fragment", "https://app.sandbox.test#/here", "https://app.sandbox.test:8443#here/there"}},
		{"must have a path and query in ASCII (percent-encode other characters)", []string{"https://app.sandbox.test/ä", "https://app.sandbox.test/a?b=ä"}},
		{"must have a host in ASCII (write an internationalized name as punycode, xn--…)", []string{"https://אa.sandbox.test", "https://b%C3%BCcher.sandbox.test"}},
		{"must have a host without percent escapes and zones", []string{"https://[fe80::1%25eth0]/"}},
		{"must not contain spaces or control characters (percent-encode them)", []string{
			" ", " https://app.sandbox.test", "https://app.sandbox.test ", "https://app.sandbox.test/a\u007fb", "https://app.sandbox.test/a\tb",
		}},
		{"is malformed: the host, the port or a percent escape is not valid", []string{"https://app.sandbox.test:port", "https://app.sandbox.test/%zz"}},
		{"must have at most 2048 bytes", []string{"https://app.sandbox.test/" + strings.Repeat("u", urlLimit)}},
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
	similar := []string{"https://app.sandbox.test/?codes=1&Code=2&check-id=3", "https://app.sandbox.test/?a=code&b=date"}

	created := 0
	// expect posts a check and a project with each value. A value that is invalid has a defect.
	expect := func(field, defect string, values ...string) {
		t.Helper()
		for _, value := range values {
			quoted := must(json.Marshal(value))(t)
			pair := fmt.Sprintf("{%q:%s}", field, quoted)
			created++
			for where, r := range map[string]response{
				"check":   a.post(phoneChecks02, fmt.Sprintf(`{"phone_number":"447700900012",%s`, pair[1:])),
				"project": owner.post(projects, fmt.Sprintf(`{"name":"Shop %d","configuration":{"phone_check":%s}}`, created, pair)),
			} {
				switch {
				case defect == "" && r.status != http.StatusCreated:
					t.Errorf("%s %q of a %s: %d %s, want 201", field, value, where, r.status, r.body)
				case defect != "" && (r.status != http.StatusBadRequest || r.fragment() != "bad_request" || r.text("detail") != field+" "+defect):
					t.Errorf("%s %q of a %s: %d %s, want 400 and that it %s", field, value, where, r.status, r.body, defect)
				}
			}
		}
	}
	for _, field := range []string{"callback_url", "redirect_url"} {
		for _, row := range invalid {
			expect(field, row.want, row.urls...)
		}
		expect(field, "", valid...)
	}
	// Browsers encode these, and the client that sends callbacks does not.
	const host = "https://bücher.sandbox.test"
	spaces := []string{"https://app.sandbox.test/a b", "https://app.sandbox.test/?a b"}
	expect("callback_url", "must have a host in ASCII (write an internationalized name as punycode, xn--…)", host)
	expect("callback_url", "must not contain spaces or control characters (percent-encode them)", spaces...)
	expect("redirect_url", "", append(spaces, host)...)
	expect("redirect_url", "must not have a query parameter that the service adds: check_id, code, error, error_description, authorization, date", added...)
	expect("redirect_url", "has a malformed query", "https://app.sandbox.test/?a=%zz", "https://app.sandbox.test/?a;b")
	expect("redirect_url", "", similar...)
	expect("callback_url", "", added[0])
}

// A URL that is an empty text counts as absent: that of the project applies.
func TestServer_EmptyURLs(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	receiver, callbacks := newRecordingReceiver(srv)
	owner := newOwnerAPI(t, srv)
	_, credentials := owner.newProject(fmt.Sprintf(`{"name":"Shop","mode":"sandbox","callback_url":%q,"configuration":{"phone_check":{"callback_url":"","redirect_url":"https://app.sandbox.test/back"}}}`, callbacks))
	product := newProductAPI(t, srv, credentials)
	const urls = `"callback_url":"","redirect_url":""`

	created := product.post(phoneChecks02, `{"phone_number":"447700900055",`+urls+`}`)
	opened := product.get(phoneChecks02 + "/" + created.text("check_id") + "/redirect")
	waitIdle(t, srv)
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

func TestServer_ProjectMode(t *testing.T) {
	t.Parallel()
	owner := newOwnerAPI(t, consoleServer(t))
	for _, row := range []struct{ given, mode string }{
		{`{"name":"A"}`, "live"},
		{`{"name":"B","mode":"live"}`, "live"},
		{`{"name":"C","mode":"sandbox"}`, "sandbox"},
	} {
		id, _ := owner.newProject(row.given)
		if got := owner.get(projects + "/" + id).text("mode"); got != row.mode {
			t.Errorf("mode of a project created with %s = %s, want %s", row.given, got, row.mode)
		}
		for _, mode := range []string{"sandbox", "live"} {
			r := owner.call(http.MethodPatch, projects+"/"+id, fmt.Sprintf(`[{"op":"replace","path":"/mode","value":%q}]`, mode))
			if r.status != 200 || r.text("mode") != mode {
				t.Errorf("change the mode from %s to %s: %d %s", row.mode, mode, r.status, r.body)
			}
		}
	}
}

// The mode of the project at the creation of a check sets its charge and its outcome. The outcome
// function applies only to checks of live projects.
func TestServer_CheckKeepsProjectMode(t *testing.T) {
	t.Parallel()
	operator := func(idverify.Product, string) sandboxfake.Outcome {
		return sandboxfake.Outcome{Status: idverify.StatusCompleted, Match: idverify.VerdictNo}
	}
	srv := consoleServer(t, sandboxfake.WithOutcomeFunc(operator))
	owner := newOwnerAPI(t, srv)
	id, credentials := owner.newProject(`{"name":"Shop"}`)
	product := newProductAPI(t, srv, credentials)
	create := func() response {
		return product.want(201, http.MethodPost, phoneChecks, `{"phone_number":"447700900012"}`)
	}
	live := create()
	owner.want(200, http.MethodPatch, projects+"/"+id, `[{"op":"replace","path":"/mode","value":"sandbox"}]`)
	sandbox := create()

	for _, row := range []struct {
		check  response
		charge string
		match  bool // false of the outcome function, true of the sandbox table
	}{{live, "1 API, left 99", false}, {sandbox, "0 API, left 99", true}} {
		path := phoneChecks + "/" + row.check.text("check_id")
		product.get(path + "/redirect")

		if got := fmt.Sprint(row.check.at("charge_amount"), " ", row.check.text("charge_currency"), ", left ", row.check.at("snapshot_balance")); got != row.charge {
			t.Errorf("charge = %s, want %s", got, row.charge)
		}
		if match := product.get(path).at("match"); match != row.match {
			t.Errorf("match of the check with the charge %s = %v, want %v", row.charge, match, row.match)
		}
	}
	if got := owner.money("default"); got != "99 API" {
		t.Errorf("balance = %s, want 99 API", got)
	}
}

func TestServer_ProjectCallbackURL(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	shop, phone := new(recordingReceiver), new(recordingReceiver)
	shopURL, phoneURL := srv.Handle("shop.sandbox.test", shop), srv.Handle("phone.sandbox.test", phone)
	_, credentials := owner.newProject(fmt.Sprintf(`{"name":"Shop","mode":"sandbox","callback_url":%q,"configuration":{"phone_check":{"callback_url":%q}}}`, shopURL, phoneURL))
	product := newProductAPI(t, srv, credentials)

	for _, path := range []string{phoneChecks, "/subscriber_check/v0.1/checks"} {
		product.get(path + "/" + product.create(path, `{"phone_number":"447700900012"}`) + "/redirect")
	}
	waitIdle(t, srv)

	var got []string
	for _, d := range srv.Deliveries() {
		got = append(got, string(d.Product)+" "+d.URL)
	}
	wantEqual(t, []string{"phone_check " + phoneURL, "subscriber_check " + shopURL}, got, "deliveries")
}
