// A program that uses the client that TestDocument_GeneratesClient generates for the control plane.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	pem, err := os.ReadFile(os.Getenv("CA"))
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client, err := NewClientWithResponses(os.Getenv("URL"),
		WithHTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}),
		WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+os.Getenv("CONTROL"))
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	before, err := client.GetTimeWithResponse(ctx)
	if err != nil || before.JSON200 == nil {
		log.Fatal(err, before)
	}
	after, err := client.AdvanceWithResponse(ctx, AdvanceJSONRequestBody{Seconds: 3600})
	if err != nil || after.JSON200 == nil {
		log.Fatal(err, after)
	}
	unknown, err := client.ExpireCheckWithResponse(ctx, ExpireCheckJSONRequestBody{CheckId: "x"})
	if err != nil || unknown.ApplicationproblemJSON404 == nil {
		log.Fatal(err, unknown)
	}
	fmt.Println(after.JSON200.Now.Sub(before.JSON200.Now) >= time.Hour, unknown.ApplicationproblemJSON404.Status)
}
