package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// dial sends the start of a request to the receiver, whose header contains the line.
func (r *receiver) dial(t *testing.T, line, body string) net.Conn {
	t.Helper()
	target, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", target.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n%s", target.Path, target.Host, line, body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// status returns the status of the response.
func status(t *testing.T, conn net.Conn) int {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("response: %v", err)
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// verify sends a valid callback. The receiver must accept it, and may print rejections before.
func (r *receiver) verify(t *testing.T, a announced) {
	t.Helper()
	valid := r.deliver(t, a)
	if got := valid.Attempts[0].Status; got != http.StatusNoContent {
		t.Errorf("a valid callback: status %d, want 204", got)
	}
	line := r.line(t)
	for strings.HasPrefix(line, "rejected: ") {
		line = r.line(t)
	}
	if line != "verified: phone_check COMPLETED, match: yes" {
		t.Errorf("a valid callback: printed %q, want verified", line)
	}
}

func TestReceiver_InvalidRequests(t *testing.T) {
	t.Parallel()
	for _, name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, a := startJSON(t)
			r := startReceiver(t, a, name, map[string]string{
				"__JWKS_URL__": a.URL + "/.well-known/jwks.json", "__CA_FILE__": a.CAFile, "__CALLBACK_HEADER__": "x-service-callback",
			})

			stalled := r.dial(t, "Content-Length: 100", "{")
			r.dial(t, "Content-Length: 100", "{").Close()
			huge := strings.Repeat(" ", 100_000)
			rows := map[string][]int{
				"Content-Length: -1":     {400},
				"Content-Length: x":      {400},
				"X-Length: none":         {400, 411},
				"Content-Length: 100000": {400, 413},
				"Transfer-Encoding: x":   {400, 501},
				"Content-Length: 0":      {400},
			}
			for line, want := range rows {
				body := ""
				if strings.HasSuffix(line, "100000") {
					body = huge
				}
				if got := status(t, r.dial(t, line, body)); !slices.Contains(want, got) {
					t.Errorf("%s: status %d, want one of %v", line, got, want)
				}
			}

			r.verify(t, a)
			stalled.Close()
			r.verify(t, a)
			if stderr, _ := os.ReadFile(r.stderr); len(stderr) > 0 {
				t.Errorf("the receiver printed to standard error\n%s", stderr)
			}
		})
	}
}

func TestReceiver_SignedOtherShapes(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`null`, `[]`, `"text"`, `1`, `{}`, `{"status":null}`, `{"status":1,"match":true}`, `{"status":["COMPLETED"],"match":true}`,
		``, `{`, strings.Repeat("[", 20_000),
	}
	for _, name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, a := startJSON(t)
			r := startReceiver(t, a, name, map[string]string{
				"__JWKS_URL__": a.URL + "/.well-known/jwks.json", "__CA_FILE__": a.CAFile, "__CALLBACK_HEADER__": "x-service-callback",
			})
			for _, body := range bodies {
				request, err := json.Marshal(map[string]string{"url": r.url, "product": "phone_check", "body": body})
				if err != nil {
					t.Fatal(err)
				}

				a.control(t, http.MethodPost, "callbacks", string(request))
				a.control(t, http.MethodPost, "idle", "")
			}

			r.verify(t, a)
			for _, delivery := range a.control(t, http.MethodGet, "deliveries", "")["deliveries"].([]any)[:len(bodies)] {
				d := delivery.(map[string]any)
				attempt := d["attempts"].([]any)[0].(map[string]any)
				if got := attempt["status"]; got != 400.0 && got != 500.0 {
					t.Errorf("%.20v: status %v, want 400 or 500", d["body"], got)
				}
			}
			if stderr, _ := os.ReadFile(r.stderr); len(stderr) > 0 {
				t.Errorf("the receiver printed to standard error\n%s", stderr)
			}
		})
	}
}
