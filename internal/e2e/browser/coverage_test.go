package browser

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// notClicked lists controls that no test clicks with the mouse, and why.
var notClicked = []string{
	"[data-action=skip]",       // visible only with the keyboard focus: TestKeyboard_Skip
	"#receiver-language input", // TestReceiverPanel
	"#timeline summary",        // each event has the same: TestCopy_CurlOfAttempt
}

// unclicked is a script that returns the controls of the page that match none of the selectors.
const unclicked = `(selectors => [...document.querySelectorAll("button, [role=button], a.button, [data-action], summary, nav a, #receiver-language input")]
	.filter(e => !selectors.some(s => e.matches(s)))
	.map(e => e.cloneNode(false).outerHTML))`

// TestPage_ClicksEveryButton finds buttons that no test of this package clicks, in all states of
// the page.
func TestPage_ClicksEveryButton(t *testing.T) {
	t.Parallel()
	selectors := append(clickedSelectors(t), notClicked...)
	p := start(t)
	r := newReceiver(t, p)
	ended, active := p.ended(r), p.phoneCheck(r.url)
	pg := open(t, p)
	seen := 0
	check := func(state string) {
		t.Helper()
		for _, element := range evaluate[[]string](pg, unclicked+"("+quote(selectors)+")") {
			t.Errorf("%s: no test clicks %s", state, element)
		}
		seen = max(seen, evaluate[int](pg, `document.querySelectorAll("button").length`))
	}

	check("list of checks")
	pg.selectCheck(active.CheckID)
	check("active check")
	pg.selectCheck(ended.CheckID)
	pg.waitTimeline("attempt")
	pg.openDetails()
	check("ended check")
	pg.view("requests")
	pg.expandRequest("phone_check.create")
	check("requests")
	pg.view("control")
	check("clock and faults")
	pg.view("receiver")
	check("receiver")
	pg.navigate(active.OpenURL)
	check("phone page")
	pg.navigate(p.URL + "/_sandbox/ca")
	check("CA page")

	if seen < 30 {
		t.Errorf("the page has %d buttons, want more than 30: the test does not find them", seen)
	}
}

// clickedSelectors returns the constant selectors that the tests of this package click.
func clickedSelectors(t *testing.T) (selectors []string) {
	t.Helper()
	for _, entry := range must(os.ReadDir("."))(t) {
		if !strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file := must(parser.ParseFile(token.NewFileSet(), entry.Name(), nil, 0))(t)
		ast.Inspect(file, func(node ast.Node) bool {
			if literal := clickedLiteral(node); literal != nil {
				selector, _ := strconv.Unquote(literal.Value)
				selectors = append(selectors, selector)
			}
			return true
		})
	}
	return selectors
}

// clickedLiteral returns the selector of a call of click, or of a similar method of page, if it
// is a constant.
func clickedLiteral(node ast.Node) *ast.BasicLit {
	call, ok := node.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"click", "clickSends", "clickCopies", "clickDownloads"}, method.Sel.Name) {
		return nil
	}
	literal, _ := call.Args[0].(*ast.BasicLit)
	return literal
}

func TestAccessibility_Views(t *testing.T) {
	skipSlow(t)
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	ended, active, lost := p.ended(r), p.phoneCheck(r.url), p.opened("http://127.0.0.1:9/")
	pg := open(t, p)
	pg.checkAccessible("list of checks")

	for state, id := range map[string]string{"active check": active.CheckID, "ended check": ended.CheckID, "lost callback": lost.CheckID} {
		pg.selectCheck(id)
		if id == active.CheckID {
			pg.click("#show-qr")
		} else {
			pg.waitTimeline("attempt")
			pg.openDetails()
		}
		pg.checkAccessible(state)
		pg.screenshots("checks-" + strings.Fields(state)[0])
	}
	if n := pg.checkFocus(); n < 20 {
		t.Errorf("%d elements in the tab order, want all controls", n)
	}
	for _, view := range []string{"requests", "control", "receiver"} {
		pg.view(view)
		if view == "requests" {
			pg.expandRequest("phone_check.create")
		}
		pg.checkAccessible(view)
		pg.screenshots(view)
		if n := pg.checkFocus(); n < 10 {
			t.Errorf("%s: %d elements in the tab order, want all controls", view, n)
		}
	}
}

// screenshots stores a screenshot in light and dark mode, and one at the size of a phone.
func (p *page) screenshots(name string) {
	p.t.Helper()
	p.screenshot(name + "-light")
	p.scheme("dark")
	p.screenshot(name + "-dark")
	p.scheme("light")
	p.resize(360, 740)
	p.screenshot(name + "-360")
	p.resize(1280, 900)
}

// A screen reader announces errors and the state of the connection.
func TestAccessibility_Announces(t *testing.T) {
	t.Parallel()
	_, pg := startOpen(t)

	for selector, want := range map[string]string{"#error": "alert", "#connection": "status", "#notice": "status"} {
		got := evaluate[string](pg, fmt.Sprintf("(e => e.role || (e.ariaLive === 'polite' ? 'status' : e.ariaLive))(document.querySelector(%s))", quote(selector)))
		if got != want {
			t.Errorf("role of %s = %q, want %q", selector, got, want)
		}
	}
}

func TestPage_WithoutScript(t *testing.T) {
	t.Parallel()
	p := start(t)
	pg := newPage(t, p)
	command(pg, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})

	pg.navigate(p.URL + "/_sandbox/")

	if got := pg.text("body"); !strings.Contains(got, "JavaScript") {
		t.Errorf("the page shows %q, want that it requires JavaScript", got)
	}
}
