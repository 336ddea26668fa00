package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// requests returns the paths of a page of the requests in the control plane.
func (a *api) requests(query string) (paths []string, next string) {
	a.t.Helper()
	got := a.control(http.MethodGet, "requests?"+query, "").wantStatus(a.t, http.StatusOK)
	next, _ = got.json["next"].(string)
	return textsOf(objects(got.json["requests"]), "path"), next
}

// pages follows the pages of a list, at most ten.
func pages[T any](list func(query string) (page T, next string), query string) (all []T) {
	for before := ""; len(all) < 10; {
		page, next := list(query + before)
		if all = append(all, page); next == "" {
			break
		}
		before = "&before=" + next
	}
	return all
}

func TestServer_ControlRequestsPaging(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithJournalLimit(7))
	for i := range 10 {
		a.get(fmt.Sprintf("/phone_check/v0.1/checks/%d", i))
	}
	a.get(phoneChecks)

	got := pages(a.requests, "limit=3&operation=phone_check.get")

	path := func(i int) string { return fmt.Sprintf("/phone_check/v0.1/checks/%d", i) }
	wantEqual(t, [][]string{{path(9), path(8), path(7)}, {path(6), path(5), path(4)}}, got, "pages of a journal of 7 requests, newest first")
	for _, query := range []string{"requests", "requests?limit=3"} {
		if got := a.control(http.MethodGet, query, ""); got.json["dropped"] != 5.0 {
			t.Errorf("%s: %s, want 5 dropped requests", query, got.body)
		}
	}
}

func TestServer_ControlRequestsFilters(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	missing, first, second := "/phone_check/v0.1/checks/x", phoneChecks+"?size=2", phoneChecks+"?size=-1"
	for _, path := range []string{missing, first, second} {
		a.get(path)
	}
	const token = "/oauth2/v1/token"
	for _, row := range []struct {
		query string
		want  []string
	}{
		{"", []string{token, missing, first, second}},
		{"limit=10", []string{second, first, missing, token}},
		{"status=404", []string{missing}},
		{"status=4xx", []string{missing, second}},
		{"limit=10&status=4xx", []string{second, missing}},
		{"status=2xx&search=checks", []string{first}},
		{"search=size", []string{first, second}},
		{"limit=1&search=size%3D2", []string{first}},
		{"operation=phone_check.list&operation=phone_check.get&limit=10", []string{second, first, missing}},
		{"status=500", []string{}},
	} {
		paths, _ := a.requests(row.query)

		wantEqual(t, row.want, paths, "%s", row.query)
	}
	for _, status := range []int{399, 400, 499, 500} {
		a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{Status: status})
		a.get(fmt.Sprint(phoneChecks, "?page=", status))
	}
	if paths, _ := a.requests("status=4xx&limit=10"); !slices.Equal(paths, []string{phoneChecks + "?page=499", phoneChecks + "?page=400", second, missing}) {
		t.Errorf("newest requests with a status from 400 to 499 = %q", paths)
	}
}

// Without a limit, a page after the first has the default length.
func TestServer_ControlRequestsBefore(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	var paths []string
	for i := range 60 {
		path := fmt.Sprintf("/phone_check/v0.1/checks?page=%d", i)
		a.get(path)
		paths = append(paths, path)
	}
	slices.Reverse(paths)
	_, next := a.requests("limit=5")

	second, third := a.requests("before=" + next)
	last, end := a.requests("before=" + third)

	wantEqual(t, paths[5:55], second, "second page")
	if len(last) != 6 || end != "" { // and the request for the token
		t.Errorf("last page = %v, next %q, want six requests", last, end)
	}
}

func TestServer_ControlListsInvalid(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	for _, query := range []string{
		"requests?limit=0", "requests?limit=201", "requests?limit=x", "requests?limit=", "requests?limit=1&limit=2",
		"requests?before=x", "requests?limit=1&before=x", "requests?limit=1&before=1", "requests?limit=1&before=0--1", "requests?limit=1&before=0-99999999999999999999",
		"requests?status=4", "requests?status=xx", "requests?status=0xx", "requests?status=6xx", "requests?status=99", "requests?status=0404", "requests?status=04xx", "requests?status=+44", "requests?status=",
		"checks?limit=0", "checks?limit=201", "checks?limit=-1", "checks?before=", "checks?status=DONE", "checks?status=", "checks?product=sim", "checks?product=",
		"checks?search=a&search=b", "checks?page=2", "timeline?check_id=a&check_id=b", "state?x=1",
	} {
		a.control(http.MethodGet, query, "").wantProblem(t, http.StatusBadRequest, "bad_request")
	}
	for _, list := range []string{"requests?limit=200", "requests?status=100", "requests?status=599", "checks?search=" + strings.Repeat("x", 4096), "requests?limit=10&before=0-18446744073709551615", "checks?before=0-18446744073709551615", "checks?before=0-0"} {
		if got := a.control(http.MethodGet, list, ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s, want 200", list, got.status, got.body)
		}
	}
	a.control(http.MethodGet, "requests?limit=10&before=1-5", "").wantStatus(t, http.StatusConflict)
}

// callback sends a callback by the control plane and returns the delivery after all attempts.
func (a *api) callback(body string) sandboxfake.Delivery {
	a.t.Helper()
	got := a.control(http.MethodPost, "callbacks", body).wantStatus(a.t, http.StatusOK)
	return must(a.srv.WaitDelivery(a.t.Context(), func(d sandboxfake.Delivery) bool {
		return d.ID == got.json["delivery_id"] && (d.Done || !d.NextAttempt.IsZero())
	}))(a.t)
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
	if project := check["project_id"]; plain.ProjectID != project || known.ProjectID != project {
		t.Errorf("projects of the callbacks = %q and %q, want the initial one, %v", plain.ProjectID, known.ProjectID, project)
	}
	if diff := cmp.Diff([]string{"created", "callback_queued", "attempt"}, kinds(events)); diff != "" || check["status"] != "ACCEPTED" || events[1]["delivery_id"] != known.ID || events[2]["delivery_id"] != known.ID {
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

// A timeline has the order of time, also if a callback is sent before the retry of another.
func TestServer_ControlSendCallbackRetries(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	shop := newShop(a.srv)
	a.srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Status: 503})
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	body := `{"url":"` + shop.url + `/callbacks","product":"sim_check","body":"{}","check_id":"` + id + `"}`

	first := a.callback(body)
	advance(t, a.srv, 5*time.Second)
	a.callback(body)
	advance(t, a.srv, 5*time.Second)

	if want := frozenAt.Add(10 * time.Second); !first.NextAttempt.Equal(want) {
		t.Errorf("next attempt at %v, want %v", first.NextAttempt, want)
	}
	if callbacks, _ := shop.received(t); len(callbacks) != 2 || callbacks[0].Product != idverify.ProductSIMCheck {
		t.Errorf("%d callbacks verified, want the second one, and the second attempt of the first", len(callbacks))
	}
	var got []string
	_, events := a.timeline(id)
	for _, e := range events {
		got = append(got, fmt.Sprint(e["time"], " ", e["kind"]))
	}
	want := []string{
		"2026-01-02T03:04:05Z created", "2026-01-02T03:04:05Z callback_queued", "2026-01-02T03:04:05Z attempt",
		"2026-01-02T03:04:10Z callback_queued", "2026-01-02T03:04:10Z attempt", "2026-01-02T03:04:15Z attempt",
	}
	wantEqual(t, want, got, "timeline")
}

func TestServer_ControlDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		var receiver recordingReceiver
		target := a.srv.Handle("app.sandbox.test", &receiver) + "/callbacks"
		other := a.completeCheck(target)
		waitIdle(t, a.srv)
		id := a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+target+`"}`)
		a.srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback, CheckID: id}, sandboxfake.Fault{Latency: 5 * time.Second})
		a.open(phoneChecks, id)

		delivered := a.control(http.MethodGet, "deliveries?wait_seconds=60&check_id="+id, "")
		again := a.control(http.MethodPost, "redeliver", `{"delivery_id":"`+textsOf(objects(delivered.json["deliveries"]), "delivery_id")[0]+`"}`)
		idle := a.control(http.MethodPost, "idle", "")
		all := a.control(http.MethodGet, "deliveries", "").json["deliveries"].([]any)

		deliveries := a.srv.Deliveries()
		if len(deliveries) != 3 || again.json["delivery_id"] != deliveries[2].ID {
			t.Fatalf("redeliver = %s, want the ID of the third of %d deliveries", again.body, len(deliveries))
		}
		attempt := deliveries[1].Attempts[0]
		var header any // as decoded from JSON
		noError(t, json.Unmarshal(must(json.Marshal(attempt.Header))(t), &header))
		want := []any{map[string]any{
			"delivery_id": deliveries[1].ID, "check_id": id, "product": "phone_check", "status": "COMPLETED", "project_id": deliveries[1].ProjectID,
			"url": target, "body": string(deliveries[1].Body), "done": true, "acknowledged": true,
			"attempts": []any{map[string]any{
				"time": attempt.Time.Format(time.RFC3339Nano), "header": header, "status": 204.0, "result": "acknowledged",
				"fault": map[string]any{"latency_seconds": 5.0}, "duration_seconds": 5.0,
			}},
		}}
		wantEqual(t, want, delivered.json["deliveries"], "deliveries of the check")
		if first := all[0].(map[string]any); len(all) != 3 || first["check_id"] != other {
			t.Errorf("%d deliveries of all checks, the first of %v, want 3, and %s", len(all), first["check_id"], other)
		}
		wantEqual(t, map[string]any{"total": 3.0, "dropped": 0.0}, a.state()["deliveries"], "deliveries of the state")
		if again.status != http.StatusOK || idle.status != http.StatusNoContent || receiver.count() != 3 {
			t.Errorf("redeliver %d, idle %d, receiver got %d callbacks, want 200, 204 and 3", again.status, idle.status, receiver.count())
		}
	})
}

func TestServer_ControlDeliveryTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		began := time.Now()

		got := a.control(http.MethodGet, "deliveries?wait_seconds=600&check_id=none", "")

		if diff := cmp.Diff(map[string]any{"deliveries": []any{}, "dropped": 0.0}, got.json); got.status != http.StatusOK || diff != "" || time.Since(began) != 10*time.Minute {
			t.Errorf("%d after %v (-want +got):\n%s", got.status, time.Since(began), diff)
		}
	})
}

func TestServer_ControlWaitReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		ended := make(chan response)
		go func() { ended <- a.control(http.MethodGet, "deliveries?wait_seconds=60&check_id=none", "") }()
		synctest.Wait()

		a.srv.Reset()

		got := <-ended
		want := map[string]any{"type": "about:blank", "title": "Conflict", "status": 409.0, "detail": "the server was reset during the request"}
		if diff := cmp.Diff(want, got.json); got.status != http.StatusConflict || diff != "" {
			t.Errorf("%d %s (-want +got):\n%s", got.status, got.body, diff)
		}
	})
}

func TestServer_ControlRequests(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	got := a.control(http.MethodGet, "requests?operation=phone_check.create", "")

	requests := got.json["requests"].([]any)
	if len(requests) != 1 {
		t.Fatalf("journal has %d creates, want 1: %s", len(requests), got.body)
	}
	if r := requests[0].(map[string]any); r["status"] != 201.0 || r["path"] != phoneChecks || r["body"] != `{"phone_number":"447700900012"}` || r["client_id"] != a.srv.Credentials().ClientID {
		t.Errorf("request in the journal = %v, want the create", r)
	}
	if strings.Contains(string(got.body), a.token) || strings.Contains(string(got.body), a.srv.Credentials().ClientSecret.Reveal()) {
		t.Error("the journal contains a token or a secret")
	}
}
