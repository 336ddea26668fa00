package inspector_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestInspector_SavesTimeline(t *testing.T) {
	t.Parallel()
	srv := newServer(t, "")
	target := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	const number, secret = "447700900012", "s3cr3t-1234-abcd"
	check, code := completeCheck(t, srv, target, number, secret)
	const path = "/_sandbox/page/private/timeline.html?check_id="
	token := http.Header{"Authorization": {"Bearer " + srv.ControlToken()}}

	got := fetch(t, srv, http.MethodGet, path+check.CheckID, token)

	want := fmt.Sprintf(`attachment; filename="timeline-%s.html"`, check.CheckID[:8])
	if got.status != http.StatusOK || got.header.Get("Content-Disposition") != want || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d, Content-Disposition %q, Cache-Control %q, want 200, %q, no-store", got.status, got.header.Get("Content-Disposition"), got.header.Get("Cache-Control"), want)
	}
	if policy := got.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "script-src") {
		t.Errorf("Content-Security-Policy = %q, want one without scripts", policy)
	}
	rest := got.body
	for _, shown := range []string{
		"<h1>PhoneCheck " + check.CheckID[:8] + "</h1>", "…12", "<b>created</b>", "<b>opened</b>", "<b>redirected</b>", "to https://shop.sandbox.test/back?", "<b>exchanged</b>", "<b>completed</b>", "match",
		"<b>callback attempt 1</b> <span class=\"result\">–</span>", "injected fault", "<b>callback attempt 1</b> <span class=\"result\">503</span>", "<b>callback attempt 2</b>",
	} {
		_, after, ok := strings.Cut(rest, shown)
		if !ok {
			t.Errorf("the page does not contain %q in this order:\n%s", shown, got.body)
			continue
		}
		rest = after
	}
	for name, hidden := range map[string]string{"number": number, "secret": secret, "code": code, "signature": `signature=`, "control token": srv.ControlToken()} {
		if strings.Contains(got.body, hidden) {
			t.Errorf("the page contains the %s:\n%s", name, got.body)
		}
	}
	for query, status := range map[string]int{"": 400, "none": 404, url.QueryEscape(check.CheckID + "&limit=0"): 404} {
		if got := fetch(t, srv, http.MethodGet, path+query, token); got.status != status || got.header.Get("Content-Disposition") != "" {
			t.Errorf("check %q: %d, want %d without a file", query, got.status, status)
		}
	}
	if got := fetch(t, srv, http.MethodGet, path+check.CheckID, browser); got.status != http.StatusUnauthorized {
		t.Errorf("without the token: %d, want 401", got.status)
	}
}

// completeCheck completes a check, whose callback is lost at first and sent twice, and returns it
// with its code.
func completeCheck(t *testing.T, srv *sandboxfake.Server, target, number, secret string) (check *idverify.PhoneCheck, code string) {
	t.Helper()
	client := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Drop: true})
	check = must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{
		PhoneNumber: number, ReferenceID: secret, RedirectURL: target + "/back?state=" + secret, CallbackURL: target + "/callbacks?token=" + secret,
	}))(t)
	visit := must(srv.Device().Open(t.Context(), check.CheckURL))(t)
	code = visit.URL.Query().Get("code")
	must(client.PhoneChecks.Complete(t.Context(), check.CheckID, code))(t)
	noError(t, srv.WaitIdle(t.Context()))
	noError(t, srv.Redeliver(t.Context(), srv.Deliveries()[0].ID))
	noError(t, srv.WaitIdle(t.Context()))
	return check, code
}
