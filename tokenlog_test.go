package idverify_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// While the current token is valid, a refresh that fails has no caller that could report it.
func TestWithLogger_FailedTokenRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint()
		failing := false
		var log bytes.Buffer
		c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if failing {
				return response(http.StatusUnauthorized, []byte(`{"error":"invalid_client"}`)), nil
			}
			return e.RoundTrip(r)
		})}), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		tokenFor(t, c, idverify.ScopeCoverage)
		time.Sleep(59*time.Minute + time.Second) // the bubble's clock: the refresh is due
		failing = true

		for range 20 {
			tokenFor(t, c, idverify.ScopeCoverage)
			synctest.Wait()
		}

		got := log.String()
		if strings.Count(got, "\n") != 1 {
			t.Errorf("records:\n%swant one for each failed refresh, and there was one", got)
		}
		for _, want := range []string{"level=WARN", `msg="idverify: token not renewed"`, "scope=coverage", "expires=2000-01-01T01:00:00.000Z", "invalid_client"} {
			if !strings.Contains(got, want) {
				t.Errorf("record %s without %s", got, want)
			}
		}
	})
}
