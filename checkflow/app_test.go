package checkflow_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// backend is the backend of an app, with the endpoints /start and /exchange. The bearer token of a
// request is the token of the app's session.
type backend struct {
	t       *testing.T
	service *sandboxfake.Server
	url     string
	config  checkflow.Config
}

func newBackend(t *testing.T, edit ...func(*checkflow.Config)) *backend {
	t.Helper()
	service := newService(t)
	config := checkflow.Config{
		Client: service.Client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})),
		Store:  checkflow.NewMemoryStore(0),
		Allow:  func(*http.Request, string) error { return nil },
	}
	for _, e := range edit {
		e(&config)
	}
	app := must(checkflow.NewApp(config))(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/start", func(w http.ResponseWriter, r *http.Request) {
		check, err := app.Start(r, bearer(r), checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: r.FormValue("number")}, Data: "order 17"})
		if err != nil {
			http.Error(w, "", checkflow.StatusCode(err))
			return
		}
		json.NewEncoder(w).Encode(check)
	})
	mux.HandleFunc("/exchange", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(app.Exchange(r, checkflow.ExchangeParams{Token: bearer(r), CheckID: r.FormValue("check_id"), Code: r.FormValue("code")}))
	})
	return &backend{t: t, service: service, url: service.Handle("app.sandbox.test", mux), config: config}
}

func bearer(r *http.Request) string {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), "Bearer ")
	return token
}

// post sends a request of an app and decodes the response into result. It returns the status.
func (b *backend) post(path, token string, result any) int {
	b.t.Helper()
	return b.send(http.MethodPost, path, token, nil, result)
}

// send is post with another method and more headers.
func (b *backend) send(method, path, token string, header http.Header, result any) int {
	b.t.Helper()
	r := must(http.NewRequestWithContext(b.t.Context(), method, b.url+path, nil))(b.t)
	maps.Copy(r.Header, header)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response := must(b.service.HTTPClient().Do(r))(b.t)
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		noError(b.t, json.NewDecoder(response.Body).Decode(result))
	}
	return response.StatusCode
}

// start starts a check for a new session.
func (b *backend) start(number string) (check checkflow.AppCheck) {
	b.t.Helper()
	if status := b.post("/start?number="+number, "", &check); status != http.StatusOK {
		b.t.Fatalf("start: status %d, want 200", status)
	}
	return check
}

func (b *backend) exchange(token, checkID, code string) (result checkflow.Result) {
	b.t.Helper()
	b.post("/exchange?check_id="+checkID+"&code="+code, token, &result)
	return result
}

// code opens a Check URL on a new device and returns the code in the response.
func (b *backend) code(checkURL string) string {
	b.t.Helper()
	visit := must(b.service.Device().Open(b.t.Context(), checkURL))(b.t)
	var got struct{ Code string }
	if err := json.Unmarshal(visit.Body, &got); err != nil || got.Code == "" {
		b.t.Fatalf("Check URL: response %d %q, error %v, want a code", visit.Status, visit.Body, err)
	}
	return got.Code
}

// exchanges returns the number of exchanges.
func (b *backend) exchanges() int { return countRequests(b.service, "phone_check.complete") }

func TestApp_SignIn(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	check := b.start(victims)
	code := b.code(check.CheckURL)

	got := b.exchange(check.Token, check.CheckID, code)
	again := b.exchange(check.Token, check.CheckID, code)

	want := checkflow.Result{Verdict: idverify.VerdictYes, CheckID: check.CheckID, PhoneNumber: victims, Data: "order 17"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(checkflow.Result{Reason: checkflow.ReasonRepeated}, again); diff != "" {
		t.Errorf("result of a second exchange (-want +got):\n%s", diff)
	}
}

// TestApp_OwnSession uses the token of the app's own session, for two checks.
func TestApp_OwnSession(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	const token = "0123456789abcdef"
	for range 2 {
		var check checkflow.AppCheck
		b.post("/start?number="+victims, token, &check)

		if got := b.exchange(token, check.CheckID, b.code(check.CheckURL)); check.Token != token || got.Verdict != idverify.VerdictYes {
			t.Errorf("token %q, result %+v; want that of the session, and yes", check.Token, got)
		}
	}
	if status := b.post("/start?number="+victims, token[1:], nil); status != http.StatusForbidden {
		t.Errorf("start with a short token: status %d, want 403", status)
	}
}

// TestApp_OtherSession exchanges the code of a victim's check in the session of an attacker, who
// knows it. The flow does not change, because the request is not signed.
func TestApp_OtherSession(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	victim, attacker := b.start(victims), b.start(attackers)
	code := b.code(victim.CheckURL)

	for _, token := range []string{attacker.Token, "", victim.CheckID, strings.ToLower(victim.Token)} {
		if got := b.exchange(token, victim.CheckID, code); got != (checkflow.Result{Reason: checkflow.ReasonOtherSession}) {
			t.Errorf("result with another token = %+v, want only reason other_session", got)
		}
	}

	if n := b.exchanges(); n != 0 {
		t.Errorf("%d exchanges, want 0", n)
	}
	if got := b.exchange(victim.Token, victim.CheckID, code); got.Verdict != idverify.VerdictYes {
		t.Errorf("result of the victim = %+v, want yes", got)
	}
}

// TestApp_CodeOfOtherCheck exchanges the code of a check of the attacker's own phone for the check
// of the victim's number, which the attacker has started.
func TestApp_CodeOfOtherCheck(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	own, ofVictim := b.start(attackers), b.start(victims)
	code := b.code(own.CheckURL)
	victimsCode := b.code(ofVictim.CheckURL)

	got := b.exchange(ofVictim.Token, ofVictim.CheckID, code)
	mixed := b.exchange(ofVictim.Token, own.CheckID, code)
	ended := b.exchange(ofVictim.Token, ofVictim.CheckID, victimsCode)

	if got.Verdict != idverify.VerdictUnknown || got.Reason != checkflow.ReasonCodeRejected {
		t.Errorf("result = %+v, want reason code_rejected", got)
	}
	if mixed != (checkflow.Result{Reason: checkflow.ReasonOtherSession}) {
		t.Errorf("result of the token of another check = %+v, want reason other_session", mixed)
	}
	if ended != (checkflow.Result{Reason: checkflow.ReasonRepeated}) {
		t.Errorf("result after a wrong code = %+v, want reason repeated: a wrong code ends the flow", ended)
	}
}

// TestApp_GuessedCode sends wrong codes and IDs. None of them reaches the service more than once.
func TestApp_GuessedCode(t *testing.T) {
	t.Parallel()
	store := &hookedStore{Store: checkflow.NewMemoryStore(0)}
	b := newBackend(t, func(c *checkflow.Config) { c.Store = store })
	check := b.start(victims)
	b.code(check.CheckURL)

	for range 10 {
		if got := b.exchange(check.Token, check.CheckID, strings.Repeat("~", 1024)); got.Verdict != idverify.VerdictUnknown {
			t.Errorf("result = %+v, want no verdict", got)
		}
	}
	store.reset()
	valid := []string{"unknown", "!~", strings.Repeat("c", 256)}
	for _, id := range append(valid, "", "%00", "%0a", "%20", "%7f", "%ff", strings.Repeat("c", 257)) {
		if got := b.exchange(check.Token, id, "guess"); got.Reason != checkflow.ReasonNotFound {
			t.Errorf("result of an unknown check ID = %+v, want not_found", got)
		}
	}

	if n, claims := b.exchanges(), store.count("claim"); n != 1 || claims != len(valid) {
		t.Errorf("%d exchanges and %d claims, want 1 and one for each valid check ID", n, claims)
	}
}

// TestApp_InvalidCode checks that a mistake of the app does not end the flow.
func TestApp_InvalidCode(t *testing.T) {
	t.Parallel()
	store := &hookedStore{Store: checkflow.NewMemoryStore(0)}
	b := newBackend(t, func(c *checkflow.Config) { c.Store = store })
	check := b.start(victims)

	for _, code := range []string{"", strings.Repeat("c", 1025), "c%00", "c%0a", "%c3%a9"} {
		if got := b.exchange(check.Token, check.CheckID, code); got != (checkflow.Result{Reason: checkflow.ReasonCodeRejected}) {
			t.Errorf("result of code %.10q = %+v, want only reason code_rejected", code, got)
		}
	}
	if n := store.count("claim"); n != 0 {
		t.Errorf("%d claims, want 0", n)
	}
	if got := b.exchange(check.Token, check.CheckID, b.code(check.CheckURL)); got.Verdict != idverify.VerdictYes {
		t.Errorf("result of the right code = %+v, want yes", got)
	}
}

// TestApp_OtherPurpose exchanges the code of a check at another App with the same store.
func TestApp_OtherPurpose(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(c *checkflow.Config) { c.Purpose = "sign-in" })
	check := b.start(victims)
	code := b.code(check.CheckURL)
	params := checkflow.ExchangeParams{Token: check.Token, CheckID: check.CheckID, Code: code}

	for _, purpose := range []string{"", "attach", "sign-in\x00"} {
		config := b.config
		config.Purpose = purpose
		app := must(checkflow.NewApp(config))(t)
		_, r := newStart(t)
		if got := app.Exchange(r, params); got != (checkflow.Result{Reason: checkflow.ReasonOtherSession}) {
			t.Errorf("result for purpose %q = %+v, want only reason other_session", purpose, got)
		}
	}

	if got := b.exchange(check.Token, check.CheckID, code); got.Verdict != idverify.VerdictYes {
		t.Errorf("result for the purpose of Start = %+v, want yes", got)
	}
}

// TestApp_RejectsExchanges sends requests that a page of another site can cause.
func TestApp_RejectsExchanges(t *testing.T) {
	t.Parallel()
	var log tooltest.Buffer
	b := newBackend(t, func(c *checkflow.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	check := b.start(victims)
	code := b.code(check.CheckURL)
	exchange := func(method string, header http.Header) (result checkflow.Result) {
		b.send(method, "/exchange?check_id="+check.CheckID+"&code="+code, check.Token, header, &result)
		return result
	}

	for name, got := range map[string]checkflow.Result{
		"GET":                   exchange(http.MethodGet, nil),
		"page of another site":  exchange(http.MethodPost, http.Header{"Sec-Fetch-Site": {"cross-site"}}),
		"page of a sister site": exchange(http.MethodPost, http.Header{"Sec-Fetch-Site": {"same-site"}}),
		"old browser":           exchange(http.MethodPost, http.Header{"Origin": {"https://attacker.sandbox.test"}}),
	} {
		if got != (checkflow.Result{Reason: checkflow.ReasonInvalid}) {
			t.Errorf("%s: result = %+v, want only reason invalid", name, got)
		}
	}
	b.exchange(check.Token, "alice", code)

	if got := b.exchange(check.Token, check.CheckID, code); got.Verdict != idverify.VerdictYes {
		t.Errorf("result of the app = %+v, want yes", got)
	}
	if log := log.String(); strings.Count(log, "reason=invalid") != 4 || strings.Count(log, "reason=not_found") != 1 || strings.Count(log, `level=WARN msg="checkflow: exchange rejected"`) != 5 || strings.Contains(log, "alice") {
		t.Errorf("log = %q, want 4 rejected exchanges with reason=invalid and one with reason=not_found at level warn, without the text of the request", log)
	}
}

// TestApp_TokenOfWeb uses the cookie of a browser as the token of an app, and the other way round,
// with one store.
func TestApp_TokenOfWeb(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	app := s.app(t)
	b := s.browser()
	redirect := b.redirectOf(b.start(victims))
	_, r := newStart(t)

	got := app.Exchange(r, checkflow.ExchangeParams{Token: b.cookie(), CheckID: parameter(t, redirect, "check_id"), Code: parameter(t, redirect, "code")})

	if got.Reason != checkflow.ReasonOtherSession {
		t.Errorf("result = %+v, want other_session", got)
	}
	check := must(app.Start(r, b.cookie(), checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: victims}}))(t)
	if _, reason, err := s.store.Claim(t.Context(), check.CheckID, [32]byte{}, false); err != nil || reason != checkflow.ReasonOtherSession {
		t.Errorf("Claim = %q, %v, want other_session", reason, err)
	}
	b.open(redirect)
	b.wantUser(t, "the person", victims)
}

// TestApp_RejectsStarts sends requests that must not cause a check.
func TestApp_RejectsStarts(t *testing.T) {
	t.Parallel()
	b := newBackend(t)

	if status := b.send(http.MethodGet, "/start?number="+victims, "", nil, nil); status != http.StatusForbidden {
		t.Errorf("GET: status %d, want 403", status)
	}
	for _, header := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}}, {"Origin": {"https://attacker.sandbox.test"}}} {
		if status := b.send(http.MethodPost, "/start?number="+victims, "", header, nil); status != http.StatusForbidden {
			t.Errorf("%v: status %d, want 403", header, status)
		}
	}
	if status := b.post("/start?number=12", "", nil); status != http.StatusUnprocessableEntity {
		t.Errorf("malformed number: status %d, want 422", status)
	}
}

// TestApp_ConcurrentExchanges sends one code in many requests.
func TestApp_ConcurrentExchanges(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	check := b.start(victims)
	code := b.code(check.CheckURL)
	var yes atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if b.exchange(check.Token, check.CheckID, code).Verdict == idverify.VerdictYes {
				yes.Add(1)
			}
		})
	}
	wg.Wait()

	if yes.Load() != 1 || b.exchanges() != 1 {
		t.Errorf("%d results yes and %d exchanges, want 1 and 1", yes.Load(), b.exchanges())
	}
}

// TestApp_RedirectToReturn: the project has the redirect URL of a website, so a check of an app
// ends in a browser. It signs nobody in, nor does the code afterwards.
func TestApp_RedirectToReturn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config.Create = s.withRedirect
	_, r := newStart(t)
	app := s.app(t)
	check := must(app.Start(r, "", checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: victims}}))(t)
	b := s.browser()
	b.setCookie(check.Token)
	redirect := b.redirectOf(check.CheckURL)

	b.open(redirect).wantReason(t, checkflow.ReasonOtherSession)
	got := app.Exchange(r, checkflow.ExchangeParams{Token: check.Token, CheckID: check.CheckID, Code: parameter(t, redirect, "code")})

	b.wantUser(t, "the person", "")
	if got != (checkflow.Result{Reason: checkflow.ReasonRevoked}) {
		t.Errorf("result = %+v, want only reason revoked: the app did not open the Check URL", got)
	}
}

func TestApp_HidesTokens(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-of-the-app"
	check := checkflow.AppCheck{CheckID: "check-1", Token: secret}
	for _, value := range []any{check, &check, checkflow.ExchangeParams{CheckID: "check-1", Token: secret, Code: secret}} {
		if notations := tooltest.Notations(value, secret); len(notations) > 0 {
			t.Errorf("%T: the secret is printed by %q", value, notations)
		}
		if notations := tooltest.Notations(value, "check-1"); len(notations) != 9 {
			t.Errorf("%T: the check ID is printed by %q, want all 9", value, notations)
		}
	}
	if text, err := json.Marshal(check); err != nil || !strings.Contains(string(text), secret) {
		t.Errorf("JSON = %s, error = %v, want the token for the app", text, err)
	}
}

// TestApp_PhoneIP opens Check URLs from 127.0.0.1.
func TestApp_PhoneIP(t *testing.T) {
	t.Parallel()
	service := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithPhoneIPCheck())
	app := must(checkflow.NewApp(checkflow.Config{Client: service.Client(), Store: checkflow.NewMemoryStore(0), Allow: func(*http.Request, string) error { return nil }}))(t)
	for _, row := range []struct {
		phoneIP, wantError string
		want               idverify.Verdict
	}{
		{"127.0.0.1", "", idverify.VerdictYes},
		{"192.0.2.10", "ip_mismatch", idverify.VerdictUnknown},
	} {
		_, r := newStart(t)
		check := must(app.Start(r, "", checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: victims, PhoneIP: netip.MustParseAddr(row.phoneIP)}}))(t)
		visit := must(service.Device().Open(t.Context(), check.CheckURL))(t)
		var got struct{ Code, Error string }
		noError(t, json.Unmarshal(visit.Body, &got))

		result := app.Exchange(r, checkflow.ExchangeParams{Token: check.Token, CheckID: check.CheckID, Code: got.Code})

		if got.Error != row.wantError || result.Verdict != row.want {
			t.Errorf("PhoneIP %s: Check URL reports error %q, verdict %v; want %q, %v", row.phoneIP, got.Error, result.Verdict, row.wantError, row.want)
		}
	}
}
