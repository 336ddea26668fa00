// Shop serves the pages of examples/passwordless with the service of a test. The test builds it as a
// package of that example, because package signin is internal.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/examples/passwordless/internal/signin"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	handler, err := newHandler(listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	log.Fatal(http.Serve(listener, handler))
}

func newHandler(host string) (http.Handler, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(os.Getenv("CA")))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	credentials := idverify.Credentials{ClientID: os.Getenv("CLIENT_ID"), ClientSecret: idverify.NewSecret(os.Getenv("CLIENT_SECRET"))}
	client, err := idverify.NewClient(os.Getenv("URL"), credentials, idverify.WithHTTPClient(tooltest.WithoutDeadlines(&http.Client{Transport: transport})))
	if err != nil {
		return nil, err
	}
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return nil, err
	}
	// On a busy machine, a test needs more than the default 5 s to open a redirect URL again.
	verifier, err := signature.NewVerifier(keys, []string{host}, &signature.VerifierOptions{ClockSkew: time.Hour})
	if err != nil {
		return nil, err
	}
	return signin.New(signin.Config{
		Config: checkflow.Config{
			Client:   client,
			Verifier: verifier,
			Store:    checkflow.NewMemoryStore(0),
			Allow:    func(*http.Request, string) error { return nil },
			Logger:   slog.Default(),
		},
		BaseURL: "http://" + host,
		Demo:    true,
	})
}
