package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

func TestCallbacks_Expire(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	c := p.phoneCheck(r.url)
	pg := open(t, p)
	pg.selectCheck(c.CheckID)

	sent := pg.clickSends("#expire-now", "POST", "expire").json()

	if sent["check_id"] != c.CheckID {
		t.Errorf("the page sends %v, want check %s", sent, c.CheckID)
	}
	if got := r.nextVerified(t); got.CheckID != c.CheckID || got.Status != idverify.StatusExpired {
		t.Errorf("callback %s of %s, want EXPIRED of %s", got.Status, got.CheckID, c.CheckID)
	}
	pg.waitTimeline("expired")
	pg.waitText("#detail-status", "EXPIRED")
	if _, err := p.client().PhoneChecks.Get(t.Context(), c.CheckID); !errors.Is(err, idverify.ErrNotFound) {
		t.Errorf("get the expired check: %v, want ErrNotFound", err)
	}
}

func TestCallbacks_Redeliver(t *testing.T) {
	t.Parallel()
	p, r, c, pg := openEnded(t)

	pg.clickSends("#redeliver", "POST", "redeliver")
	second := r.nextVerified(t)
	pg.waitFor(`document.querySelectorAll('#timeline > li[data-kind="attempt"]').length === 2`)
	pg.openDetails()
	pg.clickSends("[data-action=redeliver-one]", "POST", "redeliver")
	third := r.nextVerified(t)

	if second.CheckID != c.CheckID || third.CheckID != c.CheckID {
		t.Errorf("callbacks of %s and %s, want both of %s", second.CheckID, third.CheckID, c.CheckID)
	}
	// The program records an attempt after the receiver responded.
	pg.waitFor(`document.querySelectorAll('#timeline > li[data-kind="attempt"]').length === 3`)
	if attempts := p.attempts(c.CheckID); len(attempts) != 3 {
		t.Errorf("attempts %q, want the first and two redeliveries", attempts)
	}
}

// A callback that was not delivered is visible in the list and below the status, with the reason
// why the service does not retry it, and can be sent again.
func TestCallbacks_Lost(t *testing.T) {
	skipSlow(t)
	t.Parallel()
	p := start(t, "-frozen-clock", "2026-01-02T03:04:05Z")
	var corrected atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if corrected.Load() {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		status, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			panic(http.ErrAbortHandler) // closes the connection
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(receiver.Close)
	pg := open(t, p)
	if got := pg.text("#checks-table thead"); !strings.Contains(got, "Delivery") {
		t.Errorf("the columns of the list are %q, want one for the delivery", got)
	}

	for _, row := range []struct {
		path, state, hint string
		advance           int // seconds
	}{
		{"/403", "403 rejected", "The service does not retry a 4XX. Correct the receiver, then redeliver the callback.", 0},
		{"/302", "302 rejected", "The service does not retry a 3XX.", 0},
		{"/closed", "unreachable", "The service does not retry without a response.", 0},
		{"/503", "503 failed", "The service retries a 5XX: attempt 2 of at most 6 follows.", 0},
		{"/500", "500 failed", "It was the last of 6 attempts.", 3600},
	} {
		corrected.Store(false)
		c := p.opened(receiver.URL + row.path)
		if row.advance > 0 {
			control[any](p, http.MethodPost, "advance", map[string]any{"seconds": row.advance})
		}
		pg.selectCheck(c.CheckID)
		listed := fmt.Sprintf(`#checks-body tr[data-id="%s"]`, c.CheckID)

		pg.waitText(listed, row.state)
		pg.waitText("#fact-delivery", row.state)
		pg.waitText("#fact-delivery", row.hint)
		if top := evaluate[float64](pg, `document.querySelector("#fact-delivery").getBoundingClientRect().bottom - document.querySelector("#detail-status").getBoundingClientRect().bottom`); top > 150 {
			t.Errorf("%s: the delivery ends %v pixels below the status, want it next to COMPLETED", row.path, top)
		}
		if row.path == "/403" {
			pg.screenshots("rejected")
		}
		corrected.Store(true)
		pg.clickSends("#redeliver", "POST", "redeliver")
		pg.waitText("#fact-delivery", "204 acknowledged")
		pg.waitText(listed, "204 acknowledged")
		if got := pg.text("#fact-delivery"); strings.Contains(got, "retry") {
			t.Errorf("%s: after the redelivery, the page shows %q", row.path, got)
		}
	}
}

// openDetails opens all collapsed parts of the timeline.
func (p *page) openDetails() {
	p.t.Helper()
	p.waitFor(`document.querySelector("#timeline details")`)
	evaluate[bool](p, `(document.querySelectorAll("#timeline details").forEach(d => d.open = true), true)`)
}

func TestCallbacks_Custom(t *testing.T) {
	t.Parallel()
	_, r, c, pg := openEnded(t)

	pg.click("#send-callback")
	pg.waitFor(`document.querySelector("#callback-dialog").open`)
	pg.screenshot("callback")
	mark := pg.click("#callback-cancel")
	pg.waitFor(`!document.querySelector("#callback-dialog").open`)
	pg.click("#send-callback")
	body := `{"check_id":"` + c.CheckID + `","status":"COMPLETED","match":false,"note":"<b>custom</b>"}`
	pg.fill("#callback-url", r.url)
	pg.fill("#callback-body", body)
	sent := pg.clickSends("#callback-submit", "POST", "callbacks")

	if pg.sent(t, mark, "POST", "/_sandbox/").path != sent.path {
		t.Errorf("Cancel sends a request: %s", pg.since(mark))
	}
	if sent.json()["body"] != body || sent.json()["url"] != r.url {
		t.Errorf("the page sends %s, want the fields of the form", sent.body)
	}
	if got := r.next(t); got.message == nil || string(got.message.Body) != body || got.message.Product != "phone_check" {
		t.Errorf("callback %+v, want a signed one with the body of the form", got)
	}
	pg.waitFor(`!document.querySelector("#callback-dialog").open`)
}

// The page suggests a body, and the suggestion is a callback that a client can parse.
func TestCallbacks_CustomSuggestion(t *testing.T) {
	t.Parallel()
	_, r, c, pg := openEnded(t)

	pg.click("#send-callback")
	pg.waitFor(`document.querySelector("#callback-body").value.length > 2`)
	pg.clickSends("#callback-submit", "POST", "callbacks")

	if got := r.nextVerified(t); got.CheckID != c.CheckID {
		t.Errorf("callback of %s, want %s", got.CheckID, c.CheckID)
	}
}

func TestFaults_Callback(t *testing.T) {
	t.Parallel()
	p := start(t, "-frozen-clock", time.Now().Format(time.RFC3339)) // the test makes the retry due
	r := newReceiver(t, p)
	pg := open(t, p)

	t.Run("503 and retry", func(t *testing.T) {
		pg.view("control")
		sent := pg.clickSends("#fault-503", "POST", "faults")
		pg.waitText("#notice", "The next delivery attempt of any check, including a retry, gets this fault: status 503.")
		if n := pg.activeFaults(); n != 1 {
			t.Errorf("%d active faults, want 1", n)
		}
		c := p.opened(r.url)
		if got := p.attempts(c.CheckID); len(got) != 1 || got[0][:3] != "503" {
			t.Errorf("attempts %q after %s, want one with 503", got, sent.body)
		}
		r.none(t)
		pg.clickSends("#advance-120", "POST", "advance")
		if got := r.nextVerified(t); got.CheckID != c.CheckID {
			t.Errorf("callback of %s, want %s", got.CheckID, c.CheckID)
		}
		pg.waitFor(`document.querySelector("#fault-count").hidden`)
	})
	t.Run("delayed", func(t *testing.T) {
		p := start(t) // a delay needs a running clock
		r := newReceiver(t, p)
		pg := open(t, p)
		pg.view("control")
		pg.fill("#fault-delay-seconds", "1")
		pg.clickSends("#fault-delay", "POST", "faults")
		c := p.opened(r.url)
		r.nextVerified(t)
		attempts := slices.DeleteFunc(p.timeline(c.CheckID), func(e event) bool { return e.Kind != "attempt" })
		if len(attempts) != 1 || attempts[0].Fault == nil {
			t.Errorf("attempts %+v, want one with a fault", attempts)
		}
	})
	t.Run("dropped", func(t *testing.T) {
		pg.view("control")
		pg.clickSends("#fault-drop", "POST", "faults")
		c := p.opened(r.url)
		if got := p.attempts(c.CheckID); len(got) != 1 || got[0] != "0 unreachable" {
			t.Errorf("attempts %q, want one that reaches nobody", got)
		}
		r.none(t)
	})
	t.Run("wrong key", func(t *testing.T) {
		pg.view("control")
		pg.clickSends("#fault-wrong-key", "POST", "faults")
		p.opened(r.url)
		if got := r.next(t); !errors.Is(got.err, signature.ErrSignature) {
			t.Errorf("callback with the wrong key: %v, want ErrSignature", got.err)
		}
	})
	t.Run("one check", func(t *testing.T) {
		pg.view("checks")
		c := p.phoneCheck(r.url)
		pg.selectCheck(c.CheckID)
		pg.view("control")
		pg.choose("#fault-check", "selected")
		pg.clickSends("#fault-wrong-key", "POST", "faults")
		pg.waitText("#notice", "The next delivery attempt of the selected check gets this fault: wrong key.")
		p.opened(r.url)
		r.nextVerified(t)
		p.open(c.CheckID)
		if got := r.next(t); !errors.Is(got.err, signature.ErrSignature) {
			t.Errorf("callback of the check with the fault: %v, want ErrSignature", got.err)
		}
		pg.choose("#fault-check", "")
	})
	t.Run("truncated", func(t *testing.T) {
		pg.view("control")
		pg.clickSends("#fault-truncate", "POST", "faults")
		p.opened(r.url)
		if got := r.next(t); got.err == nil {
			t.Error("a truncated callback is verified")
		}
	})
}

// event is an event of a timeline.
type event struct {
	Kind  string          `json:"kind"`
	Fault json.RawMessage `json:"fault"`
}

// timeline returns the events of a check.
func (p *program) timeline(checkID string) []event {
	p.t.Helper()
	return control[struct{ Events []event }](p, http.MethodGet, "timeline?check_id="+checkID, nil).Events
}

// view shows a view of the page.
func (p *page) view(name string) {
	p.t.Helper()
	p.pick("#nav-" + name)
	p.waitFor(fmt.Sprintf(`document.querySelector("#view-%s").checkVisibility()`, name))
}

// activeFaults returns the number of faults that the page shows.
func (p *page) activeFaults() int {
	p.t.Helper()
	p.waitFor(`!document.querySelector("#fault-count").hidden`)
	return evaluate[int](p, `parseInt(document.querySelector("#fault-count").innerText.match(/\d+/)[0])`)
}

func TestFaults_API(t *testing.T) {
	t.Parallel()
	p := start(t)
	client := p.client()
	create := func() error {
		_, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
		return err
	}
	pg := open(t, p)
	pg.view("control")
	pg.choose("#api-operation", "phone_check.create")
	pg.choose("#api-status", "500")

	pg.clickSends("#api-fault-submit", "POST", "faults")
	pg.activeFaults()
	first, second := create(), create()

	if !errors.Is(first, idverify.ErrOutcomeUnknown) || second != nil {
		t.Errorf("the next calls return %v and %v, want a 500 and success", first, second)
	}
	pg.waitFor(`document.querySelector("#fault-count").hidden`)
	pg.clickSends("#api-fault-submit", "POST", "faults")
	pg.activeFaults()
	pg.clickSends("#faults-clear", "DELETE", "faults")
	if err := create(); err != nil {
		t.Errorf("a call after the faults were removed: %v", err)
	}
	pg.waitFor(`document.querySelector("#fault-count").hidden`)
}
