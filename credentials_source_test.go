package idverify_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// secretService is a service in memory whose token endpoint accepts one secret at a time.
type secretService struct {
	memoryService
	mu       sync.Mutex // guards the fields below
	secret   string
	requests int // token requests
}

func (s *secretService) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == tokenPath {
		_, secret, _ := r.BasicAuth()
		s.mu.Lock()
		s.requests++
		valid := secret == s.secret
		s.mu.Unlock()
		if !valid {
			return response(401, []byte(`{"error":"invalid_client","error_description":"wrong secret"}`)), nil
		}
	}
	return s.memoryService.RoundTrip(r)
}

func (s *secretService) accept(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret = secret
}

// tokenRequests returns the number of token requests.
func (s *secretService) tokenRequests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// client returns a client of s whose credentials come from source.
func (s *secretService) client(t testing.TB, source idverify.CredentialsFunc, opts ...idverify.Option) *idverify.Client {
	t.Helper()
	opts = append([]idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: s}), idverify.WithRetry(fastRetries)}, opts...)
	c, err := idverify.NewClient("https://idverify.sandbox.test", source, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pair returns new credentials with the given secret.
func pair(secret string) idverify.Credentials {
	return idverify.Credentials{ClientID: "client-1", ClientSecret: idverify.NewSecret(secret)}
}

// sourceOf returns a source whose n-th call returns the n-th secret. Later calls return the last
// one. The second result returns the number of calls.
func sourceOf(secrets ...string) (source idverify.CredentialsFunc, calls func() int) {
	var mu sync.Mutex
	n := 0
	source = func(context.Context) (idverify.Credentials, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return pair(secrets[min(n, len(secrets))-1]), nil
	}
	return source, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestCredentialsSource_CalledPerTokenRequest(t *testing.T) {
	t.Parallel()
	s := &secretService{secret: "first-secret"}
	source, calls := sourceOf("first-secret")
	c := s.client(t, source)

	for range 5 {
		tokenFor(t, c, idverify.ScopeReachability)
		tokenFor(t, c, idverify.ScopePhoneCheck)
	}

	if calls() != 2 || s.tokenRequests() != 2 {
		t.Errorf("%d calls of the source and %d token requests, want one of each per scope", calls(), s.tokenRequests())
	}
}

func TestCredentialsSource_AsksAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		secrets  []string
		calls    int
		requests int
		ok       bool
	}{
		{"unchanged", []string{"old-secret"}, 2, 1, false},
		{"changed", []string{"old-secret", "valid-secret"}, 2, 2, true},
		{"changed to another wrong secret", []string{"old-secret", "wrong-secret", "valid-secret"}, 2, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &secretService{secret: "valid-secret"}
			source, calls := sourceOf(tt.secrets...)

			_, err := s.client(t, source).PhoneChecks.Get(t.Context(), "a")

			if calls() != tt.calls || s.tokenRequests() != tt.requests {
				t.Errorf("%d calls of the source and %d token requests, want %d and %d", calls(), s.tokenRequests(), tt.calls, tt.requests)
			}
			rejected, ok := errors.AsType[*idverify.TokenError](err)
			if tt.ok != (err == nil) || !tt.ok && (!ok || rejected.Code != "invalid_client" || !errors.Is(err, idverify.ErrUnauthorized)) {
				t.Errorf("error = %v, want success = %v, or invalid_client", err, tt.ok)
			}
		})
	}
}

// A call of the source that began before the rejection may return the rejected credentials.
func TestCredentialsSource_AsksAfterRejection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		calls := 0 // the source is not called concurrently
		source := func(context.Context) (idverify.Credentials, error) {
			calls++
			if calls == 2 {
				time.Sleep(time.Second)
			}
			if calls <= 2 {
				return pair("old-secret"), nil
			}
			return pair("valid-secret"), nil
		}
		tokenArrives := make(chan struct{})
		first := true
		c := s.client(t, source, idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if first {
				first = false
				<-tokenArrives
			}
			return s.RoundTrip(r)
		})}))
		errs := make(chan error, 2)

		go func() { errs <- errorOf(c.Token(t.Context(), idverify.ScopeReachability)) }()
		synctest.Wait()
		go func() { errs <- errorOf(c.Token(t.Context(), idverify.ScopePhoneCheck)) }()
		synctest.Wait() // the second call of the source is in progress
		close(tokenArrives)

		for range 2 {
			if err := <-errs; err != nil {
				t.Errorf("error = %v, want nil: a call of the source after the rejection returns valid credentials", err)
			}
		}
	})
}

func TestCredentialsSource_ComparesContent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &secretService{secret: "old-secret"}
		source, _ := sourceOf("old-secret", "old-secret", "new-secret-7", "new-secret-7")
		c := s.client(t, source, idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))

		for i := range 4 {
			if i == 2 {
				s.accept("new-secret-7")
			}
			tokenFor(t, c, idverify.ScopeReachability)
			time.Sleep(2 * time.Hour) // until the token has expired
			synctest.Wait()
		}

		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=INFO msg="idverify: credentials changed" operation=token.create`) {
			t.Errorf("log =\n%swant one record for one change", got)
		}
		if got := log.String(); strings.Contains(got, "client-1") || strings.Contains(got, "secret-7") {
			t.Errorf("log =\n%swant neither client ID nor secret", got)
		}
	})
}

func TestCredentialsSource_Context(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "old-secret"}
		type key struct{}
		c := s.client(t, func(ctx context.Context) (idverify.Credentials, error) {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 30*time.Second || ctx.Value(key{}) != "value" {
				t.Errorf("context ends at %v with value %v, want the values of the caller and 30s", deadline, ctx.Value(key{}))
			}
			time.Sleep(10 * time.Second)
			return pair("old-secret"), ctx.Err() // the caller's cancellation does not apply
		})
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Second)
		defer cancel()

		_, err := c.Token(ctx, idverify.ScopeReachability)
		time.Sleep(20 * time.Second)

		if !errors.Is(err, context.DeadlineExceeded) || s.tokenRequests() != 1 {
			t.Errorf("error = %v and %d token requests, want the caller's deadline and 1 request for later callers", err, s.tokenRequests())
		}
	})
}

func TestCredentialsSource_Console(t *testing.T) {
	t.Parallel()
	s := &secretService{secret: "new-secret"}
	source, calls := sourceOf("old-secret", "new-secret")
	console, err := idverify.NewConsole("https://idverify.sandbox.test", source, idverify.WithHTTPClient(&http.Client{Transport: s}))
	if err != nil {
		t.Fatal(err)
	}

	err = console.ProjectCredentials.Delete(t.Context(), "p", "c")

	if err != nil || calls() != 2 || s.tokenRequests() != 2 {
		t.Errorf("error = %v, %d calls of the source, %d token requests, want nil, 2 and 2", err, calls(), s.tokenRequests())
	}
}

func TestCredentialsSource_Arguments(t *testing.T) {
	t.Parallel()
	source, _ := sourceOf("a-secret")
	for name, tt := range map[string]struct {
		source idverify.CredentialsSource
		want   string // empty: no error
	}{
		"credentials":     {credentials, ""},
		"function":        {source, ""},
		"file":            {idverify.CredentialsFile("missing"), ""}, // NewClient does not call a source
		"pointer":         {&credentials, ""},
		"nil":             {nil, "the source of credentials is nil"},
		"nil function":    {idverify.CredentialsFunc(nil), "the source of credentials is nil"},
		"no credentials":  {idverify.Credentials{}, "the client ID and the client secret are missing"},
		"only the client": {idverify.Credentials{ClientID: "client-1"}, "the client secret is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, clientErr := idverify.NewClient("https://idverify.sandbox.test", tt.source)
			_, consoleErr := idverify.NewConsole("https://idverify.sandbox.test", tt.source)

			for _, err := range []error{clientErr, consoleErr} {
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error = %v, want %q", err, tt.want)
				}
			}
		})
	}
}

func TestCredentialsFile_Rotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"client_id": "client-1", "client_secret": "old-secret", "project_id": "p"}`)
	source := idverify.CredentialsFile(path)
	before, beforeErr := source.Credentials(t.Context())
	write(`{"client_id": "client-1", "client_secret": "new-secret"}`)
	after, afterErr := source.Credentials(t.Context())

	if beforeErr != nil || !cmp.Equal(before, pair("old-secret")) {
		t.Errorf("credentials = %v, %v, want the old secret", before, beforeErr)
	}
	if afterErr != nil || !cmp.Equal(after, pair("new-secret")) {
		t.Errorf("credentials = %v, %v, want the new secret", after, afterErr)
	}
	for _, text := range []string{"", "new-secret", `["new-secret"]`, `{"client_secret": ["new-secret"]}`, `{"client_secret": "[REDACTED]"}`} {
		write(text)
		if _, err := source.Credentials(t.Context()); err == nil || strings.Contains(err.Error(), "new-secret") || strings.Contains(err.Error(), path) {
			t.Errorf("%q: error = %v, want an error without the path and the secret", text, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Credentials(t.Context()); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), path) {
		t.Errorf("missing file: error = %v, want fs.ErrNotExist without the path", err)
	}
}
