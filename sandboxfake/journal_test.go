package sandboxfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestServer_Requests(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	body := `{"phone_number":"447700900012"}`

	created := a.post(phoneChecks, body)
	a.get(phoneChecks + "/" + created.json["check_id"].(string) + "/redirect")
	a.get("/nowhere?at=all")

	requests := srv.Requests()
	var got []string
	for _, r := range requests {
		got = append(got, fmt.Sprint(r.Operation, " ", r.Method, " ", r.Status))
	}
	want := []string{"token.create POST 200", "phone_check.create POST 201", "phone_check.open GET 200", " GET 404"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	create, open := requests[1], requests[2]
	if create.ID != created.header.Get("X-Request-Id") || create.ClientID != srv.Credentials().ClientID || !create.Time.Equal(frozenAt) || string(create.Body) != body || create.Path != phoneChecks {
		t.Errorf("create in the journal = %+v, want its request ID, client ID, time, body and path", create)
	}
	if create.ProjectID == "" || open.ProjectID != create.ProjectID || open.WorkspaceID != create.WorkspaceID || open.ClientID != "" {
		t.Errorf("project of the opened Check URL = %q, want %q and no client ID", open.ProjectID, create.ProjectID)
	}
	if requests[3].Path != "/nowhere?at=all" {
		t.Errorf("path = %q, want it with its query", requests[3].Path)
	}
}

func TestServer_RequestsMaskSecrets(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	id := a.create(phoneChecks02, `{"phone_number":"447700900012"}`)
	code := a.get(phoneChecks02 + "/" + id + "/redirect").json["code"].(string)
	a.exchange(phoneChecks02, id, code)
	const card = "4000000000000002"
	a.post("/console/v0.1/workspaces/default/payment_methods", `{"card_number":"`+card+`"}`) // rejected for its scope
	token, secret := a.token, srv.Credentials().ClientSecret.Reveal()
	a.token = "expired"
	a.exchange(phoneChecks02, id, code)
	request := a.request(http.MethodPost, "/oauth2/v1/revoke", url.Values{"token": {token}}.Encode())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Cookie", "session="+secret)
	request.SetBasicAuth(srv.Credentials().ClientID, secret)
	a.do(request)
	a.tokenCall(srv.Credentials(), url.Values{"client_secret": {secret}})
	repeated := a.request(http.MethodGet, "/", "")
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
		repeated.Header[name] = []string{"", "token=" + token, "session=" + secret}
	}
	a.do(repeated)

	var text strings.Builder
	text.WriteString(fmt.Sprintf("%+v", srv.Requests()))

	for _, r := range srv.Requests() {
		text.WriteString(string(r.Body))
	}
	basic := a.request(http.MethodGet, "/", "")
	basic.SetBasicAuth(srv.Credentials().ClientID, secret)
	for what, s := range map[string]string{"token": token, "secret": secret, "Basic credentials": strings.TrimPrefix(basic.Header.Get("Authorization"), "Basic "), "code": code, "card number": card} {
		if strings.Contains(text.String(), s) {
			t.Errorf("the journal contains the %s", what)
		}
	}
	if n := strings.Count(text.String(), "[redacted]"); n == 0 {
		t.Error("the journal contains no [redacted] text")
	}
}

func TestServer_JournalsReturnCopies(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Body: `{"detail":"injected"}`})
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Body: "{}"})
	a.post(phoneChecks, `{"phone_number":"447700900012"}`)
	a.completeCheck(srv.Handle("app.sandbox.test", new(recordingReceiver)))
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	// As text, so that nothing is shared with the journals.
	journals := func() string {
		text, err := json.MarshalIndent([]any{srv.Requests(), srv.Deliveries()}, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := journals()

	requests := srv.Requests()
	for i := range requests {
		requests[i].Header.Set("User-Agent", "changed")
		requests[i].Header["Accept-Encoding"][0] = "changed"
		clear(requests[i].Body)
		if requests[i].Fault != nil {
			requests[i].Fault.Body = "changed"
		}
	}
	deliveries := srv.Deliveries()
	clear(deliveries[0].Body)
	deliveries[0].Attempts[0].Status = 999
	deliveries[0].Attempts[0].Header.Set("Digest", "changed")
	deliveries[0].Attempts[0].Fault.Body = "changed"

	if diff := cmp.Diff(before, journals()); diff != "" {
		t.Errorf("changing the returned entries changed the journals (-before +after):\n%s", diff)
	}
}

func TestWithJournalLimit_DropsOldest(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		opts  []sandboxfake.Option
		limit int
	}{
		{"by default", nil, 1024},
		{"by option", []sandboxfake.Option{sandboxfake.WithJournalLimit(3)}, 3},
		{"minimum", []sandboxfake.Option{sandboxfake.WithJournalLimit(1)}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, append(row.opts, sandboxfake.WithInMemory())...)
			a := newAPI(t, srv)
			const more = 4

			var paths []string
			for i := range row.limit + more - 1 { // the token request is the first
				path := fmt.Sprint("/coverage/v0.1/countries/", i)
				a.get(path)
				paths = append(paths, path)
			}

			var kept []string
			for _, r := range srv.Requests() {
				kept = append(kept, r.Path)
			}
			if diff := cmp.Diff(paths[more-1:], kept); diff != "" {
				t.Errorf("stored requests (-want +got):\n%s", diff)
			}
			if got := srv.DroppedRequests(); got != more {
				t.Errorf("DroppedRequests() = %d, want %d", got, more)
			}
		})
	}
}

func TestWithJournalLimit_DroppedDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithJournalLimit(1))
		a := newAPI(t, srv)
		var deliveries recordingReceiver
		host := srv.Handle("app.sandbox.test", &deliveries)
		for range 3 {
			a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
		}

		if err := srv.Advance(t.Context(), 2*time.Minute); err != nil {
			t.Fatal(err)
		}

		if deliveries.count() != 3 || len(srv.Deliveries()) != 1 || srv.DroppedDeliveries() != 2 {
			t.Errorf("%d callbacks received, %d in the journal, %d dropped, want 3, 1 and 2", deliveries.count(), len(srv.Deliveries()), srv.DroppedDeliveries())
		}
	})
}

func TestServer_DeliveriesListAttempts(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	var sent []http.Header
	host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header)
		w.WriteHeader(500 + len(sent))
	}))
	id := a.completeCheck(host + "/callbacks?tenant=1")
	if err := srv.Advance(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}

	got := srv.Deliveries()[0]

	if got.CheckID != id || got.Product != idverify.ProductPhoneCheck || got.Status != "COMPLETED" || got.URL != host+"/callbacks?tenant=1" || !bytes.Contains(got.Body, []byte(id)) {
		t.Errorf("delivery = %+v, want the check's callback", got)
	}
	if got.Done || !got.NextAttempt.Equal(frozenAt.Add(30*time.Second)) || len(got.Attempts) != 2 {
		t.Fatalf("done = %v, next attempt %v, %d attempts, want a third one after 30 s", got.Done, got.NextAttempt, len(got.Attempts))
	}
	for i, attempt := range got.Attempts {
		if attempt.Status != 501+i || !attempt.Time.Equal(frozenAt.Add([]time.Duration{0, 10 * time.Second}[i])) {
			t.Errorf("attempt %d: status %d at %v, want 501 immediately and 502 after 10 s", i+1, attempt.Status, attempt.Time)
		}
		for _, name := range []string{"Authorization", "Date", "Digest", "X-Service-Callback", "Content-Type"} {
			if attempt.Header.Get(name) == "" || attempt.Header.Get(name) != sent[i].Get(name) {
				t.Errorf("attempt %d: %s = %q, want %q as sent", i+1, name, attempt.Header.Get(name), sent[i].Get(name))
			}
		}
	}
}
