package inspector

import (
	"net/http"
	"strings"

	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/qr"
)

// maxQRText is the maximum size in bytes of the text of a QR code.
const maxQRText = 512

// qrCode handles GET /_sandbox/page/qr.svg?text=…, which encodes only URLs of this server.
func (p *pages) qrCode(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("text")
	if len(text) > maxQRText || !strings.HasPrefix(text, p.URL+"/") && (p.PublicURL == "" || !strings.HasPrefix(text, p.PublicURL+"/")) {
		http.Error(w, "text must be a URL of this server of at most 512 bytes", http.StatusBadRequest)
		return
	}
	code, err := qr.Encode(text)
	if err != nil {
		http.Error(w, "text must be valid UTF-8", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", mediaTypes[".svg"])
	w.Header().Set("Cache-Control", "no-store")
	w.Write(code.SVG())
}
