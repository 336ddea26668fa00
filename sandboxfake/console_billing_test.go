package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// payer returns the owner of a workspace of a new server. The workspace has company details and a
// payment method.
func payer(t testing.TB) (owner *api, methodID string) {
	t.Helper()
	srv := consoleServer(t)
	owner = newConsoleAPI(t, srv, srv.NewWorkspace("Payer").Credentials)
	return owner, owner.addCard()
}

// addCard adds company details and a payment method to a's workspace.
func (a *api) addCard() (methodID string) {
	a.t.Helper()
	a.want(200, http.MethodPut, workspaces+"/default/billing_account", `{"company_name":"Sandbox Ltd"}`)
	return a.want(201, http.MethodPost, workspaces+"/default/payment_methods", newCard).text("payment_method_id")
}

// topUp adds amount to the balance.
func (a *api) topUp(methodID, currency, amount string) response {
	a.t.Helper()
	return a.post(workspaces+"/default/topups", fmt.Sprintf(`{"payment_method_id":%q,"currency":%q,"amount":%s}`, methodID, currency, amount))
}

func TestServer_BillingSetupOrder(t *testing.T) {
	t.Parallel()
	owner := newOwnerAPI(t, consoleServer(t))
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

func TestServer_FirstTopUpSetsCurrency(t *testing.T) {
	t.Parallel()
	owner, method := payer(t)

	first := owner.topUp(method, "GBP", "25.50")
	after := owner.money("default")
	second := owner.topUp(method, "GBP", `"0.000001"`)

	want := map[string]any{"top_up_id": first.text("top_up_id"), "payment_method_id": method, "currency": "GBP", "amount": 25.5, "created_at": "2026-01-02T03:04:05+0000"}
	wantEqual(t, want, first.json, "first top-up")
	if first.status != 201 || first.text("top_up_id") == "" || after != "25.5 GBP" {
		t.Errorf("first top-up: %d %s, balance %s, want an ID, and 25.5 GBP without the 100 API", first.status, first.body, after)
	}
	if got := owner.money("default"); second.status != 201 || got != "25.500001 GBP" {
		t.Errorf("second top-up: %d %s, balance %s, want 25.500001 GBP", second.status, second.body, got)
	}
	owner.topUp(method, "EUR", "1").wantProblem(t, 409, "currency_fixed")
	if got := owner.money("default"); got != "25.500001 GBP" {
		t.Errorf("balance after a top-up in another currency = %s, want 25.500001 GBP as before", got)
	}
	other := newConsoleAPI(t, owner.srv, owner.srv.NewWorkspace("Another payer").Credentials)
	if got := other.topUp(other.addCard(), "GBP", "25.50").text("top_up_id"); got == first.text("top_up_id") {
		t.Errorf("the first top-ups of two workspaces share the ID %s", got)
	}
}

func TestServer_PaymentMethodCurrency(t *testing.T) {
	t.Parallel()
	owner, method := payer(t)
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
	owner, method := payer(t)

	one, all := owner.get(workspaces+"/default/payment_methods/"+method), owner.get(workspaces+"/default/payment_methods")

	if one.text("last_four_digits") != "4242" {
		t.Errorf("card = %s, want last_four_digits 4242", one.body)
	}
	var journal strings.Builder
	for _, r := range owner.srv.Requests() {
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
	owner, method := payer(t)
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
	owner, _ := payer(t)
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
		wantEqual(t, want, r.json, "created")
		read := owner.want(200, http.MethodGet, workspaces+"/default/payment_methods/"+r.text("payment_method_id"), "")
		wantEqual(t, want, read.json, "read")
	}
	owner.get(workspaces+"/default/payment_methods/unknown").wantProblem(t, 404, "not_found")
}

// The sum of a workspace's top-ups is at most 10^12.
func TestServer_TopUpLimit(t *testing.T) {
	t.Parallel()
	owner, method := payer(t)
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
	owner, method := payer(t)
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

func TestServer_InsufficientBalance(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t, sandboxfake.WithPrices(map[idverify.Product]string{idverify.ProductPhoneCheck: "60", idverify.ProductSIMCheck: "0.000001"}))
	account := srv.NewWorkspace("Shop")
	owner := newConsoleAPI(t, srv, account.Credentials)
	product := newProductAPI(t, srv, account.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive}).Credentials)
	product.create(phoneChecks, `{"phone_number":"447700900012"}`)

	product.post(phoneChecks, `{"phone_number":"447700900012"}`).wantProblem(t, 402, "insufficient_balance")

	if n := product.get(phoneChecks).at("page", "total_elements"); n != 1.0 || owner.money("default") != "40 API" {
		t.Errorf("%v checks, balance %s, want 1 and 40 API", n, owner.money("default"))
	}
	product.create("/sim_check/v0.1/checks", `{"phone_number":"447700900012"}`)
	if got := owner.money("default"); got != "39.999999 API" {
		t.Errorf("balance after a SIMCheck for 0.000001 = %s, want 39.999999 API", got)
	}
	usage := owner.get(workspaces + "/default/usage/daily?group_by=product_id&search=date%3E2026")
	wantEqual(t, []string{"60", "0.000001"}, usage.amounts(t), "usage without the rejected check")
}

func TestServer_MembersShareBalance(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	for _, role := range []string{"ADMIN", "VIEWER"} {
		member := newConsoleAPI(t, srv, owner.invite(role, role).Credentials)
		id, _ := owner.newProject(fmt.Sprintf(`{"name":%q}`, role))
		pair := member.want(201, http.MethodPost, projects+"/"+id+"/credentials", "")
		product := newProductAPI(t, srv, pair.credentials())

		product.create(phoneChecks, `{"phone_number":"447700900012"}`)
	}

	if got := owner.money("default"); got != "98 API" {
		t.Errorf("balance after one check each of an admin and a viewer = %s, want 98 API", got)
	}
}

// A balance equal to the price is sufficient.
func TestServer_PriceEqualsBalance(t *testing.T) {
	t.Parallel()
	for price, wants := range map[string][]int{"100": {201, 402}, "50": {201, 201, 402}, "100.000001": {402}, "99.999999": {201, 402}, "0": {201, 201}} {
		srv := consoleServer(t, sandboxfake.WithPrices(map[idverify.Product]string{idverify.ProductPhoneCheck: price}))
		product := newProductAPI(t, srv, srv.NewWorkspace("Shop").NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive}).Credentials)
		for i, want := range wants {
			if r := product.post(phoneChecks, `{"phone_number":"447700900012"}`); r.status != want {
				t.Errorf("price %s, check %d of a balance of 100: %d %s, want %d", price, i+1, r.status, r.body, want)
			}
		}
	}
}

// Concurrent checks are charged exactly, to the millionth.
func TestServer_ConcurrentCharges(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithPrices(map[idverify.Product]string{
		idverify.ProductPhoneCheck: "0.123457", idverify.ProductSIMCheck: "0.2", idverify.ProductSubscriberCheck: "0.333333",
	}))
	account := srv.NewWorkspace("Shop")
	var apis []*api
	for i := range 4 {
		apis = append(apis, newProductAPI(t, srv, account.NewProject(idverify.ProjectParams{Name: fmt.Sprintf("Project %d", i), Mode: idverify.ModeLive}).Credentials))
	}
	millionths := map[string]int{phoneChecks: 123457, "/sim_check/v0.1/checks": 200000, "/subscriber_check/v0.1/checks": 333333}
	paths := []string{phoneChecks, "/sim_check/v0.1/checks", "/subscriber_check/v0.1/checks"}

	var mu sync.Mutex
	spent, accepted, rejected := 0, 0, 0
	var wg sync.WaitGroup
	jobs := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range jobs {
				path := paths[i%len(paths)]
				r := apis[i%len(apis)].post(path, `{"phone_number":"447700900012"}`)
				mu.Lock()
				switch {
				case r.status == 201:
					accepted++
					spent += millionths[path]
				case r.status == 402:
					rejected++
				default:
					t.Errorf("create: %d %s", r.status, r.body)
				}
				mu.Unlock()
				if strings.Contains(string(r.body), `"snapshot_balance":-`) {
					t.Errorf("negative balance: %s", r.body)
				}
			}
		})
	}
	for i := range 1000 {
		jobs <- i
	}
	close(jobs)
	wg.Wait()

	decimal := func(n int) string {
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%06d", n/1_000_000, n%1_000_000), "0"), ".")
	}
	left := 100_000_000 - spent
	want := fmt.Sprintf(`"amount_available":%s,`, decimal(left))
	owner := newConsoleAPI(t, srv, account.Credentials)
	body := string(owner.get(workspaces + "/default").body)
	if accepted+rejected != 1000 || rejected == 0 || left < 0 || !strings.Contains(body, want) {
		t.Errorf("%d checks accepted for %d millionths, %d rejected; workspace = %s, want %s", accepted, spent, rejected, body, want)
	}
	if left >= 333333 {
		t.Errorf("a check was rejected with a balance of %d millionths", left)
	}
	counted, charged := 0, 0
	usage := owner.get(workspaces + "/default/usage/hourly?group_by=product_id&search=date%3E2000")
	amounts := usage.amounts(t)
	for i, row := range usage.at("_embedded", "usage").([]any) {
		u := row.(map[string]any)
		n := int(u["counter"].(float64))
		price := map[any]int{"pck": 123457, "sck": 200000, "suk": 333333}[u["product_id"]]
		if amounts[i] != decimal(n*price) {
			t.Errorf("usage amount = %s for %d checks at %d millionths", amounts[i], n, price)
		}
		counted, charged = counted+n, charged+n*price
	}
	if counted != accepted || charged != spent {
		t.Errorf("usage = %d checks for %d millionths, want %d for %d", counted, charged, accepted, spent)
	}
}

// usageRows returns the rows of a usage response as text: date, product, project, counter, amount,
// currency.
func (r response) usageRows(names map[string]string) []string {
	rows := []string{}
	items, _ := r.at("_embedded", "usage").([]any)
	for _, item := range items {
		u := item.(map[string]any)
		row := []string{fmt.Sprint(u["date"])}
		if product, ok := u["product_id"]; ok {
			row = append(row, fmt.Sprint(product))
		}
		if project, ok := u["project_id"]; ok {
			row = append(row, names[fmt.Sprint(project)])
		}
		rows = append(rows, strings.Join(append(row, fmt.Sprint(u["counter"]), fmt.Sprint(u["amount"]), fmt.Sprint(u["currency"])), " "))
	}
	return rows
}

// newUsageWorkspace returns a workspace with checks in three hours of two days and two checks in
// the next month, the last one after the first top-up.
func newUsageWorkspace(t *testing.T) (owner *api, names map[string]string) {
	t.Helper()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 30, 22, 59, 59, 0, time.UTC)))
	account := srv.NewWorkspace("Busy")
	live, sandbox := account.NewProject(idverify.ProjectParams{Name: "live", Mode: idverify.ModeLive}), account.NewProject(idverify.ProjectParams{Name: "sandbox", Mode: idverify.ModeSandbox})
	check := func(p *sandboxfake.Project, paths ...string) {
		t.Helper()
		a := newProductAPI(t, srv, p.Credentials)
		for _, path := range paths {
			a.create(path, `{"phone_number":"447700900012"}`)
		}
	}
	const sim = "/sim_check/v0.1/checks"
	check(live, phoneChecks, phoneChecks, sim)
	check(sandbox, phoneChecks)
	advance(t, srv, time.Second) // 23:00:00
	check(live, phoneChecks)
	advance(t, srv, time.Hour) // the 31st
	check(sandbox, sim)
	advance(t, srv, 24*time.Hour) // February
	check(live, phoneChecks)
	owner = newConsoleAPI(t, srv, account.Credentials)
	method := owner.addCard()
	owner.want(201, http.MethodPost, workspaces+"/default/topups", fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":5}`, method))
	check(live, phoneChecks)
	return owner, map[string]string{live.ProjectID: "live", sandbox.ProjectID: "sandbox"}
}

func TestServer_UsageGroups(t *testing.T) {
	t.Parallel()
	owner, names := newUsageWorkspace(t)
	for _, row := range []struct {
		period, search, groupBy string
		want                    []string
	}{
		{"hourly", "date>=2026-01-30T22", "", []string{"2026-01-30T22 4 3 API", "2026-01-30T23 1 1 API", "2026-01-31T00 1 0 API", "2026-02-01T00 1 1 API", "2026-02-01T00 1 1 EUR"}},
		{"hourly", "date>2026-01-30T22;date<2026-02-01T00", "", []string{"2026-01-30T23 1 1 API", "2026-01-31T00 1 0 API"}},
		{"hourly", "date==2026-01-30T22", "product_id", []string{"2026-01-30T22 pck 3 2 API", "2026-01-30T22 sck 1 1 API"}},
		{"hourly", "date==2026-01-30T22", "project_id", []string{"2026-01-30T22 live 3 3 API", "2026-01-30T22 sandbox 1 0 API"}},
		{"daily", "date>=2026-01-30", "", []string{"2026-01-30 5 4 API", "2026-01-31 1 0 API", "2026-02-01 1 1 API", "2026-02-01 1 1 EUR"}},
		{"daily", "date<=2026-01-31", "product_id,project_id", []string{"2026-01-30 pck live 3 3 API", "2026-01-30 pck sandbox 1 0 API", "2026-01-30 sck live 1 1 API", "2026-01-31 sck sandbox 1 0 API"}},
		{"daily", "date<=2026-01-31", "product_id&group_by=project_id", []string{"2026-01-30 pck live 3 3 API", "2026-01-30 pck sandbox 1 0 API", "2026-01-30 sck live 1 1 API", "2026-01-31 sck sandbox 1 0 API"}},
		{"daily", "date>=2026-01-30;product_id!=pck", "product_id", []string{"2026-01-30 sck 1 1 API", "2026-01-31 sck 1 0 API"}},
		{"daily", "date>=2026-01-30;product_id==sim_check", "", []string{}},
		{"daily", "date>=2026-01-30;product_id==sck", "", []string{"2026-01-30 1 1 API", "2026-01-31 1 0 API"}},
		{"monthly", "date>=2026-01", "", []string{"2026-01 6 4 API", "2026-02 1 1 API", "2026-02 1 1 EUR"}},
		{"monthly", "date==2026-01", "project_id,product_id", []string{"2026-01 pck live 3 3 API", "2026-01 pck sandbox 1 0 API", "2026-01 sck live 1 1 API", "2026-01 sck sandbox 1 0 API"}},
		{"monthly", "date<2026-01", "", []string{}},
	} {
		query := "?search=" + url.QueryEscape(row.search)
		if row.groupBy != "" {
			query += "&group_by=" + row.groupBy
		}

		r := owner.want(200, http.MethodGet, workspaces+"/default/usage/"+row.period+query, "")

		got := r.usageRows(names)
		if strings.Contains(row.groupBy, "project_id") {
			// Groups are sorted by ID, not by name.
			got = sorted(got)
		}
		wantEqual(t, row.want, got, "%s %s %s", row.period, row.search, row.groupBy)
	}
}

// usagePages returns the rows of all pages of the usage at path, by following the links.
func (a *api) usagePages(path string, names map[string]string) []string {
	a.t.Helper()
	var rows []string
	for next := a.srv.URL() + workspaces + "/default/usage/" + path; next != ""; {
		r := a.want(200, http.MethodGet, next, "")
		rows = append(rows, r.usageRows(names)...)
		next = r.text("_links", "next", "href")
	}
	return rows
}

func TestServer_UsagePages(t *testing.T) {
	t.Parallel()
	owner, names := newUsageWorkspace(t)

	daily := owner.usagePages("daily?size=2&group_by=product_id&search="+url.QueryEscape("date>=2026-01-30"), names)
	monthly := owner.usagePages("monthly?size=1&group_by=product_id&group_by=project_id&search="+url.QueryEscape("date==2026-01"), names)

	want := []string{"2026-01-30 pck 4 3 API", "2026-01-30 sck 1 1 API", "2026-01-31 sck 1 0 API", "2026-02-01 pck 1 1 API", "2026-02-01 pck 1 1 EUR"}
	wantEqual(t, want, daily, "rows of all pages")
	want = []string{"2026-01 pck live 3 3 API", "2026-01 pck sandbox 1 0 API", "2026-01 sck live 1 1 API", "2026-01 sck sandbox 1 0 API"}
	wantEqual(t, want, sorted(monthly), "rows of all pages with two groups")
}

func TestServer_UsageOfDeletedProject(t *testing.T) {
	t.Parallel()
	owner, names := newUsageWorkspace(t)
	path := workspaces + "/default/usage/monthly?group_by=project_id&search=date%3E2025"
	before := owner.get(path).usageRows(names)

	for id := range names {
		owner.want(204, http.MethodDelete, projects+"/"+id, "")
	}

	if diff := cmp.Diff(before, owner.get(path).usageRows(names)); diff != "" || len(before) == 0 {
		t.Errorf("usage after the projects were deleted (-before +after):\n%s", diff)
	}
}

func TestServer_UsageRejectsQueries(t *testing.T) {
	t.Parallel()
	owner, _ := newUsageWorkspace(t)
	for _, query := range []string{
		"", "?search=", "?search=product_id==pck", "?search=date", "?search=date>=soon", "?search=date>2026,", "?search=colour==red;date>2026",
		"?search=date>2026&group_by=", "?search=date>2026&group_by=colour", "?search=date>2026&group_by=product_id,", "?search=date>2026&group_by=product_id,product_id",
		"?search=date>2026&group_by=product_id&group_by=product_id", "?search=date>2026&group_by=product_id&group_by=", "?search=date>2026&search=date>2026",
		"?search=date>2026&size=0", "?search=date>2026&sort=name,asc",
	} {
		r := owner.get(workspaces + "/default/usage/daily" + query)

		if r.status != 400 || r.fragment() != "bad_request" {
			t.Errorf("%s: %d %s, want 400", query, r.status, r.body)
		}
	}
	owner.get(workspaces+"/default/usage/weekly?search=date>2026").wantProblem(t, 404, "not_found")
}

func sorted(rows []string) []string { return slices.Sorted(slices.Values(rows)) }

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

		workspace := serve(t, srv, token, http.MethodGet, path, "")
		currency := workspace.text("_embedded", "balance", "currency")
		balance := workspace.number(t, "_embedded", "balance", "amount_available")
		if r.status != 201 {
			if r.status != 400 || currency != "API" || balance != "100" {
				t.Errorf("amount %s: %d %s, balance %s %s, want 400 and 100 API", amount, r.status, r.body, balance, currency)
			}
			return
		}
		want, isNumber := new(big.Rat).SetString(r.number(t, "amount"))
		got, _ := new(big.Rat).SetString(balance)
		if !isNumber || got.Cmp(want) != 0 || want.Sign() <= 0 {
			t.Errorf("amount %s: response %s, balance %s %s, want a positive amount and the same balance", amount, r.body, balance, currency)
		}
	})
}
