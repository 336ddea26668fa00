package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// serve calls the server's handler directly: a connection would take longer than the fuzzed code.
func serve(t testing.TB, srv *sandboxfake.Server, token, method, target, body string) response {
	t.Helper()
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/json-patch+json")
	}
	recorder := httptest.NewRecorder()
	sandboxfake.Serve(srv, recorder, request)
	r := response{status: recorder.Code, header: recorder.Header(), body: recorder.Body.Bytes()}
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &r.json); err != nil {
			t.Fatalf("response to %s %q is not JSON: %s", method, body, r.body)
		}
	}
	wantDescribed(t, request, r)
	return r
}

// An accepted patch results in a project that could also be created. A rejected one changes
// nothing.
func FuzzProjectPatch(f *testing.F) {
	for _, patch := range []string{
		`[]`, `null`, `[null]`, `{}`, ``, `[{"op":"replace","path":"/name","value":"Store"}]`, `[{"op":"replace","path":"/mode","value":"sandbox"},{"op":"remove","path":"/callback_url"}]`,
		`[{"op":"add","path":"/configuration","value":{"phone_check":{"callback_url":"https://b.test/"}}}]`, `[{"op":"remove","path":"/configuration/phone_check"}]`,
		`[{"op":"add","path":"/configuration/subscriber_check/redirect_url","value":"https://b.test/?a=1"}]`, `[{"op":"test","path":"/name","value":"Shop"}]`, `[{"op":"add","path":"/callback_url","value":null}]`,
		`[{"op":"replace","path":"/name","value":"\ud800"}]`, `[{"op":"add","path":"/configuration/~0","value":1}]`, `[{"op":"replace","path":"/name","value":"a","value":"b"}]`,
	} {
		f.Add(patch)
	}
	srv := consoleServer(f)
	account := srv.NewWorkspace("Fuzz")
	token := (&api{t: f, srv: srv}).tokenFor(account.Credentials, "console")
	project := projects + "/" + account.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive, CallbackURL: "https://shop.test/"}).ProjectID
	f.Fuzz(func(t *testing.T, patch string) {
		before := serve(t, srv, token, http.MethodGet, project, "")

		r := serve(t, srv, token, http.MethodPatch, project, patch)

		after := serve(t, srv, token, http.MethodGet, project, "")
		if r.status != 200 {
			if r.status < 400 || r.status > 499 || !cmp.Equal(before.json, after.json) {
				t.Errorf("rejected with %d %s, but the project changed from %s to %s", r.status, r.body, before.body, after.body)
			}
			return
		}
		if !cmp.Equal(r.json, after.json) {
			t.Errorf("response = %s, stored %s", r.body, after.body)
		}
		// A project with the same settings can be created once the name is free.
		if d := serve(t, srv, token, http.MethodDelete, project, ""); d.status != 204 {
			t.Fatalf("delete: %d %s", d.status, d.body)
		}
		again := serve(t, srv, token, http.MethodPost, projects, string(after.body))
		if again.status != 201 {
			t.Fatalf("create rejects the patched project %s: %d %s", after.body, again.status, again.body)
		}
		project = projects + "/" + again.text("project_id")
		for _, field := range []string{"name", "mode", "callback_url", "configuration"} {
			if diff := cmp.Diff(after.json[field], again.json[field]); diff != "" {
				t.Errorf("%s (-patched +created):\n%s", field, diff)
			}
		}
	})
}

// A search either fails with 400 or selects a subset, and a conjunction selects the intersection.
func FuzzProjectSearch(f *testing.F) {
	for _, search := range []string{"name==a", "name!=b;mode==live", "(name==a,name=='b');created_at>2026-01-02T03", `name=="\""`, "((name==a))", "name", "name==", ";", "created_at>=2026,", "name=in=(a,b)", "'", "(name==a),name==c"} {
		f.Add(search)
	}
	srv := consoleServer(f)
	account := srv.NewWorkspace("Fuzz")
	token := (&api{t: f, srv: srv}).tokenFor(account.Credentials, "console")
	for _, name := range []string{"a", "b", "c"} {
		account.NewProject(idverify.ProjectParams{Name: name, Mode: idverify.ModeLive})
	}
	f.Fuzz(func(t *testing.T, search string) {
		found := func(search string) response {
			return serve(t, srv, token, http.MethodGet, projects+"?sort=name,asc&search="+url.QueryEscape(search), "")
		}

		r := found(search)

		if r.status == 400 {
			return
		}
		names := r.column("projects", "name")
		if r.status != 200 || !strings.Contains("a b c", strings.Join(names, " ")) && strings.Join(names, " ") != "a c" {
			t.Errorf("%q: %d %s, want 200 with some of the projects", search, r.status, r.body)
		}
		grouped := found("(" + search + ");name==a")
		if grouped.status == 200 && strings.Contains(strings.Join(names, " "), "a") != (len(grouped.column("projects", "name")) == 1) {
			t.Errorf("%q finds %v, but together with name==a it finds %s", search, names, grouped.body)
		}
	})
}

// An amount is either rejected or added to the balance exactly.
func FuzzTopUpAmount(f *testing.F) {
	for _, amount := range []string{"1", "25.50", "0.000001", "0", "-1", "1e3", "0.0000001", `"7"`, `"007.10"`, "999999999999.999999", "1000000000000", "null", "{}", "١"} {
		f.Add(amount)
	}
	srv := consoleServer(f)
	f.Fuzz(func(t *testing.T, amount string) {
		if !json.Valid([]byte(amount)) {
			return // the body would be malformed
		}
		// Each input needs its own workspace, because the sum of top-ups is limited.
		account := srv.NewWorkspace("Fuzz")
		token := (&api{t: t, srv: srv}).tokenFor(account.Credentials, "console")
		path := workspaces + "/default"
		serve(t, srv, token, http.MethodPut, path+"/billing_account", `{"company_name":"Sandbox Ltd"}`)
		method := serve(t, srv, token, http.MethodPost, path+"/payment_methods", newCard).text("payment_method_id")

		r := serve(t, srv, token, http.MethodPost, path+"/topups", fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":%s}`, method, amount))

		var workspace struct {
			Embedded struct {
				Balance struct {
					Currency string      `json:"currency"`
					Amount   json.Number `json:"amount_available"`
				} `json:"balance"`
			} `json:"_embedded"`
		}
		if err := json.Unmarshal(serve(t, srv, token, http.MethodGet, path, "").body, &workspace); err != nil {
			t.Fatal(err)
		}
		balance := workspace.Embedded.Balance
		if r.status != 201 {
			if r.status != 400 || balance.Currency != "API" || balance.Amount != "100" {
				t.Errorf("amount %s: %d %s, balance %+v, want 400 and 100 API", amount, r.status, r.body, balance)
			}
			return
		}
		want, isNumber := new(big.Rat).SetString(r.number(t, "amount"))
		got, _ := new(big.Rat).SetString(balance.Amount.String())
		if !isNumber || got.Cmp(want) != 0 || want.Sign() <= 0 {
			t.Errorf("amount %s: response %s, balance %+v, want a positive amount and the same balance", amount, r.body, balance)
		}
	})
}
