package inspector

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
)

// caPath is the path of the page about the CA certificate, and the directory of its files.
const caPath = indexPath + "ca"

// caPage is the content of template ca.html.
type caPage struct {
	Title       string
	Fingerprint []string // SHA-256, in groups of four bytes
	FixedKeys   bool
}

// handleCA adds the page and the files to mux. Clients of the page install the first certificate of
// CACertPEM, which can sign only names of the server. It is public: the server sends it in each TLS
// handshake, too.
func (p *pages) handleCA(mux *http.ServeMux) {
	block, _ := pem.Decode(p.CACertPEM)
	if block == nil {
		return
	}
	page := caPage{Title: "CA certificate of this sandbox", Fingerprint: Fingerprint(p.CACertPEM), FixedKeys: p.FixedKeys}
	mux.HandleFunc("GET "+caPath, func(w http.ResponseWriter, _ *http.Request) { p.render(w, http.StatusOK, "ca.html", page) })
	// iOS and Android offer to install a certificate of this type.
	mux.HandleFunc("GET "+caPath+"/ca.crt", certificate("application/x-x509-ca-cert", block.Bytes))
	mux.HandleFunc("GET "+caPath+"/ca.pem", certificate("application/x-pem-file", pem.EncodeToMemory(block)))
}

// certificate returns a handler for a certificate, which differs in each run.
func certificate(mediaType string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Cache-Control", "no-store")
		w.Write(content)
	}
}

// Fingerprint returns the SHA-256 fingerprint of a certificate as people compare it: eight groups
// of four bytes, in hexadecimal digits with colons. It returns nil if certPEM is not in PEM.
func Fingerprint(certPEM []byte) []string {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil
	}
	var groups []string
	sum := sha256.Sum256(block.Bytes)
	for i := 0; i < len(sum); i += 4 {
		groups = append(groups, strings.ReplaceAll(fmt.Sprintf("% X", sum[i:i+4]), " ", ":"))
	}
	return groups
}
