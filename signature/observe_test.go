package signature_test

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

// observeCase is a message with the expected Verification.
type observeCase struct {
	reason       string // empty if verified
	alert        bool
	err          error
	callbackOnly bool
	keys         signature.KeySource // default serviceKeys
	opts         signature.VerifierOptions
	signed, sent func(*attack.Message) // changes before and after signing, or nil
	received     func(*http.Request)   // change of the request, or nil
}

func observeCases() []observeCase {
	outage := errors.New("connection refused")
	replayed := storeFunc(func(context.Context, [32]byte, time.Duration) (bool, error) { return false, nil })
	var reads atomic.Int32
	passing := func() time.Time { return now.Add(time.Duration(reads.Add(1)) * time.Minute / 15) } // 4 s per read
	return []observeCase{
		{},
		{reason: "ErrMalformed", err: signature.ErrMalformed, signed: method("PUT")},
		{reason: "ErrAlgorithm", err: signature.ErrAlgorithm, signed: hashed("hs2019", crypto.SHA256)},
		{reason: "ErrCoverage", err: signature.ErrCoverage, signed: covering("date")},
		{reason: "ErrSkew", err: signature.ErrSkew, signed: dated(-time.Hour)},
		{reason: "ErrHost", err: signature.ErrHost, signed: toHost("api.example.net")},
		{reason: "ErrUnknownKey", err: signature.ErrUnknownKey, signed: keyNamed("mine", "unpublished")},
		{reason: "ErrSignature", err: signature.ErrSignature, signed: keyNamed(keyID, "unpublished")},
		{reason: "ErrDigest", err: signature.ErrDigest, callbackOnly: true, sent: withBody("{}")},
		{reason: "ErrReplay", err: signature.ErrReplay, opts: signature.VerifierOptions{Replay: replayed}},
		{reason: "ErrTooLarge", err: signature.ErrTooLarge, callbackOnly: true, opts: signature.VerifierOptions{MaxBody: 1}},
		{reason: "ErrKeySource", alert: true, err: signature.ErrKeySource, keys: failingKeys(outage)},
		{reason: "ErrReplayStore", alert: true, err: signature.ErrReplayStore, opts: signature.VerifierOptions{Replay: failingStore(outage)}},
		{reason: "ErrBody", err: signature.ErrBody, callbackOnly: true, received: func(r *http.Request) {
			r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
		}},
		{reason: "ErrTooLate", err: signature.ErrTooLate, opts: signature.VerifierOptions{Now: passing}},
	}
}

// request returns the message of c.
func (c observeCase) request(t *testing.T, kind messageKind) *http.Request {
	t.Helper()
	w := kind.make()
	if c.signed != nil {
		c.signed(w)
	}
	w.Sign()
	if c.sent != nil {
		c.sent(w)
	}
	r := request(t, w)
	if c.received != nil {
		c.received(r)
	}
	return r
}

// contextKey is the key of a value in the context of a request.
type contextKey struct{}

func TestVerifier_ObservesEachReason(t *testing.T) {
	t.Parallel()
	covered := make(map[string]bool)
	for _, kind := range messageKinds {
		for _, c := range observeCases() {
			covered[c.reason] = true
			if c.callbackOnly && kind.name != "callback" {
				continue
			}
			t.Run(kind.name+"/"+c.reason, func(t *testing.T) {
				var got []signature.Verification
				var requestValues []any
				c.opts.Observe = func(ctx context.Context, v signature.Verification) {
					got = append(got, v)
					requestValues = append(requestValues, ctx.Value(contextKey{}))
				}
				source := c.keys
				if source == nil {
					source = serviceKeys()
				}
				v := verifierFor(t, source, c.opts, host)
				want := signature.Verification{Operation: kind.name, Reason: c.reason}
				if c.reason == "" {
					want.KeyID = keyID
				}
				if c.reason == "" && kind.name == "callback" {
					want.Product = "phone_check"
				}
				r := c.request(t, kind)

				start := time.Now()
				_, err := kind.verify(v, r.WithContext(context.WithValue(r.Context(), contextKey{}, "request")))
				elapsed := time.Since(start)

				if !errors.Is(err, c.err) {
					t.Fatalf("error = %v, want %v", err, c.err)
				}
				if len(got) != 1 {
					t.Fatalf("observed %d results, want 1", len(got))
				}
				if got[0].Err != err || got[0].Duration <= 0 || got[0].Duration > elapsed {
					t.Errorf("Err = %v, Duration = %v; want the returned error %v and at most %v", got[0].Err, got[0].Duration, err, elapsed)
				}
				want.Err, want.Duration = got[0].Err, got[0].Duration
				want.Alert = c.alert
				if got[0] != want {
					t.Errorf("observed %+v, want %+v", got[0], want)
				}
				if requestValues[0] != "request" {
					t.Error("Observe got another context than that of the request")
				}
			})
		}
	}
	for _, name := range exportedReasons(t) {
		if !covered[name] {
			t.Errorf("no case for %s", name)
		}
	}
}

// TestVerifier_ObserveHidesForgedContent sends all attacks. Their kinds and key IDs are invented,
// and would otherwise become attributes of metrics.
func TestVerifier_ObserveHidesForgedContent(t *testing.T) {
	t.Parallel()
	var got signature.Verification
	v := newVerifier(t, signature.VerifierOptions{Observe: func(_ context.Context, o signature.Verification) { got = o }})
	for _, kind := range messageKinds {
		for _, a := range kind.attacks() {
			got = signature.Verification{}
			kind.require(v, http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), request(t, a.Message(kind.setup)))

			if got.Operation != kind.name || got.Product != "" || got.KeyID != "" || got.Reason != (&signature.Error{Reason: a.Want}).ReasonName() {
				t.Errorf("%s: observed %+v, want only reason %v", a.Name, got, a.Want)
			}
			if text := fmt.Sprintf("%+v", got); strings.Contains(text, "example.net") || strings.Contains(text, "passwd") {
				t.Errorf("%s: observed %s, which the sender chose", a.Name, text)
			}
		}
	}
}

func TestVerifier_ObserveConcurrent(t *testing.T) {
	t.Parallel()
	const messages = 200
	var verified, rejected atomic.Int32
	v := newVerifier(t, signature.VerifierOptions{Observe: func(_ context.Context, o signature.Verification) {
		if o.Err == nil && o.KeyID == keyID {
			verified.Add(1)
		} else {
			rejected.Add(1)
		}
	}})

	var wg sync.WaitGroup
	for i := range messages {
		kind := messageKinds[i%len(messageKinds)]
		w := kind.make()
		if i%4 >= 2 {
			keyNamed("invented", "unpublished")(w)
		}
		w.Sign()
		r := request(t, w)
		wg.Go(func() { kind.require(v, http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r) })
	}
	wg.Wait()

	if verified.Load() != messages/2 || rejected.Load() != messages/2 {
		t.Errorf("observed %d verified and %d rejected messages, want %d each", verified.Load(), rejected.Load(), messages/2)
	}
}

// TestVerifier_ObservePanic checks that no message is lost: the replay store has recorded it, so a
// second attempt would be rejected.
func TestVerifier_ObservePanic(t *testing.T) {
	t.Parallel()
	for _, kind := range messageKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			log, handled := new(logRecorder), 0
			v := newVerifier(t, signature.VerifierOptions{
				Replay:  signature.NewMemoryReplayStore(0),
				Logger:  slog.New(log),
				Observe: func(context.Context, signature.Verification) { panic("bug of 447700900012") },
			})
			h := kind.require(v, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ }))
			w := kind.signedAt(now)
			first, second := httptest.NewRecorder(), httptest.NewRecorder()

			h.ServeHTTP(first, request(t, w))
			records := log.at(slog.LevelError)
			h.ServeHTTP(second, request(t, w))

			if first.Code != http.StatusOK || handled != 1 {
				t.Errorf("response = %d, handler called %d times; want 200 and 1", first.Code, handled)
			}
			if second.Code != http.StatusBadRequest {
				t.Errorf("response to the replay = %d, want 400", second.Code)
			}
			want := []logRecord{{slog.LevelError, "signature: observer panicked", map[string]any{"operation": kind.name, "type": "string"}}}
			wantEqual(t, want, records, "records")
		})
	}
}

// TestVerifier_RequireCallbackStorePanic checks that a callback is not lost. Without a response the
// service would not send it again.
func TestVerifier_RequireCallbackStorePanic(t *testing.T) {
	t.Parallel()
	broken := true
	var handled atomic.Int32
	signedAt := now
	srv := httptest.NewUnstartedServer(nil)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // net/http logs the panic
	srv.StartTLS()
	t.Cleanup(srv.Close)
	v := verifierFor(t, serviceKeys(), signature.VerifierOptions{
		Replay: storeFunc(func(context.Context, [32]byte, time.Duration) (bool, error) {
			if broken {
				panic("bug in the store")
			}
			return true, nil
		}),
	}, srv.Listener.Addr().String())
	srv.Config.Handler = v.RequireCallback(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		handled.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	deliver := func() int {
		r := callbackRequest(t, srv.URL+"/callbacks")
		signer := newSigner(t, signature.SignerOptions{Now: func() time.Time { return signedAt }})
		noError(t, signer.SignCallback(r, []byte(body)))
		status, _, _ := send(t, srv.Client(), r)
		return status
	}

	first := deliver()
	calls := handled.Load()
	broken, signedAt = false, now.Add(time.Second) // the service signs each attempt again
	second := deliver()

	if first != http.StatusInternalServerError || calls != 0 {
		t.Errorf("response = %d after %d calls of the handler, want 500 and none: the service retries after a 500", first, calls)
	}
	if second != http.StatusNoContent || handled.Load() != 1 {
		t.Errorf("response to the next attempt = %d, handler called %d times; want 204 and 1", second, handled.Load())
	}
}
