package proxytest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
)

// maxAttempts is the default of RetryPolicy.MaxAttempts. maxWrites limits how often one attempt
// writes an idempotent request.
const (
	maxAttempts = 4
	maxWrites   = 2
)

// resends is how often a proxy sends an idempotent request that it received once. After a failure
// on a kept-alive connection, it sends the request again on another one.
var resends = map[string]int{"nginx": 2, "haproxy": 1, "caddy": 2}

// operation is a call of the client.
type operation struct {
	name   string
	method string
	once   bool // whether it must reach the backend at most once
	run    func(context.Context, *idverify.Client, *idverify.Console) (result string, err error)
	want   string // the result
}

var operations = []operation{
	{"create", http.MethodPost, true, func(ctx context.Context, c *idverify.Client, _ *idverify.Console) (string, error) {
		return checkResult(c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: phoneNumber}))
	}, checkID + " ACCEPTED"},
	{"complete", http.MethodPatch, true, func(ctx context.Context, c *idverify.Client, _ *idverify.Console) (string, error) {
		return checkResult(c.PhoneChecks.Complete(ctx, checkID, "synthetic-code"))
	}, checkID + " COMPLETED"},
	{"get", http.MethodGet, false, func(ctx context.Context, c *idverify.Client, _ *idverify.Console) (string, error) {
		return checkResult(c.PhoneChecks.Get(ctx, checkID))
	}, checkID + " COMPLETED"},
	{"delete", http.MethodDelete, false, func(ctx context.Context, _ *idverify.Client, c *idverify.Console) (string, error) {
		return "", c.ProjectCredentials.Delete(ctx, projectID, clientID)
	}, ""},
	{"token", http.MethodPost, false, func(ctx context.Context, c *idverify.Client, _ *idverify.Console) (string, error) {
		token, err := c.Token(ctx, idverify.ScopeReachability)
		if err != nil {
			return "", err
		}
		return token.AccessToken, nil
	}, "synthetic-access-token"},
}

func checkResult(c *idverify.PhoneCheck, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return c.CheckID + " " + string(c.Status), nil
}

// TestClient_BehindProxy runs each operation behind each proxy and counts the complete requests
// that reach the backend. The service would charge for each create.
func TestClient_BehindProxy(t *testing.T) {
	t.Parallel()
	for name, resends := range resends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows []clientRow
			var routes []route
			for _, b := range behaviors {
				for _, protocol := range protocols {
					for _, op := range operations {
						row := clientRow{protocol: protocol, op: op, backend: startBackend(t, b), resends: resends}
						row.host = fmt.Sprintf("row%d.example.com", len(rows))
						rows = append(rows, row)
						routes = append(routes, route{Host: row.host, Backend: row.backend.listener.Addr().String()})
					}
				}
			}
			running := startProxy(t, name, routes...)

			for _, row := range rows {
				t.Run(row.backend.behavior.name+"/"+row.protocol+"/"+row.op.name, func(t *testing.T) {
					t.Parallel()
					row.test(t, running)
				})
			}
		})
	}
}

// clientRow is a test of one operation over one protocol with its own backend.
type clientRow struct {
	protocol string
	op       operation
	backend  *backend
	host     string
	resends  int
}

func (row clientRow) test(t *testing.T, p *proxy) {
	client, console := p.clients(t, row.host, row.protocol, !row.op.once)
	warmUp(t, client, console)
	row.backend.arm()

	result, err := row.op.run(t.Context(), client, console)

	requests := row.backend.received(row.op.method)
	t.Logf("%d complete requests reached the backend; result %q, error %v", len(requests), result, err)
	limit := maxAttempts * maxWrites * row.resends
	if row.op.once {
		limit = 1
	}
	if len(requests) > limit {
		t.Errorf("%d complete requests reached the backend, want at most %d: %q", len(requests), limit, requests)
	}
	switch b := row.backend.behavior; {
	case err == nil && (!b.valid || result != row.op.want):
		t.Errorf("result = %q without an error, but the backend %s", result, b.name)
	case err == nil && len(requests) == 0:
		t.Errorf("result = %q without an error, but no request reached the backend", result)
	case err != nil && b.valid && !b.idle:
		t.Errorf("error = %v, want none: the backend responds", err)
	case err != nil && row.op.once && len(requests) > 0 && !errors.Is(err, idverify.ErrOutcomeUnknown):
		t.Errorf("error = %v, want ErrOutcomeUnknown: a request reached the backend", err)
	}
}

// TestClient_SurvivesProxyRestart sends requests after the proxy has closed all connections of the
// client. Nothing was written to them, so each request must succeed.
func TestClient_SurvivesProxyRestart(t *testing.T) {
	t.Parallel()
	for name := range resends {
		for _, protocol := range protocols {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				const host = "service.example.com"
				backend := startBackend(t, behavior{act: respond})
				p := startProxy(t, name, route{Host: host, Backend: backend.listener.Addr().String()})
				client, console := p.clients(t, host, protocol, false)
				warmUp(t, client, console)

				for _, op := range operations {
					p.restart(t)
					backend.arm()

					result, err := op.run(t.Context(), client, console)

					if requests := backend.received(op.method); err != nil || result != op.want || len(requests) != 1 {
						t.Errorf("%s: result %q, error %v, requests %q; want %q and one request", op.name, result, err, requests, op.want)
					}
				}
			})
		}
	}
}

// clients returns a client and a console that reach host through the proxy. If quick is true, they
// retry almost without waiting.
func (p *proxy) clients(t *testing.T, host, protocol string, quick bool) (*idverify.Client, *idverify.Console) {
	t.Helper()
	options := []idverify.Option{
		idverify.WithHTTPClient(&http.Client{Transport: p.transport(t, protocol), Timeout: 30 * time.Second}),
		idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}),
	}
	if quick {
		options = append(options, idverify.WithRetry(idverify.RetryPolicy{MinWait: time.Millisecond, MaxWait: 10 * time.Millisecond}))
	}
	credentials := idverify.Credentials{ClientID: "synthetic-client", ClientSecret: idverify.NewSecret("synthetic-secret")}
	client := must(idverify.NewClient("https://"+host, credentials, options...))(t)
	console := must(idverify.NewConsole("https://"+host, credentials, options...))(t)
	return client, console
}

// warmUp makes successful calls, so that client and console have tokens, and connections are open
// on both sides of the proxy.
func warmUp(t *testing.T, client *idverify.Client, console *idverify.Console) {
	t.Helper()
	if _, err := client.PhoneChecks.Get(t.Context(), checkID); err != nil {
		t.Fatalf("call before the fault: %v", err)
	}
	if _, err := console.ProjectCredentials.Get(t.Context(), projectID, clientID); err != nil {
		t.Fatalf("call before the fault: %v", err)
	}
}
