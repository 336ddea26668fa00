package sandboxfake_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// A client that never sends the rest of a body loses its connection after 30 seconds.
func TestServer_BodyTimeout(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, request, part, status string }{
		{"service", "POST /oauth2/v1/token HTTP/1.1\r\nContent-Length: 100\r\n", "grant", "HTTP/1.1 401 "},
		{"service, nothing sent", "POST /oauth2/v1/token HTTP/1.1\r\nContent-Length: 100\r\n", "", "HTTP/1.1 401 "},
		{"service, chunked", "POST /oauth2/v1/token HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "5\r\ngrant\r\n", "HTTP/1.1 401 "},
		{"unread body", "OPTIONS /oauth2/v1/token HTTP/1.1\r\nContent-Length: 100\r\n", "", "HTTP/1.1 204 "},
		{"control plane", "POST /_sandbox/advance HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n", `{"sec`, "HTTP/1.1 400 "},
		{"control plane without token", "POST /_sandbox/advance HTTP/1.1\r\nContent-Length: 100\r\n", "", "HTTP/1.1 401 "},
		{"page", "POST /_sandbox/open/a-check HTTP/1.1\r\nContent-Length: 100\r\n", "as=", "HTTP/1.1 200 "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newPageAPI(t)
				conn, host := a.dial()
				conn.SetReadDeadline(time.Now().Add(time.Hour))
				started := time.Now()

				must(fmt.Fprintf(conn, "%sHost: %s\r\n\r\n%s", strings.ReplaceAll(row.request, "%s", a.srv.ControlToken()), host, row.part))(t)
				response, err := io.ReadAll(conn)

				if waited := time.Since(started); errors.Is(err, os.ErrDeadlineExceeded) || waited != 30*time.Second {
					t.Errorf("connection closed after %v (%v), want 30s", waited, err)
				}
				if !strings.HasPrefix(string(response), row.status) {
					t.Errorf("response = %q, want %q", response, row.status)
				}
			})
		})
	}
}

// The deadline of a body must not end a request that takes longer, or the next one on its
// connection.
func TestServer_BodyTimeoutEnds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"delayed call", http.MethodPost, phoneChecks, `{"phone_number":"447700900012"}`, 503},
		{"delayed call of the control plane", http.MethodPost, "/_sandbox/checks", `{"phone_number":"447700900012"}`, 200},
		{"body that is not used", http.MethodGet, "/_sandbox/deliveries?wait_seconds=60&check_id=", `{"phone_number":"447700900012"}`, 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newControlAPI(t)
				if strings.HasSuffix(row.path, "check_id=") {
					row.path += a.create(phoneChecks, row.body)
				} else {
					a.srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Latency: time.Minute, Status: 503})
				}
				token := a.token
				if strings.HasPrefix(row.path, "/_sandbox/") {
					token = a.srv.ControlToken()
				}
				started := time.Now()

				got := (&api{t: t, srv: a.srv, token: token}).send(row.method, row.path, "application/json", row.body)

				if waited := time.Since(started); got.status != row.status || waited != time.Minute {
					t.Errorf("%d after %v, want %d after 1m0s: %s", got.status, waited, row.status, got.body)
				}
				time.Sleep(time.Minute)
				if got := a.post(phoneChecks, `{"phone_number":"447700900012"}`); got.status != http.StatusCreated {
					t.Errorf("next request = %d %s, want 201", got.status, got.body)
				}
			})
		})
	}
}

// An event stream whose request has a body does not end with the deadline of the body.
func TestServer_BodyTimeoutEndsBeforeStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		conn, host := a.dial()
		conn.SetReadDeadline(time.Now().Add(5 * time.Minute))

		must(fmt.Fprintf(conn, "GET /_sandbox/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 2\r\n\r\n{}", host, a.srv.ControlToken()))(t)
		_, err := io.ReadAll(conn)

		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the stream ended (%v), want it to last", err)
		}
	})
}

// A client that reads no responses loses its connection after 30 seconds.
func TestServer_WriteTimeout(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, request string }{
		{"service", "GET /.well-known/jwks.json HTTP/1.1\r\n"},
		{"service, preflight", "OPTIONS " + phoneChecks + " HTTP/1.1\r\n"},
		{"control plane", "GET /_sandbox/health HTTP/1.1\r\n"},
		{"page", "GET /_sandbox/page/ HTTP/1.1\r\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newPageAPI(t)
				conn, host := a.dial()
				conn.SetDeadline(time.Now().Add(75 * time.Second))
				started := time.Now()

				_, err := io.WriteString(conn, strings.Repeat(row.request+"Host: "+host+"\r\n\r\n", 3000))

				// After the timeout, crypto/tls waits another 5 s for the client to read its alert.
				if waited := time.Since(started); err == nil || waited < 30*time.Second || waited > 35*time.Second {
					t.Errorf("requests sent for %v (%v), want a connection that is closed after 30 to 35 s", waited, err)
				}
			})
		})
	}
}

// A client that reads slowly gets the whole response.
func TestServer_WriteTimeoutSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		for range 32 { // more than fits into the buffers of the connection
			a.call(http.MethodPost, phoneChecks, strings.Repeat("x", 8<<10))
		}
		request := a.request(http.MethodGet, "/_sandbox/requests", "")
		request.Header = bearer(a.srv.ControlToken())
		response := must(a.srv.HTTPClient().Do(request))(t)
		defer response.Body.Close()
		started := time.Now()

		var read int64
		var err error
		for err == nil {
			time.Sleep(10 * time.Second)
			var n int64
			n, err = io.CopyN(io.Discard, response.Body, 16<<10)
			read += n
		}

		if err != io.EOF || read != response.ContentLength || time.Since(started) < 2*time.Minute {
			t.Errorf("%d bytes read in %v (%v), want %d", read, time.Since(started), err, response.ContentLength)
		}
	})
}

// Operations with a JSON body accept application/json and application/hal+json.
func TestServer_BodyMediaTypes(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	product, owner := newAPI(t, srv), newOwnerAPI(t, srv)
	method := owner.addCard()
	names := 0
	unique := func() string {
		names++
		return fmt.Sprintf(`{"name":"Project %d"}`, names)
	}
	fixed := func(body string) func() string { return func() string { return body } }
	for _, row := range []struct {
		caller       *api
		method, path string
		body         func() string
		status       int
	}{
		{product, "POST", phoneChecks, fixed(`{"phone_number":"447700900012"}`), 201},
		{product, "POST", "/subscriber_check/v0.2/checks", fixed(`{"phone_number":"447700900012"}`), 201},
		{product, "POST", "/sim_check/v0.1/checks", fixed(`{"phone_number":"447700900012"}`), 201},
		{owner, "POST", projects, unique, 201},
		{owner, "POST", workspaces + "/default/projects", unique, 201},
		{owner, "POST", workspaces + "/default/invitations", fixed(`{"name":"Ada","role":"ADMIN"}`), 201},
		{owner, "PUT", workspaces + "/default/billing_account", fixed(`{"company_name":"Sandbox Ltd"}`), 200},
		{owner, "POST", workspaces + "/default/payment_methods", fixed(newCard), 201},
		{owner, "POST", workspaces + "/default/topups", fixed(fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":1}`, method)), 201},
	} {
		for _, media := range []string{"application/json", "application/hal+json", "Application/HAL+JSON; charset=utf-8"} {
			if r := row.caller.send(row.method, row.path, media, row.body()); r.status != row.status {
				t.Errorf("%s %s as %s: %d %s, want %d", row.method, row.path, media, r.status, r.body, row.status)
			}
		}
		for _, media := range []string{"", "text/plain", "application/problem+json", "application/json-patch+json", "json"} {
			r := row.caller.send(row.method, row.path, media, row.body())
			if r.status != 415 || r.fragment() != "unsupported_media_type" {
				t.Errorf("%s %s as %q: %d %s, want 415", row.method, row.path, media, r.status, r.body)
			}
		}
	}

	for _, media := range []string{"application/json", "application/hal+json"} {
		r := owner.send(http.MethodPatch, workspaces+"/default", media, `[{"op":"replace","path":"/name","value":"Renamed"}]`)
		r.wantProblem(t, 415, "unsupported_media_type")
	}
}

// The operations of a JSON Patch are applied together or not at all.
func TestServer_PatchProject(t *testing.T) {
	t.Parallel()
	const (
		before = `{"callback_url":"https://shop.test/","configuration":{"phone_check":{"callback_url":"https://p.test/"},"subscriber_check":{"redirect_url":"https://s.test/"}},"mode":"live","name":"Shop"}`
		empty  = `"phone_check":{},"subscriber_check":{}`
	)
	for _, row := range []struct{ name, patch, want string }{
		{"no operations", `[]`, before},
		{"name and mode", `[{"op":"replace","path":"/name","value":"Store"},{"op":"replace","path":"/mode","value":"sandbox"}]`, strings.Replace(strings.Replace(before, "Shop", "Store", 1), "live", "sandbox", 1)},
		{"add the name and mode", `[{"op":"add","path":"/name","value":"Store"},{"op":"add","path":"/mode","value":"sandbox"}]`, strings.Replace(strings.Replace(before, "Shop", "Store", 1), "live", "sandbox", 1)},
		{"add over a value", `[{"op":"add","path":"/callback_url","value":"https://b.test/"}]`, strings.Replace(before, "https://shop.test/", "https://b.test/", 1)},
		{"replace a value", `[{"op":"replace","path":"/configuration/phone_check/callback_url","value":"https://b.test/"}]`, strings.Replace(before, "https://p.test/", "https://b.test/", 1)},
		{"remove a value", `[{"op":"remove","path":"/configuration/phone_check/callback_url"}]`, strings.Replace(before, `"callback_url":"https://p.test/"`, ``, 1)},
		{"replace a product", `[{"op":"replace","path":"/configuration/phone_check","value":{}}]`, strings.Replace(before, `"callback_url":"https://p.test/"`, ``, 1)},
		{"remove a product", `[{"op":"remove","path":"/configuration/phone_check"}]`, strings.Replace(before, `"callback_url":"https://p.test/"`, ``, 1)},
		{"remove, then add to a product", `[{"op":"remove","path":"/configuration/phone_check"},{"op":"add","path":"/configuration/phone_check/callback_url","value":"https://b.test/"}]`, strings.Replace(before, "https://p.test/", "https://b.test/", 1)},
		{"replace the configuration", `[{"op":"replace","path":"/configuration","value":{"phone_check":{"callback_url":"https://b.test/"}}}]`, `{"callback_url":"https://shop.test/","configuration":{"phone_check":{"callback_url":"https://b.test/"},"subscriber_check":{}},"mode":"live","name":"Shop"}`},
		{"remove the configuration", `[{"op":"remove","path":"/configuration"}]`, `{"callback_url":"https://shop.test/","configuration":{` + empty + `},"mode":"live","name":"Shop"}`},
		{"unknown field in an operation", `[{"op":"remove","path":"/configuration/phone_check/callback_url","from":"/x"}]`, strings.Replace(before, `"callback_url":"https://p.test/"`, ``, 1)},

		{"valid, then invalid operation", `[{"op":"replace","path":"/name","value":"Store"},{"op":"replace","path":"/mode","value":"half"}]`, ""},
		{"invalid, then valid operation", `[{"op":"replace","path":"/mode","value":"half"},{"op":"replace","path":"/mode","value":"sandbox"}]`, ""},
		{"unknown path", `[{"op":"add","path":"/colour","value":"red"}]`, ""},
		{"read-only path", `[{"op":"replace","path":"/project_id","value":"mine"}]`, ""},
		{"product without URLs", `[{"op":"add","path":"/configuration/sim_check","value":{}}]`, ""},
		{"path below a value", `[{"op":"add","path":"/configuration/phone_check/callback_url/x","value":"https://b.test/"}]`, ""},
		{"whole document", `[{"op":"replace","path":"","value":{"name":"Store"}}]`, ""},
		{"path without slash", `[{"op":"replace","path":"name","value":"Store"}]`, ""},
		{"path in another case", `[{"op":"replace","path":"/Name","value":"Store"}]`, ""},
		{"remove the name", `[{"op":"remove","path":"/name"}]`, ""},
		{"add a number as the name", `[{"op":"add","path":"/name","value":7}]`, ""},
		{"add an unknown mode", `[{"op":"add","path":"/mode","value":"half"}]`, ""},
		{"remove the mode", `[{"op":"remove","path":"/mode"}]`, ""},
		{"remove a missing value", `[{"op":"remove","path":"/configuration/phone_check/redirect_url"}]`, ""},
		{"replace a missing value", `[{"op":"replace","path":"/configuration/phone_check/redirect_url","value":"https://b.test/"}]`, ""},
		{"remove twice", `[{"op":"remove","path":"/callback_url"},{"op":"remove","path":"/callback_url"}]`, ""},
		{"test", `[{"op":"test","path":"/name","value":"Shop"}]`, ""},
		{"copy", `[{"op":"copy","from":"/name","path":"/callback_url"}]`, ""},
		{"move", `[{"op":"move","from":"/callback_url","path":"/configuration/phone_check/callback_url","value":"x"}]`, ""},
		{"no op", `[{"path":"/name","value":"Store"}]`, ""},
		{"no path", `[{"op":"replace","value":"Store"}]`, ""},
		{"no value", `[{"op":"replace","path":"/name"}]`, ""},
		{"null", `[{"op":"add","path":"/callback_url","value":null}]`, ""},
		{"number", `[{"op":"replace","path":"/name","value":7}]`, ""},
		{"object for a URL", `[{"op":"add","path":"/callback_url","value":{}}]`, ""},
		{"URL for an object", `[{"op":"add","path":"/configuration/phone_check","value":"https://b.test/"}]`, ""},
		{"relative URL", `[{"op":"add","path":"/callback_url","value":"b.test"}]`, ""},
		{"redirect URL with a code", `[{"op":"add","path":"/configuration/phone_check/redirect_url","value":"https://b.test/?code=1"}]`, ""},
		{"invalid URL in an object", `[{"op":"add","path":"/configuration","value":{"phone_check":{"callback_url":"b.test"}}}]`, ""},
		{"member names in another case", `[{"OP":"replace","Path":"/name","VALUE":"Store"}]`, ""},
		{"op of the wrong type", `[{"op":1,"path":"/name","value":"Store"}]`, ""},
		{"null operation", `[null]`, ""},
		{"string operation", `["replace"]`, ""},
		{"not an array", `{"name":"Store"}`, ""},
		{"null patch", `null`, ""},
		{"truncated", `[{"op":"replace","path":"/name","value":"Sto`, ""},
		{"empty", ``, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := consoleServer(t)
			owner := newOwnerAPI(t, srv)
			id, _ := owner.newProject(before)
			advance(t, srv, time.Minute)

			r := owner.call(http.MethodPatch, projects+"/"+id, row.patch)

			want := row.want
			if want == "" {
				want = before
				r.wantProblem(t, 400, "bad_request")
			}
			stored := owner.get(projects + "/" + id)
			if r.status == 200 {
				wantEqual(t, stored.json, r.json, "response, compared with the stored project")
			}
			if changed := stored.text("created_at") != stored.text("updated_at"); changed != (row.want != "" && row.patch != `[]`) {
				t.Errorf("updated_at = %s, created_at = %s, want updated_at to change only with the project", stored.text("updated_at"), stored.text("created_at"))
			}
			shown := make(map[string]any)
			for _, name := range []string{"name", "mode", "callback_url", "configuration"} {
				if v, ok := stored.json[name]; ok {
					shown[name] = v
				}
			}
			got := must(json.Marshal(shown))(t)
			wantEqual(t, want, string(got), "project")
		})
	}
}

func TestServer_BodyProblems(t *testing.T) {
	t.Parallel()
	owner, method := payer(t)
	path := workspaces + "/default/topups"
	for _, row := range []struct{ name, body, want string }{
		{"empty", ``, "the body is empty"},
		{"spaces", `   `, "the body is empty"},
		{"truncated", `{"currency":"EU`, "the JSON in the body is truncated"},
		{"not JSON", `currency=EUR`, "the body is not valid JSON"},
		{"trailing text", `{"currency":"EUR"} and more`, "unexpected text after the JSON value in the body"},
		{"second document", `{"currency":"EUR"}{}`, "unexpected text after the JSON value in the body"},
		{"wrong type of a field", `{"currency":7}`, "the field currency has the wrong type"},
		{"array", `[]`, "the body has the wrong JSON type"},
		{"amount that is not a number", fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":"abc"}`, method), "a value in the body is not valid"},
		{"amount of the wrong type", `{"currency":"EUR","amount":true}`, "a value in the body is not valid"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			r := owner.post(path, row.body)

			r.wantProblem(t, 400, "bad_request")
			if got := r.text("detail"); got != row.want {
				t.Errorf("detail = %q, want %q", got, row.want)
			}
		})
	}
}

func TestServer_EscapesTexts(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	texts := []string{"447700900012", "https://app.example.com/?a=1&b=2", "&&", "a&\n&b", "é&ß", "\u2028\u2029\ufffd", strings.Repeat("long & ", 100)}
	for c := range 256 {
		texts = append(texts, string(rune(c)), "a"+string(rune(c))+"&b")
	}
	for _, text := range texts {
		field := `"reference_id":` + quoteJSON(t, text)

		got := a.post(phoneChecks, `{"phone_number":"447700900012",`+field+`}`)

		if !strings.Contains(string(got.body), field) || got.status != http.StatusCreated {
			t.Errorf("create with %s = %d %s, want the same text as from encoding/json", field, got.status, got.body)
		}
	}
}
