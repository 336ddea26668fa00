package proxytest

import (
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// app is an application behind a proxy that receives callbacks and redirects.
type app struct {
	signer *signature.Signer
	addr   string

	mu       sync.Mutex
	err      error // of the last message, or nil if it was accepted
	accepted int
	header   http.Header // of the last message
}

// appKey generates the key of the signer once for all applications, because a new key takes time.
var appKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// startApp starts an application whose verifier accepts messages to hosts.
func startApp(t *testing.T, target func(*http.Request) (host, requestURI string), hosts ...string) *app {
	t.Helper()
	key := must(appKey())(t)
	a := &app{signer: must(signature.NewSigner("key-1", key, nil))(t)}
	verifier := must(signature.NewVerifier(signature.StaticKeys{"key-1": &key.PublicKey}, hosts, &signature.VerifierOptions{
		Target:    target,
		ClockSkew: time.Hour, // on a busy machine, messages can take longer than the default
	}))(t)
	server := httptest.NewServer(a.handler(verifier))
	t.Cleanup(server.Close)
	a.addr = strings.TrimPrefix(server.URL, "http://")
	return a
}

// handler passes messages to the handlers of the verifier and records their errors.
func (a *app) handler(v *signature.Verifier) http.Handler {
	accept := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.accepted++
	})
	callbacks, redirects := v.RequireCallback(accept), v.RequireRedirect(accept)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verify, handler := v.VerifyRedirect, redirects
		if r.Method == http.MethodPost {
			verify, handler = v.VerifyCallback, callbacks
		}
		_, err := verify(r)
		a.mu.Lock()
		a.err, a.header = err, r.Header
		a.mu.Unlock()
		handler.ServeHTTP(w, r)
	})
}

// outcome returns the number of accepted messages so far, and the header and error of the last
// message.
func (a *app) outcome() (accepted int, header http.Header, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.accepted, a.header, a.err
}
