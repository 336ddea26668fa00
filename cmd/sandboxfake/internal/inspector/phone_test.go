package inspector_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// errorCodes are the error codes of checks.
var errorCodes = []string{
	"not_mobile_ip", "mno_not_supported", "mno_timeout", "mno_user_not_found", "mno_response_error",
	"mno_server_error", "mno_no_data_available", "ip_mismatch", "ip_msisdn_mismatch",
}

var frozenAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestPhonePage_Choices(t *testing.T) {
	t.Parallel()
	type row struct {
		as, number         string // the number alone would have another result
		callback, redirect string
		title              string // of the page without a redirect
	}
	rows := []row{
		{"phone", "447700900013", "COMPLETED match=yes error=", "match=yes", "The check ended with a match"},
		{"other_sim", "447700900012", "COMPLETED match=no error=", "match=no", "The check ended with no match"},
		{"offline", "447700900012", "EXPIRED match=unknown error=", "", "Check expired"},
	}
	for _, code := range errorCodes {
		rows = append(rows, row{code, "447700900012", "ERROR match=unknown error=" + code, "error=" + code, "The check ended with the error " + code})
	}
	for _, row := range rows {
		for _, product := range []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSubscriberCheck} {
			for _, version := range []string{"v0.1", "v0.2"} {
				t.Run(fmt.Sprintf("%s %s %s", product, version, row.as), func(t *testing.T) {
					t.Parallel()
					s := newShop(t, newServer(t, ""), version)
					path := s.create(product, row.number)

					form := s.get(path)
					before, _ := s.results()
					opened := s.choose(path, row.as)
					callbacks, redirects := s.results()
					again := s.choose(path, row.as)

					if form.status != 200 || len(before) != 0 || strings.Count(form.body, "<button") != len(rows) {
						t.Errorf("form: %d, callbacks %q\n%s\nwant %d choices, and an open check", form.status, before, form.body, len(rows))
					}
					if diff := cmp.Diff([]string{string(product) + " " + row.callback}, callbacks); diff != "" {
						t.Errorf("verified callbacks (-want +got):\n%s", diff)
					}
					var wantRedirects []string
					wantPage := ">" + row.title + "<"
					if version == "v0.2" && row.as != "offline" {
						wantRedirects, wantPage = []string{row.redirect}, "the shop's page"
					}
					if diff := cmp.Diff(wantRedirects, redirects); diff != "" {
						t.Errorf("verified redirects (-want +got):\n%s", diff)
					}
					if opened.status != 200 || !strings.Contains(opened.body, wantPage) {
						t.Errorf("page after the choice: %d\n%s\nwant %q", opened.status, opened.body, wantPage)
					}
					if again.status != http.StatusGone {
						t.Errorf("second choice: %d, want 410", again.status)
					}
					if more, _ := s.results(); len(more) != 1 {
						t.Errorf("callbacks after a second choice = %q, want one", more)
					}
				})
			}
		}
	}
}

func TestPhonePage_WithoutURLs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ version, as, want string }{
		{"v0.1", "phone", "The backend reads the result"},
		{"v0.1", "not_mobile_ip", "does not store checks with this result"},
		{"v0.2", "mno_timeout", "does not store checks with this result"},
		{"v0.2", "offline", "does not store checks with this result"},
		{"v0.2", "other_sim", "The backend exchanges the code"},
	} {
		t.Run(row.version+" "+row.as, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, newServer(t, ""), row.version)
			s.withoutURLs = true

			path := s.create(idverify.ProductPhoneCheck, "447700900012")

			got := s.choose(path, row.as)

			if got.status != 200 || !strings.Contains(got.body, row.want) {
				t.Errorf("page: %d\n%s\nwant %q", got.status, got.body, row.want)
			}
			if strings.Contains(got.body, "&#34;") {
				t.Errorf("page contains JSON, which a person does not read:\n%s", got.body)
			}
			if row.as != "other_sim" {
				return
			}
			code := regexp.MustCompile(`for the result: ([^<]+)<`).FindStringSubmatch(got.body)
			if code == nil {
				t.Fatalf("page without a code:\n%s", got.body)
			}
			check := must(s.client.PhoneChecks.Complete(t.Context(), path[strings.LastIndex(path, "/")+1:], code[1]))(t)
			if check.Match != idverify.VerdictNo {
				t.Errorf("match = %v, want no", check.Match)
			}
		})
	}
}

// Messengers and browsers request links in advance.
func TestPhonePage_OpensOnlyByForm(t *testing.T) {
	t.Parallel()
	s := newShop(t, newServer(t, ""), "v0.2")
	path := s.create(idverify.ProductPhoneCheck, "447700900012")
	form := "as=phone"
	typed := func(header http.Header) http.Header {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		return header
	}

	for name, row := range map[string]struct {
		method, path, body string
		header             http.Header
		want               int
	}{
		"GET":                     {"GET", path, "", nil, 200},
		"GET with a choice":       {"GET", path + "?as=phone", "", nil, 200},
		"HEAD":                    {"HEAD", path, "", nil, 200},
		"choice in the query":     {"POST", path + "?as=phone", "", typed(http.Header{}), 400},
		"no choice":               {"POST", path, "", typed(http.Header{}), 400},
		"two choices":             {"POST", path, "as=phone&as=offline", typed(http.Header{}), 400},
		"empty choice":            {"POST", path, "as=", typed(http.Header{}), 400},
		"unknown choice":          {"POST", path, "as=wifi", typed(http.Header{}), 400},
		"malformed form":          {"POST", path, "as=%zz", typed(http.Header{}), 400},
		"large form":              {"POST", path, form + "&x=" + strings.Repeat("x", 1<<20), typed(http.Header{}), 413},
		"JSON":                    {"POST", path, `{"as":"phone"}`, http.Header{"Content-Type": {"application/json"}}, 415},
		"no media type":           {"POST", path, form, nil, 415},
		"page of another origin":  {"POST", path, form, typed(http.Header{"Sec-Fetch-Site": {"cross-site"}}), 403},
		"page of a sibling":       {"POST", path, form, typed(http.Header{"Sec-Fetch-Site": {"same-site"}}), 403},
		"old browser, other page": {"POST", path, form, typed(http.Header{"Origin": {"https://evil.sandbox.test"}}), 403},
		"old browser, no origin":  {"POST", path, form, typed(http.Header{"Origin": {"null"}}), 403},
		"PUT":                     {"PUT", path, form, typed(http.Header{}), 405},
	} {
		if got := s.browse(row.method, row.path, row.body, row.header); got.status != row.want {
			t.Errorf("%s: %d, want %d", name, got.status, row.want)
		}
	}

	if callbacks, redirects := s.results(); len(callbacks)+len(redirects) != 0 {
		t.Errorf("callbacks %q, redirects %q, want none", callbacks, redirects)
	}
	if got := s.choose(path, "phone"); got.body != "the shop's page" {
		t.Errorf("the check cannot be opened afterwards: %d %s", got.status, got.body)
	}
}

func TestPhonePage_Contents(t *testing.T) {
	t.Parallel()
	s := newShop(t, newServer(t, "", sandboxfake.WithFrozenClock(frozenAt)), "v0.2")
	path := s.create(idverify.ProductSubscriberCheck, "447700900012")
	noError(t, s.srv.Advance(t.Context(), 5e9))

	got := s.get(path)

	for _, want := range []string{"SubscriberCheck", "••••0012", "Ada &amp; &lt;b&gt;Sons&lt;/b&gt;", "1 min 55 s"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("page does not contain %q:\n%s", want, got.body)
		}
	}
	for _, secret := range []string{"44770090", s.srv.ControlToken(), s.url, "<script"} {
		if strings.Contains(got.body, secret) {
			t.Errorf("page contains %q", secret)
		}
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "unsafe-none",
	} {
		if value := got.header.Get(name); value != want {
			t.Errorf("%s = %q, want %q", name, value, want)
		}
	}
	csp := got.header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "form-action") {
		t.Errorf("Content-Security-Policy = %q, want no restriction of the redirect after the form", csp)
	}
}

func TestPhonePage_NotOpen(t *testing.T) {
	t.Parallel()
	s := newShop(t, newServer(t, ""), "v0.1")
	expired, opened := s.create(idverify.ProductPhoneCheck, "447700900012"), s.create(idverify.ProductPhoneCheck, "447700900012")
	s.srv.Expire(strings.TrimPrefix(expired, "/_sandbox/open/"))
	if got := s.get(strings.Replace(opened, "_sandbox/open", "phone_check/v0.1/checks", 1) + "/redirect"); got.status != 200 {
		t.Fatalf("Check URL: %d", got.status)
	}
	simCheck := must(s.client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900012"}))(t)

	for _, row := range []struct {
		path string
		want int
		text string
	}{
		{expired, 410, "Check expired"},
		{opened, 410, "Already opened"},
		{"/_sandbox/open/" + simCheck.CheckID, 404, "Check not found"},
		{"/_sandbox/open/00000000-0000-4000-8000-000000000000", 404, "Check not found"},
		{"/_sandbox/open/x&check_id=" + strings.TrimPrefix(opened, "/_sandbox/open/"), 404, "Check not found"},
		{"/_sandbox/open/" + strings.Repeat("x", 4000), 404, "Check not found"},
	} {
		if got := s.get(row.path); got.status != row.want || !strings.Contains(got.body, row.text) || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("GET %.80s: %d %s, want %d %q", row.path, got.status, got.body, row.want, row.text)
		}
		if got := s.choose(row.path, "phone"); got.status != row.want || !strings.Contains(got.body, row.text) {
			t.Errorf("POST %.80s: %d %s, want %d %q", row.path, got.status, got.body, row.want, row.text)
		}
	}
	// The control plane handles paths with escapes, and requires its token.
	for _, path := range []string{"/_sandbox/open/%3Cscript%3E", "/_sandbox/open/..%2fstate", "/_sandbox/open/a%2fb", "/_sandbox/open/a/b"} {
		if got := s.get(path); got.status < 400 || strings.Contains(got.body, "<script>") {
			t.Errorf("GET %s: %d %s, want an error", path, got.status, got.body)
		}
	}
}

func TestPhonePage_DoubleTap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, newServer(t, ""), "v0.1")
		path := s.create(idverify.ProductPhoneCheck, "447700900012")
		// With the latency, each tap finds the check open.
		s.srv.Inject(sandboxfake.Match{Operation: "phone_check.open", Repeat: true}, sandboxfake.Fault{Latency: time.Second})
		statuses := make([]int, 4)

		var wg sync.WaitGroup
		for i := range statuses {
			wg.Go(func() { statuses[i] = s.choose(path, "phone").status })
		}
		wg.Wait()

		count := make(map[int]int)
		for _, status := range statuses {
			count[status]++
		}
		if diff := cmp.Diff(map[int]int{200: 1, 410: 3}, count); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
		if callbacks, _ := s.results(); len(callbacks) != 1 {
			t.Errorf("callbacks = %q, want one", callbacks)
		}
	})
}

func TestPhonePage_Fault(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		fault sandboxfake.Fault
		text  string
		again string // title of the page after a second choice
	}{
		{"status", sandboxfake.Fault{Status: 503}, "responded with status 503", "the shop's page"},
		{"lost response", sandboxfake.Fault{Drop: true}, "The check was opened before that", "Already opened"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, newServer(t, ""), "v0.2")
			path := s.create(idverify.ProductPhoneCheck, "447700900012")
			s.srv.Inject(sandboxfake.Match{Operation: "phone_check.open"}, row.fault)

			failed := s.choose(path, "phone")
			again := s.choose(path, "phone")

			if failed.status != http.StatusBadGateway || !strings.Contains(failed.body, row.text) {
				t.Errorf("page: %d\n%s\nwant 502 with %q", failed.status, failed.body, row.text)
			}
			if retry := strings.Contains(failed.body, `href="`+path+`"`); retry != (row.fault.Status != 0) {
				t.Errorf("page has a link to the choices: %t, want it only if the check can be opened", retry)
			}
			if !strings.Contains(again.body, row.again) {
				t.Errorf("second choice: %d\n%s\nwant %q", again.status, again.body, row.again)
			}
		})
	}
}
