package main

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
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

// A person compares the fingerprint of the page /_sandbox/ca with that of the terminal.
func TestProgram_AnnouncesFingerprint(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t)
	block, _ := pem.Decode(mustRead(t, a.CAFile))
	sum := sha256.Sum256(block.Bytes)
	text := start(t, "-fixed-keys")
	line := ""
	for !strings.Contains(line, "project ") {
		next, err := text.stdout.ReadString('\n')
		if err != nil {
			t.Fatalf("read what the program prints after %q: %v", line, err)
		}
		line += next
	}

	if want := strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":"); a.CASHA256 != want {
		t.Errorf("ca_sha256 = %s, want %s", a.CASHA256, want)
	}
	if !regexp.MustCompile(`CA certificate .*\n +fingerprint SHA-256 ([0-9A-F]{2}:){31}[0-9A-F]{2}\n`).MatchString(line) {
		t.Errorf("output = %q, want the fingerprint below the CA certificate", line)
	}
}
