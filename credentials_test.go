package idverify_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestCredentialsFromEnv(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	t.Setenv("IDVERIFY_CLIENT_ID", srv.Credentials().ClientID)
	t.Setenv("IDVERIFY_CLIENT_SECRET", srv.Credentials().ClientSecret.Reveal())

	c, err := idverify.CredentialsFromEnv()
	if err != nil {
		t.Fatal(err)
	}

	client, err := idverify.NewClient(srv.URL(), c, idverify.WithHTTPClient(srv.HTTPClient()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{}); err != nil {
		t.Errorf("call with the credentials failed: %v", err)
	}
}

func TestCredentialsFromEnv_Invalid(t *testing.T) {
	const id, secret = "IDVERIFY_CLIENT_ID", "IDVERIFY_CLIENT_SECRET"
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"both missing", nil, id + " and " + secret + " are missing"},
		{"no client ID", map[string]string{secret: "pa55word"}, id + " is missing"},
		{"empty client ID", map[string]string{id: "", secret: "pa55word"}, id + " is missing"},
		{"no secret", map[string]string{id: "cl1ent"}, secret + " is missing"},
		{"newline after the client ID", map[string]string{id: "cl1ent\n", secret: "pa55word"}, id + " begins or ends"},
		{"newline after the secret", map[string]string{id: "cl1ent", secret: "pa55word\r\n"}, secret + " begins or ends"},
		{"space before the secret", map[string]string{id: "cl1ent", secret: " pa55word"}, secret + " begins or ends"},
		{"white space only", map[string]string{id: "cl1ent", secret: " \n"}, secret + " begins or ends"},
		{"placeholder", map[string]string{id: "cl1ent", secret: "[REDACTED]"}, secret + " is the placeholder"},
		{"colon in the client ID", map[string]string{id: "cl1ent:1", secret: "pa55word"}, id + " contains a colon"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{id, secret} {
				t.Setenv(name, "") // so that the test restores the variable
				if err := os.Unsetenv(name); err != nil {
					t.Fatal(err)
				}
			}
			for name, value := range tt.env {
				t.Setenv(name, value)
			}

			c, err := idverify.CredentialsFromEnv()

			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error = %v, want one that contains %q", err, tt.want)
			}
			if text := err.Error(); strings.Contains(text, "cl1ent") || strings.Contains(text, "pa55word") {
				t.Errorf("error = %q contains the value of a variable", text)
			}
			if c != (idverify.Credentials{}) {
				t.Errorf("credentials = %v with an error, want none", c)
			}
		})
	}
}

func TestCredentials_JSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, json   string
		wantErr      string // of the decoder
		wantUnusable string // of NewClient
	}{
		{"complete", `{"client_id": "client-1", "client_secret": "s3cret"}`, "", ""},
		{"other fields", `{"project": {"id": 1}, "client_id": "client-1", "client_secret": "s3cret"}`, "", ""},
		{"no client ID", `{"client_secret": "s3cret"}`, "", "the client ID is missing"},
		{"no secret", `{"client_id": "client-1"}`, "", "the client secret is missing"},
		{"null secret", `{"client_id": "client-1", "client_secret": null}`, "", "the client secret is missing"},
		{"placeholder", `{"client_id": "client-1", "client_secret": "[REDACTED]"}`, "placeholder", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c idverify.Credentials

			err := json.Unmarshal([]byte(tt.json), &c)

			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error = %v, want one that contains %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = idverify.NewClient("https://eu.api.example.com", c)
			if tt.wantUnusable != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantUnusable) {
					t.Errorf("NewClient: error = %v, want one that contains %q", err, tt.wantUnusable)
				}
				return
			}
			if err != nil || c.ClientID != "client-1" || c.ClientSecret.Reveal() != "s3cret" {
				t.Errorf("NewClient: error = %v with %v, want the credentials of the JSON", err, c)
			}
		})
	}
}

func TestCredentials_MarshalRedacted(t *testing.T) {
	t.Parallel()
	c := idverify.Credentials{ClientID: "client-1", ClientSecret: idverify.NewSecret("s3cret")}

	b, err := json.Marshal(c)

	if want := `{"client_id":"client-1","client_secret":"[REDACTED]"}`; err != nil || string(b) != want {
		t.Errorf("JSON = %s, error = %v, want %s", b, err, want)
	}
}
