package idverify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/signature"
	"golang.org/x/oauth2"
)

// Client calls the product APIs with the credentials of a project. It caches access tokens and
// renews them in the background. Create one with [NewClient] and reuse it; it is safe for
// concurrent use.
//
// To manage workspaces and projects, use a [Console] with the credentials of a workspace.
type Client struct {
	PhoneChecks      *PhoneCheckService      // verify that a phone number belongs to a device
	SIMChecks        *SIMCheckService        // detect recent SIM changes
	SubscriberChecks *SubscriberCheckService // do both in one check
	Reachability     *ReachabilityService    // find the products that work for a device or in a country

	api *api
}

// NewClient returns a client for the service at baseURL, for example "https://eu.api.example.com".
// The URL must have the scheme https and a host, with its port unless that is 443. It may end with
// a slash and must contain nothing else.
//
// Parameter c is [Credentials], [CredentialsFromEnv], [CredentialsFile] or another
// [CredentialsSource]. NewClient returns an error for an invalid argument, such as Credentials
// without a secret. It sends no request: if the credentials are wrong, the first operation fails
// with a [*TokenError]. See [Client.CheckCredentials].
func NewClient(baseURL string, c CredentialsSource, opts ...Option) (*Client, error) {
	api, err := newAPI(baseURL, c, opts)
	if err != nil {
		return nil, fmt.Errorf("idverify: new client: %w", err)
	}
	return clientOf(api), nil
}

func clientOf(api *api) *Client {
	return &Client{
		PhoneChecks:      &PhoneCheckService{api: api},
		SIMChecks:        &SIMCheckService{api: api},
		SubscriberChecks: &SubscriberCheckService{api: api},
		Reachability:     &ReachabilityService{api: api},
		api:              api,
	}
}

// WithVersions returns a client that uses other versions of the APIs, for example to move one
// product at a time. An empty field keeps the version of c. The clients share everything else:
// access tokens, connections, options and the retry budget. c is not changed.
//
// If a version does not have the form "v0.1", the operations of its product fail with
// [ErrBadRequest] and are not sent.
func (c *Client) WithVersions(v Versions) *Client {
	derived, s := *c.api, *c.api.settings
	s.versions.override(v)
	for _, p := range s.versions.fields() {
		if !versionSyntax.MatchString(*p.version) {
			*p.version = "" // api.do rejects it
		}
	}
	derived.settings = &s
	return clientOf(&derived)
}

// NewJWKS returns the keys with which the service signs callbacks and redirects, for
// [signature.NewVerifier]. It sends no request yet. Create one and reuse it.
//
// For fields that are zero in opts, it uses the HTTP client of c, with its proxy and CA but without
// its Jar and CheckRedirect, and the clock and the logger of c. opts may be nil and is not
// modified. NewJWKS returns an error if a duration in opts is negative.
func (c *Client) NewJWKS(opts *signature.JWKSOptions) (*signature.JWKS, error) {
	var o signature.JWKSOptions
	if opts != nil {
		o = *opts
	}
	if o.HTTPClient == nil {
		o.HTTPClient = &http.Client{Transport: c.api.httpClient.Transport, Timeout: c.api.httpClient.Timeout}
	}
	if o.Now == nil {
		o.Now = c.api.now
	}
	if o.Logger == nil {
		o.Logger = c.api.logger
	}
	return signature.NewJWKS(c.JWKSURL(), &o)
}

// JWKSURL returns the URL of the key set with which the service signs callbacks and redirects. See
// [Client.NewJWKS].
func (c *Client) JWKSURL() string { return c.api.base + wire.JWKS.Path }

// Token returns an access token for scopes, for example a token for [ScopeReachability] that you
// pass to a device. The methods of the services obtain their tokens themselves.
//
// Token returns a copy of the token in the cache of c, which it fetches if necessary. The Client
// renews the token in the last tenth of its lifetime, at most one minute before Expiry. Token
// requests are retried: see [RetryPolicy].
//
// If the credentials do not allow a scope, the error matches [ErrForbidden]. Without scopes, it
// matches [ErrBadRequest].
func (c *Client) Token(ctx context.Context, scopes ...Scope) (*oauth2.Token, error) {
	return c.api.token(ctx, scopes)
}

// readyTimeout is less than a second, the usual timeout of a readiness probe.
const readyTimeout = 500 * time.Millisecond

// ReadyHandler returns a handler for a readiness probe. It responds with 204 if the service does
// not reject the credentials of c and each of checks returns nil. Otherwise it responds with 503,
// and logs the errors at level warn, each after "credentials" or the index of its function, such as
// "checks[0]". Pass, for example, [signature.JWKS.Ready] and [database/sql.DB.PingContext].
//
// Parameter scopes contains the scopes of the products that you use. The handler tests them like
// [Client.CheckCredentials]. Only an error that matches [ErrUnauthorized] or [ErrForbidden] counts,
// so an outage of the service does not make a process unready.
//
// The functions in checks run concurrently. Their context ends after 500 ms, and they must return
// then.
func (c *Client) ReadyHandler(scopes []Scope, checks ...func(context.Context) error) http.Handler {
	checks = append([]func(context.Context) error{func(ctx context.Context) error {
		if err := c.CheckCredentials(ctx, scopes...); errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrForbidden) {
			return err
		}
		return nil
	}}, checks...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		failures := make([]string, len(checks))
		var all sync.WaitGroup
		for n, check := range checks {
			name := fmt.Sprintf("checks[%d]", n-1)
			if n == 0 {
				name = "credentials"
			}
			all.Go(func() {
				if err := runCheck(ctx, check); err != nil {
					failures[n] = name + ": " + redact.ErrorText(err)
				}
			})
		}
		all.Wait()
		failures = slices.DeleteFunc(failures, func(s string) bool { return s == "" })
		if len(failures) > 0 {
			c.api.logger.LogAttrs(r.Context(), slog.LevelWarn, "idverify: not ready", slog.String("error", strings.Join(failures, "; ")))
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// runCheck calls check, and returns a panic in it as an error: it would end the program, because
// check does not run on the goroutine of the request.
func runCheck(ctx context.Context, check func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in %s: %s", redact.PanicSite(), redact.PanicText(p))
		}
	}()
	return check(ctx)
}
