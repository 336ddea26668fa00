package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	owner.want(200, http.MethodPut, workspaces+"/default/billing_account", `{"company_name":"Sandbox Ltd"}`)
	method := owner.want(201, http.MethodPost, workspaces+"/default/payment_methods", newCard).text("payment_method_id")
	project := account.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive})
	console, client := account.Console(), project.Client()

	topUp, err := console.TopUps.Create(t.Context(), idverify.TopUpParams{PaymentMethodID: method, Currency: "EUR", Amount: manyDigits})
	if err != nil {
		t.Fatal(err)
	}
	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
	if err != nil {
		t.Fatal(err)
	}
	balance, err := console.Billing.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	topUps, err := console.TopUps.List(t.Context(), idverify.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	usage, err := console.Usage.Daily(t.Context(), idverify.UsageQuery{From: frozenAt, GroupBy: []idverify.UsageGroup{idverify.UsageByProduct}})
	if err != nil {
		t.Fatal(err)
	}
	country, err := client.Reachability.Country(t.Context(), "GB")
	if err != nil {
		t.Fatal(err)
	}

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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("amounts of the client (-want +got):\n%s", diff)
	}
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
