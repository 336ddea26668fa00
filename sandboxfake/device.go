package sandboxfake

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
)

// Device is a phone that opens Check URLs in its browser: it follows redirects, keeps cookies, and reaches the hosts of [Server.Handle].
// The zero Device is of no use: see [Server.Device]. A Device may be used by several goroutines; they share its cookies.
type Device struct {
	client *http.Client
}

// Visit is where a device's browser came to.
type Visit struct {
	Status int      // of the last answer
	URL    *url.URL // of the last answer
	Hops   []*url.URL
	Header http.Header
	Body   []byte
}

// maxHops is how many redirects a browser follows before it calls them a loop.
const maxHops = 20

// maxPage bounds what a device reads of a page, in bytes.
const maxPage = 1 << 20

// Device returns a new phone, with an empty cookie jar.
func (s *Server) Device() *Device {
	// Without options it cannot fail.
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

// Open opens a Check URL, or any other, and follows the redirects as a browser does. Hops are the URLs on the way, the last among them.
// An answer of any status is a Visit; the error is for a page that cannot be reached, a loop of redirects, or a ctx that ended.
func (d *Device) Open(ctx context.Context, checkURL string) (*Visit, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, checkURL, nil)
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: open Check URL: it cannot be read as a URL")
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: open Check URL: %w", withoutURL(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: open Check URL: read the page: %w", withoutURL(err))
	}
	visit := &Visit{Status: response.StatusCode, URL: response.Request.URL, Header: response.Header, Body: body}
	// Each request knows the answer that led to it.
	for r := response.Request; ; r = r.Response.Request {
		visit.Hops = append([]*url.URL{r.URL}, visit.Hops...)
		if r.Response == nil {
			return visit, nil
		}
	}
}

// withoutURL takes the URL, and with it a code, out of an error of net/http.
func withoutURL(err error) error {
	if wrapped, ok := err.(*url.Error); ok {
		return wrapped.Err
	}
	return err
}
