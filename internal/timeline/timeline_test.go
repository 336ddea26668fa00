package timeline_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/timeline"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// small returns a timeline with an event of each form.
func small() *timeline.Timeline {
	return &timeline.Timeline{
		Title: "TestShop",
		Facts: []timeline.Field{{Name: "Server's clock", Value: "frozen"}},
		Start: start,
		Real:  true,
		Events: []timeline.Event{
			{Time: start, Real: 900 * time.Microsecond, Kind: timeline.Request, Outcome: timeline.Good, Title: "phone_check.create", Result: "201", Note: "check 6f1c8a20 created", Fields: []timeline.Field{{Name: "Body", Value: "{\n  \"match\": true\n}"}}},
			{Time: start.Add(90 * time.Second), Real: 1234 * time.Millisecond, Kind: timeline.Control, Title: "clock advances", Note: "1m30s"},
			{Time: start.Add(100 * time.Second), Due: true, Kind: timeline.Callback, Title: "callback attempt 2"},
			{Due: true, Kind: timeline.Fault, Title: "faults not used", Result: "1"},
		},
	}
}

// written returns what write writes.
func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTimeline_WriteText(t *testing.T) {
	t.Parallel()
	without := small()
	without.Real, without.Events = false, without.Events[:1]
	for _, row := range []struct {
		name string
		tl   *timeline.Timeline
		want string
	}{
		{"two clocks", small(), `4 events:
   clock  real
     +0s 0.9ms  phone_check.create  201  check 6f1c8a20 created
  +1m30s  1.2s  clock advances           1m30s
  +1m40s   due  callback attempt 2
           due  faults not used     1
`},
		{"one clock", without, `1 event:
  clock
    +0s  phone_check.create  201  check 6f1c8a20 created
`},
		{"empty", &timeline.Timeline{}, "no events\n"},
	} {
		if diff := cmp.Diff(row.want, written(t, row.tl.WriteText)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestTimeline_WriteHTML(t *testing.T) {
	t.Parallel()

	got := written(t, small().WriteHTML)

	for _, want := range []string{
		"<title>Timeline: TestShop</title>",
		"<h1>TestShop</h1>",
		`<dt>Server&#39;s clock</dt><dd>frozen</dd>`,
		`4 events. <a href="#last">`,
		`<li data-kind="request" data-outcome="good">`,
		`<time datetime="2026-01-02T03:05:35Z" title="2026-01-02T03:05:35Z">+1m30s</time> <span class="real">1.2s</span>`,
		`<b>phone_check.create</b> <span class="result">201</span></div><p class="text">check 6f1c8a20 created</p>`,
		"<pre tabindex=\"0\">{\n  &#34;match&#34;: true\n}</pre>",
		`<li id="last" tabindex="-1" data-kind="fault" data-outcome="due">`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not contain %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "{{") {
		t.Error("the page contains a placeholder")
	}
}

// Without a matching hash, the browser ignores the style.
func TestPolicy_Hash(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("timeline.html")
	if err != nil {
		t.Fatal(err)
	}
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindSubmatch(file)
	if style == nil {
		t.Fatal("timeline.html has no style")
	}

	sum := sha256.Sum256(style[1])

	if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(timeline.Policy, want) {
		t.Errorf("Policy = %s, want %s", timeline.Policy, want)
	}
	if !strings.Contains(written(t, small().WriteHTML), `content="`+timeline.Policy+`"`) {
		t.Error("the page does not contain the policy")
	}
	if script := regexp.MustCompile(`(?i)<script|\son\w+=|style=|https?:|url\(`).Find(file); script != nil {
		t.Errorf("timeline.html contains %s, want no script and no reference", script)
	}
}

// hostile are texts that are markup, escape sequences or confusing.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	"\x1b[2J\x1b]0;title\x07\r\nsecond line",
	"\u202egnp.\u2066txet\u2069\u200f",
	"{{events}}{{title}}",
	"\xff\xfe\x00",
	"-->]]></title></style></pre>",
	strings.Repeat("W", 100_000),
	strings.Repeat("\u202e", 50_000),
}

// hostileTimeline returns a timeline in which every text is the given one.
func hostileTimeline(text string) *timeline.Timeline {
	e := timeline.Event{
		Time: start, Kind: timeline.Kind(text), Outcome: timeline.Outcome(text), Title: text, Result: text, Note: text,
		Fields: []timeline.Field{{Name: text, Value: text}, {Name: "Lines", Value: "first\n" + text}},
	}
	return &timeline.Timeline{Title: text, Facts: e.Fields, Start: start, Events: []timeline.Event{e, e}}
}

func TestTimeline_HostileText(t *testing.T) {
	t.Parallel()
	for _, hostile := range hostile {
		got := written(t, hostileTimeline(hostile).WriteText)

		for _, r := range got {
			if r != '\n' && (r < ' ' || r == 0x7f || r == 0x202e || r == 0x2066 || r == 0x2069 || r == 0x200f) {
				t.Errorf("the text of %.30q contains the character %U", hostile, r)
			}
		}
		if lines := strings.Count(got, "\n"); lines != 4 || !utf8.ValidString(got) {
			t.Errorf("the text of %.30q has %d lines, want 4 of valid UTF-8:\n%q", hostile, lines, got)
		}
	}
}

// tags matches every tag of the page.
var tags = regexp.MustCompile(`<[^>]*>`)

func TestTimeline_HostileHTML(t *testing.T) {
	t.Parallel()
	oneLine, twoLines := written(t, hostileTimeline("harmless").WriteHTML), written(t, hostileTimeline("two\nlines").WriteHTML)
	for _, hostile := range hostile {
		harmless := oneLine
		if strings.Contains(hostile, "\n") {
			harmless = twoLines
		}
		got := written(t, hostileTimeline(hostile).WriteHTML)

		// The same tags, with other values of attributes.
		want, have := tags.FindAllString(harmless, -1), tags.FindAllString(got, -1)
		if len(want) != len(have) {
			t.Errorf("the page of %.30q has %d tags, want %d", hostile, len(have), len(want))
			continue
		}
		values := regexp.MustCompile(`"[^"]*"`)
		for i := range want {
			if a, b := values.ReplaceAllString(want[i], ""), values.ReplaceAllString(have[i], ""); a != b {
				t.Errorf("the page of %.30q contains %.60q, want %.60q", hostile, have[i], want[i])
			}
		}
		for _, r := range got {
			if r != '\n' && (r < ' ' || r == 0x202e || r == 0x2066 || r == 0x200f) {
				t.Errorf("the page of %.30q contains the character %U", hostile, r)
				break
			}
		}
		if len(got) > 100<<10 {
			t.Errorf("the page of %.30q has %d bytes, want truncated texts", hostile, len(got))
		}
	}
	if got := written(t, hostileTimeline(`<&>"'`).WriteHTML); !strings.Contains(got, html.EscapeString(`<&>"'`)) {
		t.Errorf("the page does not show the text unchanged:\n%s", got)
	}
}

func TestTimeline_Limits(t *testing.T) {
	t.Parallel()
	many := &timeline.Timeline{Title: "TestMany", Start: start, Earlier: 5}
	body := []timeline.Field{{Name: "Body", Value: strings.Repeat("b", 100_000)}}
	for i := range 10_000 {
		many.Events = append(many.Events, timeline.Event{Time: start, Title: fmt.Sprint("event ", i), Note: body[0].Value, Fields: body})
	}

	short, long := written(t, many.WriteText), written(t, many.WriteHTML)

	lines := strings.Split(strings.TrimSpace(short), "\n")
	if len(lines) != 27 || lines[0] != "the last 25 of 10005 events:" || !strings.Contains(lines[26], "event 9999") {
		t.Errorf("the text has %d lines, want a heading, the columns and the last 25 events:\n%s", len(lines), short)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 110 {
			t.Errorf("a line has %d characters, want at most 110: %s", n, line)
		}
	}
	if len(long) > 5<<20 || !strings.Contains(long, "event 9999") || strings.Contains(long, "event 7000<") {
		t.Errorf("the page has %d bytes, want at most 5 MiB with the newest events", len(long))
	}
	if !regexp.MustCompile(`The last \d+ of 10005 events\. Older events are not shown\.`).MatchString(long) {
		t.Error("the page does not say that older events are missing")
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                        "0s",
		40 * time.Microsecond:    "0s",
		1234 * time.Microsecond:  "1.2ms",
		12345 * time.Microsecond: "12ms",
		999 * time.Millisecond:   "999ms",
		1500 * time.Millisecond:  "1.5s",
		59 * time.Second:         "59s",
		150 * time.Second:        "2m30s",
		-time.Second:             "-1s",
		3 * time.Hour:            "3h0m0s",
	} {
		if got := timeline.Span(d); got != want {
			t.Errorf("Span(%v) = %s, want %s", d, got, want)
		}
	}
}
