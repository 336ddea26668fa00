package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// asProgram makes this test binary the program, so that no test has to build it.
const asProgram = "RUN_SIGNIN=1"

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asProgram) {
		main()
	}
	os.Exit(m.Run())
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	service := sandboxfake.New(t)
	site, err := newSite("https://shop.example.com", service.Client(), service.Verifier([]string{"shop.example.com"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	phone := service.Device().Client() // a browser that opens the Check URL over mobile data
	page, err := phone.PostForm(service.Handle("shop.example.com", site)+"/start", url.Values{"number": {"+44 7700 900 012"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := page.Request.URL.Path; got != "/account" { // a number that ends in 13 leads to "/"
		t.Errorf("page after the sign-in = %s, want /account", got)
	}
}

// TestMain_SignsIn runs the program of README.md, and signs in with a browser that continues after
// the warning of the certificate.
func TestMain_SignsIn(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	port, err := config.Listen(t.Context(), "tcp", "localhost:8080")
	if err != nil {
		t.Skip(err) // another program has the port
	}
	port.Close()
	program := exec.CommandContext(t.Context(), tooltest.Must(os.Executable())(t))
	program.Env = append(os.Environ(), asProgram)
	tooltest.Start(t, program)
	jar := tooltest.Must(cookiejar.New(nil))(t)
	browser := &http.Client{Jar: jar, Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for { // until the program listens
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "localhost:8080")
		if err == nil {
			conn.Close()
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}

	page := tooltest.Must(browser.PostForm("http://localhost:8080/start", url.Values{"number": {"+44 7700 900 012"}}))(t)
	defer page.Body.Close()
	body, err := io.ReadAll(page.Body)

	if want := "Signed in: 447700900012\n"; err != nil || string(body) != want {
		t.Errorf("page after the sign-in = %q, error %v, want %q", body, err, want)
	}
}

// newShop returns a site, its URL and its fake, whose clock is frozen: a site must not reject a
// redirect because the machine is busy.
func newShop(t *testing.T) (site http.Handler, shop string, service *sandboxfake.Server) {
	t.Helper()
	service = sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Now()))
	site = tooltest.Must(newSite("https://shop.example.com", service.Client(), service.Verifier([]string{"shop.example.com"}, nil)))(t)
	return site, service.Handle("shop.example.com", site), service
}

func TestSite_Rejects(t *testing.T) {
	t.Parallel()
	site, shop, service := newShop(t)
	for number, want := range map[string]string{"+44 7700 900 013": "/", "+44 7700 900 099": "/", "1": "/start"} {
		browser := service.Device().Client()
		page := tooltest.Must(browser.PostForm(shop+"/start", url.Values{"number": {number}}))(t)
		if got := page.Request.URL.Path; got != want {
			t.Errorf("page after a sign-in with %s = %s, want %s", number, got, want)
		}
		if page, err := browser.Get(shop + "/account"); err != nil || page.Request.URL.Path != "/" {
			t.Errorf("%s: response %v, error %v, want the start page: nobody is signed in", number, page, err)
		}
	}
	// Return sees other methods than GET, so that they revoke a flow.
	for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodPost} {
		response := httptest.NewRecorder()
		site.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), method, shop+"/return", nil))
		if allow := response.Header().Get("Allow"); response.Code != http.StatusMethodNotAllowed || allow != http.MethodGet {
			t.Errorf("%s: response %d, Allow %q, want 405 of Return, not of the mux", method, response.Code, allow)
		}
	}
}

func TestSite_LoginCookie(t *testing.T) {
	t.Parallel()
	_, shop, service := newShop(t)
	browser := service.Device().Client()
	page := tooltest.Must(browser.PostForm(shop+"/start", url.Values{"number": {"+44 7700 900 012"}}))(t)

	cookies := browser.Jar.Cookies(page.Request.URL)

	if len(cookies) != 1 || cookies[0].Name != "__Host-session" {
		t.Errorf("cookies = %v, want only __Host-session: another host of the domain could sign people in to its account", cookies)
	}
}

// The functions below are snippets of README.md.

func newLiveSite() (http.Handler, error) {
	// CredentialsFromEnv reads IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET.
	client, err := idverify.NewClient(os.Getenv("IDVERIFY_BASE_URL"), idverify.CredentialsFromEnv(), idverify.WithLiveOnly())
	if err != nil {
		return nil, err
	}
	keys, err := client.NewJWKS(nil) // the keys with which the service signs redirects and callbacks
	if err != nil {
		return nil, err
	}
	verifier, err := signature.NewVerifier(keys, []string{"shop.example.com"}, nil)
	if err != nil {
		return nil, err
	}
	return newSite("https://shop.example.com", client, verifier)
}

//nolint:paralleltest // sets the environment
func TestLiveSite(t *testing.T) {
	t.Setenv("IDVERIFY_BASE_URL", "https://eu.api.example.com")
	t.Setenv("IDVERIFY_CLIENT_ID", "client")
	t.Setenv("IDVERIFY_CLIENT_SECRET", "s3cret-of-client")

	if _, err := newLiveSite(); err != nil {
		t.Error(err)
	}
}

// simUnchanged reports whether the SIM of a number was unchanged for a week. Pay after yes, and
// hold the payout after no. After unknown or an error, ask for another proof of identity.
func simUnchanged(ctx context.Context, client *idverify.Client, number, payoutID string) (idverify.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	check, err := client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: payoutID, Period: 7 * 24 * time.Hour})
	if err != nil {
		return idverify.VerdictUnknown, err
	}
	return check.NoSIMChange, nil
}

func TestSIMUnchanged(t *testing.T) {
	t.Parallel()
	client := sandboxfake.New(t, sandboxfake.WithInMemory()).Client()
	for number, want := range map[string]idverify.Verdict{
		"447700900012": idverify.VerdictYes, "447700900017": idverify.VerdictNo, "447700900099": idverify.VerdictUnknown,
	} {
		if got, err := simUnchanged(t.Context(), client, number, "payout "+number); got != want || err != nil {
			t.Errorf("%s: verdict %s, error %v, want %s", number, got, err, want)
		}
	}
}

// TestReadme_Snippets verifies that each Go snippet of README.md is code of this directory, and so
// complete and tested.
func TestReadme_Snippets(t *testing.T) {
	t.Parallel()
	read := func(name string) string { return string(tooltest.Must(os.ReadFile(name))(t)) }
	code := strings.ReplaceAll(read("main.go"), " //nolint:gosec // on loopback only", "") + read("main_test.go")

	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read("../../README.md"), -1)

	if len(snippets) != 4 || !strings.HasPrefix(snippets[0][1], "package main\n") {
		t.Errorf("README.md has %d Go snippets, want 4, the first one of them a whole program", len(snippets))
	}
	for _, snippet := range snippets {
		indented := strings.TrimSuffix(strings.ReplaceAll("\t"+snippet[1], "\n", "\n\t"), "\t")
		if !strings.Contains(code, snippet[1]) && !strings.Contains(code, indented) {
			t.Errorf("README.md shows code that is not in examples/signin:\n%s", snippet[1])
		}
	}
}
