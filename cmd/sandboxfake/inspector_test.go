package main_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The printed URL opens the page, and its fragment contains the token that opens a session.
func TestProgram_Inspector(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-control-token", "token/with+special=characters")
	client := a.client(t)
	get := func(method, location string, header http.Header) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, location, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		status, body := do(t, client, request)
		return status, string(body)
	}
	address, fragment, _ := strings.Cut(a.Inspector, "#")
	values, err := url.ParseQuery(fragment)
	if err != nil {
		t.Fatal(err)
	}

	status, page := get(http.MethodGet, address, http.Header{"Accept": {"text/html"}})
	session, _ := get(http.MethodPost, address+"session", http.Header{"Authorization": {"Bearer " + values.Get("token")}, "Content-Type": {"application/json"}})
	environment, body := get(http.MethodGet, address+"page/private/environment.json", http.Header{"Authorization": {"Bearer " + a.Token}})

	if status != http.StatusOK || !strings.HasPrefix(page, "<!doctype html>") {
		t.Errorf("%s: %d %.40s, want the page", address, status, page)
	}
	if session != http.StatusNoContent {
		t.Errorf("session with the token of the fragment: %d, want 204", session)
	}
	if environment != http.StatusOK || !strings.Contains(body, a.CAFile) {
		t.Errorf("environment: %d %s, want the CA file %s", environment, body, a.CAFile)
	}
}

func TestProgram_AnnouncesInspectorFirst(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		says string
	}{
		{nil, "/_sandbox/ca describes how"},
		{[]string{"-fixed-keys"}, "Do not trust the CA certificate"},
	} {
		p := start(t, row.args...)

		first, err := p.stdout.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		second, err := p.stdout.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}

		if !strings.Contains(first, "https://127.0.0.1:") || !strings.Contains(first, "/_sandbox/#token=") {
			t.Errorf("%q: first line = %q, want the URL of the inspector", row.args, first)
		}
		if !strings.Contains(second, row.says) {
			t.Errorf("%q: second line = %q, want %q", row.args, second, row.says)
		}
	}
}
