package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
)

// hostile are texts that are code, markup or confusing if a page does not escape them.
var hostile = []string{
	`<img src=x onerror="window.__hacked=1"><script>window.__hacked=1</script>`,
	`"><svg onload=window.__hacked=1>'` + "`${window.__hacked=1}`",
	`javascript:window.__hacked=1`,
	"\u202egnp.\u2066txet\u2069 \u200f\u0645\u0631\u062d\u0628\u0627",
	`</textarea></title></style><iframe srcdoc="<script>parent.__hacked=1</script>">`,
	`{{7*7}}${7*7}&lt;b&gt;&amp;#39;\u003cb\u003e\\n`,
	strings.Repeat("W", 900),
}

func TestHostile_Checks(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)
	client := p.client()

	for i, text := range hostile {
		callbackURL := "http://127.0.0.1:9/?" + strings.NewReplacer(" ", "+", `"`, "'").Replace(text)
		if _, err := http.NewRequest(http.MethodGet, callbackURL, nil); err != nil || len(callbackURL) > 600 || strings.ContainsAny(text, "\u202e\\") {
			callbackURL = "http://127.0.0.1:9/"
		}
		c, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{
			PhoneNumber: "447700900012", ReferenceID: text, CallbackURL: callbackURL,
		})
		if err != nil {
			t.Fatalf("text %d: %v", i, err)
		}
		p.open(c.CheckID)
		pg.selectCheck(c.CheckID)
		pg.waitText("#detail", text)
		pg.openDetails()
		pg.checkHarmless(text)
		if i == 0 {
			pg.screenshot("hostile")
		}
	}
	pg.resize(360, 740)
	if width := evaluate[int](pg, "document.documentElement.scrollWidth"); width > 360 {
		t.Errorf("the page is %d pixels wide, want 360", width)
	}
	pg.screenshot("hostile-phone")
}

func TestHostile_Requests(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)
	for _, text := range hostile {
		request := httptest.NewRequest(http.MethodGet, "https://x/", nil)
		request.RequestURI = ""
		request.URL.Host = strings.TrimPrefix(p.URL, "https://")
		request.Host = request.URL.Host
		request.URL.Path = "/phone_check/v0.1/checks/" + text
		request.URL.RawQuery = "search=%22%3E%3Cscript%3Ewindow.__hacked=1%3C/script%3E"
		request.Header.Set("User-Agent", `<script>window.__hacked=1</script>`)
		p.do(request.WithContext(t.Context()))
	}

	pg.view("requests")

	pg.waitText("#requests-body", "script")
	evaluate[bool](pg, `(document.querySelectorAll("[data-action=toggle-request]").forEach(b => b.click()), true)`)
	pg.checkHarmless("")
	pg.resize(360, 740)
	if width := evaluate[int](pg, "document.documentElement.scrollWidth"); width > 360 {
		t.Errorf("the page is %d pixels wide, want 360", width)
	}
	pg.screenshot("hostile-requests")
}

func TestHostile_ProjectName(t *testing.T) {
	t.Parallel()
	p := start(t)
	console := p.console()
	for _, name := range hostile {
		if len(name) > 200 {
			name = name[:200]
		}
		if _, err := console.Projects.Create(t.Context(), idverify.ProjectParams{Name: name, Mode: idverify.ModeSandbox}); err != nil {
			t.Logf("the service rejects the name %.20q: %v", name, err)
		}
	}
	pg := open(t, p)

	pg.view("control")

	pg.waitText("#view-control", "onerror")
	pg.checkHarmless("")
	pg.screenshot("hostile-projects")
}

// checkHarmless fails the test if a hostile text became an element or a script, or was changed.
func (p *page) checkHarmless(text string) {
	p.t.Helper()
	if evaluate[bool](p, `window.__hacked !== undefined`) {
		p.t.Errorf("a script in %.40q was executed", text)
	}
	if n := evaluate[int](p, `document.querySelectorAll("main script, iframe, main svg[onload], img[onerror], [onload], [onclick], a[href^='javascript' i]").length`); n != 0 {
		p.t.Errorf("%.40q became %d elements", text, n)
	}
	if text != "" && !evaluate[bool](p, "document.querySelector('#detail').textContent.includes("+quote(text)+")") {
		p.t.Errorf("%.40q is not shown unchanged", text)
	}
}
