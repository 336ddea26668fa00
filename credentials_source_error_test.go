package idverify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

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
		}, "invalid credentials: the client ID is missing"},
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

// A source can use a Console. Its errors must not be mistaken for those of the operation.
func TestCredentialsSource_OwnErrors(t *testing.T) {
	t.Parallel()
	errVault := errors.New("vault sealed")
	for name, respond := range map[string]func(*http.Request) (*http.Response, error){
		"outcome unknown": func(*http.Request) (*http.Response, error) { return response(502, nil), nil },
		"unusable":        func(*http.Request) (*http.Response, error) { return response(201, []byte("{}")), nil },
		"not found":       func(*http.Request) (*http.Response, error) { return response(404, nil), nil },
		"lost": func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return nil, io.ErrUnexpectedEOF
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				console := must(idverify.NewConsole("https://idverify.sandbox.test", credentials, withoutRetries, idverify.WithHTTPClient(&http.Client{Transport: tokenTransport(respond)})))(t)
				s, calls := &secretService{secret: "valid-secret"}, 0
				c := s.client(t, func(ctx context.Context) (idverify.Credentials, error) {
					calls++
					_, err := console.Projects.Create(ctx, idverify.ProjectParams{Name: "a", Mode: idverify.ModeSandbox})
					return idverify.Credentials{}, fmt.Errorf("%w: %w", errVault, err)
				})

				_, err := c.PhoneChecks.Create(t.Context(), createParams)

				if errors.Is(err, idverify.ErrOutcomeUnknown) || errors.Is(err, idverify.ErrNotFound) || !errors.Is(err, errVault) {
					t.Errorf("error = %v, want it to match errVault only", err)
				}
				problem, isProblem := errors.AsType[*idverify.Error](err)
				unusable, isUnusable := errors.AsType[*idverify.DecodeError](err)
				if isProblem || isUnusable {
					t.Errorf("error = %v is %v or %v, which describe another operation", err, problem, unusable)
				}
				if calls != 4 {
					t.Errorf("calls = %d, want 4: like each error of a source", calls)
				}
			})
		})
	}
}

// A rejected token request of a Console must not decide about retries of the Client.
func TestCredentialsSource_OwnTokenError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := &secretService{secret: "valid-secret"}, 0
		c := s.client(t, func(context.Context) (idverify.Credentials, error) {
			calls++
			return idverify.Credentials{}, &idverify.TokenError{Status: 401, Code: "invalid_client"}
		})

		_, err := c.PhoneChecks.Create(t.Context(), createParams)

		rejected, ok := errors.AsType[*idverify.TokenError](err)
		if ok || err == nil || errors.Is(err, idverify.ErrUnauthorized) || calls != 4 {
			t.Errorf("error = %v (%v) after %d calls, want no *TokenError and 4 calls", err, rejected, calls)
		}
	})
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
		var mu sync.Mutex // guards calls, of the source
		calls := 0
		source := func(context.Context) (idverify.Credentials, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return pair(fmt.Sprintf("dynamic-secret-%d", calls)), nil
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
