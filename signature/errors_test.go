package signature_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

// leaks are the secrets, numbers and addresses that the causes below contain.
var leaks = []string{"://", "s3cret", "127.0.0.1", "2001:db8", "447700900000", "7700 900", "keys.internal", "eu.example", "113.77"}

// wantNoLeaks checks an error and the log records of a test.
func wantNoLeaks(t *testing.T, err error, records, want string) {
	t.Helper()
	wantChainWithoutLeaks(t, err)
	texts := map[string]string{"error": fmt.Sprint(err), "log": records}
	for name, text := range texts {
		if !strings.Contains(text, want) {
			t.Errorf("%s = %q, want %q", name, text, want)
		}
		for _, leak := range leaks {
			if strings.Contains(text, leak) {
				t.Errorf("%s = %q contains %q, want it redacted", name, text, leak)
			}
		}
		if strings.ContainsAny(strings.TrimSuffix(text, "\n"), "\n\x1b\u202e") || len([]rune(text)) > 700 {
			t.Errorf("%s = %q, want a short line without control characters", name, text)
		}
	}
}

// wantChainWithoutLeaks checks err and all errors that it wraps, which a tool may log.
func wantChainWithoutLeaks(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := fmt.Sprintf("%v %+v %#v", err, err, err)
	for _, leak := range leaks {
		if strings.Contains(text, leak) {
			t.Errorf("chain of the error contains %s, which contains %q", text, leak)
		}
	}
	wantChainWithoutLeaks(t, errors.Unwrap(err))
	if e, ok := err.(interface{ Unwrap() []error }); ok {
		for _, wrapped := range e.Unwrap() {
			wantChainWithoutLeaks(t, wrapped)
		}
	}
}

// TestJWKS_RedactsCauses fetches key sets with causes that net/http does not redact.
func TestJWKS_RedactsCauses(t *testing.T) {
	t.Parallel()
	status := func(line string) http.RoundTripper {
		return &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				_, _ = server.Read(make([]byte, 64<<10))
				_, _ = io.WriteString(server, line+"\r\n\r\n")
			}()
			return client, nil
		}}
	}
	fails := func(err error) http.RoundTripper {
		return roundTrip(func(*http.Request) (*http.Response, error) { return nil, err })
	}
	location := func(value string) http.RoundTripper {
		return inMemory(respondWith(http.StatusFound, value, ""))
	}
	for _, tt := range []struct {
		name      string
		transport http.RoundTripper
		want      string
	}{
		{"malformed Location", location("https://keys.internal/%zz?token=s3cret"), "redirect has an invalid Location"},
		{"malformed relative Location", location("/%zz?token=s3cret"), "redirect has an invalid Location"},
		{"DNS server down", fails(&net.DNSError{Err: "read udp 127.0.0.1:4711->127.0.0.1:53: read: connection refused", Name: "keys.internal", Server: "127.0.0.1:53"}), "host lookup failed: read udp [REDACTED]->[REDACTED]: read: connection refused"},
		{"DNS server down, IPv6", fails(&net.DNSError{Err: "read udp [2001:db8::1]:4711->[2001:db8::2]:53: i/o timeout"}), "i/o timeout"},
		// Nothing listens on port 9.
		{"proxy down", &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:9"})}, "get key set: proxyconnect: dial: connect"},
		{"malformed status line", status("https://keys.internal/?token=s3cret"), "malformed HTTP response"},
		{"malformed status code", status("HTTP/1.1 447700900000 OK"), "malformed HTTP status code"},
		{"connection closed", fails(io.EOF), "connection closed before the response"},
		{"nested operations without a cause", fails(&net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial"}}), "proxyconnect: dial"},
		{"control characters and length", fails(errors.New("reset\x1b[31m\u202e\nlater" + strings.Repeat(" x", 1000))), "reset [31m later x"},
		{"expired certificate", fails(errors.New("current time 2026-01-02T03:04:05Z is after 2026-01-01T00:00:00Z")), "current time 2026-01-02T03:04:05Z is after 2026-01-01T00:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log, logger := io.Pipe()
			j := jwksOver(t, tt.transport, signature.JWKSOptions{Logger: slog.New(slog.NewTextHandler(logger, nil))})

			_, err := j.PublicKey(t.Context(), "a")

			record := make([]byte, 4<<10)
			n, _ := log.Read(record) // waits for the record, which is written after PublicKey has returned
			wantNoLeaks(t, err, string(record[:n]), tt.want)
		})
	}
}

// TestVerifier_RedactsReplayStoreErrors returns errors of a store that contain its address.
func TestVerifier_RedactsReplayStoreErrors(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"address":     "dial 127.0.0.1:6379: connection refused",
		"IPv6":        "dial [2001:db8::1]:6379: connection refused",
		"mapped IPv4": "dial [::ffff:203.0.113.77]:6379: connection refused",
		"URL":         "redis://user:s3cret@keys.internal:6379/0: connection refused",
		"credentials": "Authorization: Bearer s3cret: connection refused",
		"number":      "claim of +44 7700 900000: connection refused",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			v := newVerifier(t, signature.VerifierOptions{Replay: failingStore(errors.New(text)), Logger: slog.New(slog.NewTextHandler(&log, nil))})

			v.RequireCallback(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), request(t, signedCallback()))
			_, err := v.VerifyCallback(request(t, signedCallback()))

			wantNoLeaks(t, err, log.String(), "connection refused")
		})
	}
}

// TestVerifier_ErrorTexts checks the texts that receivers log.
func TestVerifier_ErrorTexts(t *testing.T) {
	t.Parallel()
	outage := errors.New("connection refused")
	store := signature.NewMemoryReplayStore(0)
	for _, tt := range []struct {
		name   string
		change func(*attack.Message)
		kind   messageKind
		opts   signature.VerifierOptions
		want   string
	}{
		{"coverage", covering("(request-target) host x-service-callback digest"), messageKinds[0], signature.VerifierOptions{}, "signature: callback rejected: signature does not cover date"},
		{"redirect", keyNamed("other", "unpublished"), messageKinds[1], signature.VerifierOptions{}, "signature: redirect rejected: no usable key with this ID (check that the keys belong to the service that sends the messages; keys that are published twice or with private key parameters are ignored)"},
		{"too large", withBody(strings.Repeat("a", 10)), messageKinds[0], signature.VerifierOptions{MaxBody: 9}, "signature: callback rejected: body is larger than MaxBody"},
		{"replay", func(*attack.Message) {}, messageKinds[1], signature.VerifierOptions{Replay: store}, "signature: redirect rejected: message was already accepted"},
		{"retryable", func(*attack.Message) {}, messageKinds[0], signature.VerifierOptions{Replay: failingStore(outage)}, "signature: callback: verification unavailable: replay store failed: connection refused (respond with 503: the service retries)"},
		{"retryable redirect", func(*attack.Message) {}, messageKinds[1], signature.VerifierOptions{Replay: failingStore(outage)}, "signature: redirect: verification unavailable: replay store failed: connection refused (respond with 503: the service does not retry a redirect; the user can reload the page within the clock skew, or start over)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newVerifier(t, tt.opts)
			if tt.opts.Replay == store {
				must(tt.kind.verify(v, request(t, tt.kind.signedAt(now))))(t)
			}
			w := tt.kind.make()
			tt.change(w)
			w.Sign()

			_, err := tt.kind.verify(v, request(t, w))

			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

// exportedReasons returns the names of the exported errors, as in the source.
func exportedReasons(t *testing.T) []string {
	t.Helper()
	source := must(os.ReadFile("errors.go"))(t)
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^\t(Err\w+) += errors\.New`).FindAllSubmatch(source, -1) {
		names = append(names, string(match[1]))
	}
	return names
}

// TestReasonName_AllReasons checks that each exported error has its own name in the log.
func TestReasonName_AllReasons(t *testing.T) {
	t.Parallel()
	exported := exportedReasons(t)

	var names []string
	for _, reason := range []error{
		signature.ErrMalformed, signature.ErrAlgorithm, signature.ErrCoverage, signature.ErrSkew, signature.ErrHost,
		signature.ErrUnknownKey, signature.ErrSignature, signature.ErrDigest, signature.ErrReplay, signature.ErrTooLarge,
		signature.ErrKeySource, signature.ErrReplayStore, signature.ErrBody, signature.ErrTooLate,
	} {
		names = append(names, (&signature.Error{Reason: reason}).ReasonName())
	}

	wantEqual(t, exported, names, "names of the exported errors")
	if name := (&signature.Error{Reason: errors.New("other")}).ReasonName(); name != "" {
		t.Errorf("name of another error = %q, want none", name)
	}
}
