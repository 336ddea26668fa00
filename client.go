package idverify

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/idverify/idverify-go/internal/wire"
)

// Client calls the product APIs with the credentials of a project. Make it with [NewClient]; it is safe for concurrent use and wants to be shared: it caches access tokens.
//
// Management of workspaces and projects takes workspace credentials and a [Console].
type Client struct {
	PhoneChecks      *PhoneCheckService      // does this phone number belong to this device?
	SIMChecks        *SIMCheckService        // was the SIM of this number changed lately?
	SubscriberChecks *SubscriberCheckService // both in one
	Reachability     *ReachabilityService    // which products work for this IP address, and in this country?

	api *api
}

// NewClient returns a client for the service at baseURL, for example "https://eu.api.example.com": scheme https and a host, nothing else.
// It sends nothing: wrong credentials show at the first call, as a [*TokenError].
func NewClient(baseURL string, c Credentials, opts ...Option) (*Client, error) {
	api, err := newAPI(baseURL, c, opts)
	if err != nil {
		return nil, fmt.Errorf("idverify: new client: %w", err)
	}
	return &Client{
		PhoneChecks:      &PhoneCheckService{api: api},
		SIMChecks:        &SIMCheckService{api: api},
		SubscriberChecks: &SubscriberCheckService{api: api},
		Reachability:     &ReachabilityService{api: api},
		api:              api,
	}, nil
}

// JWKSURL is the address of the keys that the service signs its callbacks and redirects with: what signature.NewJWKS takes.
//
// Specification: section 5.3, GET /.well-known/jwks.json.
func (c *Client) JWKSURL() string { return c.api.base + wire.JWKS.Path }

// parseBaseURL returns scheme and host of baseURL. Its errors do not repeat it: somebody may have put a password there.
func parseBaseURL(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return "", errors.New("the base URL is malformed")
	case u.Scheme != "https":
		return "", errors.New("the base URL must begin with https://")
	case u.Hostname() == "" || u.Opaque != "":
		return "", errors.New("the base URL has no host")
	case u.User != nil:
		return "", errors.New("the base URL must not contain a user or password: use Credentials")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("the base URL must contain only scheme and host")
	}
	return "https://" + u.Host, nil
}
