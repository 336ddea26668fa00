package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// On a narrow screen, the path of a request is below its other fields, and complete.
func TestLayout_RequestsOnPhone(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.opened("http://127.0.0.1:9/")
	pg := open(t, p)
	pg.resize(360, 740)
	pg.view("requests")
	pg.expandRequest("/redirect")

	got := evaluate[struct{ Overlap, Cut bool }](pg, `(() => {
		const table = document.querySelector("#requests-table").parentElement;
		const rows = [...document.querySelectorAll("#requests-body tr[data-id]")];
		const path = r => r.querySelector("th").getBoundingClientRect();
		return {
			overlap: rows.some(r => path(r).top < r.querySelector(".badge").getBoundingClientRect().bottom),
			cut: table.scrollWidth > table.clientWidth || rows.some(r => path(r).right > innerWidth),
		};
	})()`)

	if got.Overlap || got.Cut {
		t.Errorf("%+v, want each path on a line of its own, and nothing wider than the screen", got)
	}
	pg.screenshot("requests-phone")
}

// On a narrow screen, the list of checks is complete without scrolling.
func TestLayout_ChecksOnPhone(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.create(map[string]any{"product": "sim_check", "version": "v0.1", "phone_number": "447700900099", "reference_id": "a long reference ID"})
	p.ended(newReceiver(t, p))
	pg := open(t, p)
	pg.waitText("#checks-body", "204 acknowledged")
	pg.resize(390, 740)

	if cut := evaluate[int](pg, `(e => e.scrollWidth - e.clientWidth)(document.querySelector("#checks-table").parentElement)`); cut > 0 {
		t.Errorf("%d pixels of the list are hidden", cut)
	}
}

// The result is on the screen even if the button that opens the check is at its lower edge.
func TestLayout_OpenResult(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)
	for _, width := range []int64{1280, 390} {
		c := p.phoneCheck("http://127.0.0.1:9/")
		pg.selectCheck(c.CheckID)
		pg.resize(width, 480)

		evaluate[bool](pg, `(e => (e.scrollIntoView({block: "end"}), e.focus({preventScroll: true}), true))(document.querySelector("#open-phone"))`)
		pg.do(chromedp.KeyEvent(kb.Enter))

		pg.waitText("#open-outcome", "COMPLETED, match, callback: unreachable")
		pg.waitText("#fact-delivery", "does not retry") // which moves the result down
		got := evaluate[struct{ Top, Bottom, Header float64 }](pg, `(box => ({top: box.top, bottom: box.bottom, header: document.querySelector(".top").getBoundingClientRect().bottom}))(document.querySelector("#open-result").getBoundingClientRect())`)
		if got.Top < got.Header || got.Bottom > 480 {
			t.Errorf("at %d pixels, the result is at %.0f to %.0f, want it on the screen from %.0f to 480", width, got.Top, got.Bottom, got.Header)
		}
		pg.resize(1280, 900)
	}
}

// The tiles are below each other without holes.
func TestLayout_Tiles(t *testing.T) {
	t.Parallel()
	_, pg := startOpen(t)
	pg.view("control")
	pg.waitText("#keys-list", "signs messages")
	for _, width := range []int64{1800, 1280, 1000, 390} {
		pg.resize(width, 900)

		holes := evaluate[[]string](pg, `(() => {
			const boxes = [...document.querySelectorAll("#view-control > .card")].map(e => ({id: e.id, ...e.getBoundingClientRect().toJSON()}));
			const top = Math.min(...boxes.map(b => b.top));
			return boxes.filter(b => b.top > top + 1 && !boxes.some(a => Math.abs(a.left - b.left) < 1 && b.top - a.bottom > 0 && b.top - a.bottom < 20)).map(b => b.id);
		})()`)
		if len(holes) > 0 {
			t.Errorf("at %d pixels, there is a hole above %q", width, holes)
		}
	}
	pg.resize(1280, 900)
	pg.screenshot("tiles")
}

// All pages have the same colors and the same mark.
func TestLayout_SharedStyle(t *testing.T) {
	t.Parallel()
	p := start(t)
	c := p.phoneCheck("http://127.0.0.1:9/")
	pg := open(t, p)
	pg.permit("404")
	style := func() string {
		t.Helper()
		pg.waitFor(`[...document.querySelectorAll(".brand img[src$='page/icon.svg']")].some(e => e.complete && e.naturalWidth > 0 && e.checkVisibility())`)
		var styles strings.Builder
		for _, scheme := range []string{"light", "dark"} {
			pg.scheme(scheme)
			styles.WriteString(evaluate[string](pg, `(([page, mark]) => [page.backgroundColor, page.color, page.getPropertyValue("--accent"), page.getPropertyValue("--muted"), page.fontFamily, mark.width].join())([document.body, document.querySelector(".brand img")].map(e => getComputedStyle(e))) + " "`))
		}
		return styles.String()
	}
	want := style()

	for _, location := range []string{c.OpenURL, p.URL + "/_sandbox/open/none", p.URL + "/_sandbox/ca"} {
		pg.navigate(location)
		if got := style(); got != want {
			t.Errorf("%s: colors %s, want those of the inspector, %s", location, got, want)
		}
	}
}

// The state of the connection is on the right, with and without the navigation.
func TestLayout_StateOnTheRight(t *testing.T) {
	t.Parallel()
	_, pg := startOpen(t)
	pg.permit("401") // of a refresh during the sign-out
	for _, view := range []string{"checks", "signin"} {
		if view == "signin" {
			pg.view("control")
			pg.clickSends("#sign-out", "DELETE", "session")
			pg.waitFor(`document.querySelector("#view-signin").checkVisibility()`)
		}
		if gap := evaluate[float64](pg, `innerWidth - document.querySelector("#connection").getBoundingClientRect().right`); gap > 60 {
			t.Errorf("%s: the state is %v pixels from the right", view, gap)
		}
	}
}

// A new user finds the credentials from the empty list.
func TestLayout_EmptyList(t *testing.T) {
	t.Parallel()
	_, pg := startOpen(t)
	pg.waitText("#checks-empty", "No checks yet")

	pg.click("#checks-empty a")

	pg.waitFor(`document.querySelector("#credentials").checkVisibility()`)
	pg.waitText("#keys-list", "signs messages")
}
