package idverify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestCredentialsFromEnv(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	t.Setenv("IDVERIFY_CLIENT_ID", srv.Credentials().ClientID)
	t.Setenv("IDVERIFY_CLIENT_SECRET", srv.Credentials().ClientSecret.Reveal())

	client := must(idverify.NewClient(srv.URL(), idverify.CredentialsFromEnv(), idverify.WithHTTPClient(srv.HTTPClient())))(t)
	if _, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{}); err != nil {
		t.Errorf("call with the credentials failed: %v", err)
	}
}

func TestCredentialsFromEnv_Invalid(t *testing.T) {
	const id, secret = "IDVERIFY_CLIENT_ID", "IDVERIFY_CLIENT_SECRET"
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"both missing", nil, id + " and " + secret + " are missing (set both variables)"},
		{"no client ID", map[string]string{secret: "pa55word"}, id + " is missing"},
		{"empty client ID", map[string]string{id: "", secret: "pa55word"}, id + " is missing"},
		{"no secret", map[string]string{id: "cl1ent"}, secret + " is missing"},
		{"newline after the client ID", map[string]string{id: "cl1ent\n", secret: "pa55word"}, id + " begins or ends"},
		{"newline after the secret", map[string]string{id: "cl1ent", secret: "pa55word\r\n"}, secret + " begins or ends"},
		{"space before the secret", map[string]string{id: "cl1ent", secret: " pa55word"}, secret + " begins or ends"},
		{"white space only", map[string]string{id: "cl1ent", secret: " \n"}, secret + " begins or ends"},
		{"placeholder", map[string]string{id: "cl1ent", secret: "[REDACTED]"}, secret + " is the placeholder"},
		{"colon in the client ID", map[string]string{id: "cl1ent:1", secret: "pa55word"}, id + " contains a colon"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{id, secret} {
				t.Setenv(name, "") // so that the test restores the variable
				noError(t, os.Unsetenv(name))
			}
			for name, value := range tt.env {
				t.Setenv(name, value)
			}

			source := idverify.CredentialsFromEnv()
			c, readErr := source.Credentials(t.Context())
			_, clientErr := idverify.NewClient("https://eu.api.example.com", source)
			_, consoleErr := idverify.NewConsole("https://eu.api.example.com", source)

			for prefix, err := range map[string]error{"": readErr, "new client: ": clientErr, "new console: ": consoleErr} {
				want := "idverify: " + prefix + "read credentials from the environment: " + tt.want
				if err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Fatalf("error = %v, want one that begins with %q", err, want)
				}
				if text := err.Error(); strings.Contains(text, "cl1ent") || strings.Contains(text, "pa55word") {
					t.Errorf("error = %q contains the value of a variable", text)
				}
			}
			if c != (idverify.Credentials{}) {
				t.Errorf("credentials = %v with an error, want none", c)
			}
		})
	}
}

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
	return must(idverify.NewClient("https://idverify.sandbox.test", source, opts...))(t)
}

// pair returns new credentials with the given secret.
func pair(secret string) idverify.Credentials {
	return idverify.Credentials{ClientID: "client-1", ClientSecret: idverify.NewSecret(secret)}
}

// sourceOf returns a source whose n-th call returns the n-th secret. Later calls return the last
// one. The second result returns the number of calls.
func sourceOf(secrets ...string) (source idverify.CredentialsFunc, calls func() int) {
	var n atomic.Int64
	source = func(context.Context) (idverify.Credentials, error) {
		return pair(secrets[min(int(n.Add(1)), len(secrets))-1]), nil
	}
	return source, func() int { return int(n.Load()) }
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
		old, changed, renamed := pair("old-secret"), pair("new-secret-7"), pair("new-secret-7")
		renamed.ClientID = "client-2"
		returned := []idverify.Credentials{old, old, changed, changed, renamed, renamed}
		i := 0
		source := func(context.Context) (idverify.Credentials, error) { return returned[i], nil }
		c := s.client(t, source, idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))

		for i = range returned {
			if i == 2 {
				s.accept("new-secret-7")
			}
			tokenFor(t, c, idverify.ScopeReachability)
			time.Sleep(2 * time.Hour) // until the token has expired
			synctest.Wait()
		}

		if got := log.String(); strings.Count(got, "\n") != 2 || strings.Count(got, `level=INFO msg="idverify: credentials changed" operation=token.create`) != 2 {
			t.Errorf("log =\n%swant one record for each of two changes", got)
		}
		if got := log.String(); strings.Contains(got, "client-") || strings.Contains(got, "secret-7") {
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
		"nil":             {nil, "the CredentialsSource is nil (pass Credentials, CredentialsFromEnv, CredentialsFile or a CredentialsFunc)"},
		"nil function":    {idverify.CredentialsFunc(nil), "the CredentialsSource is nil"},
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

func TestCredentialsFile_Unreadable(t *testing.T) {
	t.Parallel()
	malformed := filepath.Join(t.TempDir(), "credentials.json")
	noError(t, os.WriteFile(malformed, []byte("new-secret"), 0o600))
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "missing"): "credentials source failed: read credentials file: no such file or directory (restore the file, or correct its path)",
		malformed:                             `credentials source failed: read credentials file: not JSON with "client_id" and "client_secret" (restore the file)`,
	} {
		c := must(idverify.NewClient("https://idverify.sandbox.test", idverify.CredentialsFile(path), withoutRetries))(t)

		_, err := c.PhoneChecks.Get(t.Context(), "a")

		if want = `idverify: get token for scope "phone_check": ` + want; err == nil || err.Error() != want {
			t.Errorf("error\n%v\nwant\n%s", err, want)
		}
	}
}

func TestCredentialsFile_Rotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials.json")
	write := func(text string) {
		t.Helper()
		noError(t, os.WriteFile(path, []byte(text), 0o600))
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
	noError(t, os.Remove(path))
	if _, err := source.Credentials(t.Context()); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), path) {
		t.Errorf("missing file: error = %v, want fs.ErrNotExist without the path", err)
	}
}

func TestCredentialsSource_Error(t *testing.T) {
	t.Parallel()
	errStore := errors.New("store sealed")
	const prefix = `idverify: get token for scope "phone_check": credentials source failed: `
	for _, tt := range []struct {
		name string
		err  error
		is   error // nil: tt.err
		text string
	}{
		{"secret", fmt.Errorf("%w: old-secret rejected", errStore), errStore, "store sealed: [REDACTED] rejected"},
		{"secret of the failed call", errors.New("new-secret of client-1, Basic Y2xpZW50LTE6bmV3LXNlY3JldA=="), nil, "[REDACTED] of client-1, Basic [REDACTED]"},
		{"phone number, address and URL", errors.New("447700900012 at 192.0.2.7 by https://vault.example.com/v1?token=t"), nil, "[REDACTED] at [REDACTED] by [REDACTED]"},
		{"error with a URL error", fmt.Errorf("%w: %w", errStore, &url.Error{Op: "Get", URL: "https://vault.example.com", Err: io.ErrNoProgress}), errStore, "multiple Read calls"},
		{"URL error", &url.Error{Op: "Get", URL: "https://vault.example.com", Err: errStore}, errStore, "store sealed"},
		{"host name", fmt.Errorf("read: %w", &net.DNSError{Err: "no such host", Name: "vault.example.com"}), nil, "host lookup failed: no such host"},
		{"empty file", fmt.Errorf("decode credentials: %w", io.EOF), io.EOF, "decode credentials: EOF"},
		{"canceled", context.Canceled, nil, "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &secretService{secret: "old-secret"}
				failing, calls := false, 0
				c := s.client(t, func(context.Context) (idverify.Credentials, error) {
					if calls++; failing {
						return pair("new-secret"), tt.err
					}
					return pair("old-secret"), nil
				})
				tokenFor(t, c, idverify.ScopeReachability)
				failing, calls = true, 0

				_, err := c.PhoneChecks.Create(t.Context(), createParams)

				want := tt.is
				if want == nil && tt.name != "host name" {
					want = tt.err
				}
				if err == nil || want != nil && !errors.Is(err, want) || !strings.HasPrefix(err.Error(), prefix+tt.text) {
					t.Errorf("error = %v\nwant %s%s, which matches the source's error", err, prefix, tt.text)
				}
				if _, ok := errors.AsType[*net.DNSError](err); ok != (tt.name == "host name") {
					t.Errorf("error %v matches *net.DNSError = %v", err, ok)
				}
				for _, text := range []string{"-secret", "4477", "192.0", "vault", "Y2xp"} {
					if strings.Contains(fmt.Sprintf("%+v", err), text) {
						t.Errorf("error = %+v, want it without %q", err, text)
					}
				}
				if calls != 4 || s.tokenRequests() != 1 {
					t.Errorf("%d calls of the source and %d token requests, want 4 attempts without a request", calls, s.tokenRequests())
				}

				failing = false
				if err := errorOf(c.PhoneChecks.Get(t.Context(), "a")); err != nil {
					t.Errorf("next call: error = %v, want nil", err)
				}
			})
		})
	}
}

// The service has rejected the credentials, and whether there are others is not known.
func TestCredentialsSource_SecondCallFails(t *testing.T) {
	t.Parallel()
	errStore := errors.New("store sealed")
	s := &secretService{secret: "new-secret"}
	calls := 0 // the source is not called concurrently
	c := s.client(t, func(context.Context) (idverify.Credentials, error) {
		if calls++; calls == 1 {
			return pair("old-secret"), nil
		}
		return idverify.Credentials{}, errStore
	})

	_, err := c.PhoneChecks.Get(t.Context(), "a")

	if !errors.Is(err, idverify.ErrUnauthorized) || !errors.Is(err, errStore) || !strings.HasSuffix(err.Error(), "credentials source failed: store sealed") {
		t.Errorf("error = %v, want invalid_client and the error of the source", err)
	}
	if calls != 2 || s.tokenRequests() != 1 {
		t.Errorf("%d calls of the source and %d token requests, want 2 and 1: rejected credentials are not retried", calls, s.tokenRequests())
	}
}

func TestCredentialsSource_Invalid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		source idverify.CredentialsFunc
		want   string
	}{
		"empty": {func(context.Context) (idverify.Credentials, error) { return idverify.Credentials{}, nil }, "invalid credentials: the client ID and the client secret are missing"},
		"no ID": {func(context.Context) (idverify.Credentials, error) {
			return idverify.Credentials{ClientSecret: idverify.NewSecret("new-secret")}, nil
		}, "invalid credentials: the client ID is missing (set both fields of Credentials: in JSON, client_id and client_secret)"},
		"new line":  {func(context.Context) (idverify.Credentials, error) { return pair("new-secret\n"), nil }, "invalid credentials: the client secret begins or ends with white space"},
		"panic":     {func(context.Context) (idverify.Credentials, error) { panic("no unknown-secret for 447700900012") }, "panic in github.com/idverify/idverify-go_test.TestCredentialsSource_Invalid.func4: a value of type string"},
		"nil error": {func(context.Context) (idverify.Credentials, error) { var e *net.OpError; return pair("new-secret"), e }, ""},
		"Goexit":    {func(context.Context) (idverify.Credentials, error) { runtime.Goexit(); panic("unreachable") }, "called runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &secretService{secret: "old-secret"}
				failing, calls := false, 0
				c := s.client(t, func(ctx context.Context) (idverify.Credentials, error) {
					if calls++; failing {
						return tt.source(ctx)
					}
					return pair("old-secret"), nil
				})
				tokenFor(t, c, idverify.ScopeReachability)
				failing, calls = true, 0

				_, err := c.PhoneChecks.Get(t.Context(), "a")

				if err == nil || !strings.HasPrefix(err.Error(), `idverify: get token for scope "phone_check": `) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "-secret") {
					t.Errorf("error = %v, want %q without a secret", err, tt.want)
				}
				if calls != 1 || s.tokenRequests() != 1 {
					t.Errorf("%d calls of the source and %d token requests, want 1 call: the error is permanent", calls, s.tokenRequests())
				}
				failing = false
				if err := errorOf(c.PhoneChecks.Get(t.Context(), "a")); err != nil {
					t.Errorf("next call: error = %v, want nil", err)
				}
			})
		})
	}
}

// A source can use a Console. Its errors must not be mistaken for those of the operation, and a
// token request that it makes must not decide about retries.
func TestCredentialsSource_OwnErrors(t *testing.T) {
	t.Parallel()
	errVault := errors.New("vault sealed")
	for name, respond := range map[string]func(*http.Request) (*http.Response, error){
		"token rejected":  nil,
		"outcome unknown": always(502, nil),
		"unusable":        always(201, []byte("{}")),
		"not found":       always(404, nil),
		"lost": func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return nil, io.ErrUnexpectedEOF
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var transport http.RoundTripper = tokenTransport(respond)
				if respond == nil {
					transport = &outage{status: 401}
				}
				console := must(idverify.NewConsole("https://idverify.sandbox.test", credentials, withoutRetries, idverify.WithHTTPClient(&http.Client{Transport: transport})))(t)
				s, calls := &secretService{secret: "valid-secret"}, 0
				c := s.client(t, func(ctx context.Context) (idverify.Credentials, error) {
					calls++
					_, err := console.Projects.Create(ctx, idverify.ProjectParams{Name: "a", Mode: idverify.ModeSandbox})
					return idverify.Credentials{}, fmt.Errorf("%w: %w", errVault, err)
				})

				_, err := c.PhoneChecks.Create(t.Context(), createParams)

				if errors.Is(err, idverify.ErrOutcomeUnknown) || len(matchedSentinels(err)) > 0 || !errors.Is(err, errVault) {
					t.Errorf("error = %v, want it to match errVault only", err)
				}
				_, isProblem := errors.AsType[*idverify.Error](err)
				_, isUnusable := errors.AsType[*idverify.DecodeError](err)
				_, isRejected := errors.AsType[*idverify.TokenError](err)
				if isProblem || isUnusable || isRejected {
					t.Errorf("error = %v has a type that describes another operation", err)
				}
				if calls != 4 {
					t.Errorf("calls = %d, want 4: like each error of a source", calls)
				}
			})
		})
	}
}

// The last credentials are redacted after they were replaced, because responses in flight can
// contain them.
func TestCredentialsSource_RedactsPrevious(t *testing.T) {
	t.Parallel()
	s := new(secretService)
	current, echo := "", ""
	c := s.client(t, func(context.Context) (idverify.Credentials, error) { return pair(current), nil }, idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		if echo != "" {
			return response(400, []byte(echo)), nil
		}
		return s.RoundTrip(r)
	})}))
	var secrets []string
	for i := range 5 {
		current = fmt.Sprintf("secret-number-%d", i)
		secrets = append(secrets, current)
		s.accept(current)
		tokenFor(t, c, idverify.Scope(fmt.Sprint("scope-", i)))
	}
	echo = fmt.Sprint(secrets)

	_, err := c.Token(t.Context(), "another_scope")

	if err == nil || strings.Contains(err.Error(), "number") || strings.Count(err.Error(), "[REDACTED]") != 5 {
		t.Errorf("error = %v, want 5 redacted secrets", err)
	}
}

// The credentials of a token request in progress are redacted even if the source has returned many
// others since.
func TestCredentialsSource_RedactsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var calls atomic.Int64 // of the source
		source := func(context.Context) (idverify.Credentials, error) {
			return pair(fmt.Sprintf("dynamic-secret-%d", calls.Add(1))), nil
		}
		var attempts attemptLog
		c := new(secretService).client(t, source, withoutRetries, attempts.option(),
			idverify.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
			idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				_, secret, _ := r.BasicAuth()
				if secret != "dynamic-secret-1" {
					return issuedToken(), nil
				}
				time.Sleep(time.Second)
				echo := `{"error":"invalid_request","error_description":"` + secret + " or " + r.Header.Get("Authorization") + `"}`
				return withHeader(response(400, []byte(echo)), "X-Request-Id", secret), nil
			})}))
		slow := make(chan error)
		go func() { slow <- errorOf(c.Token(t.Context(), idverify.ScopeReachability)) }()
		synctest.Wait()
		for i := range 6 {
			tokenFor(t, c, idverify.Scope(fmt.Sprint("scope-", i)))
		}

		err := <-slow
		synctest.Wait()

		for _, text := range []string{fmt.Sprint(err), log.String(), fmt.Sprintf("%+v", attempts.all(t))} {
			if strings.Contains(text, "dynamic-secret") || strings.Contains(text, "Y2xpZW50") {
				t.Errorf("text = %s, want it without the credentials", text)
			}
		}
		if !strings.Contains(fmt.Sprint(err), "[REDACTED] or") {
			t.Errorf("error = %v, want the redacted description", err)
		}
	})
}

// hangingSource is a source whose first calls ignore their contexts until release is closed.
type hangingSource struct {
	hanging int64
	release chan struct{}
	calls   atomic.Int64
}

func (s *hangingSource) get(context.Context) (idverify.Credentials, error) {
	if s.calls.Add(1) <= s.hanging {
		<-s.release
		return pair("late-secret"), nil
	}
	return pair("valid-secret"), nil
}

// A call that never returns must not stop the client: another one replaces it.
func TestCredentialsSource_Hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		source := &hangingSource{hanging: 1, release: make(chan struct{})}
		var log bytes.Buffer
		c := s.client(t, source.get, idverify.WithHTTPClient(&http.Client{Transport: s, Timeout: time.Hour}), withoutRetries,
			idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		start := time.Now()

		for err := range concurrently(3, func() error { return errorOf(c.Token(t.Context(), idverify.ScopeReachability)) }) {
			if !errors.Is(err, context.DeadlineExceeded) || err.Error() != `idverify: get token for scope "coverage": credentials source failed: no result within the timeout of a token request` {
				t.Errorf("error = %v, want a timeout of the source", err)
			}
		}
		took, calls := time.Since(start), source.calls.Load()
		time.Sleep(time.Second) // the pause
		err := errorOf(c.Token(t.Context(), idverify.ScopeReachability))
		close(source.release)
		synctest.Wait()
		late := errorOf(c.Token(t.Context(), idverify.ScopePhoneCheck))

		if took != 30*time.Second || calls != 1 {
			t.Errorf("requests failed after %v with %d calls of the source, want 30s and 1", took, calls)
		}
		if err != nil || late != nil || source.calls.Load() != 3 {
			t.Errorf("errors = %v and %v after %d calls, want nil: the second and third call return credentials", err, late, source.calls.Load())
		}
		if strings.Contains(log.String(), "credentials changed") {
			t.Errorf("log =\n%swant the late result of the first call to be ignored", log.String())
		}
	})
}

// A token request that joins a call does not fail when the context of that call ends first.
func TestCredentialsSource_ReplacesCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		source := &hangingSource{hanging: 1, release: make(chan struct{})}
		defer close(source.release)
		c := s.client(t, source.get, withoutRetries)
		first := make(chan error)
		go func() { first <- errorOf(c.Token(t.Context(), idverify.ScopeReachability)) }()
		time.Sleep(10 * time.Second)

		err := errorOf(c.Token(t.Context(), idverify.ScopePhoneCheck))

		if firstErr := <-first; err != nil || firstErr == nil || source.calls.Load() != 2 || time.Since(bubbleStart) != 30*time.Second {
			t.Errorf("errors = %v and %v after %d calls and %v, want only the first, 2 calls and 30s", firstErr, err, source.calls.Load(), time.Since(bubbleStart))
		}
	})
}

func TestCredentialsSource_LimitsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		source := new(hangingSource)
		c := s.client(t, source.get, withoutRetries)

		for range 2 { // calls that have returned do not count
			before := source.calls.Load()
			source.hanging, source.release = before+5, make(chan struct{})
			for range 8 {
				if err := errorOf(c.Token(t.Context(), idverify.ScopeReachability)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error = %v, want a timeout of the source", err)
				}
				time.Sleep(time.Minute) // longer than the pause
			}
			calls := source.calls.Load() - before
			close(source.release)
			synctest.Wait()
			err := errorOf(c.Token(t.Context(), idverify.ScopeReachability))
			time.Sleep(2 * time.Hour) // until the token has expired

			if calls != 5 || err != nil {
				t.Errorf("%d calls of the source that did not return, then error = %v; want 5 and nil", calls, err)
			}
		}
	})
}

// The error of a caller with a short deadline names the source.
func TestCredentialsSource_NamedInTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		source := &hangingSource{hanging: 1, release: make(chan struct{})}
		defer close(source.release)
		c := s.client(t, source.get)

		_, err := c.PhoneChecks.Create(withDeadline(t, time.Second), createParams)

		if want := `idverify: get token for scope "phone_check": context deadline exceeded while waiting for the credentials source`; !errors.Is(err, context.DeadlineExceeded) || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	})
}

const (
	rotationCallers = 200
	rotations       = 4
)

// storedCredentials is a secret store. Its method get is a CredentialsFunc.
type storedCredentials struct {
	current  atomic.Pointer[idverify.Credentials]
	replaced atomic.Pointer[chan struct{}] // closed unless the credentials are being replaced
	stale    chan idverify.Credentials     // replaced credentials for one call of get
	calls    atomic.Int64
}

func newStoredCredentials(c idverify.Credentials) *storedCredentials {
	s := &storedCredentials{stale: make(chan idverify.Credentials)}
	replaced := make(chan struct{})
	close(replaced)
	s.replaced.Store(&replaced)
	s.current.Store(&c)
	return s
}

func (s *storedCredentials) get(context.Context) (idverify.Credentials, error) {
	s.calls.Add(1)
	select {
	case old := <-s.stale:
		return old, nil
	case <-*s.replaced.Load():
	}
	// Another Secret with the same text, as a store that decodes it returns.
	c := *s.current.Load()
	return idverify.Credentials{ClientID: c.ClientID, ClientSecret: idverify.NewSecret(c.ClientSecret.Reveal())}, nil
}

// reset replaces the credentials with those that f returns. One call of get then returns the old
// credentials. Others wait for the new ones.
func (s *storedCredentials) reset(f func() idverify.Credentials) {
	replaced := make(chan struct{})
	s.replaced.Store(&replaced)
	defer close(replaced)
	c := f()
	s.stale <- *s.current.Load()
	s.current.Store(&c)
}

// options returns the options of a client or console that uses the credentials of s. It makes one
// attempt, so that no retry hides a failure.
func (s *storedCredentials) options(srv *sandboxfake.Server) []idverify.Option {
	transport := srv.HTTPClient().Transport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = rotationCallers
	return []idverify.Option{
		idverify.WithHTTPClient(&http.Client{Transport: transport, Timeout: time.Minute}),
		idverify.WithClock(srv.Now),
		withoutRetries,
	}
}

// underLoad runs f in many goroutines until rotate, which starts after some calls, has returned. It
// returns the number of calls.
func underLoad(t *testing.T, f func() error, rotate func()) int64 {
	t.Helper()
	var wg sync.WaitGroup
	var calls, failed atomic.Int64
	warm, rotated := make(chan struct{}), make(chan struct{})
	for range rotationCallers {
		wg.Go(func() {
			for last := false; !last; {
				select {
				case <-rotated:
					last = true
				default:
				}
				if err := f(); err != nil && failed.Add(1) <= 3 {
					t.Errorf("error = %v, want no failed call during a rotation", err)
				}
				if calls.Add(1) == rotationCallers {
					close(warm)
				}
			}
		})
	}
	<-warm
	rotate()
	close(rotated)
	wg.Wait()
	return calls.Load()
}

func TestCredentialsSource_RotationUnderLoad(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), sandboxfake.WithJournalLimit(1<<16))
	console, project := srv.Console(), srv.NewProject(idverify.ProjectParams{Name: "rotated", Mode: idverify.ModeSandbox})
	store := newStoredCredentials(project.Credentials)
	client := must(idverify.NewClient(srv.URL(), idverify.CredentialsFunc(store.get), store.options(srv)...))(t)
	var creates atomic.Int64

	call := func() error {
		if creates.Add(1)%4 != 0 {
			return errorOf(client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: matchingNumber}))
		}
		return errorOf(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber}))
	}
	var calls int64
	for range rotations {
		// Renewals are due while the credentials change.
		noError(t, srv.Advance(t.Context(), 59*time.Minute+30*time.Second))
		calls += underLoad(t, call, func() {
			old := store.current.Load().ClientID
			issued := must(console.ProjectCredentials.Create(t.Context(), project.ProjectID))(t)
			store.current.Store(&issued.Credentials)
			if err := console.ProjectCredentials.Delete(t.Context(), project.ProjectID, old); err != nil {
				t.Error(err)
			}
		})
	}

	created := int64(0)
	users := make(map[string]bool)
	for _, r := range srv.Requests() {
		if r.ProjectID == project.ProjectID && r.Status == http.StatusCreated {
			created++
			users[r.ClientID] = true
		}
	}
	if created != calls || len(users) != rotations+1 {
		t.Errorf("%d checks with %d credentials for %d calls, want one check per call with %d credentials", created, len(users), calls, rotations+1)
	}
	t.Logf("%d calls, %d calls of the source", calls, store.calls.Load())
}

// ResetSecret revokes the old secret before its caller knows the new one. A call of the source that
// began before the reset returns the old secret; later calls wait for the new one.
func TestCredentialsSource_ResetUnderLoad(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithJournalLimit(1<<16))
	account := srv.NewWorkspace("Shop")
	admin := account.Console()
	issued := must(admin.WorkspaceCredentials.Create(t.Context(), account.MemberID))(t)
	store := newStoredCredentials(issued.Credentials)
	console := must(idverify.NewConsole(srv.URL(), idverify.CredentialsFunc(store.get), store.options(srv)...))(t)

	var calls int64
	for range rotations {
		calls += underLoad(t, func() error {
			return errorOf(console.Projects.List(t.Context(), idverify.ListOptions{}))
		}, func() {
			store.reset(func() idverify.Credentials {
				return must(admin.WorkspaceCredentials.ResetSecret(t.Context(), account.MemberID, issued.ClientID))(t).Credentials
			})
		})
	}

	rejected := 0
	for _, r := range srv.Requests() {
		if r.Operation == "token.create" && r.Status == http.StatusUnauthorized {
			rejected++
		}
	}
	if rejected != rotations {
		t.Errorf("%d token requests with an old secret, want %d: the source is called once more after each", rejected, rotations)
	}
	t.Logf("%d calls, %d calls of the source", calls, store.calls.Load())
}
