package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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

// request returns the request for the key set, which the first caller sends.
func (d *doctorRun) request(ctx context.Context) *exchange {
	if d.service == nil {
		r := newRequest(http.MethodGet, d.serviceURL(), nil)
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Cache-Control", "no-cache")
		ctx, cancel := context.WithTimeout(ctx, d.timeout)
		defer cancel()
		e := d.send(ctx, r)
		d.service = &e
	}
	return d.service
}

// responded returns the request for the key set if the service has responded to it. Otherwise it
// returns a GET request to the token endpoint, which the first caller sends: it has no credentials,
// and any response shows that only the key set is unavailable.
func (d *doctorRun) responded(ctx context.Context) *exchange {
	if e := d.request(ctx); e.status != 0 || e.sent.IsZero() {
		return e
	}
	if d.other == nil {
		ctx, cancel := context.WithTimeout(ctx, d.timeout)
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
