// Command handwritten reads a check with net/http and golang.org/x/oauth2. Program size compares it
// with client.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/oauth2/clientcredentials"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: handwritten BASE-URL CHECK-ID")
	}
	config := clientcredentials.Config{
		ClientID:     os.Getenv("IDVERIFY_CLIENT_ID"),
		ClientSecret: os.Getenv("IDVERIFY_CLIENT_SECRET"),
		TokenURL:     os.Args[1] + "/oauth2/v1/token",
		Scopes:       []string{"phone_check"},
	}
	client := config.Client(context.Background())
	client.Timeout = 30 * time.Second
	resp, err := client.Get(os.Args[1] + "/phone_check/v0.1/checks/" + url.PathEscape(os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 10<<20))
	if err != nil {
		log.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		log.Fatal(resp.Status)
	}
	var check struct {
		Status string `json:"status"`
		Match  *bool  `json:"match"`
	}
	if err := json.Unmarshal(body, &check); err != nil {
		log.Fatal(err)
	}
	fmt.Println(check.Status, check.Match)
}
