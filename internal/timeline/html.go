package timeline

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// page is the page with its style, and placeholders in double braces. Its only reference is to an
// event of the same page.
//
//go:embed timeline.html
var page string

// Policy is the Content-Security-Policy of the page. It allows only the page's own style, by its
// hash.
const Policy = "default-src 'none'; style-src 'sha256-uG18Ze2+2doIZBXwV7yXbw1+8lflC1k0K+RJJXT6SeY='; base-uri 'none'; form-action 'none'"

// Limits of WriteHTML.
const (
	maxPageEvents = 2000
	maxPageBytes  = 4 << 20 // all events
	maxPageText   = 300     // one title, result or note
	maxPageValue  = 4 << 10 // one value of a field
)

// WriteHTML writes a page that needs no script and no other file. It shows the newest events, as
// far as they fit into the limits.
func (t *Timeline) WriteHTML(w io.Writer) error {
	items, size := []string{}, 0
	for i := len(t.Events) - 1; i >= 0 && len(items) < maxPageEvents; i-- {
		item := t.item(&t.Events[i], i == len(t.Events)-1)
		if size += len(item); size > maxPageBytes {
			break
		}
		items = append(items, item)
	}
	slices.Reverse(items)
	// A Replacer does not replace text that it has inserted.
	_, err := strings.NewReplacer(
		"{{policy}}", Policy,
		"{{title}}", escape(t.Title, maxPageText),
		"{{facts}}", fields(t.Facts),
		"{{note}}", t.note(len(items)),
		"{{events}}", strings.Join(items, ""),
	).WriteString(w, page)
	return err
}

// note returns the paragraph above the events.
func (t *Timeline) note(shown int) string {
	all := t.Earlier + len(t.Events)
	switch {
	case all == 0:
		return `<p class="note">No events.</p>`
	case shown < all:
		return fmt.Sprintf(`<p class="note">The last %d of %d events. Older events are not shown. <a href="#last">Last event</a></p>`, shown, all)
	}
	return fmt.Sprintf(`<p class="note">%d %s. <a href="#last">Last event</a></p>`, all, plural(all, "event"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// item returns the list item of an event.
func (t *Timeline) item(e *Event, last bool) string {
	var b strings.Builder
	id, outcome := "", e.Outcome
	if last {
		id = ` id="last" tabindex="-1"`
	}
	if e.Due {
		outcome = "due"
	}
	fmt.Fprintf(&b, `<li%s data-kind="%s" data-outcome="%s"><div class="head">`, id, escape(string(e.Kind), maxPageText), escape(string(outcome), maxPageText))
	b.WriteString(t.times(e))
	fmt.Fprintf(&b, `<b>%s</b>`, escape(e.Title, maxPageText))
	if e.Result != "" {
		fmt.Fprintf(&b, ` <span class="result">%s</span>`, escape(e.Result, maxPageText))
	}
	b.WriteString("</div>")
	if e.Note != "" {
		fmt.Fprintf(&b, `<p class="text">%s</p>`, escape(e.Note, maxPageText))
	}
	if len(e.Fields) > 0 {
		fmt.Fprintf(&b, `<details><summary>Details<span class="hide"> of %s</span></summary>%s</details>`, escape(e.Title, maxPageText), fields(e.Fields))
	}
	b.WriteString("</li>\n")
	return b.String()
}

// times returns the times of an event.
func (t *Timeline) times(e *Event) string {
	var b strings.Builder
	b.WriteString(`<span class="times">`)
	if offset := t.offset(e); offset != "" {
		at := e.Time.UTC().Format(time.RFC3339Nano)
		fmt.Fprintf(&b, `<time datetime="%s" title="%s">%s</time>`, at, at, offset)
	}
	switch {
	case e.Due:
		b.WriteString(` <span class="real">due</span>`)
	case t.Real:
		fmt.Fprintf(&b, ` <span class="real">%s</span>`, Span(e.Real))
	}
	b.WriteString("</span> ")
	return b.String()
}

// fields returns a description list.
func fields(list []Field) string {
	var b strings.Builder
	b.WriteString("<dl>")
	for _, f := range list {
		value := html.EscapeString(clean(f.Value, maxPageValue, true))
		if strings.Contains(value, "\n") {
			value = `<pre tabindex="0">` + value + `</pre>`
		}
		fmt.Fprintf(&b, "<div><dt>%s</dt><dd>%s</dd></div>", escape(f.Name, maxPageText), value)
	}
	b.WriteString("</dl>")
	return b.String()
}

// escape returns one line of text as HTML, also in a quoted attribute.
func escape(text string, limit int) string { return html.EscapeString(clean(text, limit, false)) }
