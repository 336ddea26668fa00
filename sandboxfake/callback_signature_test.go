package sandboxfake_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

// The header and digest options apply to the callback and its signature.
func TestServer_CallbackHeaderAndDigest(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		opts   []sandboxfake.Option
		header string
		base64 bool
	}{
		"by default":           {nil, "X-Service-Callback", false},
		"WithBase64Digest":     {[]sandboxfake.Option{sandboxfake.WithBase64Digest()}, "X-Service-Callback", true},
		"WithCallbackHeader":   {[]sandboxfake.Option{sandboxfake.WithCallbackHeader("X-Acme-Callback")}, "X-Acme-Callback", false},
		"both, after a rotate": {[]sandboxfake.Option{sandboxfake.WithCallbackHeader("X-Acme-Callback"), sandboxfake.WithBase64Digest()}, "X-Acme-Callback", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, append(row.opts, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))...)
			verifier := srv.Verifier([]string{"app.sandbox.test"}, nil)
			var header http.Header
			var body []byte
			verified := false
			host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header = r.Header.Clone()
				body, _ = io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				verifier.RequireCallback(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { verified = true })).ServeHTTP(w, r)
			}))
			if strings.Contains(name, "rotate") {
				srv.RotateKeys()
			}

			newAPI(t, srv).completeCheck(host + "/callbacks")
			if err := srv.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}

			if !verified {
				t.Error("callback does not verify")
			}
			if got := header.Values(row.header); len(got) != 1 || got[0] != "phone_check" {
				t.Errorf("%s = %q, want phone_check", row.header, got)
			}
			if other := "X-Service-Callback"; row.header != other && header.Get(other) != "" {
				t.Errorf("%s is also sent", other)
			}
			if got := header.Get("Authorization"); !strings.Contains(got, " "+strings.ToLower(row.header)+" ") {
				t.Errorf("Authorization = %q, want a signature over %s", got, row.header)
			}
			sum := sha256.Sum256(body)
			want := "SHA-256=" + hex.EncodeToString(sum[:])
			if row.base64 {
				want = "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
			}
			if got := header.Get("Digest"); got != want {
				t.Errorf("Digest = %q, want %q", got, want)
			}
		})
	}
}
