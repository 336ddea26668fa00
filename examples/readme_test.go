// Package examples_test compiles the snippets of README.md, and fails when they differ from it.
package examples_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func newClient() error {
	client, err := idverify.NewClient(os.Getenv("IDVERIFY_BASE_URL"), idverify.Credentials{
		ClientID:     os.Getenv("IDVERIFY_CLIENT_ID"),
		ClientSecret: idverify.NewSecret(os.Getenv("IDVERIFY_CLIENT_SECRET")),
	})
	if err != nil {
		return err
	}
	return verifiedCallbacks(client)
}

func firstCheck(ctx context.Context, client *idverify.Client) error {
	check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{
		PhoneNumber: "+44 7700 900-012",
		CallbackURL: "https://shop.example.com/callbacks",
		ReferenceID: "order-1", // to find the check if the outcome of this call is unknown
	})
	if err != nil {
		return err
	}
	// Hand it to the app: the device itself opens it, over its mobile data connection.
	return sendToApp(ctx, check.CheckURL)
}

func afterUnknownOutcome(ctx context.Context, client *idverify.Client) error {
	page, err := client.PhoneChecks.List(ctx, idverify.ListOptions{Search: `reference_id=="order-1"`})
	if err != nil {
		return err
	}
	for _, check := range page.Items {
		if err := store(ctx, check.CheckID, "created"); err != nil {
			return err
		}
	}
	return nil
}

func verifiedCallbacks(client *idverify.Client) error {
	keys, err := signature.NewJWKS(client.JWKSURL(), nil)
	if err != nil {
		return err
	}
	verifier, err := signature.NewVerifier(keys, []string{"shop.example.com"}, nil)
	if err != nil {
		return err
	}
	http.Handle("POST /callbacks", idverify.CallbackHandler(verifier, func(ctx context.Context, c *idverify.Callback) error {
		if c.Status != idverify.StatusCompleted || c.Match == nil {
			return store(ctx, c.CheckID, "not known") // neither yes nor no: verify in another way
		}
		return store(ctx, c.CheckID, fmt.Sprint("match: ", *c.Match)) // an error has the service try again
	}))
	return nil
}

// What is the reader's own.
func store(context.Context, string, string) error { return nil }
func sendToApp(context.Context, string) error     { return nil }

var _ = newClient // compiled, not run: what the environment holds may be a live project

func versions() idverify.Option {
	return idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"})
}

func TestSignUp(t *testing.T) {
	service := sandboxfake.New(t)
	client := service.Client()

	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	check, err = client.PhoneChecks.Wait(t.Context(), check.CheckID)
	if err != nil || !*check.Match {
		t.Errorf("%+v, %v", check, err)
	}
}

func TestTheSnippetsRunAgainstTheFake(t *testing.T) {
	t.Parallel()
	service := sandboxfake.New(t, sandboxfake.WithInMemory())

	client := service.Client(versions())
	if err := firstCheck(t.Context(), client); err != nil {
		t.Error(err)
	}
	if err := afterUnknownOutcome(t.Context(), client); err != nil {
		t.Error(err)
	}
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// A snippet stands here as it stands there, at the same depth or one deeper.
func TestTheSnippetsOfTheReadmeAreThoseCompiledHere(t *testing.T) {
	t.Parallel()
	readme := read(t, "../README.md")
	source := read(t, "readme_test.go")

	blocks := goBlock.FindAllStringSubmatch(readme, -1)

	if len(blocks) != 6 {
		t.Errorf("README.md has %d snippets of Go, want 6", len(blocks))
	}
	for _, block := range blocks {
		snippet := block[1]
		deeper := strings.ReplaceAll(strings.ReplaceAll("\t"+snippet, "\n", "\n\t"), "\n\t\n", "\n\n")
		deeper = strings.TrimSuffix(deeper, "\t")
		if !strings.Contains(source, snippet) && !strings.Contains(source, deeper) && !strings.Contains(source, "return "+snippet) {
			t.Errorf("README.md has a snippet that is not in examples/readme_test.go, so nothing compiles it:\n%s", snippet)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)

func TestTheLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/architecture.md"} {
		text := read(t, "../"+document)
		dir := "../"
		if strings.HasPrefix(document, "docs/") {
			dir = "../docs/"
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			if _, err := os.Stat(dir + m[1]); err != nil {
				t.Errorf("%s links to %s, which is not there", document, m[1])
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
