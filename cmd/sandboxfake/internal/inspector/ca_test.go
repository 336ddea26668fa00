package inspector_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/inspector"
	"github.com/idverify/idverify-go/internal/tooltest"
)

func TestCAPage_Files(t *testing.T) {
	t.Parallel()
	srv := newServer(t, "")

	der, file, ca := get(t, srv, "/_sandbox/ca/ca.crt"), get(t, srv, "/_sandbox/ca/ca.pem"), get(t, srv, "/_sandbox/ca")

	certificate, err := x509.ParseCertificate([]byte(der.body))
	if err != nil || !certificate.IsCA || der.header.Get("Content-Type") != "application/x-x509-ca-cert" {
		t.Fatalf("ca.crt: %v, %s, want a CA certificate in DER", err, der.header.Get("Content-Type"))
	}
	if file.body != string(srv.CACertPEM()) || file.header.Get("Content-Type") != "application/x-pem-file" {
		t.Errorf("ca.pem: %s\n%s", file.header.Get("Content-Type"), file.body)
	}
	if block, _ := pem.Decode([]byte(file.body)); block == nil || !bytes.Equal(block.Bytes, certificate.Raw) {
		t.Error("ca.pem and ca.crt contain different certificates")
	}
	text := strings.NewReplacer("<wbr>", "", ":", "", " ", "").Replace(ca.body)
	sum := sha256.Sum256(certificate.Raw)
	if ca.status != 200 || !strings.Contains(text, strings.ToUpper(hex.EncodeToString(sum[:]))) {
		t.Errorf("page: %d\n%s\nwant the fingerprint", ca.status, ca.body)
	}
	for _, want := range []string{"Android", "iPhone", "macOS", "Windows", "Firefox", "remove it"} {
		if !strings.Contains(ca.body, want) {
			t.Errorf("page does not contain %q", want)
		}
	}
}

// With fixed keys, anyone could create certificates for any site.
func TestCAPage_FixedKeys(t *testing.T) {
	t.Parallel()
	srv := newServer(t, "")
	handler := inspector.New(inspector.Config{URL: srv.URL(), Client: srv.HTTPClient(), CACertPEM: srv.CACertPEM(), FixedKeys: true})
	w := httptest.NewRecorder()

	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/_sandbox/ca", nil))

	if page := w.Body.String(); !strings.Contains(page, "Do not install") || strings.Contains(page, "ca.crt") {
		t.Errorf("page = %s, want no instructions to install a CA whose key is public", page)
	}
}

// TestQRCode_Texts reads the codes with zbar, an independent decoder.
func TestQRCode_Texts(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("zbarimg"), "run script/setup qr")
	srv := newServer(t, "")
	own := srv.URL()
	for _, row := range []struct {
		text string
		want int
	}{
		{own + "/_sandbox/open/abc", 200},
		{"https://phones.sandbox.test/_sandbox/open/abc", 200},
		{own + "/" + strings.Repeat("x", 511-len(own)), 200},
		{own + "/" + strings.Repeat("x", 512-len(own)), 400},
		{own, 400},
		{own + "0/", 400},
		{own + ".evil.test/", 400},
		{own + "@evil.test/", 400},
		{"https://phones.sandbox.test.evil.test/", 400},
		{"https://evil.test/", 400},
		{"", 400},
		{own + "/\xff", 400},
	} {
		got := get(t, srv, "/_sandbox/page/qr.png?"+url.Values{"text": {row.text}}.Encode())

		if got.status != row.want {
			t.Errorf("%.60q: %d, want %d", row.text, got.status, row.want)
		}
		if got.status != 200 {
			continue
		}
		if mediaType := got.header.Get("Content-Type"); mediaType != "image/png" {
			t.Errorf("%.60q: media type %s, want image/png", row.text, mediaType)
		}
		if read := tooltest.ReadQRCode(t, got.body); read != row.text {
			t.Errorf("zbar reads %q, want %q", read, row.text)
		}
	}
}
