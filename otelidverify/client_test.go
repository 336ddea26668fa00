package otelidverify_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
)

var number = idverify.PhoneCheckParams{PhoneNumber: "447700900012"}

// fastRetries is a retry policy without noticeable delays.
func fastRetries() idverify.Option {
	return idverify.WithRetry(idverify.RetryPolicy{MinWait: time.Millisecond, MaxWait: time.Millisecond})
}

// observed returns a service and an observed client of it.
func observed(t testing.TB, r *telemetry, opts ...idverify.Option) (*sandboxfake.Server, *idverify.Client) {
	t.Helper()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	return srv, srv.Client(append(opts, otelidverify.ClientOption(r.providers()...))...)
}

func TestClientOption_SpansOfCall(t *testing.T) {
	t.Parallel()
	attempt := []string{
		"HTTP < idverify token.create: Unset",
		"idverify token.create < idverify phone_check.create: Unset http.response.status_code=200",
		"HTTP < idverify phone_check.create: Unset",
	}
	end := []string{"idverify phone_check.create < caller: Unset http.response.status_code=201", "caller < : Unset"}
	for name, tt := range map[string]struct {
		faults []sandboxfake.Fault
		spans  []string
		tokens int
	}{
		"success":       {nil, slices.Concat(attempt, end), 1},
		"expired token": {[]sandboxfake.Fault{{Status: http.StatusUnauthorized}}, slices.Concat(attempt, attempt, end), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTelemetry()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			httpClient := srv.HTTPClient()
			httpClient.Transport = tracingTransport{httpClient.Transport, r.tracers.Tracer("test")}
			client := srv.Client(idverify.WithHTTPClient(httpClient), otelidverify.ClientOption(r.providers()...))
			srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, tt.faults...)

			ctx, caller := r.caller(t.Context())
			_, err := client.PhoneChecks.Create(ctx, number)
			caller.End()

			noError(t, err)
			r.wantSpans(t, tt.spans)
			for _, s := range r.recorder.Ended()[:len(tt.spans)-1] {
				if s.SpanKind() != trace.SpanKindClient {
					t.Errorf("kind of %s = %v, want client", s.Name(), s.SpanKind())
				}
			}
			r.wantSeries(t, []string{
				fmt.Sprint("idverify.client.attempt.duration{http.response.status_code=200,idverify.operation=token.create,idverify.retry=false} ", tt.tokens),
				"idverify.client.attempt.duration{http.response.status_code=201,idverify.operation=phone_check.create,idverify.retry=false} 1",
			})
		})
	}
}

// tracingTransport creates a span for each HTTP request, as otelhttp does.
type tracingTransport struct {
	next   http.RoundTripper
	tracer trace.Tracer
}

func (t tracingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := t.tracer.Start(r.Context(), "HTTP", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	return t.next.RoundTrip(r.WithContext(ctx))
}

func TestClientOption_Retries(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv, client := observed(t, r, fastRetries())
	unavailable := sandboxfake.Fault{Status: http.StatusServiceUnavailable}
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, unavailable, unavailable)

	must(client.PhoneChecks.List(t.Context(), idverify.ListOptions{}))(t)
	r.wantSpans(t, []string{
		"idverify token.create < idverify phone_check.list: Unset http.response.status_code=200",
		"idverify phone_check.list < : Error error.type=503 http.response.status_code=503 idverify.retry=true",
		"idverify phone_check.list < : Error error.type=503 http.request.resend_count=1 http.response.status_code=503 idverify.retry=true",
		"idverify phone_check.list < : Unset http.request.resend_count=2 http.response.status_code=200",
	})
	r.wantSeries(t, []string{
		"idverify.client.attempt.duration{error.type=503,http.response.status_code=503,idverify.operation=phone_check.list,idverify.retry=true} 2",
		"idverify.client.attempt.duration{http.response.status_code=200,idverify.operation=phone_check.list,idverify.retry=false} 1",
		"idverify.client.attempt.duration{http.response.status_code=200,idverify.operation=token.create,idverify.retry=false} 1",
		"idverify.client.retry.wait{error.type=503,idverify.operation=phone_check.list} 2",
	})
	for _, s := range r.recorder.Ended()[1:3] {
		if got, want := s.Status().Description, "idverify: list PhoneChecks: 503"; len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("description = %q, want the error of the attempt", got)
		}
	}
}

// TestClientOption_Durations compares the sums of the histograms with the attempts that another
// observer receives.
func TestClientOption_Durations(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	var mu sync.Mutex // guards want: two attempts may end at the same time
	want := make(map[string]float64)
	srv, client := observed(t, r, fastRetries(), idverify.WithObserver(
		func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
			return ctx, func(a idverify.Attempt) {
				mu.Lock()
				defer mu.Unlock()
				want["idverify.client.attempt.duration"] += a.Duration.Seconds()
				if a.Retry {
					want["idverify.client.retry.wait"] += a.Wait.Seconds()
				}
			}
		}))
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

	must(client.PhoneChecks.List(t.Context(), idverify.ListOptions{}))(t)
	got := r.sums(t)
	if len(got) != len(want) {
		t.Errorf("sums = %v, want %v", got, want)
	}
	for name, sum := range want {
		if sum <= 0 || math.Abs(got[name]-sum) > 1e-9 {
			t.Errorf("sum of %s = %v s, want %v s", name, got[name], sum)
		}
	}
}

func TestClientOption_TokenFailure(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	credentials := srv.Credentials()
	credentials.ClientSecret = idverify.NewSecret("wrong-secret-of-the-test")
	client := must(idverify.NewClient(srv.URL(), credentials, idverify.WithHTTPClient(srv.HTTPClient()), otelidverify.ClientOption(r.providers()...)))(t)

	_, err := client.PhoneChecks.Create(t.Context(), number)

	if err == nil {
		t.Fatal("error = nil, want invalid_client")
	}
	r.wantSpans(t, []string{
		"idverify token.create < idverify phone_check.create: Error error.type=invalid_client http.response.status_code=401",
		"idverify phone_check.create < : Error error.type=invalid_client",
	})
	r.wantSeries(t, []string{
		"idverify.client.attempt.duration{error.type=invalid_client,http.response.status_code=401,idverify.operation=token.create,idverify.retry=false} 1",
		"idverify.client.attempt.duration{error.type=invalid_client,idverify.operation=phone_check.create,idverify.retry=false} 1",
	})
}

func TestClientOption_OutcomeUnknown(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv, client := observed(t, r)
	srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Drop: true})

	_, err := client.PhoneChecks.Create(t.Context(), number)

	if err == nil {
		t.Fatal("error = nil, want an unknown outcome")
	}
	r.wantSpan(t, 1, "idverify phone_check.create < : Error error.type=no_response idverify.outcome_unknown=true")
	r.wantMetric(t, "idverify.client.attempt.duration{error.type=no_response,idverify.operation=phone_check.create,idverify.outcome_unknown=true,idverify.retry=false} 1")
}

func TestClientOption_Canceled(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	ctx, cancel := context.WithCancel(t.Context())
	httpClient := srv.HTTPClient()
	next := httpClient.Transport
	httpClient.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodGet {
			cancel()
		}
		return next.RoundTrip(req)
	})
	client := srv.Client(idverify.WithHTTPClient(httpClient), otelidverify.ClientOption(r.providers()...))

	_, err := client.PhoneChecks.List(ctx, idverify.ListOptions{})

	if err == nil {
		t.Fatal("error = nil, want context.Canceled")
	}
	r.wantSpan(t, 1, "idverify phone_check.list < : Error error.type=canceled")
	// The metrics are recorded although the context is canceled.
	r.wantMetric(t, "idverify.client.attempt.duration{error.type=canceled,idverify.operation=phone_check.list,idverify.retry=false} 1")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestClientOption_RateLimit(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(10))
	client := srv.Client(otelidverify.ClientOption(r.providers()...))

	for range 3 {
		must(client.PhoneChecks.List(t.Context(), idverify.ListOptions{}))(t)
	}

	want := []string{"idverify.client.rate_limit.limit{} 10", "idverify.client.rate_limit.remaining{} 7"}
	wantEqual(t, want, r.series(t)[2:], "metrics")
}

func TestClientOption_RequestID(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv, client := observed(t, r)

	must(client.PhoneChecks.Create(t.Context(), number))(t)

	for i, request := range srv.Requests() {
		got := ""
		for _, a := range r.recorder.Ended()[i].Attributes() {
			if a.Key == "idverify.request_id" {
				got = a.Value.AsString()
			}
		}
		if got != request.ID {
			t.Errorf("request ID of %s = %q, want %q", request.Operation, got, request.ID)
		}
	}
}

// TestClientOption_BackgroundRenewal renews a token while the attempt that started the renewal
// ends.
func TestClientOption_BackgroundRenewal(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	r.recorder.unordered = true
	ended := make(spanNames, 10)
	r.tracers.RegisterSpanProcessor(ended)
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)))
	httpClient := srv.HTTPClient()
	next, renew, tokens := httpClient.Transport, make(chan struct{}), 0
	httpClient.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/oauth2/v1/token" {
			if tokens++; tokens == 2 {
				<-renew
			}
		}
		return next.RoundTrip(req)
	})
	client := srv.Client(idverify.WithHTTPClient(httpClient), otelidverify.ClientOption(r.providers()...))
	token := must(client.Token(t.Context(), idverify.ScopePhoneCheck))(t)
	first := <-ended // Token may return before the span of its request ends
	noError(t, srv.Advance(t.Context(), token.Expiry.Sub(srv.Now())-time.Second))

	_, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})
	close(renew)

	noError(t, err)
	got := []string{first, <-ended, <-ended}
	want := []string{"idverify token.create", "idverify phone_check.list", "idverify token.create"}
	wantEqual(t, want, got, "ends of spans")
	r.wantSpan(t, 2, "idverify token.create < idverify phone_check.list: Unset http.response.status_code=200")
}

// spanNames is a span processor that sends the names of ended spans.
type spanNames chan string

func (spanNames) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (c spanNames) OnEnd(s sdktrace.ReadOnlySpan)                 { c <- s.Name() }
func (spanNames) Shutdown(context.Context) error                  { return nil }
func (spanNames) ForceFlush(context.Context) error                { return nil }
