package signature_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"weak"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

// watchedBody records whether it was read and closed.
type watchedBody struct {
	io.Reader
	read, closed bool
}

func (b *watchedBody) Read(p []byte) (int, error) { b.read = true; return b.Reader.Read(p) }
func (b *watchedBody) Close() error               { b.closed = true; return nil }

func TestVerifier_BodySizes(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for _, size := range []int{0, 1, 510, 511, 512, 513, 64<<10 - 1, 64 << 10, 1 << 20} {
		for _, known := range []bool{true, false} {
			content := strings.Repeat("a", size)
			w := newCallback()
			withBody(content)(w)
			w.Set("Digest", attack.Digest(content))
			w.Sign()
			r := request(t, w)
			if r.Body = restored([]byte(content)); !known {
				r.ContentLength = -1
			}

			m, err := v.VerifyCallback(r)

			if err != nil {
				t.Errorf("%d bytes, length known: %v: error = %v, want none", size, known, err)
				continue
			}
			if again, err := io.ReadAll(r.Body); string(m.Body) != content || string(again) != content || err != nil {
				t.Errorf("%d bytes, length known: %v: %d bytes returned, %d bytes read again, error = %v", size, known, len(m.Body), len(again), err)
			}
		}
	}
}

// TestVerifier_CallbackAllocations is not parallel, because it counts the allocations of the
// process.
func TestVerifier_CallbackAllocations(t *testing.T) {
	if tooltest.RaceDetector() {
		t.Skip("the race detector allocates")
	}
	if info, ok := debug.ReadBuildInfo(); ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-gcflags" }) {
		t.Skip("without inlining, more values are allocated")
	}
	r, rewind := benchCallback(t, "/callbacks", nil)

	raw := allocations(t, rawRSA(t))
	for name, opts := range map[string]signature.VerifierOptions{
		"not observed": {},
		"observed":     {Observe: func(context.Context, signature.Verification) {}},
	} {
		v := newVerifier(t, opts)
		verified := allocations(t, func() error {
			rewind()
			_, err := v.VerifyCallback(r)
			return err
		})
		if verified > raw+2 {
			t.Errorf("%s: %v allocations, want those of the RSA verification, %v, one for the message and one for r.Body", name, verified, raw)
		}
	}
}

func TestVerifier_MessageReleasesBody(t *testing.T) {
	t.Parallel()
	w := signedCallback()
	v := newVerifier(t, signature.VerifierOptions{})
	verify := func() (*signature.Message, weak.Pointer[watchedBody]) {
		r := request(t, w)
		original := &watchedBody{Reader: strings.NewReader(body)}
		r.Body = original
		message := must(v.VerifyCallback(r))(t)
		return message, weak.Make(original)
	}

	message, original := verify()
	runtime.GC()

	if original.Value() != nil {
		t.Error("a message keeps the body of its request in memory, and thus the connection")
	}
	runtime.KeepAlive(message)
}

func TestVerifier_ReadsBodyAfterSignature(t *testing.T) {
	t.Parallel()
	w := signedCallback()
	w.SetSignature(make([]byte, 256))
	r := request(t, w)
	watched := &watchedBody{Reader: strings.NewReader(body)}
	r.Body = watched

	_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

	if !errors.Is(err, signature.ErrSignature) || watched.read {
		t.Errorf("error = %v, body read: %v; want ErrSignature and false: reading and hashing is expensive", err, watched.read)
	}
}

// TestVerifier_RejectedBodies checks errors, and that the body can still be read and closed.
func TestVerifier_RejectedBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 100)
	interrupted := io.MultiReader(strings.NewReader(body[:9]), iotest.ErrReader(iotest.ErrTimeout))
	for _, tt := range []struct {
		name      string
		body      io.Reader
		length    int64 // Content-Length
		want      error
		retryable error  // the cause, or nil
		rest      string // restored
	}{
		{"different body", strings.NewReader("other"), -1, signature.ErrDigest, nil, "other"},
		{"above MaxBody, of unknown length", strings.NewReader(long), -1, signature.ErrTooLarge, nil, long},
		{"above MaxBody, unlike its Content-Length", strings.NewReader(long), 5, signature.ErrTooLarge, nil, long},
		{"above a limit set by middleware", http.MaxBytesReader(httptest.NewRecorder(), restored([]byte(long)), 10), -1, signature.ErrTooLarge, nil, long[:10]},
		{"truncated", interrupted, -1, signature.ErrBody, iotest.ErrTimeout, body[:9]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := request(t, signedCallback())
			watched := &watchedBody{Reader: tt.body}
			r.Body, r.ContentLength = watched, tt.length

			_, err := newVerifier(t, signature.VerifierOptions{MaxBody: 60}).VerifyCallback(r)

			if e, ok := errors.AsType[*signature.Error](err); !errors.Is(err, tt.want) || !ok || e.Retryable() != (tt.retryable != nil) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if tt.retryable != nil {
				wantRetryable(t, err, tt.retryable)
			}
			if rest, _ := io.ReadAll(r.Body); string(rest) != tt.rest {
				t.Errorf("restored body = %q, want %q", rest, tt.rest)
			}
			if r.Body.Close(); !watched.closed {
				t.Error("closing the restored body does not close the original: connections leak")
			}
		})
	}
}

func TestVerifier_LargestMaxBody(t *testing.T) {
	t.Parallel()

	_, err := newVerifier(t, signature.VerifierOptions{MaxBody: math.MaxInt64, ClockSkew: 24 * time.Hour}).VerifyCallback(request(t, signedCallback()))

	if err != nil {
		t.Errorf("error = %v, want none", err)
	}
}

// TestVerifier_ConsumedBody runs middleware that reads the body before the verifier. That is a
// mistake of the receiver, so the callback must not be lost.
func TestVerifier_ConsumedBody(t *testing.T) {
	t.Parallel()
	for name, consume := range map[string]func(r *http.Request){
		"all bytes":        func(r *http.Request) { io.ReadAll(r.Body) },
		"one byte":         func(r *http.Request) { r.Body.Read(make([]byte, 1)) },
		"all but one byte": func(r *http.Request) { io.CopyN(io.Discard, r.Body, int64(len(body)-1)) },
		"parsed as a form": func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.ParseForm()
		},
		"replaced by http.NoBody": func(r *http.Request) { r.Body = http.NoBody },
		"read and closed":         func(r *http.Request) { io.ReadAll(r.Body); r.Body.Close() },
		"closed, not read":        func(r *http.Request) { r.Body.Close() },
		"set to nil":              func(r *http.Request) { r.Body = nil },
		"read beyond the end":     func(r *http.Request) { io.ReadAll(r.Body); r.Body.Read(make([]byte, 1)) },
	} {
		for _, version := range []int{1, 2} {
			t.Run(fmt.Sprint(name, ", HTTP/", version), func(t *testing.T) {
				t.Parallel()
				logs := new(logRecorder)
				passed := false
				srv := serveVersion(t, version, func(host string) http.Handler {
					v := verifierFor(t, serviceKeys(), signature.VerifierOptions{Logger: slog.New(logs)}, host)
					verified := v.RequireCallback(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true }))
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						consume(r)
						verified.ServeHTTP(w, r)
					})
				})
				r := sign(t, callbackRequest(t, srv.URL+"/callbacks"), body)

				status, header, _ := send(t, srv.Client(), r)

				if passed || status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
					t.Errorf("handled: %v, response %d; want 503 with Retry-After, so that the service retries", passed, status)
				}
				records := logs.at(slog.LevelError)
				if len(records) != 1 {
					t.Fatalf("records at level error: %v, want one", records)
				}
				text := fmt.Sprint(records[0].Attrs["error"])
				if !strings.Contains(text, "middleware in front of the verifier has read it") {
					t.Errorf("logged error = %q, want the cause", text)
				}
			})
		}
	}
}

// TestVerifier_ConsumedBodyOfUnknownLength sends callbacks without Content-Length to middleware
// that reads the body.
func TestVerifier_ConsumedBodyOfUnknownLength(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			t.Parallel()
			srv := serveVersion(t, version, func(host string) http.Handler {
				verified := verifierFor(t, serviceKeys(), signature.VerifierOptions{}, host).RequireCallback(http.NotFoundHandler())
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.ContentLength != -1 {
						t.Errorf("Content-Length = %d, want it unknown", r.ContentLength)
					}
					io.ReadAll(r.Body)
					verified.ServeHTTP(w, r)
				})
			})
			for content, want := range map[string]int{body: http.StatusServiceUnavailable, "": http.StatusNotFound} {
				r := sign(t, callbackRequest(t, srv.URL+"/callbacks"), content)
				r.Body, r.GetBody, r.ContentLength = restored([]byte(content)), nil, -1

				status, _, _ := send(t, srv.Client(), r)

				if status != want {
					t.Errorf("body %q: response %d, want %d: after a 400 the callback is lost", content, status, want)
				}
			}
		})
	}
}
