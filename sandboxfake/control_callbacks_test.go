package sandboxfake_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// callback sends a callback by the control plane and returns the delivery after all attempts.
func (a *api) callback(body string) sandboxfake.Delivery {
	a.t.Helper()
	got := a.control(http.MethodPost, "callbacks", body)
	if got.status != http.StatusOK {
		a.t.Fatalf("callback: %d %s", got.status, got.body)
	}
	d, err := a.srv.AwaitDelivery(a.t.Context(), func(d sandboxfake.Delivery) bool {
		return d.ID == got.json["delivery_id"] && (d.Done || !d.NextAttempt.IsZero())
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return d
}

func TestServer_ControlSendCallback(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	shop := newShop(a.srv)
	target := shop.url + "/callbacks"
	id := a.controlCreate(`{"product":"subscriber_check","phone_number":"447700900012"}`).checkID()
	const at = `"created_at":"2026-01-02T03:04:05+0000","updated_at":"2026-01-02T03:04:05+0000"`

	plain := a.callback(`{"url":"` + target + `","body":` + quoteJSON(t, `{"check_id":"forged","status":"COMPLETED","match":true,"charge_amount":0,"charge_currency":"API",`+at+`}`) + `}`)
	known := a.callback(`{"url":"` + target + `","check_id":"` + id + `","body":` + quoteJSON(t, `{"check_id":"`+id+`","status":"EXPIRED","charge_amount":0,"charge_currency":"API",`+at+`}`) + `}`)

	callbacks, _ := shop.received(t)
	if len(callbacks) != 2 {
		t.Fatalf("%d callbacks verified, want 2", len(callbacks))
	}
	if c := callbacks[0]; c.Product != idverify.ProductPhoneCheck || c.CheckID != "forged" || string(c.Body) != string(plain.Body) || !plain.Acknowledged() {
		t.Errorf("callback %s with body %s, want a PhoneCheck with the given body", c.Product, c.Body)
	}
	if c := callbacks[1]; c.Product != idverify.ProductSubscriberCheck || c.Status != idverify.StatusExpired {
		t.Errorf("callback %s %s, want the check's product, with the given status", c.Product, c.Status)
	}
	check, events := a.timeline(id)
	if diff := cmp.Diff([]string{"created", "callback_queued", "attempt"}, kinds(events)); diff != "" || check["status"] != "ACCEPTED" || events[1]["delivery_id"] != known.ID {
		t.Errorf("timeline of the check %v (-want +got):\n%s", check["status"], diff)
	}
}

func TestServer_ControlSendCallbackBodies(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	target := a.srv.Handle("app.sandbox.test", http.NotFoundHandler())
	for name, body := range map[string]string{
		"empty":            "",
		"not JSON":         "hello",
		"longest":          strings.Repeat("b", 64<<10),
		"longest, escaped": strings.Repeat("\x01", 64<<10),
	} {
		d := a.callback(`{"url":"` + target + `","body":` + quoteJSON(t, body) + `}`)

		if string(d.Body) != body || d.Attempts[0].Status != http.StatusNotFound {
			t.Errorf("%s: %d bytes of body, attempts %v, want %d bytes and status 404", name, len(d.Body), d.Attempts, len(body))
		}
	}
}

func TestServer_ControlSendCallbackRetries(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	shop := newShop(a.srv)
	a.srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Status: 503})

	d := a.callback(`{"url":"` + shop.url + `/callbacks","product":"sim_check","body":"{}"}`)
	if err := a.srv.Advance(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}

	if want := frozenAt.Add(10 * time.Second); !d.NextAttempt.Equal(want) {
		t.Errorf("next attempt at %v, want %v", d.NextAttempt, want)
	}
	if callbacks, _ := shop.received(t); len(callbacks) != 1 || callbacks[0].Product != idverify.ProductSIMCheck {
		t.Errorf("%d callbacks verified, want the second attempt", len(callbacks))
	}
}

func TestServer_ControlSendCallbackInvalid(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	for _, row := range []struct {
		name, body string
		status     int
	}{
		{"no URL", `{"body":"{}"}`, 400},
		{"relative URL", `{"url":"/callbacks","body":"{}"}`, 400},
		{"URL with userinfo", `{"url":"https://u:p@app.sandbox.test","body":"{}"}`, 400},
		{"no body", `{"url":"https://app.sandbox.test"}`, 400},
		{"body as JSON", `{"url":"https://app.sandbox.test","body":{}}`, 400},
		{"body too large", `{"url":"https://app.sandbox.test","body":"` + strings.Repeat("b", 64<<10+1) + `"}`, 400},
		{"request too large", `{"url":"https://app.sandbox.test","body":"` + strings.Repeat("b", 500<<10) + `"}`, 400},
		{"unknown product", `{"url":"https://app.sandbox.test","body":"","product":"coverage"}`, 400},
		{"unknown check", `{"url":"https://app.sandbox.test","body":"","check_id":"x"}`, 404},
		{"unknown field", `{"url":"https://app.sandbox.test","body":"","key":"x"}`, 400},
	} {
		got := a.control(http.MethodPost, "callbacks", row.body)

		if got.status != row.status || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want a problem with status %d", row.name, got.status, got.body, row.status)
		}
	}
	if n := len(a.srv.Deliveries()); n != 0 {
		t.Errorf("%d callbacks were queued, want none", n)
	}
}
