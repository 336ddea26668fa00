package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
)

// connected waits until the page receives events.
func (p *page) connected() {
	p.t.Helper()
	p.waitFor(`document.querySelector("#connection")?.dataset.state === "live"`)
}

// check is a check in the control plane.
type check struct {
	CheckID     string `json:"check_id"`
	Product     string `json:"product"`
	Version     string `json:"version"`
	PhoneNumber string `json:"phone_number"`
	ReferenceID string `json:"reference_id"`
	Status      string `json:"status"`
	Match       *bool  `json:"match"`
	NoSIMChange *bool  `json:"no_sim_change"`
	ErrorCode   string `json:"error_code"`
	CheckURL    string `json:"check_url"`
	OpenURL     string `json:"open_url"`
}

// result returns the result of a check as one word.
func (c check) result() string {
	word := func(name string, v *bool) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf(" %s=%t", name, *v)
	}
	if c.Status == string(idverify.StatusError) { // then the other fields are invalid
		return c.Status + " " + c.ErrorCode
	}
	return c.Status + word("match", c.Match) + word("no_sim_change", c.NoSIMChange)
}

// checks returns the newest checks, newest first.
func (p *program) checks() []check {
	p.t.Helper()
	return control[struct{ Checks []check }](p, http.MethodGet, "checks", nil).Checks
}

// newest returns the newest check.
func (p *program) newest() check {
	p.t.Helper()
	checks := p.checks()
	if len(checks) == 0 {
		p.t.Fatal("the service has no check")
	}
	return checks[0]
}

// create creates a check with the control plane.
func (p *program) create(fields map[string]any) check {
	p.t.Helper()
	created := control[struct{ Check *check }](p, http.MethodPost, "checks", fields)
	if created.Check == nil {
		p.t.Fatalf("no check was created from %v", fields)
	}
	return *created.Check
}

// open opens the Check URL of a check as a phone with the control plane.
func (p *program) open(checkID string) {
	p.t.Helper()
	control[any](p, http.MethodPost, "open", map[string]any{"check_id": checkID})
}

// phoneCheck creates a PhoneCheck with a callback URL.
func (p *program) phoneCheck(callbackURL string) check {
	p.t.Helper()
	return p.create(map[string]any{"product": "phone_check", "version": "v0.1", "phone_number": "447700900012", "callback_url": callbackURL})
}

// opened creates a PhoneCheck and opens its Check URL. It returns the check when no attempt of the
// callback is in flight.
func (p *program) opened(callbackURL string) check {
	p.t.Helper()
	c := p.phoneCheck(callbackURL)
	p.open(c.CheckID)
	control[any](p, http.MethodPost, "idle", nil)
	return c
}

// ended creates a PhoneCheck whose callback the receiver gets, and returns the check.
func (p *program) ended(r *receiver) check {
	p.t.Helper()
	c := p.opened(r.url)
	if got := r.nextVerified(p.t); got.CheckID != c.CheckID {
		p.t.Fatalf("callback of check %s, want %s", got.CheckID, c.CheckID)
	}
	return c
}

// openActive runs the program, and opens its page with an active check selected.
func openActive(t *testing.T) (*program, *page) {
	t.Helper()
	p := start(t)
	c := p.phoneCheck("http://127.0.0.1:9/")
	pg := open(t, p)
	pg.selectCheck(c.CheckID)
	return p, pg
}

// openEnded runs the program and a receiver, and opens the page with an ended check selected.
func openEnded(t *testing.T) (*program, *receiver, check, *page) {
	t.Helper()
	p := start(t)
	r := newReceiver(t, p)
	c := p.ended(r)
	pg := open(t, p)
	pg.selectCheck(c.CheckID)
	return p, r, c, pg
}

// selectCheck selects a check in the list.
func (p *page) selectCheck(id string) {
	p.t.Helper()
	p.waitFor(fmt.Sprintf(`document.querySelector('#checks-body tr[data-id="%s"]')`, id))
	p.pick(fmt.Sprintf(`#checks-body tr[data-id="%s"] [data-action=select-check]`, id))
	p.waitTimeline("created")
}

// waitTimeline waits until the timeline of the selected check contains an event.
func (p *page) waitTimeline(kind string) {
	p.t.Helper()
	p.waitFor(fmt.Sprintf(`document.querySelector('#detail:not([hidden]) #timeline > li[data-kind="%s"]')`, kind))
}

func TestChecks_Create(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)

	for _, row := range []struct{ product, version, preset, want string }{
		{"phone_check", "v0.1", "12", "COMPLETED match=true"},
		{"phone_check", "v0.2", "13", "ACCEPTED"}, // completes when the code is exchanged
		{"phone_check", "v0.1", "99", "ERROR mno_server_error"},
		{"phone_check", "v0.1", "13", "COMPLETED match=false"},
		{"sim_check", "v0.1", "12", "COMPLETED no_sim_change=true"},
		{"sim_check", "v0.1", "99", "ERROR mno_server_error"},
		{"subscriber_check", "v0.1", "12", "COMPLETED match=true no_sim_change=true"},
		{"subscriber_check", "v0.2", "99", "ERROR mno_server_error"},
	} {
		pg.choose("#create-product", row.product)
		if row.product != "sim_check" {
			pg.choose("#create-version", row.version)
		}
		pg.fill("#create-number", "")
		mark := pg.pick("[data-action=preset][data-number$='" + row.preset + "']")
		number := pg.value("#create-number")
		sent := pg.clickSends("#create-submit", "POST", "checks")

		if pg.sent(t, mark, "POST", "/_sandbox/").path != sent.path {
			t.Errorf("the preset sends a request: %s", pg.since(mark))
		}
		body := sent.json()
		if body["product"] != row.product || body["version"] != row.version || body["phone_number"] != number {
			t.Errorf("the page sends %s, want a %s %s of %s", sent.body, row.product, row.version, number)
		}
		created := p.newest()
		if created.Product != row.product || created.Version != row.version || created.PhoneNumber != number {
			t.Errorf("created %+v, want a %s %s of %s", created, row.product, row.version, number)
		}
		pg.waitFor(fmt.Sprintf(`document.querySelector('#checks-body tr[data-id="%s"]')`, created.CheckID))
		if row.product != "sim_check" {
			pg.clickSends("#open-phone", "POST", "open")
		}
		if got := p.newest().result(); got != row.want && !(row.want == "ACCEPTED" && p.newest().Match == nil) {
			t.Errorf("%s %s of a number that ends in %s: %s, want %s", row.product, row.version, row.preset, got, row.want)
		}
	}
	if n := p.calls("phone_check.create"); n != 4 {
		t.Errorf("the service received %d requests to create a PhoneCheck, want 4", n)
	}
}

func TestChecks_CreateFields(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	pg := open(t, p)
	pg.click("[data-action=preset]")
	pg.choose("#create-version", "v0.2")
	pg.fill("#create-number", "447700900014")
	pg.fill("#create-redirect", r.url)
	pg.fill("#create-reference", "order 17")

	sent := pg.clickSends("#create-submit", "POST", "checks").json()

	if sent["redirect_url"] != r.url || sent["reference_id"] != "order 17" {
		t.Errorf("the page sends %v, want the fields of the form", sent)
	}
	if got := p.newest(); got.ReferenceID != "order 17" {
		t.Errorf("reference ID = %q, want that of the form", got.ReferenceID)
	}
	pg.waitText("#detail", "order 17")
}

func TestChecks_CreateShowsServiceError(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)
	pg.fill("#create-callback", "http://user@127.0.0.1:9/")

	pg.clickSends("#create-submit", "POST", "checks")

	pg.waitFor(`!document.querySelector("#error").hidden && document.querySelector("#error-text").innerText.length > 10`)
	if !evaluate[bool](pg, `document.querySelector("#error-text").closest("[role=alert]") !== null`) {
		t.Error("the error is not in an element with the role alert")
	}
	pg.screenshot("error")
	pg.click("#error-close")
	pg.waitFor(`document.querySelector("#error").hidden`)
	if n := len(p.checks()); n != 0 {
		t.Errorf("%d checks, want none", n)
	}
}

// The field accepts what the Go client accepts, and marks any other number before it is sent.
func TestChecks_Number(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)
	pg.click("[data-action=preset]")

	for i, row := range []struct{ text, want, fault string }{
		{"+44 7700 900012", "447700900012", ""},
		{"(44) 7700-900.013", "447700900013", ""},
		{"07700 900012", "", "Begins with a zero: start with the country code"},
		{"+44 (0)7700 900012", "", "Omit the (0)"},
		{"12", "", "Fewer than 7 digits"},
		{"4477009000124477009000", "", "More than 15 digits"},
		{"447700900012 ext. 3", "", "Contains a character"},
	} {
		before := len(p.checks())
		pg.fill("#create-number", row.text)
		if pg.has("#create-number[aria-invalid]") {
			t.Errorf("%q: the field is marked before the form is sent", row.text)
		}
		if row.fault == "" {
			sent := pg.clickSends("#create-submit", "POST", "checks").json()
			if sent["phone_number"] != row.want || p.newest().PhoneNumber != row.want {
				t.Errorf("%q: the page sends %v, and the check has the number %s, want %s", row.text, sent["phone_number"], p.newest().PhoneNumber, row.want)
			}
			continue
		}
		mark := pg.click("#create-submit")

		pg.waitText("#create-number-error", row.fault)
		pg.waitFor(`document.activeElement.matches("#create-number[aria-invalid=true][aria-describedby~=create-number-error]")`)
		if pg.has("#error") || strings.Contains(pg.since(mark), "POST") || len(p.checks()) != before {
			t.Errorf("%q: the page sends %s, want that only the field is marked", row.text, pg.since(mark))
		}
		if i == 2 {
			pg.checkAccessible("invalid number")
			pg.screenshots("number")
		}
	}
}

func TestChecks_OpenAsPhone(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	pg := open(t, p)

	for _, row := range []struct{ as, want, shown string }{
		{"", "COMPLETED match=true", "COMPLETED, match"},
		{"phone", "COMPLETED match=true", "COMPLETED, match"},
		{"other_sim", "COMPLETED match=false", "COMPLETED, no match"},
		{"not_mobile_ip", "ERROR not_mobile_ip", "ERROR, not_mobile_ip"},
		{"mno_no_data_available", "ERROR mno_no_data_available", "ERROR, mno_no_data_available"},
		{"offline", "EXPIRED", "EXPIRED, no result"},
	} {
		c := p.phoneCheck(r.url)
		pg.selectCheck(c.CheckID)
		pg.choose("#open-as", row.as)
		sent := pg.clickSends("#open-phone", "POST", "open").json()

		as, _ := sent["as"].(string)
		if sent["check_id"] != c.CheckID || as != row.as {
			t.Errorf("the page sends %v, want check %s as %q", sent, c.CheckID, row.as)
		}
		got := r.nextVerified(t)
		if got.CheckID != c.CheckID || p.newest().result() != row.want {
			t.Errorf("as %q: result %s and callback of %s, want %s of %s", row.as, p.newest().result(), got.CheckID, row.want, c.CheckID)
		}
		pg.waitTimeline("attempt")
		pg.waitText("#open-outcome", row.shown+", callback: 204 acknowledged")
		if opened := row.as != "offline"; string(got.Status) != p.newest().Status || opened != pg.has(`#timeline > li[data-kind="opened"]`) {
			t.Errorf("as %q: callback %s, want %s; the timeline must contain opened: %t", row.as, got.Status, p.newest().Status, opened)
		}
	}
	const want = " phone other_sim offline not_mobile_ip mno_not_supported mno_timeout mno_user_not_found mno_response_error mno_server_error mno_no_data_available ip_mismatch ip_msisdn_mismatch"
	if offered := evaluate[string](pg, `[...document.querySelector("#open-as").options].map((option) => option.value).join(" ")`); offered != want {
		t.Errorf("the page offers the results %q, want %q", offered, want)
	}
}

func TestChecks_FollowRedirect(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	client := p.client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	pg := open(t, p)
	for _, follow := range []bool{true, false} {
		c := must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", RedirectURL: r.redirectURL}))(t)
		pg.selectCheck(c.CheckID)
		if pg.checked("#open-follow") != follow {
			pg.click("#open-follow")
		}

		pg.clickSends("#open-phone", "POST", "open")

		pg.waitTimeline("redirected")
		if !follow {
			r.none(t)
			continue
		}
		back := r.next(t)
		if back.err != nil || back.message.Query.Get("check_id") != c.CheckID {
			t.Fatalf("redirect: %v %+v, want a verified one of check %s", back.err, back.message, c.CheckID)
		}
		// The exchange happens elsewhere, and the page shows it.
		must(client.PhoneChecks.Complete(t.Context(), c.CheckID, back.message.Query.Get("code")))(t)
		pg.waitTimeline("exchanged")
		pg.waitTimeline("completed")
	}
}

// has reports whether the page contains a visible element.
func (p *page) has(selector string) bool {
	p.t.Helper()
	return evaluate[bool](p, fmt.Sprintf("[...document.querySelectorAll(%s)].some(e => e.checkVisibility())", quote(selector)))
}

// checked reports whether a checkbox is checked.
func (p *page) checked(selector string) bool {
	p.t.Helper()
	return evaluate[bool](p, fmt.Sprintf("document.querySelector(%s).checked", quote(selector)))
}
