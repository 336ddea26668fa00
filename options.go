package idverify

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// Option changes how a [Client] or a [Console] works. The zero argument of an Option means its default.
type Option func(*settings)

// settings are what the options say, defaults filled in by newSettings.
type settings struct {
	httpClient *http.Client
	retry      RetryPolicy
	logger     *slog.Logger
	userAgent  string
	versions   Versions
	now        func() time.Time
}

// WithHTTPClient sends every request, including token requests, with the Transport and Timeout of c.
// Timeout applies to each attempt. The Jar is not used for token requests. c itself is not changed.
// Redirects are never followed, so that credentials stay with the host of the base URL.
//
// A Transport should not retry: see [RetryPolicy]. The body of a POST or PATCH and all copies from
// its GetBody can be read to the end only once in total. A Transport that buffers the body and sends
// it again can cause a second charge.
//
// The default is a new client with a pool of connections, HTTP/2 and a timeout of 30 s for each
// attempt.
func WithHTTPClient(c *http.Client) Option { return func(s *settings) { s.httpClient = c } }

// WithRetry sets how often, and after what waits, a request is sent again. See [RetryPolicy].
func WithRetry(p RetryPolicy) Option { return func(s *settings) { s.retry = p } }

// WithLogger logs to l. At level debug there is a record for every attempt. At level warn there is one
// for every retry, and one for every access token that could not be renewed while the current one is
// still valid: calls succeed until it expires, so alert on it. By default nothing is logged. No record
// contains a token, a secret, a phone number, an address or a URL.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// WithUserAgent puts name, for example "shop/2.1", at the start of the User-Agent header. The header
// ends with the name and version of this module, for example "idverify-go/1.2.0"; the version is
// "devel" if the build has none.
func WithUserAgent(name string) Option { return func(s *settings) { s.userAgent = name } }

// WithVersions chooses the version of each API. See [Versions].
func WithVersions(v Versions) Option { return func(s *settings) { s.versions = v } }

// WithClock decides with now whether a token has expired, and nothing else: waits and time-outs use package time. The default is [time.Now].
func WithClock(now func() time.Time) Option { return func(s *settings) { s.now = now } }

// Versions are the versions of the APIs as they stand in the path. An empty field means "v0.1", which every API has; PhoneCheck, SubscriberCheck and Console have "v0.2", too. One that the service does not have is [ErrNotFound] at the first call.
//
// The code exchange ([PhoneCheckService.Complete], PhoneCheckParams.RedirectURL) needs version "v0.2" of its product.
type Versions struct {
	PhoneCheck      string
	SIMCheck        string
	SubscriberCheck string
	Coverage        string
	Console         string
}

// modulePath is the path of the module that contains this package.
const modulePath = "github.com/idverify/idverify-go"

// sdkUserAgent returns the name and version of this module for the User-Agent header.
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

// newSettings applies opts over the defaults and refuses what cannot work.
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
	s.httpClient = new(*s.httpClient) // what its owner changes later is not our business
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	for _, c := range s.userAgent {
		if c < ' ' || c > '~' {
			return nil, errors.New("the user agent must be printable ASCII")
		}
	}
	if s.userAgent != "" {
		s.userAgent += " "
	}
	s.userAgent += sdkUserAgent()
	if err := s.retry.fill(); err != nil {
		return nil, err
	}
	return s, s.versions.fill()
}

// defaultHTTPClient is a client of one Client alone, so that nothing is shared behind a user's back. Its transport is net/http's default one with more room for connections kept open, since all of them go to one host.
func defaultHTTPClient() *http.Client {
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          64,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			// A tenth of net/http's own bound: what an answer may say before its body.
			MaxResponseHeaderBytes: 1 << 20,
		},
	}
}

var versionSyntax = regexp.MustCompile(`^v[0-9]+(\.[0-9]+)*$`)

func (v *Versions) fill() error {
	for _, p := range []struct {
		product string
		version *string
	}{
		{wire.PhoneCheck, &v.PhoneCheck},
		{wire.SIMCheck, &v.SIMCheck},
		{wire.SubscriberCheck, &v.SubscriberCheck},
		{wire.Coverage, &v.Coverage},
		{wire.Console, &v.Console},
	} {
		if *p.version == "" {
			*p.version = wire.Versions[p.product][0]
		}
		if !versionSyntax.MatchString(*p.version) {
			return fmt.Errorf("the version of %s must be of the form %q", p.product, wire.V01)
		}
	}
	return nil
}

// of is the version of the API that operation op belongs to.
func (v *Versions) of(op wire.Operation) string {
	switch op.Product() {
	case wire.PhoneCheck:
		return v.PhoneCheck
	case wire.SIMCheck:
		return v.SIMCheck
	case wire.SubscriberCheck:
		return v.SubscriberCheck
	case wire.Coverage:
		return v.Coverage
	default:
		return v.Console
	}
}
