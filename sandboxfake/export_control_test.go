package sandboxfake

import (
	"crypto/tls"
	"net/http"
)

// Serve answers a request as from the remote address that it names, which a test cannot choose over a connection.
func Serve(s *Server, w http.ResponseWriter, r *http.Request) { s.serve(w, r) }

// IssueExported returns a server certificate for a name, signed by the authority that CACertPEM
// returns: what somebody who has its key could issue.
func IssueExported(s *Server, name string) (tls.Certificate, error) {
	return s.certificates.Exported.Issue(name)
}
