package inspector

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"rsc.io/qr"
)

// maxQRText is the maximum size in bytes of the text of a QR code.
const maxQRText = 512

// qrCode handles GET /_sandbox/page/qr.png?text=…, which encodes only URLs of this server.
func (p *pages) qrCode(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("text")
	if len(text) > maxQRText || !utf8.ValidString(text) || !strings.HasPrefix(text, p.URL+"/") && (p.PublicURL == "" || !strings.HasPrefix(text, p.PublicURL+"/")) {
		http.Error(w, "text must be a URL of this server of at most 512 bytes", http.StatusBadRequest)
		return
	}
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(code.PNG())
}
