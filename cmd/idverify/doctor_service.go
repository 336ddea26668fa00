package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

// configurationChecks returns the checks of the environment variables.
func (d *doctorRun) configurationChecks() []doctorCheck {
	return []doctorCheck{
		{name: "config-base-url", run: d.checkBaseURL},
		{name: "config-credentials", run: d.checkCredentials},
		{name: "config-ca-file", run: d.checkCAFile},
	}
}

func (d *doctorRun) checkBaseURL(context.Context) diagnosis {
	if d.getenv(baseURLVariable) == "" {
		return sick("missing", "%s is not set", baseURLVariable)
	}
	baseURL, err := d.baseURL()
	if err != nil {
		return sick("invalid", "%v", err)
	}
	return healthy("%s", strings.TrimSuffix(baseURL, "/"))
}

func (d *doctorRun) checkCredentials(context.Context) diagnosis {
	file := d.getenv(credentialsFileVariable)
	id, secret := d.getenv(clientIDVariable) != "", d.getenv(clientSecretVariable) != ""
	switch {
	case file == "" && id != secret:
		name := clientIDVariable
		if id {
			name = clientSecretVariable
		}
		return sick("missing", "%s is not set", name)
	case file == "" && !id && !secret:
		return sick("missing", "neither %s and %s nor %s is set", clientIDVariable, clientSecretVariable, credentialsFileVariable)
	case file != "" && (id || secret):
		return sick("ambiguous", "both %s and %s or %s are set", credentialsFileVariable, clientIDVariable, clientSecretVariable)
	}
	credentials, err := d.program.credentials(projectVariables)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return sick("unreadable", "%v", err)
	}
	if err != nil {
		return sick("invalid", "%v", err)
	}
	d.secrets = append(d.secrets, credentials.ClientSecret.Reveal())
	if file == "" {
		return healthy("client ID and secret in the environment")
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		return sick("readable", "the credentials file has the permissions %#o", info.Mode().Perm())
	}
	return healthy("client ID and secret in a file")
}

func (d *doctorRun) checkCAFile(context.Context) diagnosis {
	path := d.getenv(caFileVariable)
	if path == "" {
		return healthy("not set: the certificates of the system are used")
	}
	if _, err := d.httpClient(); err != nil {
		return sick("invalid", "%v", err)
	}
	text, _ := readFile(caFileVariable, path)
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		n++
	}
	return healthy("%s, in addition to those of the system", plural(n, "certificate"))
}

// serviceChecks returns the checks of the connection to the service. They use one request for the
// key set, which needs no credentials, and another one if there is no response to it.
func (d *doctorRun) serviceChecks() []doctorCheck {
	config := []string{"config-base-url", "config-ca-file"}
	return []doctorCheck{
		{name: "base-url-proxy", needs: config, run: d.checkProxy},
		{name: "base-url-connection", needs: append(config, "base-url-proxy"), run: d.checkConnection},
		{name: "base-url-tls", needs: append(config, "base-url-connection"), run: d.checkServiceTLS},
		{name: "base-url-response", needs: append(config, "base-url-tls"), run: d.checkResponse, twice: true},
		{name: "clock", needs: append(config, "base-url-response"), run: d.checkClock, twice: true},
	}
}

// serviceURL returns the URL of the key set. The checks of the configuration have verified the base
// URL.
func (d *doctorRun) serviceURL() *url.URL { return d.endpoint("/.well-known/jwks.json") }

// endpoint returns the URL of a path of the service.
func (d *doctorRun) endpoint(path string) *url.URL {
	baseURL, _ := d.baseURL()
	u, err := url.Parse(strings.TrimSuffix(baseURL, "/") + path)
	if err != nil {
		return &url.URL{} // unreachable
	}
	return u
}

// request returns the exchange for the key set. The first call sends the request.
func (d *doctorRun) request(ctx context.Context) *exchange {
	if d.service == nil {
		r := newRequest(http.MethodGet, d.serviceURL(), nil)
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Cache-Control", "no-cache")
		ctx, cancel := d.withTimeout(ctx, d.timeout)
		defer cancel()
		e := d.send(ctx, r)
		d.service = &e
	}
	return d.service
}

// responded returns the exchange for the key set if it has a response, or if the request was not
// sent. Otherwise it sends a GET request without credentials to the token endpoint, once: any
// response shows that only the key set is unavailable.
func (d *doctorRun) responded(ctx context.Context) *exchange {
	if e := d.request(ctx); e.status != 0 || e.sent.IsZero() {
		return e
	}
	if d.other == nil {
		ctx, cancel := d.withTimeout(ctx, d.timeout)
		defer cancel()
		e := d.send(ctx, newRequest(http.MethodGet, d.endpoint("/oauth2/v1/token"), nil))
		d.other = &e
	}
	return d.other
}

func (d *doctorRun) checkProxy(ctx context.Context) diagnosis {
	setting := cmp.Or(d.getenv("HTTPS_PROXY"), d.getenv("https_proxy"))
	if setting == "" {
		return healthy("none")
	}
	u := d.serviceURL()
	proxy, err := d.proxy(&http.Request{URL: u})
	if err != nil || !isProxy(setting) {
		return sick("invalid", "HTTPS_PROXY is not the URL of a proxy, and ignored")
	}
	if proxy == nil {
		return healthy("none for %s (NO_PROXY, or on this machine)", u.Hostname())
	}
	d.secrets = append(d.secrets, passwordsOf(proxy)...)
	switch e := d.request(ctx); {
	case !e.connected:
		return sick("unreachable", "%s: %s", proxy.Host, e.failure())
	case e.proxyStatus == 0 && e.atProxy() && e.timedOut():
		return sick("timeout", "%s: no response to CONNECT before the timeout", proxy.Host)
	case e.proxyStatus == 0 && e.atProxy():
		return sick("rejected", "%s: %s", proxy.Host, e.failure())
	case e.proxyStatus != 0 && e.proxyStatus != http.StatusOK:
		return sick("rejected", "%s responds to CONNECT with %s", proxy.Host, statusLine(e.proxyStatus))
	}
	return healthy("%s", proxy.Host)
}

// isProxy reports whether net/http uses the value of HTTPS_PROXY, in which the scheme is optional.
func isProxy(setting string) bool {
	_, err := url.Parse(setting)
	_, errWithScheme := url.Parse("http://" + setting)
	return err == nil || errWithScheme == nil
}

// passwordsOf returns the password of a URL, if any.
func passwordsOf(u *url.URL) []string {
	if password, ok := u.User.Password(); ok && password != "" {
		return []string{password}
	}
	return nil
}

func (d *doctorRun) checkConnection(ctx context.Context) diagnosis {
	e := d.request(ctx)
	switch {
	case e.proxy != nil:
		return healthy("%s through the proxy", d.serviceURL().Host)
	case e.lookup != nil:
		return sick("unresolved", "%s: %s", d.serviceURL().Hostname(), cause(e.lookup))
	case !e.connected:
		return sick(unreachable(e.dial), "%s: %s", d.serviceURL().Host, e.failure())
	case len(e.addresses) == 0:
		return healthy("%s", d.serviceURL().Host)
	}
	return healthy("%s, %s", d.serviceURL().Host, plural(len(e.addresses), "address"))
}

func (d *doctorRun) checkServiceTLS(ctx context.Context) diagnosis {
	e := d.request(ctx)
	if path := d.getenv(caFileVariable); path != "" && isUntrusted(e.invalid) {
		return sick("other-ca", "%s%s", otherCA(e.tls.PeerCertificates, path), throughProxy(e))
	}
	return d.checkCertificate(e, d.serviceURL().Hostname())
}

// checkResponse checks that the service itself responds.
func (d *doctorRun) checkResponse(ctx context.Context) diagnosis {
	e := d.responded(ctx)
	switch {
	case e.status == 0:
		return sick("none", "%s", e.failure())
	case e.status/100 == 3:
		return sick("redirect", "%s to the host %s", statusLine(e.status), locationHost(d.serviceURL(), e.header))
	}
	if e == d.other {
		return healthy("%s to a GET request to the token endpoint (no response to the request for the key set)", statusLine(e.status))
	}
	return healthy("%s in %s", statusLine(e.status), seconds(e.ended.Sub(e.began)))
}

// locationHost returns the host of a redirect.
func locationHost(from *url.URL, header http.Header) string {
	u, err := from.Parse(header.Get("Location"))
	if err != nil {
		return "in a malformed Location"
	}
	return u.Host
}

// The limits of the clock skew. The verifier rejects messages whose date differs by more than 5 s.
const (
	skewWarning = time.Second
	skewFailure = 5 * time.Second
)

func (d *doctorRun) checkClock(ctx context.Context) diagnosis {
	e := d.responded(ctx)
	date, err := http.ParseTime(e.header.Get("Date"))
	if err != nil {
		return sick("unknown", "the response has no Date")
	}
	if age, err := time.ParseDuration(e.header.Get("Age") + "s"); err == nil {
		date = date.Add(age) // the response comes from a cache
	}
	roundTrip := e.received.Sub(e.sent)
	// The date has no fraction: on average, half a second is missing.
	skew := e.sent.Add(roundTrip / 2).Round(0).Sub(date.Add(500 * time.Millisecond))
	accuracy := (500*time.Millisecond + roundTrip/2).Truncate(100*time.Millisecond) + 100*time.Millisecond
	direction := "ahead of"
	if skew < 0 {
		direction = "behind"
	}
	size := seconds(skew.Abs().Round(100 * time.Millisecond))
	switch {
	case skew.Abs() <= accuracy:
		return healthy("agrees with the service within %s", seconds(accuracy))
	case skew.Abs() > skewFailure:
		return sick("wrong", "%s %s the service (± %s)", size, direction, seconds(accuracy))
	case skew.Abs() > skewWarning:
		return sick("skewed", "%s %s the service (± %s)", size, direction, seconds(accuracy))
	}
	return healthy("%s %s the service (± %s)", size, direction, seconds(accuracy))
}

// unreachable returns the problem of a failed connection.
func unreachable(err error) string {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "closed-port"
	}
	return "unreachable"
}

// failure describes why there is no response.
func (e *exchange) failure() string {
	if e.dial != nil && !e.connected {
		return cause(e.dial)
	}
	if e.err != nil {
		return cause(e.err)
	}
	return "no response"
}

// statusLine returns a status with its text.
func statusLine(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// credentialsChecks returns the checks of the credentials. They request access tokens, which are
// free, and read the newest checks of the project.
func (d *doctorRun) credentialsChecks() []doctorCheck {
	needs := []string{"config-base-url", "config-ca-file", "config-credentials", "base-url-response"}
	return []doctorCheck{
		{name: "credentials-token", needs: needs, run: d.checkToken},
		{name: "credentials-scopes", needs: append(needs, "credentials-token"), run: d.checkScopes},
		{name: "credentials-mode", needs: append(needs, "credentials-token", "credentials-scopes"), run: d.checkMode},
	}
}

// productScopes are the scopes of project credentials.
var productScopes = [...]idverify.Scope{idverify.ScopePhoneCheck, idverify.ScopeSIMCheck, idverify.ScopeSubscriberCheck, idverify.ScopeReachability}

// serviceClient returns a client that sends each request once.
func (d *doctorRun) serviceClient() (*idverify.Client, error) {
	var err error
	if d.api == nil {
		d.api, err = d.client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}))
	}
	return d.api, err
}

// checkToken requests a token for any scope.
func (d *doctorRun) checkToken(ctx context.Context) diagnosis {
	client, err := d.serviceClient()
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	_, err = client.Token(ctx, idverify.ScopePhoneCheck)
	if e, ok := errors.AsType[*idverify.TokenError](err); ok && e.Code == idverify.CodeInvalidClient {
		return sick("rejected", "the service does not know the client ID, or the secret is wrong (invalid_client)")
	}
	if err != nil && !errors.Is(err, idverify.ErrForbidden) { // without this scope, the credentials are right
		return sick("unavailable", "%v", err)
	}
	return healthy("accepted by the service")
}

func (d *doctorRun) checkScopes(ctx context.Context) diagnosis {
	client, err := d.serviceClient()
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	var missing []string
	for _, scope := range productScopes {
		_, err := client.Token(ctx, scope)
		if errors.Is(err, idverify.ErrForbidden) {
			missing = append(missing, string(scope))
			continue
		}
		if err != nil {
			return sick("unavailable", "%v", err)
		}
		d.scopes = append(d.scopes, scope)
	}
	switch {
	case len(d.scopes) == 0:
		return sick("none", "the credentials have no scope of a product")
	case len(missing) > 0:
		return sick("missing", "no %s", strings.Join(missing, ", "))
	}
	return healthy("%s", strings.Join(scopeNames(d.scopes), ", "))
}

func scopeNames(scopes []idverify.Scope) []string {
	var all []string
	for _, s := range scopes {
		all = append(all, string(s))
	}
	return all
}

// charge is the price of a check.
type charge struct {
	created time.Time
	amount  json.Number
}

// checkMode reports whether the newest stored check was charged. The service does not disclose the
// mode of the project to project credentials, and it may have changed since.
func (d *doctorRun) checkMode(ctx context.Context) diagnosis {
	client, err := d.serviceClient()
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	var newest charge
	for _, scope := range d.scopes {
		found, err := newestCharge(ctx, client, scope)
		if err != nil {
			return sick("unavailable", "%v", err)
		}
		if found.created.After(newest.created) {
			newest = found
		}
	}
	amount, err := newest.amount.Float64()
	switch {
	case newest.created.IsZero() || err != nil:
		return skipped("unknown: the project has no stored check. Use idverify.WithLiveOnly, which rejects checks that were not charged")
	case amount == 0:
		return sick("free", "the newest check, of %s, was not charged", day(newest.created))
	}
	return healthy("live: the newest check, of %s, was charged", day(newest.created))
}

// newestCharge returns the price of the newest check of a product, or a zero charge.
func newestCharge(ctx context.Context, client *idverify.Client, scope idverify.Scope) (charge, error) {
	one := idverify.ListOptions{Size: 1}
	switch scope {
	case idverify.ScopePhoneCheck:
		page, err := client.PhoneChecks.List(ctx, one)
		if err != nil || len(page.Items) == 0 {
			return charge{}, err
		}
		return charge{page.Items[0].CreatedAt, page.Items[0].ChargeAmount}, nil
	case idverify.ScopeSIMCheck:
		page, err := client.SIMChecks.List(ctx, one)
		if err != nil || len(page.Items) == 0 {
			return charge{}, err
		}
		return charge{page.Items[0].CreatedAt, page.Items[0].ChargeAmount}, nil
	case idverify.ScopeSubscriberCheck:
		page, err := client.SubscriberChecks.List(ctx, one)
		if err != nil || len(page.Items) == 0 {
			return charge{}, err
		}
		return charge{page.Items[0].CreatedAt, page.Items[0].ChargeAmount}, nil
	}
	return charge{}, nil
}

// keySetChecks returns the check of the keys that sign callbacks and redirects.
func (d *doctorRun) keySetChecks() []doctorCheck {
	return []doctorCheck{{name: "key-set", needs: []string{"config-base-url", "config-ca-file", "base-url-response"}, run: d.checkKeySet}}
}

// oldCopy is the age of a cached key set below which a verifier does not fetch it again.
const oldCopy = 30 * time.Second

// checkKeySet evaluates the key set as a verifier does.
func (d *doctorRun) checkKeySet(ctx context.Context) diagnosis {
	e := d.request(ctx)
	switch {
	case e.status == 0 || e.err != nil:
		return sick("unavailable", "%s", e.failure())
	case e.status != http.StatusOK:
		return sick("unavailable", "%s", statusLine(e.status))
	}
	log := &errorCounter{}
	keys, err := signature.NewJWKS("https://localhost/.well-known/jwks.json", &signature.JWKSOptions{
		HTTPClient: &http.Client{Transport: replayed{e}}, Logger: slog.New(log),
	})
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	_ = json.Unmarshal(e.body, &set)
	usable := 0
	for _, key := range set.Keys {
		if _, err := keys.PublicKey(ctx, key.ID); err == nil {
			usable++
			d.keyID = key.ID
		}
	}
	if usable == 0 {
		return sick("unusable", "none of %s in the response is usable", plural(len(set.Keys), "key"))
	}
	detail := plural(usable, "key")
	ignored := len(set.Keys) - usable
	if ignored > 0 {
		detail += ", " + strconv.Itoa(ignored) + " ignored"
	}
	age := headerSeconds(e.header.Get("Age"))
	switch {
	case log.records.Load() > 0:
		return sick("ignored", "%s: they are published twice or with private parts", detail)
	case age > oldCopy:
		return sick("cached", "%s, from a cache that fetched them %s ago", detail, seconds(age))
	}
	return healthy("%s, fetched in %s, %s", detail, seconds(e.ended.Sub(e.began)), validity(e.header, age))
}

// validity describes how long the key set may be used.
func validity(header http.Header, age time.Duration) string {
	for directive := range strings.SplitSeq(header.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if maxAge := headerSeconds(value); strings.EqualFold(name, "max-age") && maxAge > 0 {
			return "valid for " + seconds(maxAge-age)
		}
	}
	return "without a max-age"
}

// headerSeconds parses a number of seconds. It returns 0 if there is none.
func headerSeconds(text string) time.Duration {
	n, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// replayed is a transport that returns a response again.
type replayed struct{ e *exchange }

// RoundTrip implements [http.RoundTripper].
func (t replayed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: t.e.status, Header: t.e.header, Body: io.NopCloser(bytes.NewReader(t.e.body)), Request: r}, nil
}

// errorCounter counts log records at level error.
type errorCounter struct{ records atomic.Int32 }

// Enabled implements [slog.Handler].
func (c *errorCounter) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

// Handle implements [slog.Handler].
func (c *errorCounter) Handle(context.Context, slog.Record) error {
	c.records.Add(1)
	return nil
}

// WithAttrs implements [slog.Handler].
func (c *errorCounter) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements [slog.Handler].
func (c *errorCounter) WithGroup(string) slog.Handler { return c }
