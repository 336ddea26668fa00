package sandboxfake_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// state returns the state of the server, as the control plane shows it.
func (a *api) state() map[string]any {
	a.t.Helper()
	return a.control(http.MethodGet, "state", "").wantStatus(a.t, http.StatusOK).json
}

func TestServer_ControlState(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	project, owner := a.srv.Credentials(), a.srv.ConsoleCredentials()

	got := a.state()

	rfc := func(at time.Time) string { return at.Format(time.RFC3339Nano) }
	workspace := got["workspaces"].([]any)[0].(map[string]any)["workspace_id"]
	shown := got["projects"].([]any)[0].(map[string]any)["project_id"]
	want := map[string]any{
		"url": a.srv.URL(), "generation": 0.0, "revision": got["revision"], "now": rfc(frozenAt), "frozen": true, "dates": "sandbox",
		"callback_header": "x-service-callback",
		"keys":            []any{map[string]any{"key_id": a.keyIDs()[0], "signing": true}},
		"workspaces":      []any{map[string]any{"workspace_id": workspace, "name": "Sandbox workspace", "currency": "API", "balance": 100.0}},
		"projects": []any{map[string]any{
			"project_id": shown, "workspace_id": workspace, "name": "Sandbox project", "mode": "sandbox",
			"phone_check": map[string]any{}, "subscriber_check": map[string]any{},
		}},
		"workspaces_total": 1.0, "projects_total": 1.0,
		"credentials": map[string]any{
			"project":   map[string]any{"client_id": project.ClientID, "client_secret": project.ClientSecret.Reveal(), "project_id": shown},
			"workspace": map[string]any{"client_id": owner.ClientID, "client_secret": owner.ClientSecret.Reveal(), "workspace_id": workspace},
		},
		"checks":     map[string]any{"total": 0.0, "dropped": 0.0},
		"requests":   map[string]any{"total": 1.0, "dropped": 0.0},
		"deliveries": map[string]any{"total": 0.0, "dropped": 0.0},
		"in_flight":  0.0,
	}
	wantEqual(t, want, got, "state")
}

func TestServer_ControlStateChanges(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	before := a.state()

	a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a.srv.RotateKeys()
	a.srv.NewProject(idverify.ProjectParams{Name: "shop", Mode: idverify.ModeLive, CallbackURL: "https://shop.sandbox.test/all", PhoneCheckURLs: idverify.ProductURLs{RedirectURL: "https://shop.sandbox.test/back"}, SubscriberCheckURLs: idverify.ProductURLs{CallbackURL: "https://shop.sandbox.test/subscriber"}})
	after := a.state()

	if before["revision"].(float64) >= after["revision"].(float64) {
		t.Errorf("revision %v after the changes, %v before, want it to increase", after["revision"], before["revision"])
	}
	wantEqual(t, map[string]any{"total": 1.0, "dropped": 0.0}, after["checks"], "checks")
	if want := frozenAt.Add(2 * time.Minute).Format(time.RFC3339Nano); after["next_event"] != want {
		t.Errorf("next event = %v, want the expiry of the check at %s", after["next_event"], want)
	}
	keys := after["keys"].([]any)
	if len(keys) != 2 || keys[0].(map[string]any)["signing"] != false || keys[0].(map[string]any)["expires_at"] != frozenAt.Add(5*time.Minute).Format(time.RFC3339Nano) || keys[1].(map[string]any)["signing"] != true || keys[1].(map[string]any)["expires_at"] != nil {
		t.Errorf("keys = %v, want the retired one, which expires in 5 minutes, and the signing one", keys)
	}
	project := after["projects"].([]any)[1].(map[string]any)
	want := map[string]any{
		"project_id": project["project_id"], "workspace_id": project["workspace_id"], "name": "shop", "mode": "live", "callback_url": "https://shop.sandbox.test/all",
		"phone_check": map[string]any{"redirect_url": "https://shop.sandbox.test/back"}, "subscriber_check": map[string]any{"callback_url": "https://shop.sandbox.test/subscriber"},
	}
	wantEqual(t, want, project, "second project")
}

func TestServer_ControlStateLimit(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	count := func() string {
		state := a.state()
		return fmt.Sprint(len(state["workspaces"].([]any)), " of ", state["workspaces_total"], ", ", len(state["projects"].([]any)), " of ", state["projects_total"])
	}
	var last *sandboxfake.Account
	for range 110 {
		last = a.srv.NewWorkspace("Shop")
	}
	last.NewProject(idverify.ProjectParams{Name: "last", Mode: idverify.ModeSandbox})
	if got := count(); got != "100 of 111, 2 of 2" {
		t.Errorf("workspaces and projects = %s, want 100 of 111 and 2 of 2", got)
	}
	for i := range 110 {
		a.srv.NewProject(idverify.ProjectParams{Name: fmt.Sprint("shop ", i), Mode: idverify.ModeSandbox})
	}
	if got := count(); got != "100 of 111, 100 of 112" {
		t.Errorf("workspaces and projects = %s, want 100 of 111 and 100 of 112", got)
	}
}

// eventStream is an open stream of events.
type eventStream struct {
	close context.CancelFunc
	lines chan string // without empty lines; closed at the end of the stream
}

// event is a change in an eventStream.
type event struct{ generation, revision int }

// stream opens a stream of events. The response may be an error.
func (a *api) stream() (*http.Response, *eventStream) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	request := a.request(http.MethodGet, "/_sandbox/events", "").WithContext(ctx)
	request.Header = bearer(a.srv.ControlToken())
	response := must(a.srv.HTTPClient().Do(request))(a.t)
	s := &eventStream{close: cancel, lines: make(chan string, 1000)}
	a.t.Cleanup(func() {
		cancel()
		response.Body.Close()
	})
	if response.StatusCode != http.StatusOK {
		return response, s
	}
	go func() {
		defer close(s.lines)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			if scanner.Text() != "" {
				s.lines <- scanner.Text()
			}
		}
	}()
	return response, s
}

// next returns the next event. It fails the test if the next message is not an event.
func (s *eventStream) next(t *testing.T) event {
	t.Helper()
	name, data := <-s.lines, <-s.lines
	var e event
	if _, err := fmt.Sscanf(data, `data: {"generation":%d,"revision":%d}`, &e.generation, &e.revision); err != nil || name != "event: change" {
		t.Fatalf("message = %q %q, want an event", name, data)
	}
	return e
}

func TestServer_Events(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)

		response, stream := a.stream()
		first := stream.next(t)

		if response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("Cache-Control") != "no-store" || response.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("header = %v, want an event stream that is neither cached nor buffered", response.Header)
		}
		time.Sleep(time.Second) // after the minimum time between two events
		started := time.Now()
		a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{})
		if second := stream.next(t); second.revision <= first.revision || second.generation != first.generation {
			t.Errorf("events = %v, %v, want a greater revision of the same generation", first, second)
		}
		if waited := time.Since(started); waited > time.Second {
			t.Errorf("the event arrived after %v, want at most a second", waited)
		}
		a.srv.Reset()
		if third := stream.next(t); third.generation != first.generation+1 {
			t.Errorf("event after a reset = %v, want generation %d", third, first.generation+1)
		}
		a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{})
		if fourth := stream.next(t); fourth.generation != first.generation+1 {
			t.Errorf("event after a change after a reset = %v, want generation %d", fourth, first.generation+1)
		}
		a.srv.Close()
		if line, open := <-stream.lines; open {
			t.Errorf("message after Close = %q, want the end of the stream", line)
		}
	})
}

// Each kind of change causes an event, so that a page that reads again after each event is current.
func TestServer_EventsOfChanges(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name string
		do   func(a *api, checkID string, removeFault func())
	}{
		{"call of the service", func(a *api, _ string, _ func()) { a.get("/nothing") }},
		{"fault", func(a *api, _ string, _ func()) { a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{}) }},
		{"removal of a fault", func(_ *api, _ string, removeFault func()) { removeFault() }},
		{"removal of the faults", func(a *api, _ string, _ func()) { a.control(http.MethodDelete, "faults", "") }},
		{"expiry by request", func(a *api, id string, _ func()) { a.srv.Expire(id) }},
		{"new key", func(a *api, _ string, _ func()) { a.srv.RotateKeys() }},
		{"other dates", func(a *api, _ string, _ func()) { a.control(http.MethodPost, "dates", `{"clock":"system"}`) }},
		{"advance", func(a *api, _ string, _ func()) {
			if err := a.srv.Advance(a.t.Context(), time.Millisecond); err != nil {
				a.t.Error(err)
			}
		}},
		{"sign-up", func(a *api, _ string, _ func()) { a.srv.SignUp("Ada") }},
		{"expiry by the clock", func(*api, string, func()) { time.Sleep(3 * time.Minute) }},
	}
	for _, change := range changes {
		synctest.Test(t, func(t *testing.T) {
			a := newControlAPI(t)
			id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
			removeFault := a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{})
			_, stream := a.stream()
			before := stream.next(t)

			change.do(a, id, removeFault)

			time.Sleep(time.Second)
			var events []string
			for len(stream.lines) > 0 {
				if line := <-stream.lines; strings.HasPrefix(line, "data: ") {
					events = append(events, line)
				}
			}
			if len(events) == 0 {
				t.Errorf("%s: no event after revision %d", change.name, before.revision)
			}
		})
	}
}

func TestServer_EventsCoalesce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		_, stream := a.stream()
		stream.next(t)

		for range 200 { // 2 s
			a.get("/nothing")
			time.Sleep(10 * time.Millisecond)
		}

		time.Sleep(time.Second)
		n := len(stream.lines) / 2
		if n < 6 || n > 9 {
			t.Errorf("%d events for 200 changes in 2 s, want about 4 per second", n)
		}
		var last event
		for range n {
			last = stream.next(t)
		}
		if _, another := a.stream(); another.next(t) != last {
			t.Errorf("last event = %v, want the latest revision", last)
		}
	})
}

func TestServer_EventsPing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		_, stream := a.stream()
		stream.next(t)
		started := time.Now()

		first, second := <-stream.lines, <-stream.lines

		if first != ": ping" || second != ": ping" || time.Since(started) != 30*time.Second {
			t.Errorf("messages without a change = %q, %q after %v, want two pings after 30 s", first, second, time.Since(started))
		}
	})
}

func TestServer_EventsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		streams := make([]*eventStream, 32)
		for i := range streams {
			_, streams[i] = a.stream()
			streams[i].next(t)
		}

		for range 2 {
			response, over := a.stream()

			text, err := io.ReadAll(response.Body)
			const want = `{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"the server has 32 event streams: close one first"}`
			if err != nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Content-Type") != "application/problem+json" || string(text) != want {
				t.Errorf("stream 33: %d %s %s (%v), want a problem with 503", response.StatusCode, response.Header.Get("Content-Type"), text, err)
			}
			over.close()
		}
		streams[0].close()
		synctest.Wait()
		for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			if response, _ := a.stream(); response.StatusCode != want {
				t.Errorf("stream after another was closed: %d, want %d", response.StatusCode, want)
			}
		}
	})
}

func TestServer_EventsHead(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)

	for range 40 { // more than the limit of streams
		if got := a.control(http.MethodHead, "events", ""); got.status != http.StatusOK || got.header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("HEAD = %d %s, want 200 without a stream", got.status, got.header.Get("Content-Type"))
		}
	}
}

// A client that stops reading must not keep one of the streams.
func TestServer_EventsToSlowClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		for range 32 {
			conn, host := a.dial()
			must(fmt.Fprintf(conn, "GET /_sandbox/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, a.srv.ControlToken()))(t)
		}
		synctest.Wait()

		for range 1500 { // fills the buffers of the connections
			a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{})
			time.Sleep(250 * time.Millisecond)
		}

		time.Sleep(time.Minute)
		if response, _ := a.stream(); response.StatusCode != http.StatusOK {
			t.Errorf("stream after 32 clients stopped reading: %d, want 200", response.StatusCode)
		}
	})
}

// dial connects to an in-memory server. It also returns the server's host.
func (a *api) dial() (conn *tls.Conn, hostname string) {
	a.t.Helper()
	transport := a.srv.HTTPClient().Transport.(*http.Transport)
	host := must(url.Parse(a.srv.URL()))(a.t)
	plain := must(transport.DialContext(a.t.Context(), "tcp", host.Host+":443"))(a.t)
	a.t.Cleanup(func() { plain.Close() })
	config := transport.TLSClientConfig.Clone()
	config.ServerName = host.Host
	return tls.Client(plain, config), host.Host
}

func TestServer_ControlResetSeed(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithNewIDsAfterReset())
	seeds := []string{`{"seed":7}`, `{"seed":18446744073709551615}`, `{"seed":7}`, `{"seed":0}`, ``}

	ids := resetIDs(t, a, len(seeds), func(i int) {
		if got := a.control(http.MethodPost, "reset", seeds[i-1]); got.status != http.StatusNoContent {
			t.Fatalf("reset %s: %d %s", seeds[i-1], got.status, got.body)
		}
	})

	if ids[1] != ids[3] || ids[0] != ids[4] {
		t.Errorf("IDs = %q, want equal IDs for equal seeds: the second and fourth, the first and fifth", ids)
	}
	if distinct(ids) != 4 {
		t.Errorf("IDs = %q, want different IDs for different seeds and for the option", ids)
	}
	for _, body := range []string{`{"seed":-1}`, `{"seed":"7"}`, `{"seed":18446744073709551616}`, `{"sed":7}`, `seed`} {
		before := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
		a.control(http.MethodPost, "reset", body).wantProblem(t, http.StatusBadRequest, "bad_request")
		if got := a.get(phoneChecks + "/" + before); got.status != http.StatusOK {
			t.Errorf("check after the rejected reset with %s = %d, want 200", body, got.status)
		}
	}
}

func TestServer_ControlDates(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	receiver, target := newDatedReceiver(t, a.srv, a.srv.Now)
	receiver.verifier = a.srv.Verifier([]string{"app.sandbox.test"}, nil) // uses the selected clock
	date := func() string {
		t.Helper()
		a.completeCheck(target)
		waitIdle(t, a.srv)
		deliveries := a.srv.Deliveries()
		return deliveries[len(deliveries)-1].Attempts[0].Header.Get("Date")
	}
	frozen := frozenAt.Format(http.TimeFormat)

	byDefault := a.control(http.MethodGet, "dates", "").json["clock"]
	own := date()
	chosen := a.control(http.MethodPost, "dates", `{"clock":"system"}`)
	system := date()
	shown := a.control(http.MethodGet, "dates", "").json["clock"]
	back := a.control(http.MethodPost, "dates", `{"clock":"sandbox"}`)
	again := date()
	a.control(http.MethodPost, "dates", `{"clock":"system"}`)
	unknown := a.control(http.MethodPost, "dates", `{"clock":"utc"}`)
	a.control(http.MethodPost, "reset", "")
	a.token = a.tokenFor(a.srv.Credentials(), "phone_check")
	after := date()

	if byDefault != "sandbox" || own != frozen {
		t.Errorf("default clock = %v with date %q, want the frozen clock", byDefault, own)
	}
	if chosen.status != http.StatusNoContent || shown != "system" || system == frozen {
		t.Errorf("after selecting the system clock (%d): clock = %v with date %q, want the system's clock", chosen.status, shown, system)
	}
	if back.status != http.StatusNoContent || again != frozen {
		t.Errorf("after selecting the sandbox's clock (%d): date %q, want the frozen clock's", back.status, again)
	}
	unknown.wantProblem(t, http.StatusBadRequest, "bad_request")
	if len(receiver.rejected) != 0 {
		t.Errorf("the server's verifier rejected %v", receiver.rejected)
	}
	if after != frozen {
		t.Errorf("date after a reset = %q, want the frozen clock's", after)
	}
}

func TestServer_ControlAdvance(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
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
		t.Errorf("check after 120 s = %d, want 404 because it has expired", got.status)
	}
}

func TestServer_ControlRotateKeys(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{"fixed keys": nil, "fresh keys": {sandboxfake.WithFreshKeys()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newControlAPI(t, opts...)

			rotated := a.control(http.MethodPost, "keys", "")

			keys := a.get("/.well-known/jwks.json").json["keys"].([]any)
			if len(keys) != 2 || keys[1].(map[string]any)["kid"] != rotated.json["key_id"] || keys[0].(map[string]any)["n"] == keys[1].(map[string]any)["n"] {
				t.Errorf("key set = %v, want the old key and %v", keys, rotated.json["key_id"])
			}
		})
	}
}

func TestServer_ControlSignUp(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	invitation := must(a.srv.Console().Invitations.Create(t.Context(), idverify.InvitationParams{Name: "Ada", Role: idverify.RoleViewer}))(t)

	account := a.control(http.MethodPost, "signup", `{"name":"Ada","invitation_ids":["`+invitation.InvitationID+`"]}`)

	credentials, _ := account.json["credentials"].(map[string]any)
	joined, _ := account.json["joined"].([]any)
	if account.status != http.StatusOK || account.json["role"] != "OWNER" || len(joined) != 1 || joined[0].(map[string]any)["role"] != "VIEWER" {
		t.Fatalf("sign-up: %d %s, want an owner who joined as viewer", account.status, account.body)
	}
	a.token = a.tokenFor(idverify.Credentials{ClientID: credentials["client_id"].(string), ClientSecret: idverify.NewSecret(credentials["client_secret"].(string))}, "workspaces")
	if got := a.get(workspaces); got.status != http.StatusOK || got.at("page", "total_elements") != 2.0 {
		t.Errorf("Ada's workspaces: %d %s, want two", got.status, got.body)
	}
	own := a.get(workspaces + "/" + account.text("workspace_id"))
	if id := own.text("_embedded", "me", "member_id"); id == "" || account.json["member_id"] != id {
		t.Errorf("member_id = %v, want %q", account.json["member_id"], id)
	}
}

func TestServer_ControlReset(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	reset := a.control(http.MethodPost, "reset", "")

	if reset.status != http.StatusNoContent || len(a.srv.Requests()) != 0 {
		t.Errorf("reset = %d with %d requests left, want 204 and none", reset.status, len(a.srv.Requests()))
	}
	if got := a.get(phoneChecks); got.status != http.StatusUnauthorized {
		t.Errorf("status with a token from before the reset = %d, want 401", got.status)
	}
	if got := a.state(); got["generation"] != 1.0 || got["checks"].(map[string]any)["total"] != 0.0 {
		t.Errorf("generation %v with checks %v after a reset, want 1 without checks", got["generation"], got["checks"])
	}
}

func TestServer_ControlIdleCanceled(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	received := make(chan struct{})
	release := make(chan struct{})
	target := a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(received)
		<-release
	}))
	defer close(release)
	a.completeCheck(target)
	<-received
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	request := a.request(http.MethodPost, "/_sandbox/idle", "").WithContext(ctx)
	request.Header.Set("Authorization", "Bearer "+a.srv.ControlToken())
	request.Header.Set("Content-Type", "application/json")

	go func() {
		response, err := a.srv.HTTPClient().Do(request)
		if err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		done <- err
	}()
	cancel()

	if err := <-done; err == nil {
		t.Error("idle returned while a callback was in flight, want the context's error")
	}
}
