package sandboxfake_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

// payer returns the owner of a new workspace with company details and a payment method.
func payer(t testing.TB, srv *sandboxfake.Server, card string) (owner *api, methodID string) {
	t.Helper()
	owner = newConsoleAPI(t, srv, srv.NewWorkspace("Payer").Credentials)
	owner.want(200, http.MethodPut, workspaces+"/default/billing_account", `{"company_name":"Sandbox Ltd"}`)
	return owner, owner.want(201, http.MethodPost, workspaces+"/default/payment_methods", card).text("payment_method_id")
}

// topUp adds amount to the balance.
func (a *api) topUp(methodID, currency, amount string) response {
	a.t.Helper()
	return a.post(workspaces+"/default/topups", fmt.Sprintf(`{"payment_method_id":%q,"currency":%q,"amount":%s}`, methodID, currency, amount))
}

func TestServer_BillingSetupOrder(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	methods := workspaces + "/default/payment_methods"

	owner.get(workspaces+"/default/billing_account").wantProblem(t, 404, "not_found")
	owner.post(methods, newCard).wantProblem(t, 409, "company_details_required")
	owner.topUp("", "EUR", "1").wantProblem(t, 409, "company_details_required")
	owner.want(200, http.MethodPut, workspaces+"/default/billing_account", `{"company_name":"Sandbox Ltd"}`)
	owner.topUp("", "EUR", "1").wantProblem(t, 409, "payment_details_required")
	id := owner.want(201, http.MethodPost, methods, newCard).text("payment_method_id")
	if r := owner.topUp(id, "EUR", "1"); r.status != 201 {
		t.Errorf("top-up with all details: %d %s, want 201", r.status, r.body)
	}
	owner.want(204, http.MethodDelete, methods+"/"+id, "")
	owner.call(http.MethodDelete, methods+"/"+id, "").wantProblem(t, 404, "not_found")
	owner.topUp(id, "EUR", "1").wantProblem(t, 409, "payment_details_required")
}

func TestServer_InitialBalance(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)

	ada := srv.SignUp("Ada")

	if got := newConsoleAPI(t, srv, ada.Credentials).money("default"); got != "100 API" {
		t.Errorf("initial balance = %s, want 100 API", got)
	}
}

func TestServer_FirstTopUpSetsCurrency(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)

	first := owner.topUp(method, "GBP", "25.50")
	after := owner.money("default")
	second := owner.topUp(method, "GBP", `"0.000001"`)

	if first.status != 201 || first.text("currency") != "GBP" || first.number(t, "amount") != "25.5" || after != "25.5 GBP" {
		t.Errorf("first top-up: %d %s, balance %s, want 25.5 GBP without the 100 API", first.status, first.body, after)
	}
	if got := owner.money("default"); second.status != 201 || got != "25.500001 GBP" {
		t.Errorf("second top-up: %d %s, balance %s, want 25.500001 GBP", second.status, second.body, got)
	}
}

func TestServer_FixedTopUpCurrency(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)
	owner.topUp(method, "GBP", "1")

	owner.topUp(method, "EUR", "1").wantProblem(t, 409, "currency_fixed")

	if got := owner.money("default"); got != "1 GBP" {
		t.Errorf("balance = %s, want 1 GBP as before", got)
	}
}

func TestServer_PaymentMethodCurrency(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)
	onlyUSD := strings.Replace(newCard, `["EUR","GBP"]`, `["USD"]`, 1)
	before := owner.want(201, http.MethodPost, workspaces+"/default/payment_methods", onlyUSD).text("payment_method_id")
	owner.topUp(before, "EUR", "1").wantProblem(t, 409, "currency_not_supported")
	owner.topUp(method, "EUR", "1")

	owner.post(workspaces+"/default/payment_methods", onlyUSD).wantProblem(t, 409, "currency_not_supported")
	owner.topUp(before, "EUR", "1").wantProblem(t, 409, "currency_not_supported")
	owner.want(201, http.MethodPost, workspaces+"/default/payment_methods", newCard)
}

func TestServer_DoesNotStoreCardNumber(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)

	one, all := owner.get(workspaces+"/default/payment_methods/"+method), owner.get(workspaces+"/default/payment_methods")

	if one.text("last_four_digits") != "4242" {
		t.Errorf("card = %s, want last_four_digits 4242", one.body)
	}
	var journal strings.Builder
	for _, r := range srv.Requests() {
		journal.Write(r.Body)
	}
	for place, text := range map[string]string{"response": string(one.body), "list": string(all.body), "journal": journal.String()} {
		if strings.Contains(text, "42424242") {
			t.Errorf("%s contains the card number: %s", place, text)
		}
	}
}

func TestServer_RejectsInvalidBillingBodies(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)
	account, methods, topUps := workspaces+"/default/billing_account", workspaces+"/default/payment_methods", workspaces+"/default/topups"
	card := func(field, value string) string {
		fields := map[string]string{"card_number": `"4242424242424242"`, "expiry_month": "12", "expiry_year": "2030", "currencies": `["EUR"]`}
		fields[field] = value
		return fmt.Sprintf(`{"card_number":%s,"expiry_month":%s,"expiry_year":%s,"currencies":%s}`, fields["card_number"], fields["expiry_month"], fields["expiry_year"], fields["currencies"])
	}
	topUp := func(amount, currency string) string {
		return fmt.Sprintf(`{"payment_method_id":%q,"currency":%s,"amount":%s}`, method, currency, amount)
	}
	for _, row := range []struct{ method, path, body string }{
		{"PUT", account, `{}`}, {"PUT", account, `{"company_name":" "}`}, {"PUT", account, `{"company_name":7}`}, {"PUT", account, `{"Company_Name":"A"}`}, {"PUT", account, `[]`}, {"PUT", account, ``},
		{"POST", methods, `{}`}, {"POST", methods, card("card_number", `""`)}, {"POST", methods, card("card_number", `"4242 4242 4242 4242"`)}, {"POST", methods, card("card_number", `"42424242424"`)}, {"POST", methods, card("card_number", `"42424242424242424242"`)}, {"POST", methods, card("card_number", `"4242424242424a"`)}, {"POST", methods, card("card_number", `"4242424242424~"`)},
		{"POST", methods, card("expiry_month", `-1`)}, {"POST", methods, card("expiry_year", `999`)}, {"POST", methods, card("expiry_year", `10000`)}, {"POST", methods, card("expiry_year", `-2030`)},
		{"POST", methods, card("card_number", `4242424242424242`)}, {"POST", methods, card("expiry_month", `0`)}, {"POST", methods, card("expiry_month", `13`)}, {"POST", methods, card("expiry_year", `30`)},
		{"POST", methods, card("currencies", `[]`)}, {"POST", methods, card("currencies", `["API"]`)}, {"POST", methods, card("currencies", `["eur"]`)}, {"POST", methods, card("currencies", `["EUR","EUR"]`)}, {"POST", methods, card("currencies", `"EUR"`)},
		{"POST", topUps, `{}`}, {"POST", topUps, topUp(`0`, `"EUR"`)}, {"POST", topUps, topUp(`-1`, `"EUR"`)}, {"POST", topUps, topUp(`1e3`, `"EUR"`)}, {"POST", topUps, topUp(`0.0000001`, `"EUR"`)},
		{"POST", topUps, topUp(`"many"`, `"EUR"`)}, {"POST", topUps, topUp(`null`, `"EUR"`)}, {"POST", topUps, topUp(`9999999999999`, `"EUR"`)}, {"POST", topUps, topUp(`1`, `"API"`)}, {"POST", topUps, topUp(`1`, `"CHF"`)},
		{"POST", topUps, topUp(`1`, `null`)}, {"POST", topUps, `{"payment_method_id":"unknown","currency":"EUR","amount":1}`},
	} {
		r := owner.call(row.method, row.path, row.body)

		if r.status != 400 || r.fragment() != "bad_request" {
			t.Errorf("%s %s %s: %d %s, want 400", row.method, row.path, row.body, r.status, r.body)
		}
		if strings.Contains(string(r.body), "4242") {
			t.Errorf("problem contains the card number: %s", r.body)
		}
	}
	if got := owner.money("default"); got != "100 API" {
		t.Errorf("balance = %s, want it unchanged", got)
	}
}

func TestServer_ExactTopUpTotal(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)

	for range 2 {
		owner.want(201, http.MethodPost, workspaces+"/default/topups", fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":499999999999.999999}`, method))
	}
	owner.topUp(method, "EUR", "1").wantProblem(t, 400, "bad_request")

	if body := string(owner.get(workspaces + "/default").body); !strings.Contains(body, `"amount_available":999999999999.999998`) {
		t.Errorf("workspace = %s, want the exact sum without the third top-up", body)
	}
}

func TestServer_ReplacesBillingAccount(t *testing.T) {
	t.Parallel()
	owner := newOwnerAPI(t, consoleServer(t))
	path := workspaces + "/default/billing_account"
	owner.want(200, http.MethodPut, path, `{"company_name":"Sandbox Ltd","city":"Testville"}`)

	owner.want(200, http.MethodPut, path, `{"company_name":"Sandbox Inc"}`)

	if r := owner.get(path); r.text("company_name") != "Sandbox Inc" || r.text("city") != "" {
		t.Errorf("details = %s, want only the new ones", r.body)
	}
}

// A card number has 12 to 19 digits. Responses contain the posted expiry and currencies.
func TestServer_PaymentMethodBounds(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, _ := payer(t, srv, newCard)
	for _, row := range []struct {
		number      string
		month, year int
	}{
		{"424242420012", 1, 1000}, {"4242424242424240019", 12, 9999}, {"4242424242420016", 6, 2030},
	} {
		body := fmt.Sprintf(`{"card_number":%q,"expiry_month":%d,"expiry_year":%d,"currencies":["USD","GBP"]}`, row.number, row.month, row.year)
		r := owner.want(201, http.MethodPost, workspaces+"/default/payment_methods", body)

		want := map[string]any{
			"id": r.text("payment_method_id"), "payment_method_id": r.text("payment_method_id"), "last_four_digits": row.number[len(row.number)-4:],
			"expiry_month": float64(row.month), "expiry_year": float64(row.year), "currencies": []any{"USD", "GBP"},
		}
		if diff := cmp.Diff(want, r.json); diff != "" {
			t.Errorf("created (-want +got):\n%s", diff)
		}
		read := owner.want(200, http.MethodGet, workspaces+"/default/payment_methods/"+r.text("payment_method_id"), "")
		if diff := cmp.Diff(want, read.json); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
	}
	owner.get(workspaces+"/default/payment_methods/unknown").wantProblem(t, 404, "not_found")
}

func TestServer_TopUpResponse(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)

	r := owner.topUp(method, "GBP", "25.50")

	want := map[string]any{"top_up_id": r.text("top_up_id"), "payment_method_id": method, "currency": "GBP", "amount": 25.5, "created_at": "2026-01-02T03:04:05+0000"}
	if diff := cmp.Diff(want, r.json); diff != "" || r.text("top_up_id") == "" {
		t.Errorf("top-up (-want +got):\n%s", diff)
	}
}

// The sum of a workspace's top-ups is at most 10^12.
func TestServer_TopUpLimit(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)
	for _, row := range []struct {
		amount string
		status int
	}{
		{"999999999999.999999", 201}, {"0.000002", 400}, {"0.000001", 201}, {"0.000001", 400},
	} {
		if r := owner.topUp(method, "EUR", row.amount); r.status != row.status {
			t.Errorf("top-up of %s: %d %s, want %d", row.amount, r.status, r.body, row.status)
		}
	}
	if got := owner.get(workspaces+"/default").number(t, "_embedded", "balance", "amount_available"); got != "1000000000000" {
		t.Errorf("balance = %s, want 1000000000000", got)
	}
}

// Billing problems say what the owner has to change.
func TestServer_BillingProblemDetails(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)
	owner.topUp(method, "GBP", "1")
	onlyUSD := strings.Replace(newCard, `["EUR","GBP"]`, `["USD"]`, 1)
	for _, row := range []struct {
		r    response
		want []string
	}{
		{owner.topUp(method, "EUR", "1"), []string{"GBP"}},
		{owner.post(workspaces+"/default/payment_methods", onlyUSD), []string{"GBP"}},
		{owner.topUp(method, "CHF", "1"), []string{"USD, GBP, EUR", "duplicate currency"}},
		{owner.topUp("unknown", "GBP", "1"), []string{"payment_method_id"}},
	} {
		for _, want := range row.want {
			if detail := row.r.text("detail"); !strings.Contains(detail, want) {
				t.Errorf("detail = %q, want it to contain %q", detail, want)
			}
		}
	}
}
