// Package examples_test compiles the snippets of the documents and checks their tables and links.
package examples_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func handleErrors(ctx context.Context, client *idverify.Client, params idverify.PhoneCheckParams) error {
	check, err := client.PhoneChecks.Create(ctx, params)
	switch {
	case errors.Is(err, idverify.ErrOutcomeUnknown):
		// The context of Create is often done: its deadline has passed, or the user has left.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return findCheck(ctx, client) // do not create the check again
	case errors.Is(err, idverify.ErrPhoneFormat):
		return showNumberField("Enter your number with its country code.")
	case errors.Is(err, idverify.ErrNetworkNotSupported), errors.Is(err, idverify.ErrIPMismatch):
		return sendTextMessage(ctx)
	case err != nil:
		return err
	}
	return sendToApp(ctx, check.CheckURL)
}

func liveClient(ctx context.Context, baseURL string, credentials idverify.Credentials, use func(*idverify.Client)) error {
	client, err := idverify.NewClient(baseURL, credentials, idverify.WithLiveOnly())
	if err != nil {
		return err
	}
	err = client.CheckCredentials(ctx, idverify.ScopePhoneCheck) // the scopes of your products
	if errors.Is(err, idverify.ErrUnauthorized) || errors.Is(err, idverify.ErrForbidden) {
		return err // after any other error, the service may be unavailable
	}
	use(client)
	return nil
}

func customCA(caFile, baseURL string, credentials idverify.Credentials, use func(*idverify.Client, *signature.JWKS) error) error {
	ca, err := os.ReadFile(caFile) // PEM
	if err != nil {
		return err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return err
	}
	if !pool.AppendCertsFromPEM(ca) {
		return errors.New("the CA file contains no certificate")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // keeps the proxy variables and HTTP/2
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	transport.MaxIdleConnsPerHost = 64 // all requests go to one host
	httpClient := &http.Client{Transport: transport, Timeout: 30 * time.Second}

	client, err := idverify.NewClient(baseURL, credentials, idverify.WithHTTPClient(httpClient))
	if err != nil {
		return err
	}
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return err
	}
	return use(client, keys)
}

func readiness(mux *http.ServeMux, client *idverify.Client, keys *signature.JWKS, db *sql.DB) {
	mux.Handle("GET /readyz", client.ReadyHandler([]idverify.Scope{idverify.ScopePhoneCheck}, keys.Ready, db.PingContext))
}

func rotate(ctx context.Context, console *idverify.Console, projectID, inUse string, deploy func(_ context.Context, clientID, clientSecret string) error) error {
	page, err := console.ProjectCredentials.List(ctx, projectID, idverify.ListOptions{})
	if err != nil {
		return err
	}
	for _, pair := range page.Items {
		if pair.ClientID != inUse { // from your configuration
			return errors.New("the project has a second pair: delete it if no process uses it")
		}
	}
	issued, err := console.ProjectCredentials.Create(ctx, projectID)
	if err != nil {
		return err
	}
	if err := deploy(ctx, issued.ClientID, issued.ClientSecret.Reveal()); err != nil {
		return err
	}
	return console.ProjectCredentials.Delete(ctx, projectID, inUse)
}

func webAndApp(origin string, client *idverify.Client, verifier *signature.Verifier, store checkflow.Store, allow func(*http.Request, string) error, serve func(*checkflow.App, *checkflow.Web)) error {
	config := checkflow.Config{Client: client, Store: store, Allow: allow}
	app, err := checkflow.NewApp(config)
	if err != nil {
		return err
	}
	config.Verifier, config.RedirectURL, config.StartPage = verifier, origin+"/return", "/"
	web, err := checkflow.NewWeb(config)
	if err != nil {
		return err
	}
	serve(app, web)
	return nil
}

// Compiled, not run: the environment may name a live project.
var (
	_ = handleErrors
	_ = liveClient
	_ = readiness
)

// These functions replace functions of the reader's program.
func showNumberField(string) error { return nil }

func findCheck(context.Context, *idverify.Client) error { return nil }

func sendToApp(context.Context, string) error { return nil }

func sendTextMessage(context.Context) error { return errors.New("text message sent") }

func TestProduction_CustomCA(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	tooltest.NoError(t, os.WriteFile(caFile, srv.CACertPEM(), 0o600))

	err := customCA(caFile, srv.URL(), srv.Credentials(), func(client *idverify.Client, keys *signature.JWKS) error {
		_, callErr := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})
		_, keyErr := keys.PublicKey(t.Context(), "not in the key set")
		if !errors.Is(keyErr, signature.ErrUnknownKey) {
			t.Errorf("error of an unknown key = %v, want ErrUnknownKey from a fetched key set", keyErr)
		}
		return callErr
	})

	if err != nil {
		t.Error(err)
	}
}

func TestApps_WebAndApp(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	allow := func(*http.Request, string) error { return nil }

	err := webAndApp("https://shop.example.com", srv.Client(), srv.Verifier([]string{"shop.example.com"}, nil), checkflow.NewMemoryStore(0), allow, func(*checkflow.App, *checkflow.Web) {})

	if err != nil {
		t.Error(err)
	}
}

func TestProduction_RotateCredentials(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	console := srv.Console()
	project := srv.NewProject(idverify.ProjectParams{Name: "Rotated", Mode: idverify.ModeSandbox})
	deployed := ""

	err := rotate(t.Context(), console, project.ProjectID, project.Credentials.ClientID, func(_ context.Context, clientID, _ string) error {
		deployed = clientID
		return nil
	})
	tooltest.NoError(t, err)

	page := tooltest.Must(console.ProjectCredentials.List(t.Context(), project.ProjectID, idverify.ListOptions{}))(t)
	if len(page.Items) != 1 || page.Items[0].ClientID != deployed {
		t.Errorf("project has %d pairs, want only the deployed one", len(page.Items))
	}
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// Each snippet must be in this file, with the same indentation or one more tab.
func TestDocs_SnippetsCompiled(t *testing.T) {
	t.Parallel()
	source := read(t, "readme_test.go")

	for document, want := range map[string]int{"docs/apps.md": 1, "docs/errors.md": 1, "docs/production.md": 4} {
		got := 0
		for _, block := range goBlock.FindAllStringSubmatch(read(t, "../"+document), -1) {
			snippet := block[1]
			if strings.Contains(snippet, "func target(") {
				continue // internal/proxytest compiles it
			}
			if strings.Contains(snippet, "otelidverify.") {
				continue // the tests of otelidverify compile it
			}
			if strings.Contains(snippet, "inbox.") || strings.Contains(snippet, "checks.") {
				continue // the tests of inbox compile it
			}
			got++
			deeper := strings.ReplaceAll(strings.ReplaceAll("\t"+snippet, "\n", "\n\t"), "\n\t\n", "\n\n")
			deeper = strings.TrimSuffix(deeper, "\t")
			if !strings.Contains(source, snippet) && !strings.Contains(source, deeper) && !strings.Contains(source, "return "+snippet) {
				t.Errorf("%s has a snippet that is not in examples/readme_test.go, so nothing compiles it:\n%s", document, snippet)
			}
		}
		if got != want {
			t.Errorf("%s has %d Go snippets, want %d", document, got, want)
		}
	}
}

var (
	fence    = regexp.MustCompile("(?s)```.*?```")
	link     = regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlugs = regexp.MustCompile(`[^\w\- ]`)
)

func TestDocs_Links(t *testing.T) {
	t.Parallel()
	var documents []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "*/README.md", "../cmd/*/README.md"} {
		documents = append(documents, tooltest.Must(filepath.Glob(pattern))(t)...)
	}

	for _, document := range documents {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, document), ""), -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			target := filepath.Join(filepath.Dir(document), m[1])
			if m[1] == "" {
				target = document
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", document, m[1])
				continue
			}
			if m[2] != "" && !hasHeading(read(t, target), m[2]) {
				t.Errorf("%s links to %s#%s, which has no such heading", document, m[1], m[2])
			}
		}
	}
}

// hasHeading reports whether a Markdown text has the heading that the fragment of a link names.
func hasHeading(text, fragment string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.ReplaceAll(notSlugs.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		if slug == fragment {
			return true
		}
	}
	return false
}

func read(t *testing.T, name string) string {
	t.Helper()
	return string(tooltest.Must(os.ReadFile(name))(t))
}
