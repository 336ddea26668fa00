package idverify_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// Logs the request ID and the rate limit of successful attempts.
func ExampleWithObserver() {
	service, err := sandboxfake.Start(sandboxfake.WithRateLimit(3600))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	client := service.Client(idverify.WithObserver(func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
		return ctx, func(a idverify.Attempt) {
			if a.Err == nil && a.RateLimit != nil {
				logger.InfoContext(ctx, "attempt", "operation", a.Operation, "request_id", a.RequestID, "remaining", a.RateLimit.Remaining)
			}
		}
	}))

	if _, err := client.Reachability.Country(context.Background(), "GB"); err != nil {
		fmt.Println(err)
		return
	}
	// Output: level=INFO msg=attempt operation=reachability.country request_id=6ed78a84-220f-876f-9e1b-6d4487e395dc remaining=3599
}

// withoutTime removes the time of a record, so that the output of the example does not change.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
