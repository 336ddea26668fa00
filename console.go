package idverify

import "fmt"

// Console manages workspaces and projects with the credentials of a workspace. Make it with [NewConsole]; it is safe for concurrent use.
//
// Product calls take project credentials and a [Client].
type Console struct {
	api *api
}

// NewConsole returns a console for the service at baseURL, as [NewClient] takes it. It sends nothing.
func NewConsole(baseURL string, c Credentials, opts ...Option) (*Console, error) {
	api, err := newAPI(baseURL, c, opts)
	if err != nil {
		return nil, fmt.Errorf("idverify: new console: %w", err)
	}
	return &Console{api: api}, nil
}
