package main

import (
	"context"
	"crypto/tls"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

func TestRun_ServesUntilCanceled(t *testing.T) {
	t.Parallel()
	base, stop := start(t)

	status, body := get(t, base, nil)
	err := stop()

	if status != http.StatusOK || !strings.Contains(body, "This is a demonstration") {
		t.Errorf("status = %d, want 200 and the demonstration form:\n%s", status, body)
	}
	if err != nil {
		t.Errorf("run = %v, want nil", err)
	}
}

// The program must configure a replay store.
func TestRun_RejectsReplayedRedirect(t *testing.T) {
	t.Parallel()
	base, stop := start(t)
	session := begin(t, base)
	_, page := get(t, base+"/check", session)
	link := regexp.MustCompile(`<a class="button" href="(https:[^"]*)"`).FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("page has no Check URL:\n%s", page)
	}
	redirect := location(t, html.UnescapeString(link[1]))

	first, _ := get(t, redirect, nil)
	second, _ := get(t, redirect, nil)
	if err := stop(); err != nil {
		t.Error(err)
	}

	if first != http.StatusForbidden {
		t.Errorf("status without a session = %d, want 403", first)
	}
	if second != http.StatusBadRequest {
		t.Errorf("status of the replayed redirect = %d, want 400: the verifier has no replay store", second)
	}
}

// start runs the program and returns its address and a function that stops it.
func start(t *testing.T) (base string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, slog.New(slog.DiscardHandler)) }()
	return "http://" + listener.Addr().String(), func() error { cancel(); return <-ended }
}

// client does not follow redirects and accepts the fake's certificate, as a user does after the
// browser's warning.
var client = http.Client{
	Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func do(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func get(t *testing.T, url string, session *http.Cookie) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if session != nil {
		r.AddCookie(session)
	}
	response, body := do(t, r)
	return response.StatusCode, body
}

// location returns the Location of the redirect that url returns.
func location(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, _ := do(t, r)
	return response.Header.Get("Location")
}

// begin submits the form and returns the session cookie.
func begin(t *testing.T, base string) *http.Cookie {
	t.Helper()
	form := url.Values{"number": {"+44 7700 900 012"}}.Encode()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, _ := do(t, r)
	cookies := response.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("status = %d with %d cookies, want one cookie", response.StatusCode, len(cookies))
	}
	return cookies[0]
}
