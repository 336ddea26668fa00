package sandboxfake

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/idverify/idverify-go/internal/wire"
)

// StoreChecks creates n checks in the server's project without HTTP requests.
func (s *Server) StoreChecks(n int) {
	s.storeChecks(n, `{"phone_number":"447700900012","callback_url":"https://app.sandbox.test/callbacks"}`)
}

// StoreChecksWithoutCallback is StoreChecks without callback URLs.
func (s *Server) StoreChecksWithoutCallback(n int) {
	s.storeChecks(n, `{"phone_number":"447700900012"}`)
}

func (s *Server) storeChecks(n int, body string) {
	svc := s.lock()
	defer svc.mu.Unlock()
	request := httptest.NewRequest(http.MethodPost, "/phone_check/v0.1/checks", nil)
	request.Header.Set("Content-Type", wire.MediaJSON)
	credential := svc.accounts.credentials[svc.initial.project.ClientID]
	for range n {
		c := &call{r: request, op: wire.CreatePhoneCheck, version: wire.V01, credential: credential, body: []byte(body)}
		if _, err := svc.createCheck(c); err != nil {
			panic(fmt.Sprintf("create a check: %v", err))
		}
	}
}

// DescribedMembers returns the names in the table members.
func DescribedMembers() []string {
	var names []string
	for _, row := range members {
		names = append(names, row.name)
	}
	return names
}

// StoredTokens returns the number of access tokens in each of the server's two indexes.
func (s *Server) StoredTokens() (byText, issued int) {
	svc := s.lock()
	defer svc.mu.Unlock()
	return len(svc.tokens.byText), len(svc.tokens.issued)
}

// Serve handles a request directly, so that a test can set its RemoteAddr.
func Serve(s *Server, w http.ResponseWriter, r *http.Request) { s.serve(w, r) }

// IssueExported returns a server certificate for name, signed by the CA of CACertPEM, as anyone
// with its private key could issue it.
func IssueExported(s *Server, name string) (tls.Certificate, error) {
	return s.certificates.Exported.Issue(name)
}
