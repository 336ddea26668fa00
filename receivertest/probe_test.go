package receivertest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
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

	created := p.Created(t.Context(), receivertest.Check{ID: "c1", Product: "phone_check"})
	effects, effectsErr := p.Effects(t.Context(), "c1")
	slow := p.SlowStore(t.Context(), true)
	ok := p.SlowStore(t.Context(), false)
	session, sessionErr := p.Session(t.Context())

	if err := errors.Join(created, effectsErr, slow, ok, sessionErr); err != nil {
		t.Fatal(err)
	}
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

// TestExamine_MissingParts examines a receiver whose probe has none of the parts.
func TestExamine_MissingParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handmadeReceiver(t, "")
		r.Probe = receivertest.HTTPProbe(strings.Replace(r.Keys.URL(), receivertest.KeySetPath, "/probe", 1), r.Keys.Client())

		report := examine(t, r)

		for _, f := range report.Findings {
			if f.Result == receivertest.Fail {
				t.Errorf("%s: %s", f.Rule, f.Detail)
			}
		}
		if f := finding(t, report, "callback/effect"); f.Result != receivertest.NotApplicable {
			t.Errorf("effect: %s, want not applicable", f.Result)
		}
	})
}
