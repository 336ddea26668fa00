package sandboxfake

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/timeline"
)

// reporter contains the methods of a test that a timeline needs.
type reporter interface {
	Failed() bool
	Logf(format string, args ...any)
}

// recordFor returns a log of events if tb can report them, and otherwise nil.
func (o *options) recordFor(tb TB) *recentEvents {
	if _, ok := tb.(reporter); !ok || o.noTimeline {
		return nil
	}
	return newRecentEvents(o.journalLimit)
}

// reportFailure writes the timeline if the test has failed. The server may be closed already.
func (s *Server) reportFailure() {
	if s.recent == nil {
		return
	}
	s.tb.Helper()
	test := s.tb.(reporter) // see recordFor
	if !test.Failed() && !panicking() {
		return
	}
	t := s.timeline()
	var text strings.Builder
	_ = t.WriteText(&text) // a strings.Builder returns no error
	test.Logf("sandboxfake: %s", strings.TrimSuffix(text.String(), "\n"))
	switch path, err := s.storeTimeline(t); {
	case err != nil:
		test.Logf("sandboxfake: the timeline was not written: %v", err)
	case path != "":
		test.Logf("sandboxfake: timeline: %s", path)
	}
}

// panicking reports whether a panic of the goroutine has caused the call. Package testing runs the
// cleanup functions of a test that panics before it marks the test as failed.
func panicking() bool {
	var calls [32]uintptr
	for _, pc := range calls[:runtime.Callers(1, calls[:])] {
		if f := runtime.FuncForPC(pc - 1); f != nil && f.Name() == "runtime.gopanic" {
			return true
		}
	}
	return false
}

// storeTimeline writes the page to the directory for artifacts of the test, and returns its path.
// Without the flag -artifacts, that directory would be temporary: it then writes nothing.
func (s *Server) storeTimeline(t *timeline.Timeline) (path string, err error) {
	test, ok := s.tb.(interface{ ArtifactDir() string })
	if artifacts := flag.Lookup("test.artifacts"); !ok || artifacts == nil || artifacts.Value.String() != "true" {
		return "", nil
	}
	file, err := createNumbered(test.ArtifactDir(), "timeline", ".html")
	if err != nil {
		return "", err
	}
	return file.Name(), errors.Join(t.WriteHTML(file), file.Close())
}

// maxNumbered is the maximum number of files of createNumbered.
const maxNumbered = 10_000

// createNumbered creates a file such as timeline.html or, because a test can have several servers,
// timeline-2.html.
func createNumbered(dir, name, extension string) (*os.File, error) {
	path := filepath.Join(dir, name+extension)
	for n := 2; ; n++ {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || n > maxNumbered {
			return file, err
		}
		path = filepath.Join(dir, fmt.Sprintf("%s-%d%s", name, n, extension))
	}
}

// timeline returns the timeline of the server.
func (s *Server) timeline() *timeline.Timeline {
	svc := s.lock()
	defer svc.mu.Unlock()
	t, events := s.recent.timeline()
	t.Title = "sandboxfake"
	if named, ok := s.tb.(interface{ Name() string }); ok {
		t.Title = named.Name()
	}
	clock := "running"
	if svc.clock.Frozen() {
		clock = "frozen"
	}
	t.Facts = []timeline.Field{
		{Name: "Started at", Value: formatPrecise(t.Start)},
		{Name: "Server's clock", Value: clock + ", now " + formatPrecise(svc.clock.Now())},
	}
	t.Events = append(shownEvents(events), svc.dueEvents()...)
	return t
}

// shownEvents returns the events as a timeline shows them. An event of a check that a request
// caused is part of the request. The caller holds the mutex of the current service.
func shownEvents(events []recent) []timeline.Event {
	effects := make(map[uint64][]recent) // by sequence number of the request
	for _, e := range events {
		if e.kind == recentRequest {
			effects[e.seq] = nil
		}
	}
	isEffect := func(e recent) bool {
		_, ok := effects[e.cause]
		return ok
	}
	for _, e := range events {
		if isEffect(e) {
			effects[e.cause] = append(effects[e.cause], e)
		}
	}
	var shown []timeline.Event
	for i := 0; i < len(events); i++ {
		e := events[i]
		if isEffect(e) {
			continue
		}
		v := timeline.Event{Time: e.at, Real: e.real, Kind: timeline.Control}
		switch e.kind {
		case recentRequest:
			showRequest(&v, e, effects[e.seq])
		case recentCheck, recentQueued:
			steps := events[i : i+1]
			if i+1 < len(events) && isQueuedBy(events[i+1], e) {
				steps = events[i : i+2]
				i++
			}
			showCheck(&v, steps)
		case recentAttempt:
			showAttempt(&v, e)
		default:
			showControl(&v, e)
		}
		shown = append(shown, v)
	}
	return shown
}

// showRequest sets the fields of a request and its effects on checks.
func showRequest(v *timeline.Event, e recent, effects []recent) {
	q := e.ref.(*Request)
	v.Kind, v.Outcome, v.Result = timeline.Request, timeline.StatusOutcome(q.Status), strconv.Itoa(q.Status)
	target := timeline.MaskTarget(q.Path)
	v.Title = cmp.Or(q.Operation, q.Method+" "+target)
	var notes []string
	reason, detail := reasonOf(e.reason)
	if reason != "" {
		notes = append(notes, reason)
	}
	if q.Fault != nil {
		notes = append(notes, "injected: "+faultText(q.Fault))
		v.Outcome = timeline.Bad
	}
	if e.text != "" {
		notes = append(notes, "scope "+timeline.MaskText(e.text))
	}
	notes = append(notes, effectTexts(effects)...)
	v.Note = strings.Join(notes, "; ")
	v.Fields = filled(
		timeline.Field{Name: "Request ID", Value: q.ID},
		timeline.Field{Name: "Request", Value: q.Method + " " + target},
		timeline.Field{Name: "Problem", Value: strings.TrimSuffix(reason+": "+detail, ": ")},
		timeline.Field{Name: "Processed in", Value: timeline.Span(e.took)},
		timeline.Field{Name: "Check ID", Value: checkIDsOf(effects)},
		timeline.Field{Name: "Project ID", Value: q.ProjectID},
		timeline.Field{Name: "Client ID", Value: q.ClientID},
		timeline.Field{Name: "Body", Value: timeline.MaskBody(q.Body)},
	)
}

// reasonOf returns the code of a rejected request, and its detail.
func reasonOf(reason any) (code, detail string) {
	switch reason := reason.(type) {
	case *problem:
		_, fragment, _ := strings.Cut(reason.Type, "#")
		return timeline.MaskText(fragment), timeline.MaskText(reason.Detail)
	case tokenErrorView:
		return timeline.MaskText(reason.Error), timeline.MaskText(reason.Description)
	}
	return "", ""
}

// effectTexts returns the effects of a request, one text for each of the first checks.
func effectTexts(effects []recent) (texts []string) {
	const maxTexts = 3
	for len(effects) > 0 {
		n, id := 1, checkID(effects[0])
		for n < len(effects) && checkID(effects[n]) == id {
			n++
		}
		if len(texts) == maxTexts {
			return append(texts, "…")
		}
		texts = append(texts, shortID(id)+" "+stepsText(effects[:n]))
		effects = effects[n:]
	}
	return texts
}

func checkIDsOf(effects []recent) string {
	var ids []string
	for _, e := range effects {
		if id := checkID(e); len(ids) == 0 || ids[len(ids)-1] != id {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, "\n")
}

// checkID returns the check ID of an event of a check or a delivery.
func checkID(e recent) string {
	switch ref := e.ref.(type) {
	case *check:
		return ref.id
	case *delivery:
		return ref.CheckID
	}
	return ""
}

// isQueuedBy reports whether end is the end of a check, and e, the event directly after it, its
// callback.
func isQueuedBy(e, end recent) bool {
	ck, ok := end.ref.(*check)
	return ok && e.kind == recentQueued && end.text == string(endKinds[ck.status]) && checkID(e) == ck.id && e.seq == end.seq+1
}

// showCheck sets the fields of events of a check that no request has caused.
func showCheck(v *timeline.Event, steps []recent) {
	id := checkID(steps[0])
	v.Title, v.Note = "check "+shortID(id), stepsText(steps)
	v.Kind, v.Outcome = timeline.Check, timeline.Neutral
	v.Fields = []timeline.Field{{Name: "Check ID", Value: id}}
	if ck, ok := steps[0].ref.(*check); ok {
		if steps[0].text == string(eventFailed) || steps[0].text == string(eventExpired) {
			v.Outcome = timeline.Warn
		}
		v.Fields = append(v.Fields, checkFields(ck)...)
		return
	}
	d := steps[0].ref.(*delivery)
	v.Kind = timeline.Callback
	v.Fields = append(v.Fields, timeline.Field{Name: "Delivery ID", Value: d.ID}, timeline.Field{Name: "URL", Value: timeline.MaskURL(d.URL)})
}

func checkFields(ck *check) []timeline.Field {
	return filled(
		timeline.Field{Name: "Product", Value: ck.product.name + " " + ck.version},
		timeline.Field{Name: "Phone number", Value: timeline.MaskNumber(ck.phone)},
		timeline.Field{Name: "Project ID", Value: ck.project.id},
	)
}

// stepsText returns the events of one check as a list.
func stepsText(steps []recent) string {
	var texts []string
	for i, e := range steps {
		ck, ok := e.ref.(*check)
		switch ended := ok && e.text == string(endKinds[ck.status]); {
		case !ok:
			texts = append(texts, "callback queued")
		case e.text == string(eventCreated):
			texts = append(texts, "created, number "+timeline.MaskNumber(ck.phone))
		case e.text == string(eventRedirected) && ck.redirectURL != "":
			texts = append(texts, "redirected to "+timeline.MaskURL(ck.redirectURL))
		case ended:
			texts = append(texts, e.text+resultText(ck))
			if ck.product.callbacks && (i+1 == len(steps) || !isQueuedBy(steps[i+1], e)) {
				texts = append(texts, "no callback URL")
			}
		default:
			texts = append(texts, e.text)
		}
	}
	return strings.Join(texts, ", ")
}

// resultText returns the result of a check that has ended, after a colon.
func resultText(ck *check) string {
	if ck.errorCode != "" {
		return ": " + timeline.MaskText(ck.errorCode)
	}
	var results []string
	if ck.match != idverify.VerdictUnknown {
		results = append(results, map[idverify.Verdict]string{yes: "match", no: "no match"}[ck.match])
	}
	if ck.noSIMChange != idverify.VerdictUnknown {
		results = append(results, map[idverify.Verdict]string{yes: "no SIM change", no: "SIM change"}[ck.noSIMChange])
	}
	if len(results) == 0 {
		return ""
	}
	return ": " + strings.Join(results, ", ")
}

// showAttempt sets the fields of an attempt that has ended.
func showAttempt(v *timeline.Event, e recent) {
	d := e.ref.(*delivery)
	a := d.Attempts[e.number-1]
	v.Kind, v.Outcome = timeline.Callback, timeline.Warn
	switch a.Result {
	case ResultAcknowledged:
		v.Outcome = timeline.Good
	case ResultRejected, ResultFailed:
		v.Outcome = timeline.Bad
	}
	v.Title, v.Result = fmt.Sprintf("callback attempt %d", e.number), "–"
	if a.Status != 0 {
		v.Result = strconv.Itoa(a.Status)
	}
	next := "none"
	v.Note = fmt.Sprintf("%s in %s", a.Result.text(), timeline.Span(a.Duration))
	if ruleFor(a.Status).retry && e.number < maxAttempts {
		next = "after " + retryWait(e.number).String()
		v.Note += ", next " + next
	}
	v.Note += fmt.Sprintf("; %s %s", shortID(d.CheckID), d.Status)
	switch cause := strings.TrimPrefix(a.Error, unreachableCause); {
	case a.Fault != nil:
		v.Note += "; injected: " + faultText(a.Fault)
	case cause != "":
		v.Note += "; " + timeline.MaskText(cause)
	case a.Status == http.StatusBadRequest:
		v.Note += "; cause: see VerifierOptions.Logger"
	}
	v.Fields = append(deliveryFields(d),
		timeline.Field{Name: "Sent at", Value: formatPrecise(a.Time)},
		timeline.Field{Name: "Next attempt", Value: next},
	)
	v.Fields = append(v.Fields, headerFields(a.Header)...)
	v.Fields = append(v.Fields, filled(
		timeline.Field{Name: "Error", Value: timeline.MaskText(a.Error)},
		timeline.Field{Name: "Body", Value: timeline.MaskBody(a.Fault.sent(d.Body))},
	)...)
}

func deliveryFields(d *delivery) []timeline.Field {
	return []timeline.Field{
		{Name: "Delivery ID", Value: d.ID},
		{Name: "Check ID", Value: d.CheckID},
		{Name: "Product, status", Value: string(d.Product) + ", " + string(d.Status)},
		{Name: "URL", Value: timeline.MaskURL(d.URL)},
	}
}

var signedKey = regexp.MustCompile(`keyId="([A-Za-z0-9_-]{1,64})"`)

// headerFields returns the parts of a callback's header that are not secret.
func headerFields(header http.Header) []timeline.Field {
	keyID := ""
	if match := signedKey.FindStringSubmatch(header.Get("Authorization")); match != nil {
		keyID = match[1]
	}
	return filled(timeline.Field{Name: "Signed at", Value: header.Get("Date")}, timeline.Field{Name: "Signing key", Value: keyID})
}

// faultText describes an injected fault.
func faultText(f *Fault) string {
	var texts []string
	add := func(is bool, text string) {
		if is {
			texts = append(texts, text)
		}
	}
	add(f.Latency > 0, "latency "+f.Latency.String())
	add(f.Status != 0, strings.TrimSpace(strconv.Itoa(f.Status)+" "+timeline.MaskText(f.Code)))
	add(f.RetryAfter > 0, "retry after "+f.RetryAfter.String())
	add(f.Drop, "connection dropped")
	add(f.Truncate, "truncated")
	add(f.Body != "", fmt.Sprintf("body of %d bytes", len(f.Body)))
	add(f.WrongKey, "signed with a wrong key")
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}

// filled returns the fields with a value.
func filled(list ...timeline.Field) []timeline.Field {
	var fields []timeline.Field
	for _, f := range list {
		if f.Value != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

// shortID returns the beginning of an ID.
func shortID(id string) string { return id[:min(len(id), 8)] }

func formatPrecise(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// showControl sets the fields of an event that a method of the server has caused.
func showControl(v *timeline.Event, e recent) {
	switch e.kind {
	case recentInject:
		i := e.ref.(*injection)
		v.Kind, v.Title, v.Result, v.Note = timeline.Fault, "faults injected", fmt.Sprint(len(i.faults)), i.text(i.faults)
	case recentRemove:
		v.Kind, v.Title = timeline.Fault, "faults removed"
		if i, ok := e.ref.(*injection); ok {
			v.Note = i.text(i.faults)
		}
	case recentAdvance:
		v.Title, v.Result = "clock advances", e.took.String()
	case recentStopped:
		v.Title, v.Outcome, v.Note = "clock stops", timeline.Bad, timeline.MaskText(e.text)
	case recentRotate:
		v.Title, v.Note = "keys rotated", "key "+shortID(e.text)+" signs"
		v.Fields = []timeline.Field{{Name: "Key ID", Value: e.text}}
	case recentRetire:
		v.Title, v.Note = "key removed", "key "+shortID(e.text)+" is no longer published"
		v.Fields = []timeline.Field{{Name: "Key ID", Value: e.text}}
	case recentReset:
		v.Title = "server reset"
	case recentClose:
		v.Title = "server closed"
	}
}

// text describes faults of the injection, and the calls that they match.
func (i *injection) text(faults []Fault) string {
	const maxTexts = 6
	var texts []string
	for len(faults) > 0 {
		n := 1 // equal faults
		for n < len(faults) && faults[n] == faults[0] {
			n++
		}
		if len(texts) == maxTexts {
			texts = append(texts, "…")
			break
		}
		text := faultText(&faults[0])
		if n > 1 {
			text = fmt.Sprintf("%d times %s", n, text)
		}
		texts, faults = append(texts, text), faults[n:]
	}
	operation := i.match.Operation
	if operation == "" {
		operation = "any operation"
	}
	if i.match.CheckID != "" {
		operation += " of check " + shortID(timeline.MaskPath(i.match.CheckID))
	}
	if i.match.Repeat {
		operation += ", repeated"
	}
	return operation + ": " + strings.Join(texts, "; ")
}

// maxDue is the maximum number of deliveries, and of injections, in dueEvents.
const maxDue = 4

// dueEvents returns what has not happened: attempts in flight or due later, and faults that no call
// has met. The caller holds s.mu.
func (s *service) dueEvents() []timeline.Event {
	var due []timeline.Event
	rest := 0
	for d := range s.deliveries.all {
		if v, ok := s.dueAttempt(d); !ok {
			continue
		} else if due = append(due, v); len(due) > maxDue {
			due, rest = due[:maxDue], rest+1
		}
	}
	slices.SortStableFunc(due, func(a, b timeline.Event) int { return a.Time.Compare(b.Time) })
	if rest > 0 {
		due = append(due, timeline.Event{Due: true, Kind: timeline.Callback, Title: fmt.Sprintf("%d other callbacks", rest)})
	}
	unused := 0
	for _, i := range s.injections {
		if left := i.faults[i.next:]; len(left) > 0 && !i.match.Repeat && unused < maxDue {
			unused++
			due = append(due, timeline.Event{Due: true, Kind: timeline.Fault, Title: "faults not used", Result: fmt.Sprint(len(left)), Note: i.text(left)})
		}
	}
	return due
}

// dueAttempt returns the next attempt of a delivery, and false if there is none.
func (s *service) dueAttempt(d *delivery) (timeline.Event, bool) {
	v := timeline.Event{Due: true, Kind: timeline.Callback, Title: fmt.Sprintf("callback attempt %d", len(d.Attempts)+1), Fields: deliveryFields(d)}
	note := fmt.Sprintf("%s %s", shortID(d.CheckID), d.Status)
	switch {
	case d.inFlight && s.ended == nil:
		v.Time, v.Note = d.due, "in flight; "+note
	case d.inFlight:
		v.Time, v.Note = d.due, "in flight until the server was closed; "+note
	case !d.NextAttempt.IsZero():
		v.Time, v.Note = d.NextAttempt, note
		if d.NextAttempt.After(s.clock.Now()) {
			v.Note = fmt.Sprintf("in %v; %s", d.NextAttempt.Sub(s.clock.Now()).Round(100*time.Millisecond), note)
		}
	case !d.Done:
		v.Time, v.Note = d.due, "waits for other attempts in flight; "+note
	default:
		return v, false
	}
	return v, true
}

// recentEvents contains the newest events of a server in one order, for the timeline of a failed
// test. Reset does not clear it. A nil *recentEvents records nothing.
type recentEvents struct {
	started time.Time // on the system's clock

	mu     sync.Mutex // guards the fields below; the holder of a service's mutex may lock it
	start  time.Time  // on the server's clock
	moved  bool       // the server's clock was frozen or moved
	last   uint64     // sequence number of the latest event
	events journal[recent]
}

// maxRecent is the maximum number of recent events. A smaller limit of the journals also applies,
// because an event keeps its request or delivery in memory.
const maxRecent = 1000

// recent is an event. Events refer to objects of their service, whose mutex guards those.
type recent struct {
	seq    uint64        // order of events; an event that causes others has a lower number
	cause  uint64        // sequence number of the request that caused the event, or 0
	at     time.Time     // on the server's clock
	real   time.Duration // since recentEvents.started
	kind   recentKind
	number int           // of an attempt, counted from 1
	took   time.Duration // processing of a request; step of the clock
	text   string        // kind of a check's event; scope of a token; key ID; error of Advance
	ref    any           // *Request, *check, *delivery or *injection
	reason any           // *problem or tokenErrorView of a rejected request
}

// recentKind is the kind of a recent event.
type recentKind uint8

const (
	recentRequest recentKind = iota
	recentCheck
	recentQueued  // a callback
	recentAttempt // has ended
	recentInject
	recentRemove // of an injection or, if ref is nil, of all
	recentAdvance
	recentStopped // Advance, before the end of its step
	recentRotate
	recentRetire // removal of a retired key from the key set
	recentReset
	recentClose
)

func newRecentEvents(journalLimit int) *recentEvents {
	return &recentEvents{started: time.Now(), events: journal[recent]{limit: min(maxRecent, journalLimit)}}
}

// begin sets the time of the server's clock at the start.
func (r *recentEvents) begin(at time.Time, frozen bool) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.start, r.moved = at, frozen
	}
}

// reserve returns the sequence number of an event that is added later.
func (r *recentEvents) reserve() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return r.last
}

// add adds an event. If it has no sequence number, it gets the next one.
func (r *recentEvents) add(e recent) {
	if r == nil {
		return
	}
	e.real = time.Since(r.started)
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.seq == 0 {
		r.last++
		e.seq = r.last
	}
	r.moved = r.moved || e.kind == recentAdvance
	r.events.add(e)
}

// timeline returns a timeline without events, and the events in order of their sequence numbers.
func (r *recentEvents) timeline() (*timeline.Timeline, []recent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.AppendSeq(make([]recent, 0, len(r.events.entries)), r.events.all)
	slices.SortFunc(events, func(a, b recent) int { return cmp.Compare(a.seq, b.seq) })
	return &timeline.Timeline{Start: r.start, Real: r.moved, Earlier: r.events.dropped}, events
}

// addRequest adds a call that is in the journal.
func (r *recentEvents) addRequest(c *call, entry *Request, resp *response) {
	if r == nil {
		return
	}
	e := recent{seq: c.seq, kind: recentRequest, at: entry.Time, ref: entry}
	if !c.started.IsZero() {
		e.took = time.Since(c.started)
	}
	switch body := resp.body.(type) {
	case *problem, tokenErrorView:
		e.reason = body
	case tokenView:
		e.text = body.Scope
	}
	r.add(e)
}
