// A program that uses the client that TestDocument_GeneratesClient generates for the service. It
// creates, opens and reads a check.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
)

func main() {
	ctx := context.Background()
	endpoint := connect(func(r *http.Request) { r.SetBasicAuth(os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")) })
	token, err := endpoint.TokenCreateWithFormdataBodyWithResponse(ctx, TokenCreateFormdataRequestBody{GrantType: "client_credentials", Scope: "phone_check"})
	if err != nil || token.JSON200 == nil {
		log.Fatal(err, token)
	}

	client := connect(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token.JSON200.AccessToken) })
	created, err := client.PhoneCheckCreateWithResponse(ctx, "v0.1", PhoneCheckCreateJSONRequestBody{PhoneNumber: "447700900012"})
	if err != nil || created.HALJSON201 == nil {
		log.Fatal(err, created)
	}
	id := created.HALJSON201.CheckId
	opened, err := client.PhoneCheckOpenWithResponse(ctx, "v0.1", id)
	if err != nil || opened.JSON200 == nil {
		log.Fatal(err, opened)
	}
	read, err := client.PhoneCheckGetWithResponse(ctx, "v0.1", id)
	if err != nil || read.HALJSON200 == nil {
		log.Fatal(err, read)
	}
	page, err := client.PhoneCheckListWithResponse(ctx, "v0.1", &PhoneCheckListParams{})
	if err != nil || page.HALJSON200 == nil {
		log.Fatal(err, page)
	}
	unknown, err := client.PhoneCheckGetWithResponse(ctx, "v0.1", "x")
	if err != nil || unknown.ApplicationproblemJSON404 == nil {
		log.Fatal(err, unknown)
	}
	check := read.HALJSON200
	fmt.Println(check.Status, *check.Match, page.HALJSON200.Page.TotalElements, unknown.ApplicationproblemJSON404.Status)
}
