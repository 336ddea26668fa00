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

// The state of the connection is on the right, with and without the navigation.
func TestLayout_StateOnTheRight(t *testing.T) {
	t.Parallel()
	p := start(t)
	pg := open(t, p)
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
