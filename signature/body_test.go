package signature_test

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
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
	v := newVerifier(t, signature.VerifierOptions{})
	w := newCallback()
	w.Target = "/callbacks"
	w.Sign()
	r := request(t, w)
	reader := bytes.NewReader(nil)
	content, body := []byte(body), io.NopCloser(reader)
	key, sum := keys()["service-1"], sha256.Sum256(nil)
	sig, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}

	raw := testing.AllocsPerRun(100, func() { err = rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], sig) })
	verified := testing.AllocsPerRun(100, func() {
		reader.Reset(content)
		r.Body = body
		if _, err := v.VerifyCallback(r); err != nil {
			t.Fatal(err)
		}
	})

	if verified > raw+2 || err != nil {
		t.Errorf("%v allocations, error = %v; want those of the RSA verification, %v, one for the message and one for r.Body", verified, err, raw)
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
		message, err := v.VerifyCallback(r)
		if err != nil {
			t.Fatal(err)
		}
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

func TestVerifier_RestoresRejectedBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		body io.Reader
		want error
		rest string
	}{
		{"different body", strings.NewReader("other"), signature.ErrDigest, "other"},
		{"body above MaxBody of unknown length", strings.NewReader(strings.Repeat("a", 100)), signature.ErrTooLarge, strings.Repeat("a", 100)},
		{"truncated body", io.MultiReader(strings.NewReader(body[:9]), iotest.ErrReader(io.ErrUnexpectedEOF)), signature.ErrBody, body[:9]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := request(t, signedCallback())
			watched := &watchedBody{Reader: tt.body}
			r.Body, r.ContentLength = watched, -1

			_, err := newVerifier(t, signature.VerifierOptions{MaxBody: 60}).VerifyCallback(r)

			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
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

// TestVerifier_BodyAboveContentLength checks that MaxBody applies to the bytes that are read, not
// to Content-Length.
func TestVerifier_BodyAboveContentLength(t *testing.T) {
	t.Parallel()
	r := request(t, signedCallback())
	r.ContentLength, r.Body = 5, io.NopCloser(io.MultiReader(strings.NewReader(body), strings.NewReader(strings.Repeat("a", 1<<20))))

	_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

	if !errors.Is(err, signature.ErrTooLarge) {
		t.Errorf("error = %v, want ErrTooLarge", err)
	}
}

func TestVerifier_BodyAboveMiddlewareLimit(t *testing.T) {
	t.Parallel()
	r := request(t, signedCallback())
	r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 10)

	_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

	if e, ok := errors.AsType[*signature.Error](err); !ok || e.Retryable() || !errors.Is(err, signature.ErrTooLarge) {
		t.Errorf("error = %v, want ErrTooLarge", err)
	}
}

func TestVerifier_TruncatedBody(t *testing.T) {
	t.Parallel()
	r := request(t, signedCallback())
	r.Body = io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(body))))

	_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

	if e, ok := errors.AsType[*signature.Error](err); !ok || !e.Retryable() || !errors.Is(err, signature.ErrBody) || !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("error = %v, want ErrBody, which is retryable: after a 400 the callback is lost", err)
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
				r := callbackRequest(t, srv.URL+"/callbacks")
				if err := newSigner(t, signature.SignerOptions{}).SignCallback(r, []byte(body)); err != nil {
					t.Fatal(err)
				}

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
					if r.ProtoMajor != version || r.ContentLength != -1 {
						t.Errorf("HTTP/%d with Content-Length %d, want HTTP/%d with unknown length", r.ProtoMajor, r.ContentLength, version)
					}
					io.ReadAll(r.Body)
					verified.ServeHTTP(w, r)
				})
			})
			for content, want := range map[string]int{body: http.StatusServiceUnavailable, "": http.StatusNotFound} {
				r := callbackRequest(t, srv.URL+"/callbacks")
				if err := newSigner(t, signature.SignerOptions{}).SignCallback(r, []byte(content)); err != nil {
					t.Fatal(err)
				}
				r.Body, r.GetBody, r.ContentLength = restored([]byte(content)), nil, -1

				status, _, _ := send(t, srv.Client(), r)

				if status != want {
					t.Errorf("body %q: response %d, want %d: after a 400 the callback is lost", content, status, want)
				}
			}
		})
	}
}
