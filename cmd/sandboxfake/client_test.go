package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// call sends a request with a bearer token, or without one if bearer is empty, and returns the
// decoded response.
func (a announced) call(t *testing.T, bearer, method, path, body string) (status int, got map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, a.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	status, text := do(t, a.client(t), request)
	if len(text) > 0 {
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s %s = %d %q: %v", method, path, status, text, err)
		}
	}
	return status, got
}

// control sends a request to the control plane. The test fails unless it succeeds.
func (a announced) control(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	status, got := a.call(t, a.Token, method, "/_sandbox/"+path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s = %d %v, want success", method, path, status, got)
	}
	return got
}

// create creates a PhoneCheck.
func (a announced) create(t *testing.T, token, callbackURL string) map[string]any {
	t.Helper()
	status, check := a.call(t, token, http.MethodPost, "/phone_check/v0.1/checks", `{"phone_number":"447700900012","callback_url":"`+callbackURL+`"}`)
	if status != http.StatusCreated {
		t.Fatalf("create = %d %v, want 201", status, check)
	}
	return check
}

// open opens the Check URL of a check.
func (a announced) open(t *testing.T, check map[string]any) {
	t.Helper()
	a.call(t, "", http.MethodGet, strings.TrimPrefix(check["_links"].(map[string]any)["check_url"].(map[string]any)["href"].(string), a.URL), "")
}

// deliver creates a PhoneCheck with a callback URL, opens its Check URL and returns the delivery.
func (a announced) deliver(t *testing.T, callbackURL string) map[string]any {
	t.Helper()
	check := a.create(t, a.token(t, a.client(t)), callbackURL)
	a.open(t, check)
	deliveries := a.control(t, http.MethodGet, fmt.Sprintf("deliveries?wait_seconds=30&check_id=%s", check["check_id"]), "")["deliveries"].([]any)
	if len(deliveries) != 1 {
		t.Fatalf("%d deliveries, want 1", len(deliveries))
	}
	return deliveries[0].(map[string]any)
}

// received is a callback as received.
type received struct {
	header http.Header
	body   []byte
}

// receive starts a receiver and returns its URL and the channel of its callbacks.
func receive(t *testing.T) (url string, got chan received) {
	t.Helper()
	got = make(chan received, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- received{r.Header, body}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}
