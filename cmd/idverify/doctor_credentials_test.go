package main

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func liveProject() idverify.ProjectParams {
	return idverify.ProjectParams{Name: "shop", Mode: idverify.ModeLive}
}

func createPhoneCheck(t *testing.T, client *idverify.Client) {
	t.Helper()
	if _, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"}); err != nil {
		t.Fatal(err)
	}
}

func countRequests(srv *sandboxfake.Server, operation string) int {
	n := 0
	for _, r := range srv.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// rsaKey returns a JSON Web Key with other members.
func rsaKey(id, members string) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return `{"kty":"RSA","kid":"` + id + `","use":"sig","alg":"RS256","n":"` + encode(key.N.Bytes()) + `","e":"` + encode(big.NewInt(int64(key.E)).Bytes()) + `"` + members + `}`
}

func TestDoctor_Credentials(t *testing.T) {
	t.Parallel()
	token := func(faults ...sandboxfake.Fault) func(*testing.T, *sandboxfake.Server, map[string]string) {
		return func(_ *testing.T, srv *sandboxfake.Server, _ map[string]string) {
			srv.Inject(sandboxfake.Match{Operation: "token.create"}, faults...)
		}
	}
	noScope := sandboxfake.Fault{Status: 400, Fragment: "invalid_scope"}
	for _, row := range []struct {
		check, problem string
		arrange        func(*testing.T, *sandboxfake.Server, map[string]string)
		detail         string
	}{
		{"credentials-token", "rejected", func(_ *testing.T, _ *sandboxfake.Server, env map[string]string) {
			env[clientSecretVariable] = "another-secret"
		}, "invalid_client"},
		{"credentials-token", "unavailable", token(sandboxfake.Fault{Status: 503}), "503"},
		{"credentials-scopes", "none", func(_ *testing.T, srv *sandboxfake.Server, env map[string]string) {
			workspace := srv.ConsoleCredentials()
			env[clientIDVariable], env[clientSecretVariable] = workspace.ClientID, workspace.ClientSecret.Reveal()
		}, "no scope of a product"},
		{"credentials-scopes", "missing", token(sandboxfake.Fault{}, noScope, sandboxfake.Fault{}, noScope), "no sim_check, coverage"},
		{"credentials-scopes", "unavailable", token(sandboxfake.Fault{}, sandboxfake.Fault{Status: 503}), "503"},
		{"credentials-mode", "free", func(t *testing.T, srv *sandboxfake.Server, _ map[string]string) {
			createPhoneCheck(t, srv.Client())
		}, "was not charged"},
		{"credentials-mode", "unavailable", func(_ *testing.T, srv *sandboxfake.Server, _ map[string]string) {
			srv.Inject(sandboxfake.Match{Operation: "sim_check.list"}, sandboxfake.Fault{Status: 500})
		}, "500"},
	} {
		t.Run(row.check+" "+row.problem, func(t *testing.T) {
			t.Parallel()
			srv, env := newService(t)
			row.arrange(t, srv, env)

			got := doctorJSON(t, env)

			got.wantProblem(t, row.check, row.problem, row.detail)
			got.wantOK(t, "key-set")
			if row.check == "credentials-token" {
				got.wantSkipped(t, "credentials token failed", "credentials-scopes", "credentials-mode")
			}
		})
	}
}

// The mode of a project must not be guessed.
func TestDoctor_UnknownMode(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)

	got := doctorJSON(t, env)

	got.wantSkipped(t, "the project has no stored check", "credentials-mode")
	got.wantOK(t, "credentials-token", "credentials-scopes")
	if row := got.row(t, "credentials-scopes"); row.Detail != "phone_check, sim_check, subscriber_check, coverage" {
		t.Errorf("scopes = %q, want all", row.Detail)
	}
	if n := countRequests(srv, "token.create"); n != len(productScopes) {
		t.Errorf("%d token requests, want one for each scope", n)
	}
}

// The output must not contain what a server sends to control a terminal, and no phone number.
func TestDoctor_SanitizesServerText(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	srv.Inject(sandboxfake.Match{Operation: "token.create"}, sandboxfake.Fault{Status: 400, Body: "{\"error\":\"server_error\",\"error_description\":\"\\u001b[31mred +447700900012\\u202e" + strings.Repeat("x", 1000) + "\"}"})

	got := runProgram(t, env, "", "doctor")

	if got.code != exitProblem || strings.ContainsAny(got.stdout, "\x1b\u202e") || strings.Contains(got.stdout, "447700900012") || strings.Contains(got.stdout, strings.Repeat("x", 400)) {
		t.Errorf("stdout = %q", got.stdout)
	}
}
