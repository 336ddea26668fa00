package idverify_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// Limits an attempt to five seconds, and the retries of all operations to one until others succeed.
func ExampleRetryPolicy() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(idverify.WithRetry(idverify.RetryPolicy{
		AttemptTimeout: 5 * time.Second,
		Budget:         1,
	})), context.Background()
	service.Inject(sandboxfake.Match{Operation: "reachability.country", Repeat: true}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

	for range 3 {
		if _, err := client.Reachability.Country(ctx, "GB"); err == nil {
			fmt.Println("the service works")
		}
	}

	attempts := 0
	for _, r := range service.Requests() {
		if r.Operation == "reachability.country" {
			attempts++
		}
	}
	fmt.Println(attempts, "attempts for 3 operations")
	// Output: 4 attempts for 3 operations
}
