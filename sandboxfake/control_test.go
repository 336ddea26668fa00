package sandboxfake_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// control sends a call to the control plane, a body as JSON.
func (a *api) control(method, path, body string) reply {
	a.t.Helper()
	request := a.request(method, "/_sandbox/"+path, body)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	return a.do(request)
}

// controlled returns an in-memory server with a control plane.
func controlled(t testing.TB, opts ...sandboxfake.Option) *api {
	t.Helper()
	return newAPI(t, sandboxfake.New(t, append([]sandboxfake.Option{sandboxfake.WithInMemory(), sandboxfake.WithControlPlane()}, opts...)...))
}

func TestTheControlPlaneIsOffByDefault(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))

	got := a.call(http.MethodGet, "/_sandbox/time", "")

	if got.status != http.StatusNotFound {
		t.Errorf("without WithControlPlane /_sandbox/time is %d, want 404: the service has no such path", got.status)
	}
}

func TestTheHelpPageTellsEveryControl(t *testing.T) {
	t.Parallel()
	a := controlled(t)

	help := a.control(http.MethodGet, "", "")

	if help.status != http.StatusOK || !strings.HasPrefix(help.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("the help page is %d %s", help.status, help.header.Get("Content-Type"))
	}
	for _, path := range []string{"time", "advance", "idle", "faults", "deliveries", "redeliver", "requests", "signup", "keys", "reset"} {
		if !strings.Contains(string(help.body), "/_sandbox/"+path+"\n") {
			t.Errorf("the help page does not name %s", path)
		}
	}
}

func TestAdvanceMovesTheClockOverTheControlPlane(t *testing.T) {
	t.Parallel()
	a := controlled(t, sandboxfake.WithFrozenClock(frozenAt))
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	advanced := a.control(http.MethodPost, "advance", `{"seconds":120.5}`)

	want := frozenAt.Add(120500 * time.Millisecond).Format(time.RFC3339Nano)
	if advanced.status != http.StatusOK || advanced.json["now"] != want {
		t.Errorf("advance: %d %s, want now %s", advanced.status, advanced.body, want)
	}
	if now := a.control(http.MethodGet, "time", ""); now.json["now"] != want {
		t.Errorf("time: %s, want %s", now.body, want)
	}
	if got := a.get(phoneChecks + "/" + id); got.status != http.StatusNotFound {
		t.Errorf("after 120 s the check is %d, want 404: it has expired", got.status)
	}
}

func TestFaultsBreakCallsOverTheControlPlaneUntilTheyAreTakenBack(t *testing.T) {
	t.Parallel()
	a := controlled(t)
	injected := a.control(http.MethodPost, "faults", `{"match":{"operation":"phone_check.list","repeat":true},"faults":[{"status":429,"retry_after_seconds":7},{}]}`)
	if injected.status != http.StatusNoContent {
		t.Fatalf("inject: %d %s", injected.status, injected.body)
	}

	first, second := a.get(phoneChecks), a.get(phoneChecks)
	inForce := a.control(http.MethodGet, "faults", "")
	a.control(http.MethodDelete, "faults", "")
	third := a.get(phoneChecks)

	if first.status != http.StatusTooManyRequests || first.header.Get("Retry-After") != "7" || second.status != http.StatusOK || third.status != http.StatusOK {
		t.Errorf("statuses %d (Retry-After %s), %d, %d, want 429 (7), then 200, then 200 since the faults were taken back", first.status, first.header.Get("Retry-After"), second.status, third.status)
	}
	want := map[string]any{"injections": []any{map[string]any{
		"match":  map[string]any{"operation": "phone_check.list", "repeat": true},
		"faults": []any{map[string]any{"status": 429.0, "retry_after_seconds": 7.0}, map[string]any{}},
		"left":   2.0,
	}}}
	if diff := cmp.Diff(want, inForce.json); diff != "" {
		t.Errorf("faults in force (-want +got):\n%s", diff)
	}
}

func TestDeliveriesAreAwaitedAndSentAgainOverTheControlPlane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := controlled(t)
		var receiver bodies
		target := a.srv.Handle("app.sandbox.test", &receiver)
		id := a.finish(target + "/callbacks")

		delivered := a.control(http.MethodGet, "deliveries?wait_seconds=60&check_id="+id, "")
		delivery := delivered.json["deliveries"].([]any)[0].(map[string]any)
		again := a.control(http.MethodPost, "redeliver", `{"delivery_id":"`+delivery["delivery_id"].(string)+`"}`)
		idle := a.control(http.MethodPost, "idle", "")

		if delivery["check_id"] != id || delivery["done"] != true || delivery["acknowledged"] != true || delivery["product"] != "phone_check" || delivery["status"] != "COMPLETED" {
			t.Errorf("the delivery is %v, want the check's, acknowledged", delivery)
		}
		if attempts := delivery["attempts"].([]any); len(attempts) != 1 || attempts[0].(map[string]any)["status"] != 204.0 {
			t.Errorf("attempts %v, want one that was answered with 204", attempts)
		}
		if again.status != http.StatusNoContent || idle.status != http.StatusNoContent || receiver.count() != 2 {
			t.Errorf("redeliver %d, idle %d, the receiver saw %d callbacks, want 204, 204 and 2", again.status, idle.status, receiver.count())
		}
	})
}

func TestAWaitForADeliveryThatNeverComesAnswersWithWhatThereIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := controlled(t)

		got := a.control(http.MethodGet, "deliveries?wait_seconds=30&check_id=none", "")

		if diff := cmp.Diff(map[string]any{"deliveries": []any{}, "dropped": 0.0}, got.json); got.status != http.StatusOK || diff != "" {
			t.Errorf("%d (-want +got):\n%s", got.status, diff)
		}
	})
}

func TestRequestsAreReadOverTheControlPlaneWithoutSecrets(t *testing.T) {
	t.Parallel()
	a := controlled(t)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	got := a.control(http.MethodGet, "requests?operation=phone_check.create", "")

	requests := got.json["requests"].([]any)
	if len(requests) != 1 {
		t.Fatalf("%d creates in the journal, want 1: %s", len(requests), got.body)
	}
	if r := requests[0].(map[string]any); r["status"] != 201.0 || r["path"] != phoneChecks || r["body"] != `{"phone_number":"447700900012"}` || r["client_id"] != a.srv.Credentials().ClientID {
		t.Errorf("the journal tells %v", r)
	}
	if strings.Contains(string(got.body), a.token) || strings.Contains(string(got.body), a.srv.Credentials().ClientSecret.Reveal()) {
		t.Error("the journal tells a token or a secret")
	}
}

func TestKeysRotateOverTheControlPlane(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		opts []sandboxfake.Option
	}{
		{"fixed keys", nil},
		{"fresh keys", []sandboxfake.Option{sandboxfake.WithFreshKeys()}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := controlled(t, row.opts...)

			rotated := a.control(http.MethodPost, "keys", "")

			keys := a.get("/.well-known/jwks.json").json["keys"].([]any)
			if len(keys) != 2 || keys[1].(map[string]any)["kid"] != rotated.json["key_id"] || keys[0].(map[string]any)["n"] == keys[1].(map[string]any)["n"] {
				t.Errorf("the key set holds %v, want the old key and %v", keys, rotated.json["key_id"])
			}
		})
	}
}

func TestASignUpOverTheControlPlaneJoinsTheInviter(t *testing.T) {
	t.Parallel()
	a := controlled(t)
	invitation, err := a.srv.Console().Invitations.Create(t.Context(), idverify.InvitationParams{Name: "Ada", Role: idverify.RoleViewer})
	if err != nil {
		t.Fatal(err)
	}

	account := a.control(http.MethodPost, "signup", `{"name":"Ada","invitation_ids":["`+invitation.InvitationID+`"]}`)

	credentials, _ := account.json["credentials"].(map[string]any)
	joined, _ := account.json["joined"].([]any)
	if account.status != http.StatusOK || account.json["role"] != "OWNER" || len(joined) != 1 || joined[0].(map[string]any)["role"] != "VIEWER" {
		t.Fatalf("sign-up: %d %s, want an owner who joined as a viewer", account.status, account.body)
	}
	a.token = a.tokenFor(idverify.Credentials{ClientID: credentials["client_id"].(string), ClientSecret: idverify.NewSecret(credentials["client_secret"].(string))}, "workspaces")
	if got := a.get("/console/v0.1/workspaces"); got.status != http.StatusOK || got.json["page"].(map[string]any)["total_elements"] != 2.0 {
		t.Errorf("Ada's workspaces: %d %s, want two", got.status, got.body)
	}
}

func TestResetOverTheControlPlaneForgetsAll(t *testing.T) {
	t.Parallel()
	a := controlled(t)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	reset := a.control(http.MethodPost, "reset", "")

	if reset.status != http.StatusNoContent || len(a.srv.Requests()) != 0 {
		t.Errorf("reset is %d and leaves %d requests, want 204 and none", reset.status, len(a.srv.Requests()))
	}
	if got := a.get(phoneChecks); got.status != http.StatusUnauthorized {
		t.Errorf("a token from before the reset gets %d, want 401", got.status)
	}
}

func TestABadControlIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	a := controlled(t, sandboxfake.WithFrozenClock(frozenAt))
	for _, row := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"path that is none", http.MethodGet, "nothing", "", 404},
		{"wrong method", http.MethodGet, "reset", "", 405},
		{"empty body", http.MethodPost, "advance", "", 400},
		{"body cut off", http.MethodPost, "advance", `{"seconds":`, 400},
		{"two bodies", http.MethodPost, "advance", `{"seconds":1}{"seconds":1}`, 400},
		{"no seconds", http.MethodPost, "advance", `{}`, 400},
		{"seconds as text", http.MethodPost, "advance", `{"seconds":"1"}`, 400},
		{"time backwards", http.MethodPost, "advance", `{"seconds":-1}`, 400},
		{"time for ever", http.MethodPost, "advance", `{"seconds":1e300}`, 400},
		{"unknown field", http.MethodPost, "advance", `{"seconds":1,"minutes":1}`, 400},
		{"unknown operation", http.MethodPost, "faults", `{"match":{"operation":"phone_check.crate"},"faults":[{"drop":true}]}`, 400},
		{"no faults", http.MethodPost, "faults", `{"match":{}}`, 400},
		{"a fault that is null", http.MethodPost, "faults", `{"faults":[null]}`, 400},
		{"a fault that contradicts itself", http.MethodPost, "faults", `{"faults":[{"drop":true,"truncate":true}]}`, 400},
		{"a fault with a bad status", http.MethodPost, "faults", `{"faults":[{"status":100}]}`, 400},
		{"latency below zero", http.MethodPost, "faults", `{"faults":[{"latency_seconds":-1}]}`, 400},
		{"latency on a frozen clock", http.MethodPost, "faults", `{"faults":[{"latency_seconds":1}]}`, 400},
		{"delivery that there is not", http.MethodPost, "redeliver", `{"delivery_id":"x"}`, 400},
		{"sign-up without a name", http.MethodPost, "signup", `{}`, 400},
		{"sign-up with an invitation that there is not", http.MethodPost, "signup", `{"name":"Ada","invitation_ids":["x"]}`, 400},
		{"a wait that is no number", http.MethodGet, "deliveries?check_id=x&wait_seconds=soon", "", 400},
		{"a wait without an end", http.MethodGet, "deliveries?check_id=x&wait_seconds=NaN", "", 400},
		{"a wait for any delivery", http.MethodGet, "deliveries?wait_seconds=1", "", 400},
		{"body too large", http.MethodPost, "advance", `{"seconds":1` + strings.Repeat(" ", 64<<10) + `}`, 400},
	} {
		got := a.control(row.method, row.path, row.body)

		if got.status != row.status {
			t.Errorf("%s: %d %s, want %d", row.name, got.status, got.body, row.status)
		}
	}
	if !a.srv.Now().Equal(frozenAt) {
		t.Error("a refused advance moved the clock")
	}
	if got := a.control(http.MethodGet, "faults", ""); len(got.json["injections"].([]any)) != 0 {
		t.Errorf("a refused fault is in force: %s", got.body)
	}
}

func TestAPageOfAnotherSiteCannotControlTheServer(t *testing.T) {
	t.Parallel()
	a := controlled(t)
	for _, row := range []struct {
		name   string
		method string
		header http.Header
		status int
	}{
		{"a form without asking", http.MethodPost, http.Header{"Content-Type": {"text/plain"}}, 415},
		{"a form, urlencoded", http.MethodPost, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 415},
		{"no content type", http.MethodPost, nil, 415},
		{"JSON of another site, as a browser marks it", http.MethodPost, http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		{"JSON of another site, as an old browser marks it", http.MethodPost, http.Header{"Content-Type": {"application/json"}, "Origin": {"https://evil.example"}}, 403},
		{"JSON of no browser", http.MethodPost, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, 204},
	} {
		request := a.request(row.method, "/_sandbox/idle", "")
		request.Header = row.header

		if got := a.do(request); got.status != row.status || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, allowed origin %q, want %d and none", row.name, got.status, got.header.Get("Access-Control-Allow-Origin"), row.status)
		}
	}
	preflight := a.request(http.MethodOptions, "/_sandbox/idle", "")
	preflight.Header = http.Header{"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type"}}
	if got := a.do(preflight); got.status/100 == 2 || got.header.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("a browser that asks first is answered %d %v: it must be refused", got.status, got.header)
	}
}

func TestTheControlPlaneAnswersOtherMachinesOnlyWhenToldTo(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		option sandboxfake.Option
		from   string
		host   string
		header string // set to anything
		status int
	}{
		{"this machine", sandboxfake.WithControlPlane(), "127.0.0.1:5000", "127.0.0.1:4000", "", 200},
		{"this machine by IPv6", sandboxfake.WithControlPlane(), "[::1]:5000", "127.0.0.1:4000", "", 200},
		{"this machine by mapped IPv4", sandboxfake.WithControlPlane(), "[::ffff:127.0.0.1]:5000", "127.0.0.1:4000", "", 200},
		{"another", sandboxfake.WithControlPlane(), "192.0.2.1:5000", "127.0.0.1:4000", "", 403},
		{"another by IPv6", sandboxfake.WithControlPlane(), "[2001:db8::1]:5000", "127.0.0.1:4000", "", 403},
		{"no address", sandboxfake.WithControlPlane(), "", "127.0.0.1:4000", "", 403},
		{"this machine by name", sandboxfake.WithControlPlane(), "127.0.0.1:5000", "localhost:4000", "", 200},
		{"this machine, under the server's name", sandboxfake.WithControlPlane(), "127.0.0.1:5000", "idverify.sandbox.test", "", 200},
		{"another name for this machine", sandboxfake.WithControlPlane(), "127.0.0.1:5000", "evil.example", "", 403},
		{"through a tunnel on this machine", sandboxfake.WithControlPlane(), "127.0.0.1:5000", "127.0.0.1:4000", "X-Forwarded-For", 403},
		{"through a proxy on this machine", sandboxfake.WithControlPlane(), "127.0.0.1:5000", "127.0.0.1:4000", "Forwarded", 403},
		{"another, when told to", sandboxfake.WithRemoteControl(), "192.0.2.1:5000", "127.0.0.1:4000", "", 200},
	} {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory(), row.option)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_sandbox/time", nil)
		request.RemoteAddr, request.Host = row.from, row.host
		if row.header != "" {
			request.Header.Set(row.header, "anything")
		}
		recorder := httptest.NewRecorder()

		sandboxfake.Serve(srv, recorder, request)

		if recorder.Code != row.status {
			t.Errorf("%s: %d, want %d", row.name, recorder.Code, row.status)
		}
	}
}

func TestFreshKeysAreTrustedAndSignAndAreNobodyElses(t *testing.T) {
	t.Parallel()
	first := controlled(t, sandboxfake.WithFreshKeys())
	second := controlled(t, sandboxfake.WithFreshKeys())
	verified := make(chan error, 1)
	target := first.srv.Handle("app.sandbox.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := first.srv.Verifier("app.sandbox.test").VerifyCallback(r)
		verified <- err
	}))
	first.finish(target)

	if err := <-verified; err != nil {
		t.Errorf("a callback signed with a fresh key: %v", err)
	}
	keyOf := func(a *api) map[string]any {
		return a.get("/.well-known/jwks.json").json["keys"].([]any)[0].(map[string]any)
	}
	before := keyOf(first)
	if other := keyOf(second); before["n"] == other["n"] || before["kid"] == other["kid"] {
		t.Error("two servers of one seed share a fresh key, or its id: a kept key set would not do")
	}
	first.srv.RotateKeys()
	first.srv.Reset()
	if diff := cmp.Diff(before, keyOf(first)); diff != "" {
		t.Errorf("after Reset the key is another than at the start (-want +got):\n%s", diff)
	}
}

func TestFreshKeysSurviveRotationsAndResetsAtOnce(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFreshKeys())
	done := make(chan struct{})

	go func() {
		defer close(done)
		for range 2 {
			srv.RotateKeys()
		}
	}()
	for range 20 {
		srv.Reset()
	}
	<-done

	if got := (&api{t: t, srv: srv}).get("/.well-known/jwks.json"); got.status != http.StatusOK || len(got.json["keys"].([]any)) == 0 {
		t.Errorf("the key set is %d %s", got.status, got.body)
	}
}

func TestTheServersURLIsOneThatClientsReach(t *testing.T) {
	t.Parallel()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ addr, host string }{
		{"127.0.0.1:0", "127.0.0.1"},
		{"localhost:0", "localhost"},
		{"0.0.0.0:0", "127.0.0.1"},
		{":0", "127.0.0.1"},
		{"[::]:0", "::1"},
		{"127.0.0.2:0", "127.0.0.2"},
		{name + ":0", name},
	} {
		t.Run(row.addr, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", row.addr)
			if err != nil {
				t.Skip("this machine has no such address")
			}
			listener.Close()
			srv := sandboxfake.New(t, sandboxfake.WithAddr(row.addr), sandboxfake.WithFreshKeys())

			got := newAPI(t, srv).get(phoneChecks)

			host, _, err := net.SplitHostPort(strings.TrimPrefix(srv.URL(), "https://"))
			if err != nil || host != row.host || got.status != http.StatusOK {
				t.Errorf("the URL is %s and answers %d, want host %s", srv.URL(), got.status, row.host)
			}
		})
	}
}

func TestTheRequestLogTellsCallsTriesAndFaults(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 16)
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRequestLog(writerFunc(func(p []byte) { lines <- string(p) })))
	a := newAPI(t, srv)
	target := srv.Handle("app.sandbox.test", new(bodies))
	id := a.finish(target + "/callbacks?token=secret")
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})
	a.get(phoneChecks)
	close(lines)

	var all strings.Builder
	for line := range lines {
		if strings.Count(line, "\n") != 1 {
			t.Errorf("one write holds %q, want a line", line)
		}
		all.WriteString(line)
	}
	log := all.String()

	for _, want := range []string{
		" POST   /oauth2/v1/token oauth2.token 200 ",
		" POST   /phone_check/v0.1/checks phone_check.create 201 ",
		" GET    /phone_check/v0.1/checks/" + id + "/redirect phone_check.open 200 ",
		" →      callback " + id + " phone_check COMPLETED, try 1 204 acknowledged ",
		" GET    /phone_check/v0.1/checks phone_check.list 503 by an injected fault ",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "secret") || strings.Contains(log, "447700900012") {
		t.Errorf("the log tells the receiver's secret or a number:\n%s", log)
	}
}

// writerFunc is an io.Writer.
type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestAControlThatWaitsEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	a := controlled(t)
	came := make(chan struct{})
	release := make(chan struct{})
	target := a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(came)
		<-release
	}))
	defer close(release)
	a.finish(target)
	<-came
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	request := a.request(http.MethodPost, "/_sandbox/idle", "").WithContext(ctx)
	request.Header.Set("Content-Type", "application/json")

	go func() {
		response, err := a.srv.HTTPClient().Do(request)
		if err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		answered <- err
	}()
	cancel()

	if err := <-answered; err == nil {
		t.Error("idle was answered while a callback was in flight")
	}
}

func FuzzControlBodies(f *testing.F) {
	for _, seed := range []string{`{"seconds":1}`, `{"match":{"operation":"callback"},"faults":[{"status":500}]}`, `{"faults":[null]}`, `[]`, `{"seconds":1e999}`, "\x00", ``} {
		f.Add(seed)
	}
	srv := sandboxfake.New(f, sandboxfake.WithInMemory(), sandboxfake.WithControlPlane())
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"advance", "faults", "redeliver"} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_sandbox/"+path, strings.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
			request.RemoteAddr = "127.0.0.1:5000"
			recorder := httptest.NewRecorder()

			sandboxfake.Serve(srv, recorder, request)

			if recorder.Code >= 500 {
				t.Errorf("%s with %q is %d", path, body, recorder.Code)
			}
			if recorder.Code >= 400 && !json.Valid(recorder.Body.Bytes()) {
				t.Errorf("%s with %q answers %q, want a problem document", path, body, recorder.Body)
			}
		}
	})
}
