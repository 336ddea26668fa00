package otelidverify_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// In production, use the global providers: otelidverify.ClientOption().
func ExampleClientOption() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	srv, err := sandboxfake.Start(sandboxfake.WithInMemory())
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

	client, err := idverify.NewClient(srv.URL(), srv.Credentials(),
		idverify.WithHTTPClient(srv.HTTPClient()),
		idverify.WithRetry(idverify.RetryPolicy{MinWait: time.Millisecond}),
		otelidverify.ClientOption(otelidverify.WithTracerProvider(provider)))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.PhoneChecks.List(ctx, idverify.ListOptions{}); err != nil {
		log.Fatal(err)
	}

	for _, span := range spans.GetSpans() {
		// The span of the token request may end after List has returned.
		if span.Name != "idverify token.create" {
			fmt.Println(span.Name, span.Status.Code)
		}
	}
	// Output:
	// idverify phone_check.list Error
	// idverify phone_check.list Unset
}

func ExampleObserveVerifier() {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	verifier, err := signature.NewVerifier(signature.StaticKeys{}, []string{"shop.example.com"}, &signature.VerifierOptions{
		Observe: otelidverify.ObserveVerifier(otelidverify.WithMeterProvider(provider)),
	})
	if err != nil {
		log.Fatal(err)
	}

	forged, err := http.NewRequest(http.MethodPost, "https://shop.example.com/callbacks", http.NoBody)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = verifier.VerifyCallback(forged)

	printCounts(reader)
	// Output:
	// idverify.verification.duration: 1 with idverify.operation callback, error.type ErrMalformed
}

func ExampleRegisterJWKS() {
	keys, err := signature.NewJWKS("https://eu.api.example.com/.well-known/jwks.json", nil)
	if err != nil {
		log.Fatal(err)
	}

	registration := otelidverify.RegisterJWKS(keys)
	defer registration.Unregister()

	fmt.Println("registered")
	// Output: registered
}

// printCounts prints the counts of the histograms.
func printCounts(reader *sdkmetric.ManualReader) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			operation, _ := p.Attributes.Value("idverify.operation")
			errorType, _ := p.Attributes.Value("error.type")
			fmt.Printf("%s: %d with idverify.operation %s, error.type %s\n", m.Name, p.Count, operation.AsString(), errorType.AsString())
		}
	}
}
