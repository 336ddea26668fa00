package sandboxfake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	wantEqual(t, want, got, "journal")
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
	if n := strings.Count(text.String(), "[REDACTED]"); n == 0 {
		t.Error("the journal contains no [REDACTED] text")
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
	waitIdle(t, srv)
	// As text, so that nothing is shared with the journals.
	journals := func() string {
		text := must(json.MarshalIndent([]any{srv.Requests(), srv.Deliveries()}, "", "\t"))(t)
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

	wantEqual(t, before, journals(), "journals after a change of the returned entries")
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
			wantEqual(t, paths[more-1:], kept, "stored requests")
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
		deliveries, host := newRecordingReceiver(srv)
		for range 3 {
			a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
		}

		advance(t, srv, 2*time.Minute)

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
	advance(t, srv, 10*time.Second)

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

// The documented limits of a Request, and the marker of truncated texts.
const (
	journalPath   = 4 << 10
	journalBody   = 16 << 10
	journalLines  = 64
	journalValue  = 1 << 10
	journalHeader = 16 << 10
	truncatedMark = "[truncated]"
)

// lines returns a header of n lines, each with a value of size bytes.
func lines(n, size int) http.Header {
	h := make(http.Header)
	for i := range n {
		h.Set(fmt.Sprintf("X-%04d", i), strings.Repeat("v", size))
	}
	return h
}

func TestServer_HeaderLimit(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{"over a socket": nil, "in memory": {sandboxfake.WithInMemory()}} {
		for _, row := range []struct {
			name   string
			header http.Header
			status int
		}{
			{"30 KiB in one line", lines(1, 30<<10), 200},
			{"30 KiB in 400 lines", lines(400, 64), 200}, // Go 1.27 allows 500
			{"64 KiB in one line", lines(1, 64<<10), 431},
			{"64 KiB in 4096 lines", lines(4096, 6), 431},
		} {
			t.Run(name+" "+row.name, func(t *testing.T) {
				t.Parallel()
				a := newAPI(t, sandboxfake.New(t, opts...))
				row.header.Set("Authorization", "Bearer "+a.token)

				got := a.sendHeader(http.MethodGet, phoneChecks, row.header)

				if got.status != row.status {
					t.Errorf("%d %s, want %d", got.status, got.body, row.status)
				}
				want := 2 // the token and this request
				if row.status == 431 {
					want = 1
				}
				if n := len(a.srv.Requests()); n != want {
					t.Errorf("the journal has %d requests, want %d", n, want)
				}
			})
		}
	}
}

func TestServer_LimitsRequestJournal(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	number := `{"phone_number":"447700900012"}`
	for _, row := range []struct {
		name       string
		query      string
		header     http.Header
		body       string
		path, text int // stored lengths of the path and the body
		lines      int // of the row's header
		truncated  bool
	}{
		{"small", "", lines(3, 10), number, len(phoneChecks), len(number), 3, false},
		{"longest line", "", lines(1, journalValue), number, len(phoneChecks), len(number), 1, false},
		{"line over the limit", "", lines(1, journalValue+1), number, len(phoneChecks), len(number), 1, true},
		{"too many lines", "", lines(400, 1), number, len(phoneChecks), len(number), 59, true},
		{"too many bytes in few lines", "", lines(20, 1000), number, len(phoneChecks), len(number), 16, true},
		{"longest path", "?" + strings.Repeat("q", journalPath-len(phoneChecks)-1), nil, number, journalPath, len(number), 0, false},
		{"path over the limit", "?" + strings.Repeat("q", journalPath), nil, number, journalPath + len(truncatedMark), len(number), 0, true},
		{"longest body", "", nil, number + strings.Repeat(" ", journalBody-len(number)), len(phoneChecks), journalBody, 0, false},
		{"body over the limit", "", nil, number + strings.Repeat(" ", 60<<10), len(phoneChecks), journalBody + len(truncatedMark), 0, true},
	} {
		request := a.request(http.MethodPost, phoneChecks+row.query, row.body)
		maps.Copy(request.Header, row.header)
		request.Header.Set("Authorization", "Bearer "+a.token)
		request.Header.Set("Content-Type", "application/json")

		got := a.do(request)

		if got.status != http.StatusCreated {
			t.Fatalf("%s: %d %s, want 201: the limits of the journal must not apply to the request", row.name, got.status, got.body)
		}
		requests := a.srv.Requests()
		r := requests[len(requests)-1]
		kept, size, own := 0, 0, 0
		for name, values := range r.Header {
			for _, value := range values {
				kept++
				size += len(name) + len(value)
				if len(value) > journalValue+len(truncatedMark) {
					t.Errorf("%s: the journal stores a value of %d bytes, want a truncated one", row.name, len(value))
				}
			}
			if strings.HasPrefix(name, "X-") {
				own++
			}
		}
		if kept > journalLines || size > journalHeader {
			t.Errorf("%s: the journal stores %d header lines of %d bytes, want at most %d and %d", row.name, kept, size, journalLines, journalHeader)
		}
		if own < row.lines {
			t.Errorf("%s: the journal stores %d of the request's header lines, want at least %d", row.name, own, row.lines)
		}
		if len(r.Path) != row.path || len(r.Body) != row.text || !strings.HasPrefix(string(r.Body), number) || !strings.HasPrefix(r.Path, phoneChecks) {
			t.Errorf("%s: stored %d bytes of path and %d of body, want %d and %d", row.name, len(r.Path), len(r.Body), row.path, row.text)
		}
		if r.Truncated != row.truncated || r.Operation != "phone_check.create" || r.Status != http.StatusCreated {
			t.Errorf("%s: truncated = %v, operation = %s, status = %d, want truncated %v, phone_check.create, 201", row.name, r.Truncated, r.Operation, r.Status, row.truncated)
		}
		listed := a.control(http.MethodGet, "requests", "").json["requests"].([]any)
		shown := listed[len(listed)-1].(map[string]any)
		if diff := cmp.Diff(r.Path, shown["path"]); diff != "" || (shown["truncated"] == true) != row.truncated {
			t.Errorf("%s: the control plane shows truncated %v, path (-want +got):\n%s", row.name, shown["truncated"], diff)
		}
	}
}

// The documented limits of the texts in a callback.
const (
	urlLimit         = 2048
	referenceIDLimit = 1024
	otherFields      = 1024 // maximum size of a callback's other fields
)

func TestServer_LimitsDeliveryJournal(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt)))
	verified := make(chan error, 1)
	host := a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := a.srv.Verifier([]string{"app.sandbox.test"}, nil).VerifyCallback(r)
		verified <- err
	}))
	target := host + "/" + strings.Repeat("u", urlLimit-len(host)-1)
	for _, row := range []struct {
		name, referenceID string
		size              int // of the encoded reference ID
	}{
		{"HTML", strings.Repeat("<>&", referenceIDLimit/3), referenceIDLimit},
		{"control characters", strings.Repeat("\x01", referenceIDLimit), 6 * referenceIDLimit},
	} {
		created := a.post(phoneChecks, fmt.Sprintf(`{"phone_number":"447700900012","callback_url":%q,"reference_id":%s}`, target, quoteJSON(t, row.referenceID)))
		if created.status != http.StatusCreated {
			t.Fatalf("%s: create: %d %s, want 201", row.name, created.status, created.body)
		}
		a.get(phoneChecks + "/" + created.text("check_id") + "/redirect")
		if err := <-verified; err != nil {
			t.Errorf("%s: callback rejected: %v", row.name, err)
		}
		deliveries := a.srv.Deliveries()
		first := deliveries[len(deliveries)-1]
		noError(t, a.srv.Redeliver(t.Context(), first.ID))
		if err := <-verified; err != nil {
			t.Errorf("%s: redelivered callback rejected: %v", row.name, err)
		}

		deliveries = a.srv.Deliveries()
		again := deliveries[len(deliveries)-1]

		wantEqual(t, string(first.Body), string(again.Body), "%s: body of the second delivery", row.name)
		var body struct {
			ReferenceID string `json:"reference_id"`
		}
		if err := json.Unmarshal(again.Body, &body); err != nil || body.ReferenceID != row.referenceID {
			t.Errorf("%s: the body has a different reference ID (error %v)", row.name, err)
		}
		if len(again.Body) > row.size+otherFields || len(again.URL) > urlLimit {
			t.Errorf("%s: the journal stores %d bytes of body and %d of URL, want at most %d and %d", row.name, len(again.Body), len(again.URL), row.size+otherFields, urlLimit)
		}
	}
}

func quoteJSON(t *testing.T, text string) string {
	t.Helper()
	quoted := must(json.Marshal(text))(t)
	return string(quoted)
}

// This test measures the memory of the process, so it does not call t.Parallel.
func TestServer_RequestsMemory(t *testing.T) {
	// In addition to the texts, an entry has the slices and the map of its header, and a client
	// with an open connection has buffers.
	const entries, each = 128, journalPath + journalBody + journalHeader + 16<<10
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithJournalLimit(entries)))
	header := lines(400, 60)
	header.Set("Authorization", "Bearer "+a.token)
	header.Set("Content-Type", "application/json")
	body := `{"phone_number":"0"` + strings.Repeat(" ", 60<<10) + `}`
	send := func() {
		request := a.request(http.MethodPost, phoneChecks+"?"+strings.Repeat("q", 5<<10), body)
		request.Header = header
		a.do(request).wantProblem(t, http.StatusBadRequest, "phone_format_invalid")
	}
	send()
	before := heap()

	for range entries {
		send()
	}

	if grown := int64(heap()) - int64(before); grown > entries*each {
		t.Errorf("%d requests of 100 KiB use %d KiB each, want at most %d", entries, grown/entries>>10, each>>10)
	}
}

func TestServer_WaitDelivery(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		app := newBlockingReceiver()
		host := srv.Handle("app.sandbox.test", app)
		type change struct {
			attempts      int
			waits, isDone bool
		}
		var seen []change
		var found sandboxfake.Delivery
		awaited := make(chan error, 1)
		go func() {
			var err error
			found, err = srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool {
				if now := (change{len(d.Attempts), !d.NextAttempt.IsZero(), d.Done}); len(seen) == 0 || seen[len(seen)-1] != now {
					seen = append(seen, now)
				}
				return d.Done
			})
			awaited <- err
		}()
		a.completeCheck(host)
		synctest.Wait()
		app.respond <- http.StatusServiceUnavailable
		synctest.Wait()
		advanced := startAdvance(t.Context(), srv, 10*time.Second)
		synctest.Wait()
		app.respond <- http.StatusNoContent

		noError(t, errors.Join(<-awaited, <-advanced))
		want := []change{{0, false, false}, {1, true, false}, {1, false, false}, {2, false, true}}
		if diff := cmp.Diff(want, seen, cmp.AllowUnexported(change{})); diff != "" {
			t.Errorf("states of the delivery (-want +got):\n%s", diff)
		}
		past, err := srv.WaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged)
		if err != nil || past.ID != found.ID {
			t.Errorf("WaitDelivery of a past delivery = %q, %v, want the same delivery", past.ID, err)
		}
	})
}

func TestServer_WaitDeliveryLastAttempt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		receive http.HandlerFunc // nil: no check
		want    string
	}{
		{"no callback", nil, "no match among 0 callbacks (check that the check or its project has a callback URL)"},
		{"rejected", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, "no match among 1 callbacks (last attempt: rejected, status 400)"},
		{"unreachable", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no match among 1 callbacks (last attempt: unreachable, no response)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			if tt.receive != nil {
				newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", tt.receive))
			}
			waitIdle(t, srv)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()

			_, err := srv.WaitDelivery(ctx, sandboxfake.Delivery.Acknowledged)

			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want context.Canceled with %q", err, tt.want)
			}
		})
	}
}

func TestServer_WaitDeliveryInFlight(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	app := newBlockingReceiver()
	newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := srv.WaitDelivery(ctx, sandboxfake.Delivery.Acknowledged)
	app.respond <- http.StatusNoContent

	if want := "no match among 1 callbacks (no attempt has ended)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want %q", err, want)
	}
}

func TestServer_Redeliver(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	var receiver recordingReceiver
	a.completeCheck(srv.Handle("app.sandbox.test", &receiver))
	advance(t, srv, time.Minute)
	first := srv.Deliveries()[0]

	noError(t, srv.Redeliver(t.Context(), first.ID))
	again := must(srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.ID != first.ID && d.Done }))(t)

	if !cmp.Equal(again.Body, first.Body) || again.CheckID != first.CheckID || len(again.Attempts) != 1 || receiver.count() != 2 {
		t.Errorf("redelivery = %+v, want the same body in one attempt", again)
	}
	if again.Attempts[0].Header.Get("Authorization") == first.Attempts[0].Header.Get("Authorization") || again.Attempts[0].Header.Get("Date") == first.Attempts[0].Header.Get("Date") {
		t.Error("redelivery has the date or signature of the first delivery: receivers reject it as a replay")
	}
	wantEqual(t, first, srv.Deliveries()[0], "first delivery in the journal")
	if err := srv.Redeliver(t.Context(), "unknown"); err == nil {
		t.Error("Redeliver of an unknown delivery succeeded, want an error")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := srv.Redeliver(ended, first.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("Redeliver with a canceled context = %v, want context.Canceled", err)
	}
}
