package browser

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestClock_Advance(t *testing.T) {
	t.Parallel()
	p := start(t, "-frozen-clock", "2026-01-02T03:04:05Z")
	now := func() time.Time {
		return control[struct{ Now time.Time }](p, http.MethodGet, "time", nil).Now
	}
	pg := open(t, p)
	pg.view("control")
	began := now()

	two := pg.clickSends("#advance-120", "POST", "advance").json()
	afterTwo := now()
	hour := pg.clickSends("#advance-3600", "POST", "advance").json()
	afterHour := now()
	pg.fill("#advance-value", "3")
	pg.choose("#advance-unit", "60")
	pg.clickSends("#advance-submit", "POST", "advance")
	afterThree := now()

	if two["seconds"] != 120.0 || hour["seconds"] != 3600.0 {
		t.Errorf("the page sends %v and %v, want 120 and 3600 seconds", two, hour)
	}
	got := []time.Duration{afterTwo.Sub(began), afterHour.Sub(afterTwo), afterThree.Sub(afterHour)}
	if want := []time.Duration{2 * time.Minute, time.Hour, 3 * time.Minute}; !slices.Equal(got, want) {
		t.Errorf("the clock moved by %v, want %v", got, want)
	}
	pg.waitFor(`!document.querySelector("#top-frozen").hidden`)
	want := evaluate[string](pg, `(d => [d.getHours(), d.getMinutes(), d.getSeconds()].map(n => String(n).padStart(2, "0")).join(":"))(new Date(`+quote(afterThree.Format(time.RFC3339))+`))`)
	pg.waitText("#top-clock", want)
}

func TestClock_Dates(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)
	pg.view("control")
	mark := pg.mark()

	pg.choose("#dates-select", "sandbox")
	pg.sent(t, mark, "POST", "/_sandbox/dates")

	if got := control[struct{ Clock string }](p, http.MethodGet, "dates", nil).Clock; got != "sandbox" {
		t.Errorf("clock of signatures = %q, want sandbox", got)
	}
}

func TestKeys_Rotate(t *testing.T) {
	t.Parallel()
	p := start(t)
	published := func() (ids []string) {
		request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/.well-known/jwks.json", nil))(t)
		_, body := p.do(request)
		var set struct{ Keys []struct{ Kid string } }
		noError(t, json.Unmarshal(body, &set))
		for _, key := range set.Keys {
			ids = append(ids, key.Kid)
		}
		return ids
	}
	pg := open(t, p)
	pg.view("control")
	before := published()

	pg.clickSends("#rotate-keys", "POST", "keys")

	after := published()
	if len(before) != 1 || len(after) != 2 || !slices.Contains(after, before[0]) {
		t.Errorf("key set %q, then %q, want a new key and the old one", before, after)
	}
	for _, id := range after {
		pg.waitText("#view-control", id)
	}
	r := newReceiver(t, p)
	p.ended(r) // the receiver verifies a signature with the new key
}

func TestReset(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	p.ended(r)
	pg := open(t, p)
	pg.view("control")

	pg.click("#reset")
	pg.waitFor(`document.querySelector("#reset-dialog").open`)
	pg.screenshot("reset")
	mark := pg.click("#reset-cancel")
	pg.waitFor(`!document.querySelector("#reset-dialog").open`)
	if n := len(p.checks()); n != 1 {
		t.Fatalf("%d checks after Cancel, want 1", n)
	}
	pg.click("#reset")
	sent := pg.clickSends("#reset-confirm", "POST", "reset")

	if first := pg.sent(t, mark, "POST", "/_sandbox/"); first.path != sent.path {
		t.Errorf("Cancel sends %s", first.path)
	}
	if n := len(p.checks()); n != 0 {
		t.Errorf("%d checks after the reset, want 0", n)
	}
	pg.view("checks")
	pg.waitFor(`document.querySelectorAll("#checks-body tr").length === 0 && !document.querySelector("#checks-empty").hidden`)
}

func TestControl_CopiesCredentials(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)
	pg.allowClipboard()
	pg.view("control")

	got := []string{pg.clickCopies("#copy-id-project"), pg.clickCopies("#copy-secret-project"), pg.clickCopies("#copy-id-workspace"), pg.clickCopies("#copy-secret-workspace")}

	if want := []string{p.Project.ClientID, p.Project.ClientSecret, p.Workspace.ClientID, p.Workspace.ClientSecret}; !slices.Equal(got, want) {
		t.Errorf("copied %q, want %q", got, want)
	}
}
