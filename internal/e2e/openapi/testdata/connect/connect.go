// Part of the programs that TestDocument_GeneratesClient runs.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log"
	"net/http"
	"os"
)

// connect returns a generated client that trusts the certificate of sandboxfake, and authorizes each
// request with a function.
func connect(authorize func(*http.Request)) *ClientWithResponses {
	pem, err := os.ReadFile(os.Getenv("CA"))
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client, err := NewClientWithResponses(os.Getenv("URL"),
		WithHTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}),
		WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			authorize(r)
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	return client
}
