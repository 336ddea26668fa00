package conformance_test

import (
	"context"
	"fmt"

	"github.com/idverify/idverify-go/conformance"
	"github.com/idverify/idverify-go/sandboxfake"
)

// Project credentials suffice to test a service. Expectations that require more are not run.
func Example() {
	service, err := sandboxfake.Start(sandboxfake.WithInMemory())
	if err != nil {
		panic(err)
	}
	defer service.Close()

	report, err := conformance.Run(context.Background(), conformance.Config{
		BaseURL:    service.URL(),
		HTTPClient: service.HTTPClient(),
		Project:    service.Credentials(),
	})
	if err != nil {
		panic(err)
	}
	for _, result := range report.Failed() {
		fmt.Printf("section %s: %s: %s\n", result.Section, result.Text, result.Reason)
	}
	first := report.Results[0]
	fmt.Printf("%d failed; the first: %s: %s\n", len(report.Failed()), first.Text, first.Status)
	// Output: 0 failed; the first: the token endpoint issues a bearer token for Basic authentication and a multipart form: held
}
