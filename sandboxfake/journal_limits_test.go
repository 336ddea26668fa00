package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

// The documented limits of a Request, and the marker of truncated texts.
const (
	journalPath   = 4 << 10
	journalBody   = 16 << 10
	journalLines  = 64
	journalValue  = 1 << 10
	journalHeader = 16 << 10
	truncatedMark = "[truncated]"
)

// lines returns a header of n lines, each with a value of size bytes.
func lines(n, size int) http.Header {
	h := make(http.Header)
	for i := range n {
		h.Set(fmt.Sprintf("X-%04d", i), strings.Repeat("v", size))
	}
	return h
}

func TestServer_HeaderLimit(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{"over a socket": nil, "in memory": {sandboxfake.WithInMemory()}} {
		for _, row := range []struct {
			name   string
			header http.Header
			status int
		}{
			{"30 KiB in one line", lines(1, 30<<10), 200},
			{"30 KiB in 400 lines", lines(400, 64), 200}, // Go 1.27 allows 500
			{"64 KiB in one line", lines(1, 64<<10), 431},
			{"64 KiB in 4096 lines", lines(4096, 6), 431},
		} {
			t.Run(name+" "+row.name, func(t *testing.T) {
				t.Parallel()
				a := newAPI(t, sandboxfake.New(t, opts...))
				request := a.request(http.MethodGet, phoneChecks, "")
				request.Header = row.header.Clone()
				request.Header.Set("Authorization", "Bearer "+a.token)

				got := a.do(request)

				if got.status != row.status {
					t.Errorf("%d %s, want %d", got.status, got.body, row.status)
				}
				want := 2 // the token and this request
				if row.status == 431 {
					want = 1
				}
				if n := len(a.srv.Requests()); n != want {
					t.Errorf("the journal has %d requests, want %d", n, want)
				}
			})
		}
	}
}

func TestServer_LimitsRequestJournal(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	number := `{"phone_number":"447700900012"}`
	for _, row := range []struct {
		name       string
		query      string
		header     http.Header
		body       string
		path, text int // stored lengths of the path and the body
		lines      int // of the row's header
		truncated  bool
	}{
		{"small", "", lines(3, 10), number, len(phoneChecks), len(number), 3, false},
		{"longest line", "", lines(1, journalValue), number, len(phoneChecks), len(number), 1, false},
		{"line over the limit", "", lines(1, journalValue+1), number, len(phoneChecks), len(number), 1, true},
		{"too many lines", "", lines(400, 1), number, len(phoneChecks), len(number), 59, true},
		{"too many bytes in few lines", "", lines(20, 1000), number, len(phoneChecks), len(number), 16, true},
		{"longest path", "?" + strings.Repeat("q", journalPath-len(phoneChecks)-1), nil, number, journalPath, len(number), 0, false},
		{"path over the limit", "?" + strings.Repeat("q", journalPath), nil, number, journalPath + len(truncatedMark), len(number), 0, true},
		{"longest body", "", nil, number + strings.Repeat(" ", journalBody-len(number)), len(phoneChecks), journalBody, 0, false},
		{"body over the limit", "", nil, number + strings.Repeat(" ", 60<<10), len(phoneChecks), journalBody + len(truncatedMark), 0, true},
	} {
		request := a.request(http.MethodPost, phoneChecks+row.query, row.body)
		request.Header = row.header.Clone()
		if request.Header == nil {
			request.Header = make(http.Header)
		}
		request.Header.Set("Authorization", "Bearer "+a.token)
		request.Header.Set("Content-Type", "application/json")

		got := a.do(request)

		if got.status != http.StatusCreated {
			t.Fatalf("%s: %d %s, want 201: the limits of the journal must not apply to the request", row.name, got.status, got.body)
		}
		requests := a.srv.Requests()
		r := requests[len(requests)-1]
		kept, size, own := 0, 0, 0
		for name, values := range r.Header {
			for _, value := range values {
				kept++
				size += len(name) + len(value)
				if len(value) > journalValue+len(truncatedMark) {
					t.Errorf("%s: the journal stores a value of %d bytes, want a truncated one", row.name, len(value))
				}
			}
			if strings.HasPrefix(name, "X-") {
				own++
			}
		}
		if kept > journalLines || size > journalHeader {
			t.Errorf("%s: the journal stores %d header lines of %d bytes, want at most %d and %d", row.name, kept, size, journalLines, journalHeader)
		}
		if own < row.lines {
			t.Errorf("%s: the journal stores %d of the request's header lines, want at least %d", row.name, own, row.lines)
		}
		if len(r.Path) != row.path || len(r.Body) != row.text || !strings.HasPrefix(string(r.Body), number) || !strings.HasPrefix(r.Path, phoneChecks) {
			t.Errorf("%s: stored %d bytes of path and %d of body, want %d and %d", row.name, len(r.Path), len(r.Body), row.path, row.text)
		}
		if r.Truncated != row.truncated || r.Operation != "phone_check.create" || r.Status != http.StatusCreated {
			t.Errorf("%s: truncated = %v, operation = %s, status = %d, want truncated %v, phone_check.create, 201", row.name, r.Truncated, r.Operation, r.Status, row.truncated)
		}
		listed := a.control(http.MethodGet, "requests", "").json["requests"].([]any)
		shown := listed[len(listed)-1].(map[string]any)
		if diff := cmp.Diff(r.Path, shown["path"]); diff != "" || (shown["truncated"] == true) != row.truncated {
			t.Errorf("%s: the control plane shows truncated %v, path (-want +got):\n%s", row.name, shown["truncated"], diff)
		}
	}
}

// The documented limits of the texts in a callback.
const (
	urlLimit         = 2048
	referenceIDLimit = 1024
	otherFields      = 1024 // maximum size of a callback's other fields
)

func TestServer_LimitsDeliveryJournal(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	verified := make(chan error, 1)
	host := a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := a.srv.Verifier([]string{"app.sandbox.test"}, nil).VerifyCallback(r)
		verified <- err
	}))
	target := host + "/" + strings.Repeat("u", urlLimit-len(host)-1)
	for _, row := range []struct {
		name, referenceID string
		size              int // of the encoded reference ID
	}{
		{"HTML", strings.Repeat("<>&", referenceIDLimit/3), referenceIDLimit},
		{"control characters", strings.Repeat("\x01", referenceIDLimit), 6 * referenceIDLimit},
	} {
		created := a.post(phoneChecks, fmt.Sprintf(`{"phone_number":"447700900012","callback_url":%q,"reference_id":%s}`, target, quoteJSON(t, row.referenceID)))
		if created.status != http.StatusCreated {
			t.Fatalf("%s: create: %d %s, want 201", row.name, created.status, created.body)
		}
		a.get(phoneChecks + "/" + created.text("check_id") + "/redirect")
		if err := <-verified; err != nil {
			t.Errorf("%s: callback rejected: %v", row.name, err)
		}
		deliveries := a.srv.Deliveries()
		first := deliveries[len(deliveries)-1]
		if err := a.srv.Redeliver(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
		if err := <-verified; err != nil {
			t.Errorf("%s: redelivered callback rejected: %v", row.name, err)
		}

		deliveries = a.srv.Deliveries()
		again := deliveries[len(deliveries)-1]

		if diff := cmp.Diff(string(first.Body), string(again.Body)); diff != "" {
			t.Errorf("%s: body of the second delivery differs (-first +second):\n%s", row.name, diff)
		}
		var body struct {
			ReferenceID string `json:"reference_id"`
		}
		if err := json.Unmarshal(again.Body, &body); err != nil || body.ReferenceID != row.referenceID {
			t.Errorf("%s: the body has a different reference ID (error %v)", row.name, err)
		}
		if len(again.Body) > row.size+otherFields || len(again.URL) > urlLimit {
			t.Errorf("%s: the journal stores %d bytes of body and %d of URL, want at most %d and %d", row.name, len(again.Body), len(again.URL), row.size+otherFields, urlLimit)
		}
	}
}

func TestServer_RejectsLongTexts(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a, owner := newAPI(t, srv), newOwnerAPI(t, srv)
	long := "https://app.sandbox.test/" + strings.Repeat("u", urlLimit)
	for name, got := range map[string]response{
		"callback URL of a check":   a.post(phoneChecks02, `{"phone_number":"447700900012","callback_url":"`+long+`"}`),
		"redirect URL of a check":   a.post(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"`+long+`"}`),
		"callback URL of a project": owner.post(projects, `{"name":"shop","configuration":{"phone_check":{"callback_url":"`+long+`"}}}`),
		"reference ID":              a.post(phoneChecks02, `{"phone_number":"447700900012","reference_id":"`+strings.Repeat("r", referenceIDLimit+1)+`"}`),
	} {
		t.Run(name, func(t *testing.T) { got.wantProblem(t, http.StatusBadRequest, "bad_request") })
	}
}

func quoteJSON(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// This test measures the memory of the process, so it does not call t.Parallel.
func TestServer_RequestsMemory(t *testing.T) {
	// In addition to the texts, an entry has the slices and the map of its header, and a client
	// with an open connection has buffers.
	const entries, each = 128, journalPath + journalBody + journalHeader + 16<<10
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithJournalLimit(entries)))
	header := lines(400, 60)
	header.Set("Authorization", "Bearer "+a.token)
	header.Set("Content-Type", "application/json")
	body := `{"phone_number":"0"` + strings.Repeat(" ", 60<<10) + `}`
	send := func() {
		request := a.request(http.MethodPost, phoneChecks+"?"+strings.Repeat("q", 5<<10), body)
		request.Header = header
		a.do(request).wantProblem(t, http.StatusBadRequest, "phone_format_invalid")
	}
	send()
	before := heap()

	for range entries {
		send()
	}

	if grown := int64(heap()) - int64(before); grown > entries*each {
		t.Errorf("%d requests of 100 KiB use %d KiB each, want at most %d", entries, grown/entries>>10, each>>10)
	}
}
