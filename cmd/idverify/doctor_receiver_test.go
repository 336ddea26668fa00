package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/idverify/idverify-go"
)

// receiverRecorder records the requests of a receiver.
type receiverRecorder struct {
	mu       sync.Mutex
	requests []string // method, "signed" if it has a signature, and the message
}

func (r *receiverRecorder) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		query, text := request.URL.Query(), request.Method
		if request.Header.Get("Authorization") != "" || query.Has("authorization") {
			text += " signed"
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		for _, part := range []string{request.Header.Get("Content-Type"), request.Header.Get("X-Service-Callback"), string(body), query.Get("check_id"), query.Get("error")} {
			if part != "" {
				text += " " + part
			}
		}
		r.mu.Lock()
		r.requests = append(r.requests, text)
		r.mu.Unlock()
		next.ServeHTTP(w, request)
	})
}

func TestDoctor_CorrectReceivers(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	ca := newAuthority(t, "Test CA")
	certificate := ca.issue(t, longValidity, "hooks.example.com", "127.0.0.1")
	verifier := srv.Verifier([]string{"hooks.example.com"}, nil)
	var recorder receiverRecorder
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", recorder.record(idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error {
		t.Error("the receiver acted on a message of doctor")
		return nil
	})))
	mux.Handle("GET /return", recorder.record(idverify.RedirectHandler(verifier, func(http.ResponseWriter, *http.Request, *idverify.Redirect) {
		t.Error("the receiver acted on a redirect of doctor")
	})))
	address := strings.TrimPrefix(serveTLS(t, certificate, mux.ServeHTTP), "https://")
	env[caFileVariable] = writeFile(t, readText(t, env[caFileVariable])+readText(t, ca.file))
	env["HTTPS_PROXY"] = connectProxy(t, address, 0) // the fake is on this machine, so it gets no proxy

	p := newProgram(env)
	stopClock(p, time.Now()) // a slow response is a problem

	got := p.doctorJSON(t, t.Context(), "-callback-url", "https://hooks.example.com/callbacks?token=secret-of-the-url", "-redirect-url", "https://hooks.example.com/return")

	got.wantOK(t, "callback-address", "callback-unsigned", "callback-forged", "callback-get", "redirect-address", "redirect-unsigned", "redirect-forged")
	got.wantProblem(t, "callback-tls", "private-ca", `"CN=Test CA"`)
	if row := got.row(t, "callback-forged"); row.Target != "hooks.example.com/callbacks" || !strings.Contains(row.Detail, "rejects a message that is wrongly signed with 400") {
		t.Errorf("callback-forged = %+v", row)
	}
	if detail := got.row(t, "callback-forged").Detail; !strings.HasSuffix(detail, "(does not prove that valid messages are accepted)") {
		t.Errorf("detail of callback-forged = %q, want the limit of the check", detail)
	}
	if detail := got.row(t, "callback-address").Detail; !strings.Contains(detail, "not resolved here") || strings.Contains(detail, "public") {
		t.Errorf("detail of callback-address = %q, want that the name was not resolved", detail)
	}
	want := []string{
		`POST application/json phone_check {"check_id":"00000000-0000-4000-8000-000000000000","status":"ERROR","match":false,"charge_amount":0,"charge_currency":"API","created_at":"2000-01-01T00:00:00+0000","error_code":"doctor"}`,
		`POST signed application/json phone_check {"check_id":"00000000-0000-4000-8000-000000000000","status":"ERROR","match":false,"created_at":"2000-01-01T00:00:00+0000","error_code":"doctor"}`,
		"GET 00000000-0000-4000-8000-000000000000 doctor",
		"GET signed 00000000-0000-4000-8000-000000000000 doctor",
	}
	if diff := cmp.Diff(want, recorder.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if strings.Contains(got.text, "secret-of-the-url") {
		t.Errorf("the output contains the query of the URL: %s", got.text)
	}
}

func TestDoctor_BrokenReceivers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "Test CA")
	certificate := ca.issue(t, longValidity, "127.0.0.1")
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusSeeOther) }
	drop := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	forged := func(h http.HandlerFunc) http.HandlerFunc { // h receives messages with a signature
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" && !r.URL.Query().Has("authorization") {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			h(w, r)
		}
	}
	for _, row := range []struct {
		check, problem string
		handler        http.HandlerFunc
		detail         string
	}{
		{"callback-unsigned", "accepted", status(204), "204 No Content"},
		{"callback-unsigned", "accepted", status(299), "299"},
		{"callback-unsigned", "redirect", redirect, "303 See Other"},
		{"callback-unsigned", "redirect", status(399), "399"},
		{"callback-unsigned", "not-found", status(404), "404 Not Found"},
		{"callback-unsigned", "not-found", status(405), "405 Method Not Allowed"},
		{"callback-unsigned", "error", status(500), "500 Internal Server Error"},
		{"callback-unsigned", "error", status(599), "599"},
		{"callback-unsigned", "none", drop, "no response to a message that is unsigned"},
		{"callback-unsigned", "other", status(429), "429 Too Many Requests"},
		{"callback-unsigned", "login", status(401), "401 Unauthorized"},
		{"callback-unsigned", "login", status(403), "403 Forbidden"},
		{"callback-unsigned", "login", status(407), "407 Proxy Authentication Required"},
		{"callback-forged", "accepted", forged(status(200)), "200 OK"},
		{"callback-forged", "unavailable", forged(status(503)), "503 Service Unavailable"},
		{"callback-forged", "redirect", forged(redirect), "303 See Other"},
		{"callback-forged", "not-found", forged(status(404)), "404 Not Found"},
		{"callback-forged", "error", forged(status(502)), "502 Bad Gateway"},
		{"callback-forged", "none", forged(drop), "no response to a message that is wrongly signed"},
		{"callback-forged", "other", forged(status(429)), "429 Too Many Requests"},
		{"callback-forged", "login", forged(status(403)), "403 Forbidden"},
		{"redirect-unsigned", "accepted", status(200), "200 OK"},
		{"redirect-unsigned", "redirect", redirect, "303 See Other"},
		{"redirect-unsigned", "not-found", status(404), "404 Not Found"},
		{"redirect-unsigned", "login", status(401), "401 Unauthorized"},
		{"redirect-forged", "login", forged(status(403)), "403 Forbidden"},
		{"redirect-forged", "accepted", forged(status(200)), "200 OK"},
		{"redirect-forged", "redirect", forged(redirect), "303 See Other"},
		{"redirect-forged", "unavailable", forged(status(503)), "503 Service Unavailable"},
		{"callback-get", "accepted", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(400)
			}
		}, "200 OK"},
		{"callback-get", "none", func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(400)
		}, "no response to a GET request"},
	} {
		t.Run(row.check+" "+row.problem, func(t *testing.T) {
			t.Parallel()
			kind, _, _ := strings.Cut(row.check, "-")
			url := serveTLS(t, certificate, row.handler) + "/path"

			got := doctorJSON(t, map[string]string{caFileVariable: ca.file}, "-only", kind, "-"+kind+"-url", url)

			got.wantProblem(t, row.check, row.problem, row.detail)
			if row.check == "callback-unsigned" && problemOf(row.check, row.problem).result == resultFailed {
				got.wantSkipped(t, "callback unsigned failed", "callback-forged", "callback-get")
			}
		})
	}
}

// A receiver that does not respond must not delay the other checks beyond the default timeout.
func TestDoctor_HangingReceiver(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		wait   time.Duration // until the response
		detail string
	}{
		{10*time.Second - 1, "500 Internal Server Error"},
		{10 * time.Second, "no response before the timeout"},
	} {
		ca := newAuthority(t, "Test CA")
		p := newProgram(map[string]string{caFileVariable: ca.file})
		clock := stopClock(p, time.Now())
		url := serveTLS(t, ca.issue(t, longValidity, "127.0.0.1"), func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // so that the server notices when the client gives up
			clock.move(row.wait)
			if row.wait == 10*time.Second {
				<-r.Context().Done()
			}
			w.WriteHeader(http.StatusInternalServerError)
		})

		got := p.doctorJSON(t, t.Context(), "-only", "callback", "-callback-url", url)

		if detail := got.row(t, "callback-unsigned").Detail; !strings.HasSuffix(detail, row.detail) {
			t.Errorf("response after %v: detail = %q, want %q", row.wait, detail, row.detail)
		}
		if row.wait == 10*time.Second {
			got.wantProblem(t, "callback-unsigned", "none", "no response to a message that is unsigned")
		}
	}
}

func TestDoctor_SlowReceiver(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		wait                     time.Duration // until each response
		problem, unsigned, wrong string
	}{
		{3 * time.Second, "", "rejects a message that is unsigned with 400, in 3 s", "rejects a message that is wrongly signed with 400, in 3 s (does not prove that valid messages are accepted)"},
		{3*time.Second + time.Millisecond, "slow", "rejects a message that is unsigned after 3.001 s", "rejects a message that is wrongly signed after 3.001 s"},
	} {
		ca := newAuthority(t, "Test CA")
		p := newProgram(map[string]string{caFileVariable: ca.file})
		clock := stopClock(p, time.Now())
		url := serveTLS(t, ca.issue(t, longValidity, "127.0.0.1"), func(w http.ResponseWriter, _ *http.Request) {
			clock.move(row.wait)
			w.WriteHeader(http.StatusBadRequest)
		})

		got := p.doctorJSON(t, t.Context(), "-only", "callback", "-callback-url", url)

		for check, want := range map[string]string{"callback-unsigned": row.unsigned, "callback-forged": row.wrong} {
			got.wantProblem(t, check, row.problem, "")
			if detail := got.row(t, check).Detail; detail != want {
				t.Errorf("%s: detail = %q, want %q", check, detail, want)
			}
		}
		if want := (row.wait).Seconds(); got.row(t, "callback-get").Duration != want {
			t.Errorf("duration of callback-get = %v s, want %v", got.row(t, "callback-get").Duration, want)
		}
	}
}

func TestDoctor_ReceiverAddress(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ problem, url, detail string }{
		{"invalid", "hooks.example.com/callbacks", "not an absolute http or https URL"},
		{"invalid", "https:///callbacks", "not an absolute http or https URL"},
		{"invalid", "ftp://hooks.example.com/callbacks", "not an absolute http or https URL"},
		{"invalid", "https://hooks.example.com/%", "not an absolute http or https URL"},
		{"invalid", "https://hooks.example.com/callbacks#top", "without user and fragment"},
		{"invalid", "https://user:the-password@hooks.example.com/callbacks", "without user"},
		{"unresolved", "https://hooks.invalid/callbacks", "hooks.invalid"},
		{"closed-port", "https://" + unusedAddress, "connection refused"},
		{"unreachable", broadcastURL, ""},
	} {
		t.Run(row.problem, func(t *testing.T) {
			t.Parallel()

			got := doctorJSON(t, nil, "-only", "callback", "-callback-url", row.url)

			got.wantProblem(t, "callback-address", row.problem, row.detail)
			if row.problem != "invalid" {
				got.wantSkipped(t, "callback address failed", "callback-tls", "callback-unsigned", "callback-forged", "callback-get")
			}
			if strings.Contains(got.text, "the-password") {
				t.Errorf("the output contains the password: %s", got.text)
			}
		})
	}
}

func TestDoctor_PrivateReceiver(t *testing.T) {
	t.Parallel()
	srv, _ := newService(t)
	url := "http" + strings.TrimPrefix(srv.URL(), "https")

	got := doctorJSON(t, nil, "-only", "callback", "-callback-url", url)

	got.wantProblem(t, "callback-address", "private", "127.0.0.1 is a private address")
	got.wantProblem(t, "callback-tls", "unencrypted", "scheme http")
}

func TestDoctor_PrivateAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"10.1.2.3": true, "172.16.0.1": true, "192.168.0.1": true, "127.0.0.1": true, "169.254.1.1": true, "100.64.0.1": true,
		"0.0.0.0": true, "::1": true, "fd00::1": true, "fe80::1": true, "203.0.113.5": false, "100.128.0.1": false, "2001:db8::1": false,
	} {
		addresses, err := lookUp(t.Context(), address)

		if err != nil || len(addresses) != 1 || isPrivate(addresses[0]) != want {
			t.Errorf("%s: private = %t, want %t (error %v)", address, !want, want, err)
		}
	}
}

// A proxy that rejects the connection must not make a receiver look reachable.
func TestDoctor_ReceiverBehindProxy(t *testing.T) {
	t.Parallel()
	withoutTLS := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(withoutTLS.Close)
	env := map[string]string{"HTTPS_PROXY": connectProxy(t, "", http.StatusBadGateway)}
	args := []string{"-only", "callback", "-callback-url", "https://203.0.113.5/callbacks"}

	rejected := doctorJSON(t, env, args...)
	connected := doctorJSON(t, with(env, "HTTPS_PROXY", connectProxy(t, withoutTLS.Listener.Addr().String(), 0)), args...)

	rejected.wantProblem(t, "callback-address", "unreachable", "through the proxy: Bad Gateway")
	connected.wantOK(t, "callback-address")
}
