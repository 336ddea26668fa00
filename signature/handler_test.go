package signature_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// received is the message and the body that a handler received.
type received struct {
	Product, Body, Query string
	Read                 string // from r.Body
}

// recorder returns a handler that records the message in got and responds with 204.
func recorder(got *received) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, ok := signature.MessageFromContext(r.Context())
		if !ok {
			http.Error(w, "no message", http.StatusInternalServerError)
			return
		}
		read, _ := io.ReadAll(r.Body)
		*got = received{m.Product, string(m.Body), m.Query.Encode(), string(read)}
		w.WriteHeader(http.StatusNoContent)
	})
}

// serve serves the handler that build returns over TLS. build gets the host of the server.
func serve(t *testing.T, build func(host string) http.Handler) *httptest.Server {
	t.Helper()
	return serveVersion(t, 1, build)
}

// serveVersion is like serve, over HTTP/1 or HTTP/2.
func serveVersion(t *testing.T, version int, build func(host string) http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	h := build(srv.Listener.Addr().String())
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != version {
			t.Errorf("request over %s, want HTTP/%d", r.Proto, version)
		}
		h.ServeHTTP(w, r)
	})
	srv.EnableHTTP2 = version == 2
	srv.StartTLS()
	t.Cleanup(srv.Close)
	if srv.EnableHTTP2 {
		connect(t, srv)
	}
	return srv
}

// connect opens the connection of the client of an HTTP/2 server. It retries, because the server
// closes a connection whose first frames take more than 2 s, which happens on a busy machine.
func connect(t *testing.T, srv *httptest.Server) {
	t.Helper()
	// net/http responds to "OPTIONS *" without calling the handler.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, srv.URL, nil)
	noError(t, err)
	r.URL.Opaque = "*"
	for range 100 {
		var response *http.Response
		if response, err = srv.Client().Do(r); err == nil {
			response.Body.Close()
			return
		}
	}
	t.Fatal(err)
}

func send(t *testing.T, client *http.Client, r *http.Request) (status int, header http.Header, body string) {
	t.Helper()
	response := must(client.Do(r))(t)
	defer response.Body.Close()
	read := must(io.ReadAll(response.Body))(t)
	return response.StatusCode, response.Header, string(read)
}

func TestVerifier_RequireCallback(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]func(*signature.Verifier, http.Handler) http.Handler{
		"no middleware": func(v *signature.Verifier, h http.Handler) http.Handler { return v.RequireCallback(h) },
		"StripPrefix": func(v *signature.Verifier, h http.Handler) http.Handler {
			return http.StripPrefix("/callbacks", v.RequireCallback(h))
		},
		"MaxBytesHandler": func(v *signature.Verifier, h http.Handler) http.Handler {
			return http.MaxBytesHandler(v.RequireCallback(h), 1<<10)
		},
		"ServeMux": func(v *signature.Verifier, h http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /callbacks/{name}", v.RequireCallback(h))
			return mux
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got received
			srv := serve(t, func(host string) http.Handler {
				return around(verifierFor(t, serviceKeys(), signature.VerifierOptions{}, host), recorder(&got))
			})
			r := sign(t, callbackRequest(t, srv.URL+"/callbacks/a%2Fb?x=%2f&x"), body)

			status, _, _ := send(t, srv.Client(), r)

			if status != http.StatusNoContent {
				t.Fatalf("response = %d, want 204", status)
			}
			wantEqual(t, received{"subscriber_check", body, "x=%2F&x=", body}, got, "received")
		})
	}
}

// TestVerifier_RejectionHidesReason sends all attacks to the handlers. The response must not
// disclose the reason.
func TestVerifier_RejectionHidesReason(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("handler called with a rejected message") })
	responses := make(map[string]string)

	for _, kind := range messageKinds {
		for _, a := range kind.attacks() {
			recorder := httptest.NewRecorder()
			kind.require(v, never).ServeHTTP(recorder, request(t, a.Message(kind.setup)))
			responses[fmt.Sprint(recorder.Code, recorder.Header(), recorder.Body)] = a.Name
		}
	}

	if len(responses) != 1 {
		t.Errorf("responses differ between attacks: %q", responses)
	}
	for response := range responses {
		if want := "400 map[Content-Type:[text/plain; charset=utf-8] X-Content-Type-Options:[nosniff]] Bad Request\n"; response != want {
			t.Errorf("response = %q, want %q", response, want)
		}
	}
}

func TestVerifier_RetryableResponse(t *testing.T) {
	t.Parallel()
	outage := errors.New("secret-detail")
	for name, v := range map[string]*signature.Verifier{
		"keys":         verifierFor(t, failingKeys(outage), signature.VerifierOptions{}, host),
		"replay store": newVerifier(t, signature.VerifierOptions{Replay: failingStore(outage)}),
	} {
		never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("handler called with an unverified message") })
		callback, redirect := httptest.NewRecorder(), httptest.NewRecorder()

		v.RequireCallback(never).ServeHTTP(callback, request(t, signedCallback()))
		v.RequireRedirect(never).ServeHTTP(redirect, request(t, signedRedirect()))

		if retry := callback.Header().Get("Retry-After"); retry != "10" {
			t.Errorf("%s: callback: Retry-After = %q, want 10, the delay of the service's first retry", name, retry)
		}
		if retry, ok := redirect.Header()["Retry-After"]; ok {
			t.Errorf("%s: redirect: Retry-After = %q, want none: the date expires earlier", name, retry)
		}
		for _, got := range []*httptest.ResponseRecorder{callback, redirect} {
			if got.Code != http.StatusServiceUnavailable || got.Body.String() != "Service Unavailable\n" || got.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s: response = %d %q %v; want 503 with the status text as plain text: the service does not retry after a 400", name, got.Code, got.Body, got.Header())
			}
		}
	}
}

func TestVerifier_RequireCallbackReverseProxy(t *testing.T) {
	t.Parallel()
	var got received
	backend := serve(t, func(string) http.Handler {
		v := verifierFor(t, serviceKeys(), signature.VerifierOptions{Target: func(r *http.Request) (string, string) {
			return r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Original-Uri")
		}}, host)
		return v.RequireCallback(recorder(&got))
	})
	inner := must(url.Parse(backend.URL + "/internal"))(t)
	proxy := serve(t, func(string) http.Handler {
		return &httputil.ReverseProxy{Transport: backend.Client().Transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(inner)
			r.Out.Host = inner.Host
			r.SetXForwarded()
			r.Out.Header.Set("X-Original-Uri", r.In.RequestURI)
		}}
	})
	r := callbackRequest(t, proxy.URL+"/callbacks/phone?x=1")
	r.Host = host
	sign(t, r, body)

	status, _, _ := send(t, proxy.Client(), r)

	if status != http.StatusNoContent || got.Body != body {
		t.Errorf("response = %d, want 204 and the body of the callback", status)
	}
}

func TestMessageFromContext_NoMessage(t *testing.T) {
	t.Parallel()
	if m, ok := signature.MessageFromContext(t.Context()); ok || m != nil {
		t.Error("message found in a context without one")
	}
}
