package conformance_test

import (
	"context"
	"fmt"

	"github.com/idverify/idverify-go/internal/conformance"
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
	for _, f := range report.Failed() {
		fmt.Printf("%s: %s\n", f.Detail, f.Reason)
	}
	first := report.Findings[0]
	fmt.Printf("%d failed; the first: %s: %s\n", len(report.Failed()), first.Title, first.Result)
	// Output: 0 failed; the first: the token endpoint issues a bearer token for Basic authentication and a multipart form: pass
}
