package idverify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idverify/idverify-go/internal/renewals"
	"github.com/idverify/idverify-go/internal/wire"
)

// Option configures a [Client] or a [Console]. The zero value of an Option's argument selects the
// default.
type Option func(*settings)

// settings contains the values of the options, with defaults applied.
type settings struct {
	httpClient *http.Client
	retry      RetryPolicy
	logger     *slog.Logger
	userAgent  string
	versions   Versions
	now        func() time.Time
	observers  []observer
	liveOnly   bool
	renewals   *renewals.Counter // nil unless package sandboxfake counts token renewals

	attemptTimeout time.Duration // 0 means none
}

// WithHTTPClient sends every request, including token requests, with the Transport and Timeout of
// c. Timeout applies to each attempt, unless RetryPolicy.AttemptTimeout is set; a client without
// Timeout gets 30 s. The Jar is not used for token requests. c itself is not changed. Redirects are
// never followed, so that credentials stay with the host of the base URL.
//
// A Transport should not retry: see [RetryPolicy]. The client lets the Transport read the body of a
// POST or PATCH to its end only once, counting copies from GetBody. A Transport that buffers the
// body and sends it again can cause a second charge.
//
// The default is a new client with its own connection pool, HTTP/2, and a timeout of 30 s for each
// attempt. It uses the proxy in the environment variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY: see
// [http.ProxyFromEnvironment].
func WithHTTPClient(c *http.Client) Option {
	return func(s *settings) {
		s.httpClient = c
		if c == nil {
			return
		}
		// A later WithHTTPClient must not end the counting by package sandboxfake.
		if t, ok := c.Transport.(*renewals.Transport); ok {
			s.renewals = t.Counter
		}
	}
}

// WithRetry sets the number and the duration of attempts, and the delays between them.
func WithRetry(p RetryPolicy) Option { return func(s *settings) { s.retry = p } }

// WithLogger sets the logger. Level debug has a record for each attempt. Level info has a record
// when the [CredentialsSource] returns different credentials than before. Level warn has a record
// for each retry, for each operation that is not retried because the retry budget is empty, for
// each pause of token requests after a failure, and for each access token that could not be renewed
// although the current one is still valid. Alert on paused token requests and failed renewals:
// without a new token, operations fail. Level error has a record for each check that [WithLiveOnly]
// rejects.
//
// The key set of [Client.NewJWKS] uses the logger, too: see JWKSOptions.Logger of package
// signature.
//
// By default nothing is logged. No record contains a token, a secret, a phone number, an address or
// a URL. For metrics and traces, use package otelidverify, or [WithObserver].
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// WithUserAgent puts name, for example "shop/2.1", at the start of the User-Agent header. The
// header ends with the name and version of this module, for example "idverify-go/1.2.0"; the
// version is "devel" if the build has none.
func WithUserAgent(name string) Option { return func(s *settings) { s.userAgent = name } }

// WithVersions selects the versions of the APIs. An empty field of v changes nothing. If the option
// is repeated, the last version of each API applies.
func WithVersions(v Versions) Option { return func(s *settings) { s.versions.override(v) } }

// WithClock sets the clock that determines whether an access token has expired. The key set of
// [Client.NewJWKS] uses it, too. The default is [time.Now]. Delays and timeouts always use package
// time.
func WithClock(now func() time.Time) Option { return func(s *settings) { s.now = now } }

// WithLiveOnly makes Create fail with [ErrSandbox] if the charge of the check is zero or missing,
// as in a sandbox project, where the results depend only on the digits of the number.
// FindByReferenceID fails with the same error. Use the option in production, unless your price for
// a product is zero.
//
// The check exists and may end, also with a callback, but its result must not be used. Get,
// Complete, List, Wait and callbacks do not test the charge.
func WithLiveOnly() Option { return func(s *settings) { s.liveOnly = true } }

// Versions contains the version of each API, as in its paths. An empty field keeps the version that
// was selected before: "v0.1", which all APIs have, unless [WithVersions] or [Client.WithVersions]
// selected another one. PhoneCheck, SubscriberCheck and Console also have "v0.2". With a version
// that the service does not have, operations fail with [ErrNotFound].
//
// The code exchange ([PhoneCheckService.Complete], PhoneCheckParams.RedirectURL) requires version
// "v0.2" of the product.
type Versions struct {
	PhoneCheck      string
	SIMCheck        string
	SubscriberCheck string
	Reachability    string
	Console         string
}

// modulePath is the path of the module that contains this package.
const modulePath = "github.com/idverify/idverify-go"

// sdkUserAgent returns the part of the User-Agent header that names this module and its version.
var sdkUserAgent = sync.OnceValue(func() string {
	return "idverify-go/" + moduleVersion(debug.ReadBuildInfo())
})

// moduleVersion returns the version of this module in a build without its leading v, or "devel" if
// there is none, as in the module's own tests and with a local replacement.
func moduleVersion(build *debug.BuildInfo, ok bool) string {
	if !ok {
		return "devel"
	}
	for _, m := range append([]*debug.Module{&build.Main}, build.Deps...) {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if version, found := strings.CutPrefix(m.Version, "v"); found {
			return version
		}
	}
	return "devel"
}

// newSettings applies opts and the defaults. It returns an error for invalid options.
func newSettings(opts []Option) (*settings, error) {
	s := new(settings)
	for _, opt := range opts {
		if opt != nil {
			opt(s)
		}
	}

	if s.httpClient == nil {
		s.httpClient = defaultHTTPClient()
	}
	s.httpClient = new(*s.httpClient) // later changes by the caller have no effect
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	for _, c := range s.userAgent {
		if c < ' ' || c > '~' {
			return nil, errors.New("user agent must be printable ASCII")
		}
	}
	if s.userAgent != "" {
		s.userAgent += " "
	}
	s.userAgent += sdkUserAgent()
	if err := s.retry.fill(); err != nil {
		return nil, err
	}
	s.attemptTimeout = s.retry.attemptTimeout(s.httpClient.Timeout)
	return s, s.versions.fill()
}

// defaultHTTPClient returns a new client, so that Clients do not share a connection pool. Its
// transport resembles http.DefaultTransport, with a larger pool per host because all connections go
// to one host.
func defaultHTTPClient() *http.Client {
	return &http.Client{
		Timeout: defaultAttemptTimeout,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          64,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			// A tenth of the default of net/http.
			MaxResponseHeaderBytes: 1 << 20,
		},
	}
}

var versionSyntax = regexp.MustCompile(`^v[0-9]+(\.[0-9]+)*$`)

// productVersion is a field of Versions.
type productVersion struct {
	product string
	version *string
}

func (v *Versions) fields() []productVersion {
	return []productVersion{
		{wire.PhoneCheck, &v.PhoneCheck},
		{wire.SIMCheck, &v.SIMCheck},
		{wire.SubscriberCheck, &v.SubscriberCheck},
		{wire.Coverage, &v.Reachability},
		{wire.Console, &v.Console},
	}
}

func (v *Versions) fill() error {
	for _, p := range v.fields() {
		if *p.version == "" {
			*p.version = wire.Versions[p.product][0]
		}
		if !versionSyntax.MatchString(*p.version) {
			return fmt.Errorf("version of %s must have the form %q", p.product, wire.V01)
		}
	}
	return nil
}

// override sets the versions that are not empty in other.
func (v *Versions) override(other Versions) {
	fields := v.fields()
	for i, p := range other.fields() {
		*fields[i].version = cmp.Or(*p.version, *fields[i].version)
	}
}

// of returns the configured version of the API that op belongs to, or "" if it is malformed.
func (v *Versions) of(op wire.Operation) string {
	switch op.Product() {
	case wire.PhoneCheck:
		return v.PhoneCheck
	case wire.SIMCheck:
		return v.SIMCheck
	case wire.SubscriberCheck:
		return v.SubscriberCheck
	case wire.Coverage:
		return v.Reachability
	default:
		return v.Console
	}
}

// parseBaseURL returns scheme and host of baseURL. Its errors do not contain the URL, which may
// include a password.
func parseBaseURL(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return "", errors.New("the base URL is malformed")
	case u.Scheme != "https":
		return "", errors.New("the base URL must begin with https://")
	case u.Hostname() == "":
		return "", errors.New("the base URL has no host")
	case !validPort(u.Port()):
		return "", errors.New("the port of the base URL must be 1 to 65535")
	case u.User != nil:
		return "", errors.New("the base URL must not contain a user or password: use Credentials")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("the base URL must contain only scheme and host")
	}
	return "https://" + u.Host, nil
}

// validPort reports whether port is empty or the number of a TCP port.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// WithObserver calls start before each attempt of an operation and before each token request, and
// calls the returned function exactly once, after the attempt has ended. Use it for metrics and
// traces. The option can be repeated: every start function is called, in the order of the options,
// with the context that the previous one returned, and the returned functions are called in reverse
// order. WithObserver(nil) has no effect.
//
// Parameter operation is the name of the operation as in logs, for example "phone_check.create". A
// token request is "token.create". It runs on a goroutine of its own and is shared by all
// operations that wait for the token.
//
// The HTTP requests of the attempt have the context that start returns, so that spans of the HTTP
// client become children of a span in it. The same applies to a token request that the attempt
// starts. Only the values of that context are used: cancellation and deadline are always those of
// the context that start received. Either result of start can be nil.
//
// Operations call the functions concurrently and wait for them, so the functions must return
// quickly. Operations do not wait for the end of a token request: they continue as soon as the
// token is available, and the function may be called after they have returned.
//
// The context of the attempt may already be canceled when the returned function is called. If the
// transport panics, the function is called and the panic continues. A panic in an observer reaches
// the caller of the operation. During a token request, a panic in start becomes the error of that
// request, and a panic in the returned function is dropped.
func WithObserver(start func(ctx context.Context, operation string) (context.Context, func(Attempt))) Option {
	return func(s *settings) {
		if start != nil {
			s.observers = append(s.observers, start)
		}
	}
}
