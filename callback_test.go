package idverify_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

func TestParseCallback_AllFields(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		fixture, product string
		want             idverify.Callback
	}{
		{"callback_phone_check.json", "phone_check", idverify.Callback{
			Product: idverify.ProductPhoneCheck, CheckID: "0c8b1f7e-5a43-4d0e-9b62-7f1d3a5c9e21", ReferenceID: "sign-up 42", Status: idverify.StatusCompleted, Match: idverify.VerdictYes,
			ChargeAmount: "1", ChargeCurrency: "API", CreatedAt: created, UpdatedAt: created.Add(6 * time.Second), NetworkID: "00101"}},
		{"callback_phone_check_error.json", "phone_check", idverify.Callback{
			Product: idverify.ProductPhoneCheck, CheckID: "0c8b1f7e-5a43-4d0e-9b62-7f1d3a5c9e21", Status: idverify.StatusError,
			ChargeAmount: "1", ChargeCurrency: "API", CreatedAt: created, UpdatedAt: created.Add(6 * time.Second), ErrorCode: "mno_server_error"}},
		{"callback_phone_check_expired.json", "phone_check", idverify.Callback{
			Product: idverify.ProductPhoneCheck, CheckID: "0c8b1f7e-5a43-4d0e-9b62-7f1d3a5c9e21", Status: idverify.StatusExpired,
			ChargeAmount: "1", ChargeCurrency: "API", CreatedAt: created, UpdatedAt: created.Add(2 * time.Minute)}},
		{"callback_subscriber_check.json", "subscriber_check", idverify.Callback{
			Product: idverify.ProductSubscriberCheck, CheckID: "d2f4a6c8-3e5b-4d7f-9a1c-4e6b8d0f2a3c", ReferenceID: "log-in 9", Status: idverify.StatusCompleted, Match: idverify.VerdictYes, NoSIMChange: idverify.VerdictNo,
			ChargeAmount: "2", ChargeCurrency: "EUR", CreatedAt: created, UpdatedAt: created.Add(8 * time.Second), NetworkID: "00101"}},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			t.Parallel()
			tt.want.Body = fixture(t, tt.fixture)

			got := must(idverify.ParseCallback(&signature.Message{Product: tt.product, Body: tt.want.Body}))(t)

			wantEqual(t, &tt.want, got, "callback")
		})
	}
}

func TestParseCallback_InvalidBody(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty":              "",
		"truncated":          `{"check_id":"a","status":"COMPL`,
		"null":               `null`,
		"list":               `[]`,
		"missing check_id":   `{"status":"COMPLETED","match":true}`,
		"missing status":     `{"check_id":"a","match":true}`,
		"match as text":      `{"check_id":"a","status":"COMPLETED","match":"447700900000"}`,
		"check_id as number": `{"check_id":447700900000,"status":"COMPLETED"}`,
		"trailing text":      `{"check_id":"a","status":"COMPLETED"} {}`,
		"invalid time":       `{"check_id":"a","status":"COMPLETED","created_at":"447700900000"}`,
		"ttl as list":        `{"check_id":"a","status":"COMPLETED","ttl":[447700900000]}`,
	} {
		for _, product := range []string{"phone_check", "subscriber_check"} {
			c, err := idverify.ParseCallback(&signature.Message{Product: product, Body: []byte(body)})

			if err == nil || c != nil {
				t.Errorf("%s, %s: error = nil, callback = %+v, want an error", product, name, c)
			}
			if err != nil && (strings.Contains(err.Error(), "447700900000") || !strings.Contains(err.Error(), product)) {
				t.Errorf("%s, %s: error = %q, want one that names the product and does not contain the body", product, name, err)
			}
		}
	}
	if _, err := idverify.ParseCallback(nil); err == nil {
		t.Error("ParseCallback(nil): error = nil, want an error")
	}
}

func TestParseCallback_UnknownValues(t *testing.T) {
	t.Parallel()

	c := must(idverify.ParseCallback(&signature.Message{Product: "invoice", Body: []byte("total: 1")}))(t)
	later := must(idverify.ParseCallback(&signature.Message{Product: "phone_check", Body: []byte(`{"check_id":"a","status":"FROZEN","new_field":[1]}`)}))(t)

	if c.Product != "invoice" || string(c.Body) != "total: 1" {
		t.Errorf("callback = %+v, want product invoice and its body", c)
	}
	if later.Status != "FROZEN" || later.Match != idverify.VerdictUnknown || later.Status.Final() {
		t.Errorf("callback = %+v, want status FROZEN without a match", later)
	}
}

func TestCallbackHandler_Statuses(t *testing.T) {
	t.Parallel()
	good := string(fixture(t, "callback_phone_check.json"))
	for _, tt := range []struct {
		name    string
		product string
		body    string
		keys    signature.KeySource
		spoil   func(*http.Request)
		err     error // of the handler
		want    int
		handled int
	}{
		{"handled", "phone_check", good, testKeys(), nil, nil, 204, 1},
		{"unknown product", "invoice", "{}", testKeys(), nil, nil, 204, 1},
		{"changed product", "phone_check", good, testKeys(), func(r *http.Request) { r.Header.Set("X-Service-Callback", "subscriber_check") }, nil, 400, 0},
		{"changed body", "phone_check", good, testKeys(), func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Replace(good, "true", "tru3", 1)))
		}, nil, 400, 0},
		{"unknown key", "phone_check", good, signature.StaticKeys{}, nil, nil, 400, 0},
		{"key set unavailable", "phone_check", good, unavailableKeys{}, nil, nil, 503, 0},
		{"not stored", "phone_check", good, testKeys(), nil, errors.New("database of 447700900000 unavailable"), 500, 1},
		{"signed, but not a check", "phone_check", "{}", testKeys(), nil, nil, 500, 0},
		{"signed, but not a SubscriberCheck", "subscriber_check", `{"check_id":"a"}`, testKeys(), nil, nil, 500, 0},
		{"signed, but not JSON", "subscriber_check", "<html>", testKeys(), nil, nil, 500, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			v := must(signature.NewVerifier(tt.keys, []string{"shop.sandbox.test"}, &signature.VerifierOptions{ClockSkew: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
			handled := 0
			h := idverify.CallbackHandler(v, func(context.Context, *idverify.Callback) error {
				handled++
				return tt.err
			})
			r := signedCallback(t, tt.product, tt.body)
			if tt.spoil != nil {
				tt.spoil(r)
			}
			w := httptest.NewRecorder()

			h.ServeHTTP(w, r)

			if w.Code != tt.want {
				t.Errorf("status = %d, want %d", w.Code, tt.want)
			}
			if handled != tt.handled {
				t.Errorf("handler called %d times, want %d", handled, tt.handled)
			}
			if body := w.Body.String(); tt.want == 500 && body != "Internal Server Error\n" || strings.Contains(body, "database") {
				t.Errorf("body = %q, want only the status text", body)
			}
			if tt.want == 500 && (!strings.Contains(log.String(), "product="+tt.product) || tt.handled == 1 && !strings.Contains(log.String(), "check_id=0c8b1f7e-5a43-4d0e-9b62-7f1d3a5c9e21") || !strings.Contains(log.String(), " error=")) {
				t.Errorf("log = %q, want the product, the check ID and the error", log.String())
			}
			if (tt.want == 204) != (log.Len() == 0) {
				t.Errorf("log = %q, want records only for callbacks that were not handled", log.String())
			}
			if tt.want == 503 && w.Header().Get("Retry-After") == "" {
				t.Error("503 without Retry-After, want the header")
			}
		})
	}
}

// A callback is not lost if the service closes the connection while it is handled.
func TestCallbackHandler_ConnectionCloses(t *testing.T) {
	t.Parallel()
	type key struct{}
	v := must(signature.NewVerifier(testKeys(), []string{"shop.sandbox.test"}, &signature.VerifierOptions{ClockSkew: time.Hour}))(t)
	handled := make(chan context.Context, 1)
	client, closeConnection := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), key{}, "value")
		idverify.CallbackHandler(v, func(handle context.Context, _ *idverify.Callback) error {
			closeConnection()
			<-ctx.Done()
			if err := handle.Err(); err != nil {
				t.Errorf("context of the callback: %v, want one that continues", err)
			}
			handled <- handle
			return nil
		}).ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(srv.Close)
	r := signedCallback(t, "phone_check", string(fixture(t, "callback_phone_check.json"))).WithContext(client)
	r.RequestURI = ""
	r.URL, _ = url.Parse(srv.URL + r.URL.RequestURI())
	before := time.Now()

	if resp, err := srv.Client().Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("response = %v, error = %v, want a closed connection", resp, err)
	}

	ctx := <-handled
	if deadline, ok := ctx.Deadline(); !ok || deadline.Before(before.Add(30*time.Second)) || ctx.Value(key{}) != "value" {
		t.Errorf("deadline = %v after %v, value = %v, want 30s and the value of the request", deadline, before, ctx.Value(key{}))
	}
}

// TestCallbackHandler_Panic checks the response and both logs: that of net/http, and that of the
// verifier, on whose level error users alert.
func TestCallbackHandler_Panic(t *testing.T) {
	t.Parallel()
	const site = "panic in github.com/idverify/idverify-go_test.TestCallbackHandler_Panic.func"
	var none []int
	for name, tt := range map[string]struct {
		fail       func()
		panic, log string // in the logs of net/http and of the verifier
	}{
		"string":        {func() { panic("447700900012") }, "447700900012", ": a value of type string"},
		"error":         {func() { panic(errors.New("447700900012")) }, "447700900012", ": a value of type *errors.errorString"},
		"runtime error": {func() { _ = none[7] }, "out of range [7]", ": runtime error: index out of range [7] with length 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			panicLog, verifierLog := new(tooltest.Buffer), new(tooltest.Buffer)
			v := must(signature.NewVerifier(testKeys(), []string{"shop.sandbox.test"}, &signature.VerifierOptions{ClockSkew: time.Hour, Logger: slog.New(slog.NewJSONHandler(verifierLog, nil))}))(t)
			srv := httptest.NewUnstartedServer(idverify.CallbackHandler(v, func(context.Context, *idverify.Callback) error {
				tt.fail()
				return nil
			}))
			srv.Config.ErrorLog = log.New(panicLog, "", 0)
			srv.Start()
			t.Cleanup(srv.Close)
			r := signedCallback(t, "phone_check", string(fixture(t, "callback_phone_check.json")))
			r.RequestURI = ""
			r.URL, _ = url.Parse(srv.URL + r.URL.RequestURI())

			resp, err := srv.Client().Do(r)
			if err != nil {
				t.Fatalf("no response (%v), want 500: the service does not retry after a lost connection", err)
			}
			body, err := io.ReadAll(resp.Body) // the connection is closed after the response
			resp.Body.Close()
			srv.Close()

			if resp.StatusCode != http.StatusInternalServerError || len(body) > 0 || err != nil || !resp.Close {
				t.Errorf("response = %d %q, close = %v, error = %v; want a complete 500 without the panic value, and no reuse of the connection", resp.StatusCode, body, resp.Close, err)
			}
			if !strings.Contains(panicLog.String(), tt.panic) {
				t.Errorf("log of net/http = %q, want the panic", panicLog.String())
			}
			record := verifierLog.String()
			if strings.Count(record, "\n") != 1 || !strings.Contains(record, `"level":"ERROR","msg":"idverify: callback not handled","product":"phone_check","check_id":"`) ||
				!strings.Contains(record, site) || !strings.Contains(record, tt.log) || strings.Contains(record, "447700900012") {
				t.Errorf("log of the verifier = %q, want one record with %q", record, tt.log)
			}
		})
	}
}

func TestParseRedirect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query string
		want  *idverify.Redirect // nil: error
	}{
		{"check_id=a&code=b&basket=7", &idverify.Redirect{CheckID: "a", Code: "b", Query: url.Values{"check_id": {"a"}, "code": {"b"}, "basket": {"7"}}}},
		{"check_id=a&error=mno_timeout&error_description=too+late", &idverify.Redirect{CheckID: "a", ErrorCode: "mno_timeout", ErrorDescription: "too late",
			Query: url.Values{"check_id": {"a"}, "error": {"mno_timeout"}, "error_description": {"too late"}}}},
		{"check_id=a", nil},
		{"code=b", nil},
		{"check_id=a&code=b&error=c", nil},
		{"", nil},
	} {
		query := must(url.ParseQuery(tt.query))(t)

		got, err := idverify.ParseRedirect(&signature.Message{Query: query})

		if (err == nil) != (tt.want != nil) {
			t.Errorf("%q: error = %v, want an error exactly if no redirect is expected", tt.query, err)
		}
		wantEqual(t, tt.want, got, "%q", tt.query)
	}
	if _, err := idverify.ParseRedirect(nil); err == nil {
		t.Error("ParseRedirect(nil): error = nil, want an error")
	}
}

func TestRedirect_HidesCode(t *testing.T) {
	t.Parallel()
	const code = "c0de-of-a-check"
	redirect := &idverify.Redirect{CheckID: "check-1", Code: code, Query: url.Values{"check_id": {"check-1"}, "code": {code}}}
	message := &signature.Message{KeyID: "check-1", Query: redirect.Query}
	for _, value := range []any{redirect, *redirect, message, *message} {
		if notations := tooltest.Notations(value, code); len(notations) > 0 {
			t.Errorf("%T: the code is printed by %q", value, notations)
		}
		if notations := tooltest.Notations(value, "check-1"); len(notations) != 9 {
			t.Errorf("%T: the check ID is printed by %q, want all 9", value, notations)
		}
	}
	if redirect.Query.Get("code") != code {
		t.Error("printing a redirect changes it")
	}
}

func TestRedirectHandler_Statuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query, change string
		want          int
	}{
		{"basket=7&check_id=a&code=b", "", 200},
		{"basket=7&check_id=a&code=b", "&code=c", 400},
		{"check_id=a", "", 400},
	} {
		var log strings.Builder
		v := must(signature.NewVerifier(testKeys(), []string{"shop.sandbox.test"}, &signature.VerifierOptions{ClockSkew: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
		u := must(url.Parse("https://shop.sandbox.test/return?" + tt.query))(t)
		noError(t, signer(t).SignRedirect(u))
		w := httptest.NewRecorder()

		idverify.RedirectHandler(v, func(w http.ResponseWriter, _ *http.Request, r *idverify.Redirect) {
			io.WriteString(w, r.CheckID+r.Code+r.Query.Get("basket"))
		}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, u.String()+tt.change, nil))

		if w.Code != tt.want || tt.want == 200 && w.Body.String() != "ab7" {
			t.Errorf("%q%q: response = %d %q, want %d", tt.query, tt.change, w.Code, w.Body, tt.want)
		}
		if tt.want == 400 && (w.Body.String() != "Bad Request\n" || !strings.Contains(log.String(), " error=")) || tt.want == 200 && log.Len() > 0 {
			t.Errorf("%q%q: response = %q, log = %q, want the reason only in the log", tt.query, tt.change, w.Body, log.String())
		}
	}
}

func FuzzParseCallback(f *testing.F) {
	for _, name := range []string{"callback_phone_check.json", "callback_phone_check_error.json", "callback_subscriber_check.json", "phone_check_created.json"} {
		f.Add("phone_check", fixture(f, name))
	}
	f.Add("invoice", []byte(`{"check_id":1}`))
	f.Fuzz(func(t *testing.T, product string, body []byte) {
		c, err := idverify.ParseCallback(&signature.Message{Product: product, Body: body})
		if (c == nil) == (err == nil) {
			t.Fatalf("callback = %v, error = %v, want one of them", c, err)
		}
		if c == nil {
			return
		}
		if c.Product == idverify.ProductPhoneCheck && (c.CheckID == "" || c.Status == "") {
			t.Errorf("check without ID or status from %s, want an error", body)
		}
		if c.Match != idverify.VerdictUnknown && !json.Valid(body) {
			t.Errorf("match from a body that is not JSON, want an error: %s", body)
		}
	})
}

// testKey generates a key once per run.
var testKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func signer(t testing.TB) *signature.Signer {
	t.Helper()
	key := must(testKey())(t)
	return must(signature.NewSigner("key-1", key, nil))(t)
}

func testKeys() signature.KeySource {
	key, err := testKey()
	if err != nil {
		return unavailableKeys{}
	}
	return signature.StaticKeys{"key-1": &key.PublicKey}
}

// unavailableKeys is a KeySource that is not available.
type unavailableKeys struct{}

func (unavailableKeys) PublicKey(context.Context, string) (*rsa.PublicKey, error) {
	return nil, errors.New("unavailable")
}

// signedCallback returns a signed callback as a server receives it.
func signedCallback(t testing.TB, product, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "https://shop.sandbox.test/callbacks?source=idverify", nil)
	r.Header.Set("X-Service-Callback", product)
	noError(t, signer(t).SignCallback(r, []byte(body)))
	return r
}
