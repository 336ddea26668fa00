package idverify

import "net/http"

// DefaultHTTPClient returns the HTTP client that NewClient makes without WithHTTPClient.
func DefaultHTTPClient() *http.Client { return defaultHTTPClient() }
