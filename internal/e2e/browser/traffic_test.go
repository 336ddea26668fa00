package browser

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// traffic records the requests of a page and what the browser complains about.
type traffic struct {
	origin string // of the program

	mu       sync.Mutex    // guards the other fields
	changed  chan struct{} // closed and replaced after each change
	requests []*request
	faults   []string
	allowed  []string // hosts, and parts of faults, that do not fail the test
}

// request is an HTTP request of the page.
type request struct {
	id     network.RequestID
	method string
	url    string
	path   string // path and query
	body   string
	status int // 0 before the response
}

// json returns the decoded body of the request.
func (r *request) json() map[string]any {
	var got map[string]any
	json.Unmarshal([]byte(r.body), &got)
	return got
}

func newTraffic(origin string) *traffic {
	return &traffic{origin: origin, changed: make(chan struct{})}
}

// listen records an event of the browser.
func (t *traffic) listen(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		t.requested(e)
	case *network.EventResponseReceived:
		for _, r := range t.requests {
			if r.id == e.RequestID {
				r.status = int(e.Response.Status)
			}
		}
	case *runtime.EventExceptionThrown:
		t.faults = append(t.faults, "exception: "+(&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			t.faults = append(t.faults, fmt.Sprintf("console.%s: %s", e.Type, arguments(e.Args)))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			t.faults = append(t.faults, fmt.Sprintf("%s %s: %s (%s)", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *audits.EventIssueAdded:
		t.faults = append(t.faults, issue(e.Issue))
	default:
		return
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// requested records a request. The caller holds t.mu.
func (t *traffic) requested(e *network.EventRequestWillBeSent) {
	u, err := url.Parse(e.Request.URL)
	if err != nil || u.Scheme == "data" || u.Scheme == "blob" || u.Scheme == "about" {
		return
	}
	r := &request{id: e.RequestID, method: e.Request.Method, url: e.Request.URL, path: u.RequestURI()}
	for _, entry := range e.Request.PostDataEntries {
		r.body += string(entry.Bytes)
	}
	if e.RedirectResponse != nil {
		for _, earlier := range t.requests {
			if earlier.id == e.RequestID {
				earlier.id, earlier.status = "", int(e.RedirectResponse.Status)
			}
		}
	}
	t.requests = append(t.requests, r)
	if u.Scheme+"://"+u.Host != t.origin {
		t.faults = append(t.faults, "request to another host: "+e.Request.URL)
	}
}

func arguments(args []*runtime.RemoteObject) string {
	var texts []string
	for _, a := range args {
		texts = append(texts, string(a.Value)+a.Description)
	}
	return strings.Join(texts, " ")
}

func issue(i *audits.InspectorIssue) string {
	text, err := json.Marshal(i)
	if err != nil {
		return string(i.Code)
	}
	return "issue: " + string(text)
}

// permit lets the page log errors, and send requests to URLs, that contain a text.
func (t *traffic) permit(texts ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allowed = append(t.allowed, texts...)
}

// report fails the test for each fault that is not permitted.
func (t *traffic) report(test *testing.T) {
	test.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, fault := range t.faults {
		if !slices.ContainsFunc(t.allowed, func(text string) bool { return strings.Contains(fault, text) }) {
			test.Errorf("the page causes an error: %s", fault)
		}
	}
}

// mark returns the number of requests so far.
func (t *traffic) mark() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.requests)
}

// sent returns the first completed request after mark with that method and a path that starts with
// prefix. It waits for the request.
func (t *traffic) sent(test *testing.T, mark int, method, prefix string) *request {
	test.Helper()
	deadline := time.After(timeout)
	for {
		t.mu.Lock()
		changed := t.changed
		for _, r := range t.requests[mark:] {
			if r.method == method && strings.HasPrefix(r.path, prefix) && r.status != 0 {
				t.mu.Unlock()
				return new(*r)
			}
		}
		t.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			test.Fatalf("the page did not send %s %s; it sent: %s", method, prefix, t.since(mark))
		}
	}
}

// since lists the requests after mark.
func (t *traffic) since(mark int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, r := range t.requests[mark:] {
		lines = append(lines, fmt.Sprintf("%s %s %d", r.method, r.path, r.status))
	}
	return strings.Join(lines, ", ")
}
