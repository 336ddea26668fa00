// A program that uses the client that TestDocument_GeneratesClient generates for the control plane.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	client := connect(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+os.Getenv("CONTROL")) })
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
