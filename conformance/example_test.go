package conformance_test

import (
	"context"
	"fmt"

	"github.com/idverify/idverify-go/conformance"
	"github.com/idverify/idverify-go/sandboxfake"
)

// A fake, or the service itself, judged with what is at hand: a project's credentials.
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
	fmt.Printf("%d failed; the first: %s: %s\n", len(report.Failed()), first.Text, first.Verdict)
	// Output: 0 failed; the first: project credentials get a bearer token by Basic and a multipart form: held
}
