package browsertest

import "testing"

// On a narrow screen, the path of a request is below its other fields, and complete.
func TestLayout_RequestsOnPhone(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.open(p.phoneCheck("http://127.0.0.1:9/").CheckID)
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

// The tiles are below each other without holes.
func TestLayout_Tiles(t *testing.T) {
	t.Parallel()
	p := start(t)
	pg := open(t, p)
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
		styles := ""
		for _, scheme := range []string{"light", "dark"} {
			pg.scheme(scheme)
			styles += evaluate[string](pg, `(([page, mark]) => [page.backgroundColor, page.color, page.getPropertyValue("--accent"), page.getPropertyValue("--muted"), page.fontFamily, mark.width].join())([document.body, document.querySelector(".brand img")].map(e => getComputedStyle(e))) + " "`)
		}
		return styles
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
	p := start(t)
	pg := open(t, p)
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
	p := start(t)
	pg := open(t, p)
	pg.waitText("#checks-empty", "No checks yet")

	pg.click("#checks-empty a")

	pg.waitFor(`document.querySelector("#credentials").checkVisibility()`)
	pg.waitText("#keys-list", "signs messages")
}
