package sandboxfake_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// historyLimit is the documented number of checks that the control plane shows.
const historyLimit = 10_000

// allChecks returns the IDs of all checks in the control plane, page by page.
func (a *api) allChecks(limit int) []string {
	a.t.Helper()
	var all []string
	for before, more := "", true; more; {
		checks, next := a.checks(fmt.Sprintf("limit=%d%s", limit, before))
		all = append(all, ids(checks)...)
		before, more = "&before="+next, next != ""
	}
	return all
}

func TestServer_HistoryLimit(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	oldest := a.create(phoneChecks, `{"phone_number":"447700900013"}`)
	a.srv.StoreChecks(historyLimit - 1)
	if checks, _ := a.checks("search=900013"); len(checks) != 1 {
		t.Fatalf("%d checks found among %d, want the oldest one", len(checks), historyLimit)
	}

	newest := a.create(phoneChecks, `{"phone_number":"447700900014"}`)

	all := a.allChecks(200)
	if len(all) != historyLimit || all[0] != newest || slices.Contains(all, oldest) || distinct(all) != historyLimit {
		t.Errorf("%d checks, want the newest %d, each once", len(all), historyLimit)
	}
	wantEqual(t, map[string]any{"total": 1.0 * historyLimit, "dropped": 1.0}, a.state()["checks"], "checks of the state")
	a.control(http.MethodGet, "timeline?check_id="+oldest, "").wantProblem(t, http.StatusNotFound, "check_not_found")
	if got := a.get(phoneChecks + "/" + oldest); got.status != http.StatusOK {
		t.Errorf("reading a check that left the history = %d, want 200", got.status)
	}
	if got := a.controlOpen(oldest, "phone", false); got.statusOf() != 200.0 {
		t.Errorf("opening a check that left the history = %s, want status 200", got.body)
	}
	if got := a.get(phoneChecks + "/" + oldest); got.json["match"] != true {
		t.Errorf("check = %s, want the chosen result", got.body)
	}
}

func TestServer_HistoryJournalLimit(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithJournalLimit(historyLimit+5))

	a.srv.StoreChecks(historyLimit + 10)

	wantEqual(t, map[string]any{"total": 1.0*historyLimit + 5, "dropped": 5.0}, a.state()["checks"], "checks with a larger limit of the journals")
}

// Pages contain every check that existed before the first page, and none twice, while checks are
// created and end.
func TestServer_HistoryPagesConcurrently(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	a.srv.StoreChecks(1500)
	before := a.allChecks(200)
	done := make(chan struct{})
	go func() {
		defer close(done)
		other := newAPI(t, a.srv)
		for i := range 200 {
			id := other.post(phoneChecks, `{"phone_number":"447700900012"}`).text("check_id")
			if i%2 == 0 {
				other.control(http.MethodPost, "expire", `{"check_id":"`+id+`"}`)
			}
		}
	}()

	var pages []string
	for range 3 {
		pages = a.allChecks(37)
		counts := make(map[string]int)
		for _, id := range pages {
			if counts[id]++; counts[id] > 1 {
				t.Fatalf("check %s is on two pages", id)
			}
		}
		for _, id := range before {
			if counts[id] != 1 {
				t.Fatalf("check %s is on no page", id)
			}
		}
	}
	<-done

	if n := len(a.allChecks(200)); n != 1700 {
		t.Errorf("%d checks at the end, want 1700", n)
	}
}

func TestServer_HistoryDeliveries(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name         string
		limit        int // of the journals
		shown, total int // deliveries in the timeline, and all
	}{
		{"many deliveries", 100, 20, 25},
		{"small journal", 3, 3, 25},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt), sandboxfake.WithJournalLimit(row.limit))
			id := a.completeCheck(a.srv.Handle("app.sandbox.test", new(recordingReceiver)))
			for range row.total - 1 {
				noError(t, a.srv.Redeliver(t.Context(), a.srv.Deliveries()[0].ID))
			}
			waitIdle(t, a.srv)

			got := a.control(http.MethodGet, "timeline?check_id="+id, "")

			check, events := a.timeline(id)
			queued := slices.DeleteFunc(events, func(e map[string]any) bool { return e["kind"] != "callback_queued" })
			deliveries := a.srv.Deliveries()
			var newest []string
			for _, d := range deliveries[len(deliveries)-row.shown:] {
				newest = append(newest, d.ID)
			}
			wantEqual(t, newest, textsOf(queued, "delivery_id"), "deliveries in the timeline")
			if got.json["dropped"] != float64(row.total-row.shown) || check["deliveries"] != float64(row.total) {
				t.Errorf("dropped %v of %v deliveries, want %d of %d", got.json["dropped"], check["deliveries"], row.total-row.shown, row.total)
			}
		})
	}
}

func TestServer_HistoryAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		receiver := newBlockingReceiver()
		id := a.completeCheck(a.srv.Handle("app.sandbox.test", receiver))
		<-receiver.received
		began := time.Now()

		checkDuring, during := a.timeline(id)
		time.Sleep(3 * time.Second)
		receiver.respond <- http.StatusServiceUnavailable
		synctest.Wait()
		checkAfter, after := a.timeline(id)
		listed := a.control(http.MethodGet, "deliveries?check_id="+id, "")
		receiver.respond <- http.StatusForbidden
		synctest.Wait()
		checks, _ := a.checks("")

		if last := during[len(during)-1]; last["kind"] != "attempt_in_flight" || last["number"] != 1.0 || last["time"] != began.UTC().Format(time.RFC3339Nano) {
			t.Errorf("last event during the attempt = %v, want attempt_in_flight", last)
		}
		if diff := cmp.Diff([]string{"created", "opened", "completed", "callback_queued", "attempt", "next_attempt"}, kinds(after)); diff != "" {
			t.Fatalf("events after the attempt (-want +got):\n%s", diff)
		}
		if attempt := after[4]; attempt["status"] != 503.0 || attempt["result"] != "failed" || attempt["duration_seconds"] != 3.0 {
			t.Errorf("attempt = %v, want one with status 503 after 3 s", attempt)
		}
		if next := after[5]; next["due"] != began.Add(13*time.Second).UTC().Format(time.RFC3339Nano) || next["time"] != next["due"] || next["number"] != 2.0 {
			t.Errorf("next attempt = %v, want the second one, due 10 s after the first", next)
		}
		shown := listed.json["deliveries"].([]any)[0].(map[string]any)
		if attempt := shown["attempts"].([]any)[0].(map[string]any); attempt["duration_seconds"] != 3.0 || shown["next_attempt"] != after[5]["due"] {
			t.Errorf("list of deliveries = %v, want an attempt of 3 s, and when the next one is due", shown)
		}
		delivery := during[3]["delivery_id"]
		want := []any{
			map[string]any{"delivery_id": delivery, "attempts": 0.0, "done": false},
			map[string]any{"delivery_id": delivery, "attempts": 1.0, "status": 503.0, "result": "failed", "next_attempt": after[5]["due"], "done": false},
			map[string]any{"delivery_id": delivery, "attempts": 2.0, "status": 403.0, "result": "rejected", "done": true},
		}
		wantEqual(t, want, []any{checkDuring["last_delivery"], checkAfter["last_delivery"], checks[0]["last_delivery"]}, "last delivery during the first attempt, after it, and after the second one")
	})
}

// Deliveries beyond the limit of attempts in flight are due, but not in flight.
func TestServer_HistoryWaitingAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		receiver := newBlockingReceiver()
		target := a.srv.Handle("app.sandbox.test", receiver)
		var last string
		for range 65 {
			last = a.completeCheck(target)
		}
		synctest.Wait()

		_, events := a.timeline(last)

		if inFlight := a.state()["in_flight"]; events[len(events)-1]["kind"] != "next_attempt" || inFlight != 64.0 {
			t.Errorf("events %v with %v attempts in flight, want the last delivery to wait behind 64", kinds(events), inFlight)
		}
	})
}

func TestAttempt_Duration(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		fault   sandboxfake.Fault
		respond time.Duration // by the receiver
		want    time.Duration
	}{
		{"response", sandboxfake.Fault{}, 2 * time.Second, 2 * time.Second},
		{"timeout", sandboxfake.Fault{}, time.Minute, 10 * time.Second},
		{"latency", sandboxfake.Fault{Latency: 4 * time.Second}, 2 * time.Second, 6 * time.Second},
		{"latency longer than the timeout", sandboxfake.Fault{Latency: time.Hour}, 0, 10 * time.Second},
		{"dropped", sandboxfake.Fault{Drop: true}, time.Second, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
				a.srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, row.fault)
				a.completeCheck(a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body) // the context is canceled only after the body was read
					select {
					case <-time.After(row.respond):
					case <-r.Context().Done():
					}
				})))

				d, err := a.srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.Done })

				if err != nil || d.Attempts[0].Duration != row.want {
					t.Errorf("duration = %v, %v, want %v", d.Attempts[0].Duration, err, row.want)
				}
			})
		})
	}
}

// With system dates, the second message of a check waits for the next second. The wait is not part
// of the duration.
func TestAttempt_DurationWithoutWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithSystemDates()))
		a.completeCheck(a.srv.Handle("app.sandbox.test", new(recordingReceiver)))
		noError(t, a.srv.Redeliver(t.Context(), a.srv.Deliveries()[0].ID))
		began := time.Now()

		waitIdle(t, a.srv)

		if d := a.srv.Deliveries()[1]; time.Since(began) == 0 || d.Attempts[0].Duration != 0 {
			t.Errorf("the second callback took %v, of which its attempt %v, want a wait and an attempt without it", time.Since(began), d.Attempts[0].Duration)
		}
	})
}

func TestServer_Traces(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a.get(phoneChecks + "/" + id + "/redirect")
	path := phoneChecks + "/" + id + "/traces"

	traces := a.get(path).json["_embedded"].(map[string]any)["traces"].([]any)
	if len(traces) != 3 {
		t.Fatalf("%d traces, want 3: accepted, opened, finished", len(traces))
	}
	trace := path + "/" + traces[0].(map[string]any)["trace_id"].(string)
	wantEqual(t, traces[0], any(a.get(trace).json), "single trace")
	a.get(path+"/unknown").wantProblem(t, 404, "trace_not_found")
	a.get(phoneChecks+"/unknown/traces").wantProblem(t, 404, "check_not_found")
	advance(t, srv, 7*24*time.Hour+time.Second)
	a.token = a.tokenFor(srv.Credentials(), "phone_check")
	a.get(trace).wantProblem(t, 410, "trace_gone")
}
