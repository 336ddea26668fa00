// Command client reads a check with the client. Program size compares it with handwritten.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	idverify "github.com/idverify/idverify-go"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: client BASE-URL CHECK-ID")
	}
	client, err := idverify.NewClient(os.Args[1], idverify.CredentialsFromEnv())
	if err != nil {
		log.Fatal(err)
	}
	check, err := client.PhoneChecks.Get(context.Background(), os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(check.Status, check.Match)
}
