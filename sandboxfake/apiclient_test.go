package sandboxfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// frozenAt is the time of the frozen clocks in these tests.
var frozenAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// api is a plain HTTP client of a server, so that tests check the wire format without the SDK's
// client.
type api struct {
	t      testing.TB
	srv    *sandboxfake.Server
	client *http.Client // if nil, the server's HTTP client
	token  string
}

// response is a response with its decoded JSON.
type response struct {
	status int
	header http.Header
	body   []byte
	json   map[string]any
}

// newAPI returns an api with a token of the server's project for all products.
func newAPI(t testing.TB, srv *sandboxfake.Server) *api {
	t.Helper()
	return newProductAPI(t, srv, srv.Credentials())
}

// newScopedAPI returns an api with a token of c for a scope.
func newScopedAPI(t testing.TB, srv *sandboxfake.Server, c idverify.Credentials, scope string) *api {
	t.Helper()
	a := &api{t: t, srv: srv}
	a.token = a.tokenFor(c, scope)
	return a
}

func (a *api) tokenFor(c idverify.Credentials, scope string) string {
	a.t.Helper()
	r := a.tokenCall(c, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}})
	if r.status != http.StatusOK {
		a.t.Fatalf("token for %q: %d %s", scope, r.status, r.body)
	}
	return r.json["access_token"].(string)
}

func (a *api) tokenCall(c idverify.Credentials, form url.Values) response {
	a.t.Helper()
	return a.postForm(tokenPath, c, "application/x-www-form-urlencoded", form.Encode())
}

// call sends body as JSON, or as a JSON Patch if the method is PATCH.
func (a *api) call(method, path, body string) response {
	a.t.Helper()
	media := ""
	switch method {
	case http.MethodPatch:
		media = "application/json-patch+json"
	case http.MethodPost, http.MethodPut:
		media = "application/json"
	}
	return a.send(method, path, media, body)
}

// send sends a request with a body of any media type. An empty token or media type sets no header.
func (a *api) send(method, path, media, body string) response {
	a.t.Helper()
	request := a.request(method, path, body)
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	return a.do(request)
}

// sendHeader sends a request without a body that has only the given header.
func (a *api) sendHeader(method, path string, header http.Header) response {
	a.t.Helper()
	request := a.request(method, path, "")
	request.Header = header.Clone()
	return a.do(request)
}

func (a *api) get(path string) response { a.t.Helper(); return a.call(http.MethodGet, path, "") }

func (a *api) post(path, body string) response {
	a.t.Helper()
	return a.call(http.MethodPost, path, body)
}

// create creates a check and returns its ID.
func (a *api) create(path, body string) string {
	a.t.Helper()
	return a.post(path, body).wantStatus(a.t, http.StatusCreated).json["check_id"].(string)
}

func (a *api) request(method, path, body string) *http.Request {
	a.t.Helper()
	target := path
	if strings.HasPrefix(path, "/") {
		target = a.srv.URL() + path
	}
	return must(http.NewRequestWithContext(a.t.Context(), method, target, strings.NewReader(body)))(a.t)
}

// do sends a request without following redirects. It checks that OpenAPI describes the response.
func (a *api) do(request *http.Request) response {
	a.t.Helper()
	client := a.srv.HTTPClient()
	if a.client != nil {
		client = new(*a.client)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	httpResponse := must(client.Do(request))(a.t)
	defer httpResponse.Body.Close()
	body := must(io.ReadAll(httpResponse.Body))(a.t)
	r := response{status: httpResponse.StatusCode, header: httpResponse.Header, body: body}
	if len(body) > 0 && bytes.Contains([]byte(httpResponse.Header.Get("Content-Type")), []byte("json")) {
		if err := json.Unmarshal(body, &r.json); err != nil {
			a.t.Fatalf("response body is not JSON: %v: %s", err, body)
		}
	}
	wantDescribed(a.t, request, r)
	return r
}

// waitIdle waits until no callback is in flight and no event is due.
func waitIdle(t testing.TB, srv *sandboxfake.Server) {
	t.Helper()
	noError(t, srv.WaitIdle(t.Context()))
}

// advance moves the clock of a server.
func advance(t testing.TB, srv *sandboxfake.Server, d time.Duration) {
	t.Helper()
	noError(t, srv.Advance(t.Context(), d))
}

// fragment returns the fragment of a problem's type, which identifies the problem.
func (r response) fragment() string {
	text, _ := r.json["type"].(string)
	_, fragment, _ := strings.Cut(text, "#")
	return fragment
}

// wantProblem checks that r is a complete problem document with that status and fragment.
func (r response) wantProblem(t testing.TB, status int, fragment string) {
	t.Helper()
	if r.status != status || r.fragment() != fragment {
		t.Fatalf("response = %d %s, want %d #%s", r.status, r.body, status, fragment)
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", got)
	}
	if r.json["title"] != http.StatusText(status) || r.json["status"] != float64(status) || r.text("detail") == "" {
		t.Errorf("problem = %s, want a title, status and detail", r.body)
	}
	if got := r.header.Get("WWW-Authenticate"); (status == http.StatusUnauthorized) != strings.HasPrefix(got, "Bearer") {
		t.Errorf("%d with WWW-Authenticate %q, want Bearer with 401 only", status, got)
	}
}

// recordingReceiver is a receiver that acknowledges callbacks and stores their bodies.
type recordingReceiver struct {
	mu  sync.Mutex // guards all
	all []map[string]any
}

// newRecordingReceiver returns a receiver at app.sandbox.test and its URL.
func newRecordingReceiver(srv *sandboxfake.Server) (*recordingReceiver, string) {
	b := new(recordingReceiver)
	return b, srv.Handle("app.sandbox.test", b)
}

func (b *recordingReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, body)
	w.WriteHeader(http.StatusNoContent)
}

func (b *recordingReceiver) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

func (b *recordingReceiver) last(t testing.TB) map[string]any {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		t.Fatal("no callback received")
	}
	return b.all[len(b.all)-1]
}

// completeCheck creates a PhoneCheck with the callback URL target and opens its Check URL, which
// queues the callback.
func (a *api) completeCheck(target string) (id string) {
	a.t.Helper()
	id = a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+target+`"}`)
	a.get(phoneChecks+"/"+id+"/redirect").wantStatus(a.t, http.StatusOK)
	return id
}

// blockingReceiver is a receiver that reports each callback on received and responds with the next
// status from respond.
type blockingReceiver struct {
	received chan *http.Request
	respond  chan int
}

func newBlockingReceiver() *blockingReceiver {
	return &blockingReceiver{received: make(chan *http.Request, 100), respond: make(chan int)}
}

func (h *blockingReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The request's context is canceled with the connection only after the body was read.
	io.Copy(io.Discard, r.Body)
	h.received <- r
	select {
	case status := <-h.respond:
		w.WriteHeader(status)
	case <-r.Context().Done():
	}
}

const phoneChecks = "/phone_check/v0.1/checks"

const phoneChecks02 = "/phone_check/v0.2/checks"

// exchange completes a check with a code.
func (a *api) exchange(path, id, code string) response {
	a.t.Helper()
	return a.call(http.MethodPatch, path+"/"+id, fmt.Sprintf(`[{"op":"add","path":"/code","value":%q}]`, code))
}

// want sends a request and fails the test unless the response has that status.
func (a *api) want(status int, method, path, body string) response {
	a.t.Helper()
	r := a.call(method, path, body)
	if r.status != status {
		a.t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.body, status)
	}
	return r
}

// at returns the value at a path of field names, or nil.
func (r response) at(names ...string) any {
	var v any = r.json
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// text returns the string at a path of field names, or "".
func (r response) text(names ...string) string {
	text, _ := r.at(names...).(string)
	return text
}

// credentials returns the credentials in a response.
func (r response) credentials() idverify.Credentials {
	return idverify.Credentials{ClientID: r.text("client_id"), ClientSecret: idverify.NewSecret(r.text("client_secret"))}
}

// number returns the JSON number at a path of field names and indexes, with its original digits.
func (r response) number(t testing.TB, names ...string) string {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	var v any
	noError(t, decoder.Decode(&v))
	for _, name := range names {
		if i, err := strconv.Atoi(name); err == nil {
			v = v.([]any)[i]
			continue
		}
		v = v.(map[string]any)[name]
	}
	number, ok := v.(json.Number)
	if !ok {
		t.Fatalf("%v is %#v, want a JSON number", names, v)
	}
	return number.String()
}

// amounts returns the amounts of a page of usage with their original digits.
func (r response) amounts(t testing.TB) []string {
	t.Helper()
	var amounts []string
	for i := range r.column("usage", "amount") {
		amounts = append(amounts, r.number(t, "_embedded", "usage", strconv.Itoa(i), "amount"))
	}
	return amounts
}

// column returns one field of each item of a page.
func (r response) column(embedded, field string) []string {
	column := []string{}
	items, _ := r.at("_embedded", embedded).([]any)
	for _, item := range items {
		column = append(column, fmt.Sprint(item.(map[string]any)[field]))
	}
	return column
}

// objects returns the elements of a JSON array of objects.
func objects(array any) []map[string]any {
	all := []map[string]any{}
	for _, element := range array.([]any) {
		all = append(all, element.(map[string]any))
	}
	return all
}

// textsOf returns one field of each object.
func textsOf(objects []map[string]any, field string) []string {
	all := []string{}
	for _, object := range objects {
		all = append(all, object[field].(string))
	}
	return all
}

// wantStatus returns r, or fails the test if r has another status.
func (r response) wantStatus(t testing.TB, status int) response {
	t.Helper()
	if r.status != status {
		t.Fatalf("response = %d %s, want %d", r.status, r.body, status)
	}
	return r
}

// serve calls the server's handler directly: a connection would take longer than the fuzzed code.
func serve(t testing.TB, srv *sandboxfake.Server, token, method, target, body string) response {
	t.Helper()
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/json-patch+json")
	}
	recorder := httptest.NewRecorder()
	sandboxfake.Serve(srv, recorder, request)
	r := response{status: recorder.Code, header: recorder.Header(), body: recorder.Body.Bytes()}
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &r.json); err != nil {
			t.Fatalf("response to %s %q is not JSON: %s", method, body, r.body)
		}
	}
	wantDescribed(t, request, r)
	return r
}

// startError returns the error of Start. It closes a server that starts.
func startError(opts ...sandboxfake.Option) error {
	srv, err := sandboxfake.Start(opts...)
	if err == nil {
		srv.Close()
	}
	return err
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }

// wantEqual reports the difference between want and got.
func wantEqual(t testing.TB, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}
