package sandboxfake

import (
	"crypto/tls"
	"net/http"
)

// Serve handles a request directly, so that a test can set its RemoteAddr.
func Serve(s *Server, w http.ResponseWriter, r *http.Request) { s.serve(w, r) }

// IssueExported returns a server certificate for name, signed by the CA of CACertPEM, as anyone
// with its private key could issue it.
func IssueExported(s *Server, name string) (tls.Certificate, error) {
	return s.certificates.Exported.Issue(name)
}
