package receivertest_test

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
)

// TestExamine_MissingParts examines a receiver whose probe has none of the parts.
func TestExamine_MissingParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handmadeReceiver(t, "")
		r.Probe = receivertest.HTTPProbe(strings.Replace(r.Keys.URL(), receivertest.KeySetPath, "/probe", 1), r.Keys.Client())

		report := examine(t, r)

		if got := failures(report); got != "" {
			t.Errorf("failed rules = %q, want none", got)
		}
		wantFinding(t, report, "callback/effect", receivertest.ResultNotApplicable, "")
	})
}

func TestReceiver_HidesHeader(t *testing.T) {
	t.Parallel()
	header := http.Header{"Cookie": {"s3cret"}}
	for _, value := range []any{receivertest.Receiver{URL: callbackURL, Header: header}, receivertest.Session{CheckID: "check-1", Header: header}} {
		if notations := tooltest.Notations(value, "s3cret"); len(notations) > 0 {
			t.Errorf("%T: the cookie is printed by %q", value, notations)
		}
	}
}

func TestExamine_InvalidReceiver(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	valid := receivertest.Receiver{Keys: keys, URL: callbackURL, Handler: http.NotFoundHandler()}
	tests := []struct {
		change func(*receivertest.Receiver)
		want   string
	}{
		{func(r *receivertest.Receiver) { r.Keys = nil }, "Keys is nil"},
		{func(r *receivertest.Receiver) { r.Kind = "other" }, "Kind must be"},
		{func(r *receivertest.Receiver) { r.Keys = new(receivertest.Keys) }, "Keys is the zero value (use NewKeys)"},
		{func(r *receivertest.Receiver) { r.Kind, r.Base64Digest = receivertest.KindRedirect, true }, "Base64Digest and CallbackHeader are for callbacks"},
		{func(r *receivertest.Receiver) { r.Kind, r.CallbackHeader = receivertest.KindRedirect, "X-Acme" }, "Base64Digest and CallbackHeader are for callbacks"},
		{func(r *receivertest.Receiver) { r.Handler, r.Addr = http.NotFoundHandler(), "127.0.0.1:80" }, "Addr and TLSConfig have no effect on a Handler"},
		{func(r *receivertest.Receiver) { r.Handler, r.TLSConfig = http.NotFoundHandler(), new(tls.Config) }, "Addr and TLSConfig have no effect on a Handler"},
		{func(r *receivertest.Receiver) { r.URL = "/callbacks" }, "URL must be an absolute"},
		{func(r *receivertest.Receiver) { r.URL = "ftp://api.example.com/" }, "URL must be an absolute"},
		{func(r *receivertest.Receiver) { r.URL = "https://user:secret@api.example.com/" }, "must not contain a user"},
		{func(r *receivertest.Receiver) { r.Handler, r.Addr = nil, "ftp://127.0.0.1:21" }, "scheme of Addr"},
		{func(r *receivertest.Receiver) { r.Handler, r.Addr = nil, "127.0.0.1:80/path" }, "Addr must be a host and a port"},
		{func(r *receivertest.Receiver) { r.Header = http.Header{"Date": {"today"}} }, "must not contain Date"},
		{func(r *receivertest.Receiver) { r.Header = http.Header{"A b": {"c"}} }, "invalid name"},
		{func(r *receivertest.Receiver) { r.Header = http.Header{"Cookie": {"a\r\nB: c"}} }, "control characters"},
		{func(r *receivertest.Receiver) { r.Only = []string{"callback/none"} }, "matches no rule"},
		{func(r *receivertest.Receiver) { r.Only = []string{"["} }, "malformed pattern"},
	}
	for _, test := range tests {
		r := valid
		test.change(&r)

		_, err := receivertest.Examine(t.Context(), r)

		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error = %v, want %q", err, test.want)
		}
	}
}
