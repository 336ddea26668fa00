package sandboxfake_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// The golden files contain the responses of another process, which every process must reproduce.
var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		noError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want := must(os.ReadFile(path))(t)
	wantEqual(t, string(want), text, "output, compared with %s", name)
}

// recorder is a RoundTripper that records responses.
type recorder struct {
	next http.RoundTripper
	text bytes.Buffer
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	fmt.Fprintf(&r.text, "%s %s\n%s\n", request.Method, request.URL.Path, response.Status)
	writeHeader(&r.text, response.Header)
	fmt.Fprintf(&r.text, "\n%s\n\n", body)
	return response, nil
}

func writeHeader(w io.Writer, header http.Header) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(w, "%s: %s\n", name, strings.Join(header[name], ", "))
	}
}

// runScenario uses a project in a fixed sequence of requests: all products, both versions, an
// expired check, callback retries and a key rotation. It returns all responses and deliveries, and
// the IDs, codes and tokens in them.
func runScenario(t *testing.T, srv *sandboxfake.Server) (whole, ids string) {
	t.Helper()
	record := &recorder{next: srv.HTTPClient().Transport}
	a := newAPI(t, srv)
	a.client = &http.Client{Transport: record}
	a.token = a.tokenFor(srv.Credentials(), "phone_check sim_check subscriber_check coverage")
	recorded := []string{srv.Credentials().ClientID, srv.Credentials().ClientSecret.Reveal(), srv.ConsoleCredentials().ClientID, a.token}
	fail := false
	host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fail = !fail; fail {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	recorded = append(recorded, a.keyIDs()...)
	srv.RotateKeys()
	recorded = append(recorded, a.keyIDs()...)
	for i, path := range []string{phoneChecks, phoneChecks02, "/subscriber_check/v0.2/checks", "/sim_check/v0.1/checks"} {
		body := fmt.Sprintf(`{"phone_number":"44770090001%d","callback_url":%q,"redirect_url":%q,"reference_id":"story %d"}`, 2*i%10, host+"/callback", host+"/redirect?a=%20b", i)
		id := a.create(path, body)
		recorded = append(recorded, id)
		opened := a.get(path + "/" + id + "/redirect")
		if location := opened.header.Get("Location"); location != "" {
			code := codeOf(t, location)
			recorded = append(recorded, code)
			a.exchange(path, id, code)
		}
		advance(t, srv, 10*time.Second)
		a.get(path + "/" + id)
	}
	recorded = append(recorded, a.create(phoneChecks, fmt.Sprintf(`{"phone_number":"447700900013","callback_url":%q}`, host)))
	advance(t, srv, 200*time.Second)
	a.get(phoneChecks + "?size=2")
	a.get("/coverage/v0.1/device_ips/192.0.2.2")
	a.get("/coverage/v0.1/countries/GB")
	for _, d := range srv.Deliveries() {
		recorded = append(recorded, d.ID)
		fmt.Fprintf(&record.text, "delivery %s %s %s\n%s\n", d.ID, d.Status, d.URL, d.Body)
		for _, attempt := range d.Attempts {
			fmt.Fprintf(&record.text, "%s %s %d\n", attempt.Time.Format(time.RFC3339Nano), attempt.Result, attempt.Status)
			writeHeader(&record.text, attempt.Header)
		}
	}
	return record.text.String(), strings.Join(recorded, "\n") + "\n"
}

// codeOf returns the code in a redirect.
func codeOf(t *testing.T, location string) string {
	t.Helper()
	_, rest, found := strings.Cut(location, "&code=")
	if !found {
		t.Fatalf("redirect %s does not contain a code", location)
	}
	code, _, _ := strings.Cut(rest, "&")
	return code
}

func TestServer_ReproducesIDs(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{
		"loopback, running":  nil,
		"loopback, frozen":   {sandboxfake.WithFrozenClock(frozenAt)},
		"in memory, running": {sandboxfake.WithInMemory()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ids := runScenario(t, sandboxfake.New(t, opts...))

			if *update {
				t.Skip("TestServer_SameResponsesAsGolden writes this file")
			}
			golden(t, "golden_ids.txt", ids)
		})
	}
}

func TestWithSeed_OtherIDs(t *testing.T) {
	t.Parallel()
	_, ids := runScenario(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithSeed(1)))
	text := must(os.ReadFile(filepath.Join("testdata", "golden_ids.txt")))(t)
	zero := strings.Fields(string(text))

	for id := range strings.FieldsSeq(ids) {
		if slices.Contains(zero, id) {
			t.Errorf("seeds 0 and 1 both produce %s", id)
		}
	}
}

// Other servers of the process do not change the responses.
func TestServer_SameResponsesAsGolden(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 2 {
		other := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
		others.Go(func() {
			for ctx.Err() == nil {
				other.post(phoneChecks, `{"phone_number":"447700900012"}`)
				other.srv.RotateKeys()
			}
		})
	}
	defer others.Wait()
	defer cancel()

	whole, ids := runScenario(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt)))

	golden(t, "golden_bytes.txt", whole)
	golden(t, "golden_ids.txt", ids)
}

// resetIDs creates a check before and after each of n resets, with the initial credentials, and
// returns the IDs.
func resetIDs(t *testing.T, a *api, n int, reset func(int)) []string {
	t.Helper()
	credentials := a.srv.Credentials()
	var ids []string
	for i := range n + 1 {
		if i > 0 {
			reset(i)
		}
		if now := a.srv.Credentials(); now.ClientID != credentials.ClientID || now.ClientSecret.Reveal() != credentials.ClientSecret.Reveal() {
			t.Fatal("Reset changed the credentials, want the same ones: clients keep their configuration")
		}
		a.token = a.tokenFor(credentials, "phone_check")
		ids = append(ids, a.create(phoneChecks, `{"phone_number":"447700900012"}`))
	}
	return ids
}

// distinct returns the number of different texts.
func distinct(texts []string) int { return len(slices.Compact(slices.Sorted(slices.Values(texts)))) }

func TestServer_ResetRepeatsIDs(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	run := func() []string {
		a := newAPI(t, srv)
		host := srv.Handle("app.sandbox.test", new(recordingReceiver))
		ids := []string{a.token, a.completeCheck(host), a.keyIDs()[0], srv.Credentials().ClientID}
		advance(t, srv, time.Hour)
		return append(ids, srv.Deliveries()[0].ID)
	}
	before := run()
	srv.RotateKeys()

	srv.Reset()

	if !srv.Now().Equal(frozenAt) {
		t.Errorf("frozen clock = %v, want its initial time", srv.Now())
	}
	wantEqual(t, before, run(), "IDs after Reset")
}

func TestServer_ResetWithNewIDs(t *testing.T) {
	t.Parallel()
	run := func(opts ...sandboxfake.Option) []string {
		a := newControlAPI(t, opts...)
		return resetIDs(t, a, 3, func(int) { a.srv.Reset() })
	}

	same, first, second := run(), run(sandboxfake.WithNewIDsAfterReset()), run(sandboxfake.WithNewIDsAfterReset())

	if distinct(same) != 1 {
		t.Errorf("IDs without the option = %q, want the same after each reset", same)
	}
	if !slices.Equal(first, second) {
		t.Errorf("IDs of two servers of one seed = %q and %q, want the same", first, second)
	}
	if distinct(first) != 4 {
		t.Errorf("IDs = %q, want a different one after each reset", first)
	}
}
