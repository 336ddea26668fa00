package sandboxfake

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/timeline"
)

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

// isQueuedBy reports whether e is the callback that the end of a check has queued. The end comes
// immediately before.
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
	v.Note = fmt.Sprintf("%s in %s", a.Result, timeline.Span(a.Duration))
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
