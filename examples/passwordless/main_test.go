package main

import (
	"context"
	"crypto/tls"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// TestRun_SignsIn runs the program until it is canceled.
func TestRun_SignsIn(t *testing.T) {
	t.Parallel()
	listener := tooltest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, slog.New(slog.DiscardHandler)) }()
	base := "http://" + listener.Addr().String()
	jar := tooltest.Must(cookiejar.New(nil))(t)
	// The browser accepts the certificate of the fake, as a user does after the warning.
	browser := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

	form := page(t, browser, http.MethodGet, base, "")
	step := page(t, browser, http.MethodPost, base, url.Values{"number": {"+44 7700 900 012"}}.Encode())
	link := regexp.MustCompile(`<a class="button" href="(https:[^"]*)"`).FindStringSubmatch(step)
	if link == nil {
		t.Fatalf("page has no Check URL:\n%s", step)
	}
	home := page(t, browser, http.MethodGet, html.UnescapeString(link[1]), "")
	cancel()

	if err := <-ended; err != nil {
		t.Errorf("run = %v, want nil", err)
	}
	if !strings.Contains(form, "This is a demonstration") {
		t.Errorf("page = %s, want the demonstration form", form)
	}
	if !strings.Contains(home, "You are signed in") {
		t.Errorf("page after the Check URL = %s, want signed in", home)
	}
}

// page returns the body of a page.
func page(t *testing.T, browser *http.Client, method, url, body string) string {
	t.Helper()
	r := tooltest.Must(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response := tooltest.Must(browser.Do(r))(t)
	defer response.Body.Close()
	return string(tooltest.Must(io.ReadAll(response.Body))(t))
}
