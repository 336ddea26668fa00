package signature_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// Test your own callback handler: create a key pair, sign a callback in place of the service, and
// pass it to the handler.
func Example() {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		log.Fatal(err)
	}
	signer, err := signature.NewSigner("test-key", key, nil)
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := signature.NewVerifier(signature.StaticKeys{"test-key": &key.PublicKey}, []string{"api.example.com"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	handler := verifier.RequireCallback(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, _ := signature.MessageFromContext(r.Context())
		fmt.Printf("%s: %s\n", m.Product, m.Body)
		w.WriteHeader(http.StatusNoContent)
	}))

	r := httptest.NewRequest(http.MethodPost, "https://api.example.com/callbacks", nil)
	r.Header.Set("x-service-callback", "phone_check")
	if err := signer.SignCallback(r, []byte(`{"check_id":"c1","status":"COMPLETED","match":true}`)); err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output:
	// phone_check: {"check_id":"c1","status":"COMPLETED","match":true}
	// 204
}

// In production, verify with the service's published keys and reject copies of messages.
func ExampleNewVerifier() {
	keys, err := signature.NewJWKS("https://eu.api.example.com/.well-known/jwks.json", nil)
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := signature.NewVerifier(keys, []string{"api.example.com"}, &signature.VerifierOptions{
		Replay: signature.NewMemoryReplayStore(0),
	})
	if err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", verifier.RequireCallback(http.NotFoundHandler()))
	mux.Handle("GET /back", verifier.RequireRedirect(http.NotFoundHandler()))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/callbacks", strings.NewReader("{}")))
	fmt.Println(w.Code)
	// Output: 400
}

// A handler that logs the error and responds like RequireCallback.
func ExampleVerifier_VerifyCallback() {
	verifier := exampleVerifier()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, err := verifier.VerifyCallback(r)
		if e, ok := errors.AsType[*signature.Error](err); ok {
			fmt.Println(err) // log the error, and do not send it to the sender
			if e.Retryable() {
				w.Header().Set("Retry-After", "10")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Println(m.Product)
		w.WriteHeader(http.StatusNoContent)
	})

	for _, body := range []string{`{"match":true}`, `{"match":null}`} {
		r := exampleCallback(`{"match":true}`)
		r.Body = http.MaxBytesReader(nil, restored([]byte(body)), 1<<10)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// phone_check
	// 204
	// signature: callback rejected: digest does not match the body (does middleware change it?)
	// 400
}

// The device returns with a code. Accept it only in the session that started the check.
func ExampleVerifier_RequireRedirect() {
	sessionCheckID := "c1" // from your session store
	handler := exampleVerifier().RequireRedirect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, _ := signature.MessageFromContext(r.Context())
		if m.Query.Get("check_id") != sessionCheckID {
			http.Error(w, "check belongs to another session", http.StatusForbidden)
			return
		}
		fmt.Println("complete", m.Query.Get("check_id"), "with", m.Query.Get("code"))
		http.Redirect(w, r, "/done", http.StatusSeeOther) // so that a reload does not repeat this request
	}))

	u := &url.URL{Scheme: "https", Host: "api.example.com", Path: "/back", RawQuery: "check_id=c1&code=a%2Bb"}
	if err := exampleSigner().SignRedirect(u); err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, u.String(), nil))
	fmt.Println(w.Code)
	// Output:
	// complete c1 with a+b
	// 303
}

// Behind a proxy that changes the host and the path, read the original values from its headers.
func ExampleVerifierOptions_target() {
	verifier, err := signature.NewVerifier(exampleKeys(), []string{"api.example.com"}, &signature.VerifierOptions{
		Target: func(r *http.Request) (host, requestURI string) {
			return r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Original-URI")
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	r := exampleCallback("{}")
	r.Header.Set("X-Forwarded-Host", r.Host)
	r.Header.Set("X-Original-URI", r.RequestURI)
	r.Host, r.RequestURI = "10.0.0.7:8080", "/internal/callbacks"

	_, err = verifier.VerifyCallback(r)
	fmt.Println(err)
	// Output: <nil>
}

// Log why messages are rejected. The middleware wraps the handler of the verifier directly, so that
// it has the same request, with the restored body. The response does not change.
func ExampleVerifier_Explain() {
	verifier := exampleVerifier()
	callbacks := verifier.RequireCallback(http.NotFoundHandler())
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := &statusRecorder{ResponseWriter: w} // records the status that is passed to WriteHeader
		callbacks.ServeHTTP(recorder, r)
		if recorder.status == http.StatusBadRequest {
			for _, change := range verifier.Explain(r.Context(), r, nil).Changes {
				fmt.Println(change) // use a logger, and limit the rate: anyone can send invalid messages
			}
		}
	})

	r := exampleCallback(`{"match":true}`)
	r.Host, r.RequestURI = "app.internal:8080", "/callbacks"
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output:
	// host: signed for api.example.com, one of the verifier's hosts, but received with another Host header: configure the proxy to keep it, or the receiver to verify the original (in Go, with VerifierOptions.Target)
	// 400
}

// Count the messages by result, for a metric.
func ExampleVerifierOptions_observe() {
	results := make(map[string]int) // use a counter that is safe for concurrent use
	verifier, err := signature.NewVerifier(exampleKeys(), []string{"api.example.com"}, &signature.VerifierOptions{
		Observe: func(_ context.Context, v signature.Verification) {
			results[v.Operation+" "+cmp.Or(v.Reason, "verified "+v.Product)]++
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	forged := exampleCallback("{}")
	forged.Host = "another-customer.example.net"
	for _, r := range []*http.Request{exampleCallback("{}"), exampleCallback("{}"), forged} {
		verifier.RequireCallback(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	}
	fmt.Println(results)
	// Output: map[callback ErrHost:1 callback verified phone_check:2]
}

// Read the reason of an error, for example for a metric.
func ExampleError() {
	r := exampleCallback("{}")
	r.Host = "another-customer.example.net"
	_, err := exampleVerifier().VerifyCallback(r)

	if e, ok := errors.AsType[*signature.Error](err); ok {
		fmt.Println(e.Operation, "·", e.Reason, "·", e.Retryable())
	}
	fmt.Println(errors.Is(err, signature.ErrHost))
	// Output:
	// callback · host not allowed · false
	// true
}

// A replay store in a database that several processes share. Claim must be one atomic operation,
// such as SET with NX and EX in Redis.
func ExampleReplayStore() {
	var store signature.ReplayStore = sharedStore{claim: func(_ context.Context, key string, ttl time.Duration) (bool, error) {
		fmt.Println("SET", key[:7], "1 NX EX", int(ttl.Round(time.Second).Seconds()))
		return true, nil
	}}

	fresh, err := store.Claim(context.Background(), [32]byte{0xab}, 6*time.Second)
	fmt.Println(fresh, err)
	// Output:
	// SET replay: 1 NX EX 6
	// true <nil>
}

type sharedStore struct {
	claim func(ctx context.Context, key string, ttl time.Duration) (bool, error)
}

func (s sharedStore) Claim(ctx context.Context, id [32]byte, ttl time.Duration) (bool, error) {
	return s.claim(ctx, fmt.Sprintf("replay:%x", id), ttl)
}

func ExampleMemoryReplayStore() {
	store := signature.NewMemoryReplayStore(0)
	for range 2 {
		fresh, err := store.Claim(context.Background(), [32]byte{1}, time.Minute)
		fmt.Println(fresh, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

// A key source returns ErrUnknownKey for a key that does not exist.
func ExampleKeySource() {
	var source signature.KeySource = exampleKeys()

	_, err := source.PublicKey(context.Background(), "unknown")
	fmt.Println(errors.Is(err, signature.ErrUnknownKey))
	// Output: true
}

// The URL of a key set must use https, because anyone who can change the set can sign messages.
func ExampleNewJWKS() {
	_, err := signature.NewJWKS("http://eu.api.example.com/.well-known/jwks.json", nil)
	fmt.Println(err)
	// Output: signature: new JWKS: URL must be an absolute https URL without user or fragment
}

// A readiness probe. A process without a usable key set cannot verify messages.
func ExampleJWKS_Ready() {
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, keySet(jwk("key-1", "service-1")))
	}))
	defer service.Close()
	keys, err := signature.NewJWKS(service.URL, &signature.JWKSOptions{HTTPClient: service.Client()})
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(keys.Ready(context.Background()))
	// Output: <nil>
}

// Record the age of the key set as a metric. It grows while fetches fail.
func ExampleJWKS_Age() {
	keys, err := signature.NewJWKS("https://eu.api.example.com/.well-known/jwks.json", nil)
	if err != nil {
		log.Fatal(err)
	}

	age, fetched := keys.Age()
	fmt.Println(age, fetched)
	// Output: 0s false
}

func ExampleSigner_SignRedirect() {
	u, err := url.Parse("https://app.example.com/back?lang=de&check_id=c1&code=abc")
	if err != nil {
		log.Fatal(err)
	}
	if err := exampleSigner().SignRedirect(u); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.HasPrefix(u.RawQuery, "lang=de&check_id=c1&code=abc&authorization="), u.Query().Has("date"))
	// Output: true true
}

// The examples share the following functions.

func exampleKeys() signature.StaticKeys {
	return signature.StaticKeys{keyID: &keys()["service-1"].PublicKey}
}

func exampleSigner() *signature.Signer {
	signer, err := signature.NewSigner(keyID, keys()["service-1"], nil)
	if err != nil {
		log.Fatal(err)
	}
	return signer
}

func exampleVerifier() *signature.Verifier {
	verifier, err := signature.NewVerifier(exampleKeys(), []string{"api.example.com"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return verifier
}

func exampleCallback(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://api.example.com/callbacks", nil)
	r.Header.Set("x-service-callback", "phone_check")
	if err := exampleSigner().SignCallback(r, []byte(body)); err != nil {
		log.Fatal(err)
	}
	return r
}
