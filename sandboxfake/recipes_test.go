package sandboxfake_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// The recipes of docs/testing.md. TestRecipes_MatchDocs compares them with the page. Only the
// recipe about parallel tests calls t.Parallel.

func TestPhoneCheck(t *testing.T) {
	srv := sandboxfake.New(t)
	client := srv.Client()

	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	check, err = client.PhoneChecks.Wait(t.Context(), check.CheckID)
	if err != nil {
		t.Fatal(err)
	}

	if got := check.Match; got != idverify.VerdictYes {
		t.Errorf("Match = %s, want yes for an even last digit", got)
	}
}

func TestCallback(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	results := make(chan *idverify.Callback, 1)
	url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(_ context.Context, c *idverify.Callback) error {
		results <- c
		return nil
	}))

	check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900013", CallbackURL: url + "/callbacks"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case c := <-results:
		if c.CheckID != check.CheckID || c.Match != idverify.VerdictNo {
			t.Errorf("callback = %s, want check %s with verdict no", c.Body, check.CheckID)
		}
	case <-ctx.Done():
		t.Errorf("no callback: %+v", srv.Deliveries())
	}
}

func TestRedirect(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	client := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	started := "" // the check ID in the session
	url := srv.Handle("shop.sandbox.test", idverify.RedirectHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
		if redirect.CheckID != started || redirect.Code == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		check, err := client.PhoneChecks.Complete(r.Context(), redirect.CheckID, redirect.Code)
		if err != nil || check.Match != idverify.VerdictYes {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", RedirectURL: url + "/back"})
	if err != nil {
		t.Fatal(err)
	}
	started = check.CheckID

	visit, err := srv.Device().Open(t.Context(), check.CheckURL)
	if err != nil {
		t.Fatal(err)
	}

	if visit.URL.Path != "/back" || visit.Status != http.StatusOK {
		t.Errorf("device ended at %s with status %d, want /back with 200", visit.URL.Path, visit.Status)
	}
}

func TestOwnWiring(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithLiveProject(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	client, err := idverify.NewClient(srv.URL(), srv.Credentials(), idverify.WithLiveOnly(), idverify.WithHTTPClient(srv.HTTPClient()), idverify.WithClock(srv.Now))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := client.NewJWKS(nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.NewVerifier(keys, []string{"shop.sandbox.test"}, &signature.VerifierOptions{Now: srv.Now})
	if err != nil {
		t.Fatal(err)
	}
	url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error { return nil }))
	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	delivery, err := srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return len(d.Attempts) > 0 })
	if err != nil {
		t.Fatal(err)
	}

	if !delivery.Acknowledged() {
		t.Errorf("response to the callback = %d, want 204", delivery.Attempts[0].Status)
	}
}

func TestParallelChecks(t *testing.T) {
	for number, want := range map[string]idverify.Verdict{"447700900012": idverify.VerdictYes, "447700900013": idverify.VerdictNo} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory()) // nothing is shared

			check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
				t.Fatal(err)
			}
			check, err = srv.Client().PhoneChecks.Get(t.Context(), check.CheckID)
			if err != nil {
				t.Fatal(err)
			}

			if got := check.Match; got != want {
				t.Errorf("Match = %s, want %s", got, want)
			}
		})
	}
}

func TestExpiredCheck(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	client := srv.Client()
	url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url})
	if err != nil {
		t.Fatal(err)
	}

	if err := srv.Advance(t.Context(), check.TTL); err != nil {
		t.Fatal(err)
	}

	if _, err := client.PhoneChecks.Get(t.Context(), check.CheckID); !errors.Is(err, idverify.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
	if d := srv.Deliveries(); len(d) != 1 || d[0].Status != idverify.StatusExpired {
		t.Errorf("deliveries = %+v, want one with status EXPIRED", d)
	}
}

func TestCallbackRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // minutes pass immediately
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		unavailable := true
		url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if unavailable {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
			t.Fatal(err)
		}
		if err := srv.Advance(t.Context(), time.Minute); err != nil { // attempts after 10, 30 and 60 s
			t.Fatal(err)
		}
		unavailable = false
		start := srv.Now()

		delivery, err := srv.WaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged)
		if err != nil {
			t.Fatal(err)
		}

		if waited := srv.Now().Sub(start); len(delivery.Attempts) != 5 || waited != 40*time.Second {
			t.Errorf("acknowledged attempt %d after %v, want attempt 5 after 40 s", len(delivery.Attempts), waited)
		}
	})
}

func TestDuplicateCallback(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	verifier := srv.Verifier([]string{"shop.sandbox.test"}, &signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(1000)})
	var handled []string
	url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(verifier, func(_ context.Context, c *idverify.Callback) error {
		handled = append(handled, c.CheckID) // your function: expect one effect, for example one row
		return nil
	}))
	check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}

	// A second later, the callback has another date and signature.
	if err := srv.Advance(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	// In the same second, it is a copy, which the replay store rejects.
	for range 2 {
		if err := srv.Redeliver(t.Context(), srv.Deliveries()[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := srv.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	var statuses []int
	for _, d := range srv.Deliveries() {
		statuses = append(statuses, d.Attempts[0].Status)
	}
	if want := []int{204, 204, 400}; !slices.Equal(statuses, want) {
		t.Errorf("responses = %v, want %v", statuses, want)
	}
	if want := []string{check.CheckID, check.CheckID}; !slices.Equal(handled, want) {
		t.Errorf("handled = %v, want the duplicate and not the copy", handled)
	}
}

func TestKeyRotation(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	verifier := srv.Verifier([]string{"shop.sandbox.test"}, nil)
	url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error { return nil }))
	for range 2 {
		check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
			t.Fatal(err)
		}

		srv.RotateKeys()
		// A verifier refetches the keys for an unknown key ID, but not twice within 30 s.
		if err := srv.Advance(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}

	for _, d := range srv.Deliveries() {
		if !d.Acknowledged() || len(d.Attempts) != 1 {
			t.Errorf("callback: %d attempts, acknowledged %v, want 1 and true", len(d.Attempts), d.Acknowledged())
		}
	}
}

func TestCreate_LostResponse(t *testing.T) {
	srv := sandboxfake.New(t)
	create := sandboxfake.Match{Operation: "phone_check.create"}
	srv.Inject(create, sandboxfake.Fault{Drop: true})

	_, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})

	if err == nil {
		t.Error("Create succeeded, want an error for the lost response")
	}
	sent := 0
	for _, r := range srv.Requests() {
		if r.Operation == create.Operation {
			sent++
		}
	}
	if sent != 1 {
		t.Errorf("service received %d creates, want 1: each one is charged", sent)
	}
}

func TestForgedCallback(t *testing.T) {
	srv := sandboxfake.New(t)
	url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(context.Context, *idverify.Callback) error {
		t.Error("forged callback was handled")
		return nil
	}))
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})
	check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	delivery, err := srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.Done })
	if err != nil {
		t.Fatal(err)
	}

	if got := delivery.Attempts[0].Status; got != http.StatusBadRequest {
		t.Errorf("response to the callback = %d, want 400", got)
	}
}

func TestSignedCallback(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signature.NewSigner("test key", key, nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.NewVerifier(signature.StaticKeys{"test key": &key.PublicKey}, []string{"shop.example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got *idverify.Callback
	handler := idverify.CallbackHandler(verifier, func(_ context.Context, c *idverify.Callback) error {
		got = c
		return nil
	})
	request := httptest.NewRequest(http.MethodPost, "https://shop.example.com/callbacks", nil)
	request.Header.Set("x-service-callback", "phone_check")
	body := `{"check_id":"c1","status":"COMPLETED","match":true,"charge_amount":1,"charge_currency":"API","created_at":"2026-01-02T03:04:05+0000","updated_at":"2026-01-02T03:04:05+0000"}`
	if err := signer.SignCallback(request, []byte(body)); err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()

	handler.ServeHTTP(recorder, request)

	if recorder.Code != http.StatusNoContent || got == nil || got.CheckID != "c1" {
		t.Errorf("response = %d with callback %+v, want 204 and check c1", recorder.Code, got)
	}
}

func TestCallbackReceiver(t *testing.T) {
	handle := func(context.Context, *idverify.Callback) error { return nil } // use your own
	// In a bubble, waits take no time.
	synctest.Test(t, func(t *testing.T) {
		keys, err := receivertest.NewKeys()
		if err != nil {
			t.Fatal(err)
		}
		keySet, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()})
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := signature.NewVerifier(keySet, []string{"api.example.com"}, nil)
		if err != nil {
			t.Fatal(err)
		}

		receivertest.Run(t, receivertest.Receiver{
			Keys:    keys,
			URL:     "https://api.example.com/callbacks",
			Handler: idverify.CallbackHandler(verifier, handle),
			Strict:  true,
		})
	})
}

// The page shows each recipe or names it, and shows no other code.
func TestRecipes_MatchDocs(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text := must(os.ReadFile(path))(t)
		return string(text)
	}
	page := read("../docs/testing.md")
	recipes, _, _ := strings.Cut(read("recipes_test.go"), "\n// The page shows")
	recipes += read("../inbox/recipes_test.go")

	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(recipes, "\n"+block[1]) {
			t.Errorf("docs/testing.md shows code that is not a recipe:\n%s", block[1])
		}
	}
	for _, recipe := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllStringSubmatch(recipes, -1) {
		if !strings.Contains(page, "func "+recipe[1]+"(") && !strings.Contains(page, "`"+recipe[1]+"`") {
			t.Errorf("docs/testing.md does not mention the recipe %s", recipe[1])
		}
	}
	for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(recipes, "func "+name[1]+"(") {
			t.Errorf("docs/testing.md mentions %s, which is not a recipe", name[1])
		}
	}
}
