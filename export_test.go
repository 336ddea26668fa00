package idverify

import (
	"net/http"
	"runtime/debug"
)

// DefaultHTTPClient returns the HTTP client that NewClient makes without WithHTTPClient.
func DefaultHTTPClient() *http.Client { return defaultHTTPClient() }

// ModuleVersion returns the version of this module in a build, for the User-Agent header.
func ModuleVersion(build *debug.BuildInfo, ok bool) string { return moduleVersion(build, ok) }
