package main

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// The printed URL opens the page, and its fragment contains the token that opens a session.
func TestProgram_Inspector(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys", "-control-token", "token/with+special=characters")
	client := a.client(t)
	get := func(method, location string, header http.Header) (int, string) {
		request := must(http.NewRequestWithContext(t.Context(), method, location, nil))(t)
		request.Header = header
		status, body := do(t, client, request)
		return status, string(body)
	}
	address, fragment, _ := strings.Cut(a.Inspector, "#")
	values := must(url.ParseQuery(fragment))(t)

	status, page := get(http.MethodGet, address, http.Header{"Accept": {"text/html"}})
	session, _ := get(http.MethodPost, address+"session", http.Header{"Authorization": {"Bearer " + values.Get("token")}, "Content-Type": {"application/json"}})
	environment, body := get(http.MethodGet, address+"page/private/environment.json", http.Header{"Authorization": {"Bearer " + a.Token}})

	if status != http.StatusOK || !strings.HasPrefix(page, "<!doctype html>") {
		t.Errorf("%s: %d %.40s, want the page", address, status, page)
	}
	for _, link := range []string{"ca", "service.json", "page/openapi.json"} {
		linked, _ := get(http.MethodGet, address+link, http.Header{"Accept": {"text/html"}})
		if linked != http.StatusOK || !strings.Contains(page, `<a href="`+link+`" id=`) {
			t.Errorf("%s: %d, want 200, and a link in the page", link, linked)
		}
	}
	if _, description := get(http.MethodGet, address+"page/openapi.json", nil); description != readFile(t, "openapi.json") {
		t.Errorf("the program serves %d bytes as the OpenAPI description, want those of the file", len(description))
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

		first, second := p.readUntil("\n"), p.readUntil("\n")

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
	_, a := startJSON(t, "-fixed-keys")
	block, _ := pem.Decode([]byte(readFile(t, a.CAFile)))
	sum := sha256.Sum256(block.Bytes)
	text := start(t, "-fixed-keys").readUntil("project ")

	if want := strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":"); a.CASHA256 != want {
		t.Errorf("ca_sha256 = %s, want %s", a.CASHA256, want)
	}
	if !regexp.MustCompile(`CA certificate .*\n +fingerprint SHA-256 ([0-9A-F]{2}:){31}[0-9A-F]{2}\n`).MatchString(text) {
		t.Errorf("output = %q, want the fingerprint below the CA certificate", text)
	}
}

// browse sends a request as a browser does, without following redirects.
func (a announced) browse(t *testing.T, method, target, form string) (status int, header http.Header, page string) {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(form)))(t)
	request.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	request.Header.Set("Sec-Fetch-Mode", "navigate")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := a.client(t)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response := must(client.Do(request))(t)
	defer response.Body.Close()
	body := must(io.ReadAll(response.Body))(t)
	return response.StatusCode, response.Header, string(body)
}

// createRedirect creates a check in version v0.2 and returns its ID and Check URL.
func (a announced) createRedirect(t *testing.T) (checkID, checkURL string) {
	t.Helper()
	const body = `{"phone_number":"447700900013","redirect_url":"https://shop.example.com/back"}`
	status, check := a.call(t, a.token(t, a.client(t)), http.MethodPost, "/phone_check/v0.2/checks", body)
	if status != http.StatusCreated {
		t.Fatalf("create = %d %v, want 201", status, check)
	}
	return check["check_id"].(string), check["_links"].(map[string]any)["check_url"].(map[string]any)["href"].(string)
}

func TestProgram_PhonePageFlag(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-fixed-keys", "-phone-page")
	checkID, checkURL := a.createRedirect(t)
	path := "/_sandbox/open/" + checkID

	status, first, _ := a.browse(t, http.MethodGet, checkURL, "")
	formStatus, _, form := a.browse(t, http.MethodGet, a.URL+path, "")
	chosenStatus, chosen, _ := a.browse(t, http.MethodPost, a.URL+path, "as=phone")

	if status != http.StatusSeeOther || first.Get("Location") != path {
		t.Errorf("Check URL = %d to %q, want 303 to the phone page", status, first.Get("Location"))
	}
	if formStatus != http.StatusOK || !strings.Contains(form, "This is the phone") {
		t.Errorf("phone page = %d\n%s", formStatus, form)
	}
	location, err := url.Parse(chosen.Get("Location"))
	if err != nil || chosenStatus != http.StatusSeeOther || location.Host != "shop.example.com" || location.Query().Get("code") == "" {
		t.Fatalf("choice = %d to %q, want the redirect URL with a code", chosenStatus, location)
	}
	patch := fmt.Sprintf(`[{"op":"add","path":"/code","value":%q}]`, location.Query().Get("code"))
	if check := a.exchange(t, checkID, patch); check["match"] != true {
		t.Errorf("check = %v, want the match that was chosen, not the result of the number", check)
	}
}

// exchange exchanges the code of a check.
func (a announced) exchange(t *testing.T, checkID, patch string) map[string]any {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodPatch, a.URL+"/phone_check/v0.2/checks/"+checkID, strings.NewReader(patch)))(t)
	request.Header.Set("Content-Type", "application/json-patch+json")
	request.Header.Set("Authorization", "Bearer "+a.token(t, a.client(t)))
	status, body := do(t, a.client(t), request)
	if status != http.StatusOK {
		t.Fatalf("exchange = %d %s, want 200", status, body)
	}
	var check map[string]any
	noError(t, json.Unmarshal(body, &check))
	return check
}

// Without the flag, and for clients that are not browsers, a Check URL behaves as that of the
// service.
func TestProgram_WithoutPhonePage(t *testing.T) {
	t.Parallel()
	_, plain := startJSON(t, "-fixed-keys")
	_, checkURL := plain.createRedirect(t)
	_, withPage := startJSON(t, "-fixed-keys", "-phone-page")
	_, otherURL := withPage.createRedirect(t)
	client := withPage.client(t)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, otherURL, nil))(t)
	request.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml,*/*") // as native SDKs do

	status, header, _ := plain.browse(t, http.MethodGet, checkURL, "")
	native := must(client.Do(request))(t)
	native.Body.Close()
	if status != http.StatusFound || !strings.HasPrefix(header.Get("Location"), "https://shop.example.com/back?") {
		t.Errorf("browser without -phone-page = %d to %q, want the redirect URL", status, header.Get("Location"))
	}
	if location := native.Header.Get("Location"); native.StatusCode != http.StatusFound || !strings.HasPrefix(location, "https://shop.example.com/back?") {
		t.Errorf("native client with -phone-page = %d to %q, want the redirect URL", native.StatusCode, location)
	}
}
