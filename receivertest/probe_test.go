package receivertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/receivertest"
)

func TestHTTPProbe_Requests(t *testing.T) {
	t.Parallel()
	var requests []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.RawQuery)
		switch {
		case r.Method == http.MethodGet:
			io.WriteString(w, "3\n")
		case r.URL.Query().Has("session"):
			io.WriteString(w, `{"check_id":"c2","header":{"cookie":"session=1"}}`)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(srv.Close)
	p := receivertest.HTTPProbe(srv.URL+"/probe?key=1", srv.Client())

	created := p.Created(t.Context(), receivertest.Check{CheckID: "c1", Product: "phone_check"})
	effects, effectsErr := p.Effects(t.Context(), "c1")
	slow := p.SlowStore(t.Context(), true)
	ok := p.SlowStore(t.Context(), false)
	session, sessionErr := p.Session(t.Context())

	noError(t, errors.Join(created, effectsErr, slow, ok, sessionErr))
	if effects != 3 || session.CheckID != "c2" || session.Header.Get("Cookie") != "session=1" {
		t.Errorf("effects = %d, session = %v, want 3 and that of c2", effects, session)
	}
	want := []string{"PUT check_id=c1&key=1&product=phone_check", "GET check_id=c1&key=1", "POST key=1&store=slow", "POST key=1&store=ok", "POST key=1&session="}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestHTTPProbe_Errors(t *testing.T) {
	t.Parallel()
	for status, unsupported := range map[int]bool{404: true, 405: true, 501: true, 500: false, 302: false, 200: false} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, "many")
		}))
		p := receivertest.HTTPProbe(srv.URL, srv.Client())

		_, err := p.Effects(t.Context(), "c1")

		srv.Close()
		if err == nil || errors.Is(err, errors.ErrUnsupported) != unsupported || strings.Contains(err.Error(), srv.Listener.Addr().String()) || !strings.HasPrefix(err.Error(), "GET with check_id: ") {
			t.Errorf("status %d: error = %v, want ErrUnsupported: %t", status, err, unsupported)
		}
	}

	_, err := receivertest.HTTPProbe(unusedURL, nil).Effects(t.Context(), "c1")

	if err == nil || strings.Contains(err.Error(), "127.0.0.1") || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error = %v, want one without the address", err)
	}
}

// unusedURL rejects connections. Another test could listen on a port that was free a moment ago.
const unusedURL = "http://127.0.0.1:9"

// TestExamine_SessionHeader examines with sessions whose headers are invalid or override a part of
// the message. They must not become a part of a command.
func TestExamine_SessionHeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`X"; touch pwned; : "`, "X\ntouch pwned\n", "$(touch pwned)", "host", "Authorization", "Date", "Digest", ""} {
		session := func(context.Context) (receivertest.Session, error) {
			return receivertest.Session{CheckID: "00000000-0000-4000-8000-000000000000", Header: http.Header{name: {"v"}}}, nil
		}

		report, err := receivertest.Examine(t.Context(), receivertest.Receiver{
			Keys: newKeys(t), Kind: receivertest.KindRedirect, URL: "https://api.example.com/hook",
			Handler: respond(http.StatusNoContent),
			Probe:   receivertest.Probe{Session: session}, Only: []string{"redirect/no-*"},
		})

		if err == nil || !strings.Contains(err.Error(), "probe Session: Header ") || strings.Contains(err.Error(), "pwned") {
			t.Errorf("%q: error = %v, want one about the header", name, err)
		}
		if n := len(report.Findings); n != 0 {
			t.Errorf("%q: %d findings, want none", name, n)
		}
	}
}

func TestExamine_ProbeFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("database is gone")
	for part, row := range map[string]struct {
		rule     string
		probe    receivertest.Probe
		findings int // before the error
	}{
		"Created":   {"callback/other-product", receivertest.Probe{Created: func(context.Context, receivertest.Check) error { return broken }}, 0},
		"Effects":   {"callback/effect", receivertest.Probe{Effects: func(context.Context, string) (int, error) { return 0, broken }}, 1},
		"SlowStore": {"callback/slow-store", receivertest.Probe{SlowStore: func(context.Context, bool) error { return broken }}, 1},
	} {
		r := handmadeReceiver(t, "")
		r.Probe, r.Only = row.probe, []string{row.rule}

		report, err := receivertest.Examine(t.Context(), r)

		if want := "receivertest: examine: probe " + part + ": database is gone"; fmt.Sprint(err) != want || !errors.Is(err, broken) {
			t.Errorf("error = %v, want %q", err, want)
		}
		if len(report.Findings) != row.findings {
			t.Errorf("%s: %d findings, want %d before the error", part, len(report.Findings), row.findings)
		}
	}
}
