package sandboxfake

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
)

// Device is a phone whose browser opens Check URLs. It follows redirects, keeps cookies, and
// reaches the hosts of [Server.Handle]. Create one with [Server.Device]. A Device is safe for
// concurrent use; its requests share the cookies.
type Device struct {
	client *http.Client
}

// Visit is the result of opening a URL.
type Visit struct {
	Status int        // of the last response
	URL    *url.URL   // of the last response
	Hops   []*url.URL // all URLs that were opened, ending with URL
	Header http.Header
	Body   []byte
}

// maxHops is the maximum number of redirects that a device follows.
const maxHops = 20

// maxPage is the maximum number of bytes that a device reads from a page.
const maxPage = 1 << 20

// Device returns a new device with an empty cookie jar.
func (s *Server) Device() *Device {
	// New cannot fail without options.
	jar, _ := cookiejar.New(nil)
	return &Device{client: &http.Client{
		Transport: s.network.Transport(),
		Jar:       jar,
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) >= maxHops {
				return fmt.Errorf("stopped after %d redirects", maxHops)
			}
			return nil
		},
	}}
}

// Client returns the browser as an HTTP client, for requests that [Device.Open] does not send, such
// as the form of a page before its Check URL. Each call returns a new client; all share the
// device's cookies.
func (d *Device) Client() *http.Client {
	client := *d.client
	return &client
}

// Open opens a Check URL, or any other URL, and follows redirects as a browser does.
//
// A response with any status is a Visit. Open fails if the page is unreachable, if there are too
// many redirects, or if ctx ends.
func (d *Device) Open(ctx context.Context, checkURL string) (*Visit, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, checkURL, nil)
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: open Check URL: invalid URL")
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: open Check URL: %w", withoutURL(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: open Check URL: read page: %w", withoutURL(err))
	}
	visit := &Visit{Status: response.StatusCode, URL: response.Request.URL, Header: response.Header, Body: body}
	// Request.Response is the redirect that led to the request.
	for r := response.Request; ; r = r.Response.Request {
		visit.Hops = append([]*url.URL{r.URL}, visit.Hops...)
		if r.Response == nil {
			return visit, nil
		}
	}
}

// withoutURL removes the URL, which may contain a code, from an error of net/http.
func withoutURL(err error) error {
	if wrapped, ok := err.(*url.Error); ok {
		return wrapped.Err
	}
	return err
}
