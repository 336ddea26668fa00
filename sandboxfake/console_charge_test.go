package sandboxfake_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

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
	if diff := cmp.Diff([]string{"60", "0.000001"}, usage.amounts(t)); diff != "" {
		t.Errorf("usage without the rejected check (-want +got):\n%s", diff)
	}
}

func TestServer_MembersShareBalance(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	for _, role := range []string{"ADMIN", "VIEWER"} {
		member := newConsoleAPI(t, srv, owner.invite(role, role).Credentials)
		id, _ := owner.newProject(fmt.Sprintf(`{"name":%q}`, role))
		pair := member.want(201, http.MethodPost, projects+"/"+id+"/credentials", "")
		product := newProductAPI(t, srv, idverify.Credentials{ClientID: pair.text("client_id"), ClientSecret: idverify.NewSecret(pair.text("client_secret"))})

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
