package signature_test

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/signature"
)

// logRecorder is a slog.Handler that stores all records.
type logRecorder struct {
	mu      sync.Mutex // guards records
	records []logRecord
}

type logRecord struct {
	Level   slog.Level
	Message string
	Attrs   map[string]any
}

func (l *logRecorder) Enabled(context.Context, slog.Level) bool { return true }
func (l *logRecorder) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logRecorder) WithGroup(string) slog.Handler            { return l }

func (l *logRecorder) Handle(_ context.Context, r slog.Record) error {
	record := logRecord{r.Level, r.Message, make(map[string]any)}
	r.Attrs(func(a slog.Attr) bool {
		record.Attrs[a.Key] = a.Value.Any()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, record)
	return nil
}

// at returns the records with the given level.
func (l *logRecorder) at(level slog.Level) []logRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	var records []logRecord
	for _, r := range l.records {
		if r.Level == level {
			records = append(records, r)
		}
	}
	return records
}

// TestVerifier_ForgedMessagesLogWarnings sends messages with invented key IDs. They must not
// trigger the alert that docs/security.md recommends, which is on level error.
func TestVerifier_ForgedMessagesLogWarnings(t *testing.T) {
	t.Parallel()
	const forged = 100
	for _, tt := range []struct {
		name      string
		outage    bool          // since the first fetch; otherwise, there is no key set yet
		age       time.Duration // of the set in an outage
		opts      signature.JWKSOptions
		failures  int // failed fetches, logged at level error
		responses map[int]int
	}{
		// The first two messages cause a fetch: of the first set, and for an unknown key.
		{"available", false, 0, signature.JWKSOptions{}, 0, map[int]int{400: 2, 503: forged - 2}},
		{"outage with a fresh set", true, 0, signature.JWKSOptions{}, 1, map[int]int{503: forged}},
		{"outage with a fresh set beyond MaxStale", true, 2 * time.Minute, signature.JWKSOptions{MaxStale: time.Minute}, 1, map[int]int{503: forged}},
		{"outage with an old set", true, time.Hour, signature.JWKSOptions{}, 1, map[int]int{503: forged}},
	} {
		for _, kind := range messageKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				s := newKeyServer(t, jwk(keyID, "service-1"))
				synctest.Test(t, func(t *testing.T) {
					fetches, messages := new(logRecorder), new(logRecorder)
					opts := tt.opts
					opts.Logger, opts.HTTPClient = slog.New(fetches), s.inMemory()
					keys := s.jwks(t, opts)
					v := verifierFor(t, keys, signature.VerifierOptions{Logger: slog.New(messages)}, host)
					responses := make(map[int]int)
					if tt.outage {
						s.want(t, keys, keyID, "service-1")
						s.respond(respondWith(503, "", ""))
						s.advance(tt.age)
					}

					for i := range forged {
						w := kind.make()
						keyNamed(fmt.Sprint("invented-", i), "unpublished")(w)
						w.Sign()
						response := httptest.NewRecorder()
						kind.require(v, http.NotFoundHandler()).ServeHTTP(response, request(t, w))
						responses[response.Code]++
					}
					synctest.Wait() // until the fetches are logged

					if records := messages.at(slog.LevelError); len(records) > 0 {
						t.Errorf("%d forged messages caused %d records at level error, want none: anyone could trigger the alert\n%v", forged, len(records), records[0])
					}
					if records := messages.at(slog.LevelWarn); len(records) != forged {
						t.Errorf("%d records at level warn, want %d", len(records), forged)
					}
					if records := fetches.at(slog.LevelError); len(records) != tt.failures {
						t.Errorf("%d records of failed fetches, want %d", len(records), tt.failures)
					}
					wantEqual(t, tt.responses, responses, "responses")
				})
			})
		}
	}
}

// logCase is a message that is not verified, with the expected record.
type logCase struct {
	name   string
	keys   signature.KeySource
	replay signature.ReplayStore
	change func(*http.Request) *http.Request
	level  slog.Level
	text   string // in the record
	status int
}

func logCases(t *testing.T) []logCase {
	t.Helper()
	outage := errors.New("connection refused")
	full := signature.NewMemoryReplayStore(1)
	must(full.Claim(t.Context(), [32]byte{1}, time.Hour))(t)
	waitingKeys := keyFunc(func(ctx context.Context, _ string) (*rsa.PublicKey, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	leftStore := storeFunc(func(ctx context.Context, _ [32]byte, _ time.Duration) (bool, error) { return false, ctx.Err() })
	canceled := func(r *http.Request) *http.Request {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		return r.WithContext(ctx)
	}
	expired := func(r *http.Request) *http.Request {
		ctx, cancel := context.WithDeadline(r.Context(), time.Unix(0, 0))
		t.Cleanup(cancel)
		return r.WithContext(ctx)
	}
	cached, down := newKeyServer(t), newKeyServer(t)
	cached.respond(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Age", "1")
		fmt.Fprint(w, keySet(jwk("other", "service-1")))
	})
	down.respond(respondWith(500, "", ""))
	hanging := jwksOver(t, roundTrip(func(*http.Request) (*http.Response, error) {
		<-t.Context().Done() // until the test ends
		return nil, t.Context().Err()
	}), signature.JWKSOptions{})
	body := func(body io.Reader) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request { r.Body = io.NopCloser(body); return r }
	}
	unknownLength := func(body string) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
			return r
		}
	}
	return []logCase{
		// Anyone can cause these.
		{"malformed", nil, nil, func(r *http.Request) *http.Request {
			r.Header.Set("Authorization", "Bearer not-a-signature")
			return r
		}, slog.LevelWarn, "Authorization scheme is not Signature", 400},
		{"unknown key", signature.StaticKeys{}, nil, nil, slog.LevelWarn, "no usable key with this ID", 400},
		{"forged", signature.StaticKeys{keyID: &keys()["unpublished"].PublicKey}, nil, nil, slog.LevelWarn, "does not verify", 400},
		{"cached key set", cached.jwks(t, signature.JWKSOptions{}), nil, nil, slog.LevelWarn, "cache", 503},
		{"canceled during key lookup", waitingKeys, nil, canceled, slog.LevelWarn, "context canceled", 503},
		{"canceled during fetch", hanging, nil, canceled, slog.LevelWarn, "context canceled", 503},
		{"deadline exceeded during fetch", hanging, nil, expired, slog.LevelWarn, "deadline exceeded", 503},
		{"connection lost", nil, nil, body(iotest.ErrReader(io.ErrUnexpectedEOF)), slog.LevelWarn, "could not be read", 503},
		{"body emptied", nil, nil, unknownLength(""), slog.LevelWarn, "middleware in front of the verifier has read it", 503},
		{"body truncated", nil, nil, unknownLength("{"), slog.LevelWarn, "digest does not match", 400},
		{"canceled during claim", nil, leftStore, canceled, slog.LevelWarn, "context canceled", 503},

		// Outages and mistakes of the receiver.
		{"key source down", failingKeys(outage), nil, nil, slog.LevelError, "connection refused", 503},
		{"deadline exceeded during key lookup", waitingKeys, nil, expired, slog.LevelError, "deadline exceeded", 503},
		{"no key and no error", failingKeys(nil), nil, nil, slog.LevelError, "neither a key nor an error", 503},
		{"key set down", down.jwks(t, signature.JWKSOptions{}), nil, nil, slog.LevelError, "500", 503},
		{"replay store down", nil, failingStore(outage), nil, slog.LevelError, "connection refused", 503},
		{"replay store full", nil, full, nil, slog.LevelError, "full", 503},
		{"body consumed", nil, nil, body(strings.NewReader("")), slog.LevelError, "middleware in front of the verifier has read it", 503},
		{"body closed", nil, nil, body(iotest.ErrReader(http.ErrBodyReadAfterClose)), slog.LevelError, "middleware in front of the verifier has read it", 503},
	}
}

func TestVerifier_LogLevels(t *testing.T) {
	t.Parallel()
	for _, tt := range logCases(t) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log := new(logRecorder)
			var observed signature.Verification
			observe := func(_ context.Context, o signature.Verification) { observed = o }
			source := tt.keys
			if source == nil {
				source = serviceKeys()
			}
			v := verifierFor(t, source, signature.VerifierOptions{Replay: tt.replay, Logger: slog.New(log), Observe: observe}, host)
			r := request(t, signedCallback())
			if tt.change != nil {
				r = tt.change(r)
			}
			response := httptest.NewRecorder()

			v.RequireCallback(http.NotFoundHandler()).ServeHTTP(response, r)

			if response.Code != tt.status {
				t.Errorf("response = %d, want %d", response.Code, tt.status)
			}
			if retry := response.Header().Get("Retry-After"); tt.status == 503 && retry != "10" {
				t.Errorf("Retry-After = %q, want 10, the delay of the service's first retry", retry)
			}
			if len(log.records) != 1 {
				t.Fatalf("records = %v, want one", log.records)
			}
			got := log.records[0]
			if got.Level != tt.level || got.Message != "signature: message not verified" || !strings.Contains(fmt.Sprint(got.Attrs["error"]), tt.text) {
				t.Errorf("record = %v, want level %v and an error with %q", got, tt.level, tt.text)
			}
			if strings.Contains(fmt.Sprint(got), "not-a-signature") {
				t.Errorf("record = %v, want it without content of the message", got)
			}
			if want := tt.level == slog.LevelError; observed.Alert != want {
				t.Errorf("observed %+v, want Alert %t as in the log", observed, want)
			}
		})
	}
}

func TestVerifier_LogsReason(t *testing.T) {
	t.Parallel()
	for _, kind := range messageKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			log := new(logRecorder)
			v := verifierFor(t, serviceKeys(), signature.VerifierOptions{Logger: slog.New(log)}, "other.example.com")

			kind.require(v, http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), request(t, kind.signedAt(now)))

			if len(log.records) != 1 {
				t.Fatalf("records = %v, want one", log.records)
			}
			if got := log.records[0].Attrs; got["operation"] != kind.name || got["reason"] != "ErrHost" {
				t.Errorf("attributes = %v, want operation %s and reason ErrHost", got, kind.name)
			}
		})
	}
}

// TestJWKS_LogsIgnoredKeys publishes keys that are ignored although they are strong enough.
func TestJWKS_LogsIgnoredKeys(t *testing.T) {
	t.Parallel()
	private := func(kid string) string { return withMembers(jwk(kid, "service-2"), `"d":"AQAB","p":1`) }
	const symmetric = `{"kty":"oct","k":"AQAB","kid":"b"}`
	for _, tt := range []struct {
		name string
		keys []string
		want string // attributes of the record; empty for no record
	}{
		{"all used", []string{jwk("b", "service-2"), jwk("weak", "weak"), jwk("weak", "weak")}, ""},
		{"private key parameters", []string{private("b"), private("c")}, "map[duplicate:0 private_parts:2]"},
		{"private key parameters next to the public key", []string{private("b"), jwk("b", "service-2")}, "map[duplicate:0 private_parts:1]"},
		{"symmetric key", []string{symmetric}, ""},
		{"symmetric key of the same ID", []string{jwk("b", "service-2"), symmetric}, "map[duplicate:0 private_parts:1]"},
		{"duplicate", []string{jwk("b", "service-2"), jwk("b", "strong"), jwk("b", "service-2")}, "map[duplicate:1 private_parts:0]"},
		{"both", []string{jwk("b", "service-1"), jwk("b", "strong"), private("c")}, "map[duplicate:1 private_parts:1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t, append(tt.keys, jwk("a", "service-1"))...)
			synctest.Test(t, func(t *testing.T) {
				log := new(logRecorder)
				j := s.jwks(t, signature.JWKSOptions{Logger: slog.New(log), HTTPClient: s.inMemory()})

				for range 3 {
					s.want(t, j, "a", "service-1")
				}
				synctest.Wait() // until the fetch is logged

				var got string
				if len(log.records) > 0 {
					got = fmt.Sprint(log.records[0].Attrs)
					if r := log.records[0]; r.Level != slog.LevelError || r.Message != "signature: keys of the key set ignored" {
						t.Errorf("record = %v, want ignored keys at level error", r)
					}
				}
				if len(log.records) > 1 || got != tt.want {
					t.Errorf("records = %v, want one with %q", log.records, tt.want)
				}
			})
		})
	}
}

// TestJWKS_LogsEachFailedFetchOnce makes many lookups during an outage.
func TestJWKS_LogsEachFailedFetchOnce(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"))
	synctest.Test(t, func(t *testing.T) {
		log := new(logRecorder)
		j := s.jwks(t, signature.JWKSOptions{Logger: slog.New(log), HTTPClient: s.inMemory(), MaxStale: 10 * time.Minute})
		s.want(t, j, "a", "service-1")
		synctest.Wait()
		if len(log.records) > 0 {
			t.Fatalf("records of a successful fetch: %v, want none", log.records)
		}
		s.respond(respondWith(503, "", ""))
		s.advance(10 * time.Minute)

		for range 100 {
			s.wantError(t, j, "invented", signature.ErrKeySource)
		}
		synctest.Wait() // until the fetch is logged
		s.advance(time.Second)
		for range 100 {
			s.wantError(t, j, "invented", signature.ErrKeySource)
		}
		synctest.Wait()

		failed := func(failures int64, usable bool) logRecord {
			return logRecord{slog.LevelError, "signature: key set not fetched", map[string]any{
				"failures": failures, "old_set_usable": usable, "error": "signature: key lookup: verification unavailable: get key set: 503 Service Unavailable"}}
		}
		wantEqual(t, []logRecord{failed(1, true), failed(2, false)}, log.records, "records")
	})
}
