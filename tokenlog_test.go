package idverify_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// A background refresh that fails has no caller to return its error to, so the client logs it.
func TestWithLogger_FailedTokenRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newMemoryService()
		failing := false
		var log bytes.Buffer
		c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if failing {
				return response(http.StatusUnauthorized, []byte(`{"error":"invalid_client"}`)), nil
			}
			return e.RoundTrip(r)
		})}), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		tokenFor(t, c, idverify.ScopeReachability)
		time.Sleep(59*time.Minute + time.Second) // until the refresh is due
		failing = true

		for range 20 {
			tokenFor(t, c, idverify.ScopeReachability)
			synctest.Wait()
		}

		got := log.String()
		if strings.Count(got, "\n") != 1 {
			t.Errorf("log =\n%swant 1 record for 1 failed refresh", got)
		}
		for _, want := range []string{"level=WARN", `msg="idverify: token not renewed"`, "operation=token.create", "scope=coverage", "expires=2000-01-01T01:00:00.000Z", "invalid_client"} {
			if !strings.Contains(got, want) {
				t.Errorf("record = %s, want it to contain %s", got, want)
			}
		}

		log.Reset()
		time.Sleep(time.Hour) // until the token has expired
		if _, err := c.Token(t.Context(), idverify.ScopeReachability); !errors.Is(err, idverify.ErrUnauthorized) {
			t.Errorf("error = %v, want ErrUnauthorized after the token has expired", err)
		}
		if got := log.String(); got != "" {
			t.Errorf("log = %s, want nothing: the caller received the error", got)
		}
	})
}

func TestClient_TokenRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		var log syncBuffer
		c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(*http.Request) (*http.Response, error) {
			requests++
			return response(http.StatusServiceUnavailable, nil), nil
		})}), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}

		_, err = c.Token(t.Context(), idverify.ScopeReachability)

		if e, ok := errors.AsType[*idverify.TokenError](err); !ok || e.Status != http.StatusServiceUnavailable || e.Scope != "coverage" || requests != 4 {
			t.Errorf("error = %v after %d requests, want a *TokenError with status 503 after 4", err, requests)
		}
		synctest.Wait()
		var records, pauses []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `msg="idverify: token requests paused"`) {
				pauses = append(pauses, line)
			} else {
				records = append(records, line)
			}
		}
		if len(records) != 3 || len(pauses) != 4 {
			t.Fatalf("log =\n%s\nwant a record for each of 3 retries and 4 pauses", log.String())
		}
		for _, want := range []string{"level=WARN", "operation=token.create", "scope=coverage", "wait=", "503"} {
			if !strings.Contains(pauses[0], want) {
				t.Errorf("record = %s, want it to contain %s", pauses[0], want)
			}
		}
		for _, want := range []string{"level=WARN", `msg="idverify: retry"`, "operation=token.create", "attempt=1", "wait=", "503", "scope=coverage"} {
			if !strings.Contains(records[0], want) {
				t.Errorf("record = %s, want it to contain %s", records[0], want)
			}
		}

		// The context ends while the client waits for the next attempt.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		requests = 0

		_, err = c.Token(ctx, idverify.ScopePhoneCheck) // coverage is paused

		if want := `idverify: get token for scope "phone_check": context canceled`; !errors.Is(err, context.Canceled) || err.Error() != want || requests != 1 {
			t.Errorf("error = %v after %d requests, want %s after 1", err, requests, want)
		}
	})
}
