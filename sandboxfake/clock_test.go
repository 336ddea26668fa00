package sandboxfake_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// The server's clock is advanced by decades, so that a timestamp of the system's clock differs.
func TestServer_TimestampsUseServerClock(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		if err := srv.Advance(t.Context(), 20*365*24*time.Hour); err != nil {
			t.Fatal(err)
		}
		a := newAPI(t, srv)
		now := srv.Now()
		srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, sandboxfake.Fault{Status: 429, RetryAfter: time.Minute})
		host := srv.Handle("app.sandbox.test", new(recordingReceiver))

		id := a.completeCheck(host)
		read := a.get(phoneChecks + "/" + id)
		limited := a.get(phoneChecks)
		trace := a.get(phoneChecks + "/" + id + "/traces").json["_embedded"].(map[string]any)["traces"].([]any)[0].(map[string]any)
		redirected := a.get(phoneChecks02 + "/" + a.create(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"`+host+`"}`) + "/redirect")
		if err := srv.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		attempt := srv.Deliveries()[0].Attempts[0]
		location, err := url.Parse(redirected.header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		date, _ := base64.StdEncoding.DecodeString(location.Query().Get("date"))

		wire, http1 := now.Format("2006-01-02T15:04:05-0700"), now.Format(http.TimeFormat)
		for _, row := range []struct{ what, got, want string }{
			{"Date of a response", read.header.Get("Date"), http1},
			{"created_at", read.json["created_at"].(string), wire},
			{"updated_at", read.json["updated_at"].(string), wire},
			{"timestamp of a trace", trace["logs"].([]any)[0].(map[string]any)["timestamp"].(string), wire},
			{"Date of a callback", attempt.Header.Get("Date"), http1},
			{"date of a redirect", string(date), http1},
			{"time of a delivery attempt", attempt.Time.Format(http.TimeFormat), http1},
			{"time of a request", srv.Requests()[0].Time.Format(http.TimeFormat), http1},
			{"X-RateLimit-Reset", limited.header.Get("X-RateLimit-Reset"), strconv.FormatInt(now.Add(time.Minute).Unix(), 10)},
		} {
			if row.got != row.want {
				t.Errorf("%s = %q, want %q of the server's clock", row.what, row.got, row.want)
			}
		}
	})
}

// Everything that expires does so by the server's clock, and not a second early.
func TestServer_ExpiryUsesServerClock(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		after time.Duration
		begin func(*api) (ended func() bool)
	}{
		{"access token", time.Hour, func(a *api) func() bool {
			return func() bool { return a.get(phoneChecks).status == 401 }
		}},
		{"unopened check", 2 * time.Minute, func(a *api) func() bool {
			id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
			return func() bool { return a.get(phoneChecks+"/"+id).status == 404 }
		}},
		{"unused code", 2 * time.Minute, func(a *api) func() bool {
			id := a.create(phoneChecks02, `{"phone_number":"447700900012"}`)
			a.get(phoneChecks02 + "/" + id + "/redirect")
			return func() bool { return a.get(phoneChecks02+"/"+id).status == 404 }
		}},
		{"delivery retry", 10 * time.Second, func(a *api) func() bool {
			a.completeCheck(a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) })))
			return func() bool { return len(a.srv.Deliveries()[0].Attempts) == 2 }
		}},
		{"rotated key", 5 * time.Minute, func(a *api) func() bool {
			a.srv.RotateKeys()
			return func() bool { return len(a.keyIDs()) == 1 }
		}},
		{"rate limit window", time.Hour, func(a *api) func() bool {
			a.get(phoneChecks)
			return func() bool {
				a.token = a.tokenFor(a.srv.Credentials(), "phone_check")
				r := a.get(phoneChecks)
				return r.header.Get("X-RateLimit-Remaining") == "999"
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(1000), sandboxfake.WithFrozenClock(frozenAt))
			ended := row.begin(newAPI(t, srv))
			advance := func(d time.Duration) {
				t.Helper()
				if err := srv.Advance(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}

			advance(row.after - time.Second)
			early := ended()
			advance(time.Second)
			late := ended()

			if early || !late {
				t.Errorf("one second before %v ended = %v, at that time %v, want false, then true", row.after, early, late)
			}
		})
	}
}
