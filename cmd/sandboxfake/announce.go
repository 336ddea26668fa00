package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/inspector"
	"github.com/idverify/idverify-go/sandboxfake"
)

// announcement is the line that -json prints.
type announcement struct {
	InspectorURL string      `json:"inspector_url"` // with the control token in the fragment
	URL          string      `json:"url"`
	PublicURL    string      `json:"public_url,omitempty"` // only with -public-url or -lan
	CAFile       string      `json:"ca_file"`
	CASHA256     string      `json:"ca_sha256"` // fingerprint of the first certificate
	Project      credentials `json:"project"`
	Workspace    credentials `json:"workspace"`
	ControlToken string      `json:"control_token"`
}

type credentials struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

func newCredentials(c idverify.Credentials) credentials {
	return credentials{c.ClientID, c.ClientSecret.Reveal()}
}

// announce prints the server's URL and credentials. ownCertificate reports whether the URL has the
// certificate of -tls-cert. It writes once, so that a reader never sees part of a line.
func announce(w io.Writer, f *flags, server *sandboxfake.Server, caFile string, ownCertificate bool) error {
	a := announcement{
		InspectorURL: server.URL() + "/_sandbox/#" + url.Values{"token": {server.ControlToken()}}.Encode(),
		URL:          server.URL(),
		CAFile:       caFile,
		CASHA256:     strings.Join(inspector.Fingerprint(server.CACertPEM()), ":"),
		Project:      newCredentials(server.Credentials()),
		Workspace:    newCredentials(server.ConsoleCredentials()),
		ControlToken: server.ControlToken(),
	}
	if f.publicURL != "" {
		a.PublicURL = server.PublicURL()
	}
	if f.json {
		return json.NewEncoder(w).Encode(a)
	}
	certificateLine := fmt.Sprintf(freshKeysLine, a.URL)
	switch {
	case ownCertificate:
		certificateLine = ownCertificateLine
	case f.fixedKeys:
		certificateLine = fixedKeysLine
	}
	label := "project"
	if f.live {
		label = "project (live)"
	}
	_, err := io.WriteString(w, a.text(certificateLine, label))
	return err
}

// Lines about the certificate warning of a browser. The CA of -fixed-keys can be used by anyone.
const (
	freshKeysLine = "Your browser warns about its certificate. To avoid the warning, trust the CA certificate below; %s/_sandbox/ca describes how."
	fixedKeysLine = "Your browser warns about its certificate. Do not trust the CA certificate of -fixed-keys in a browser: its private key is public."

	ownCertificateLine = "Its certificate is that of -tls-cert. Your browser warns unless it trusts the issuer."
)

// text returns the server's URL and credentials, and the first commands to run. The commands are
// for a POSIX shell, one per line. The line of the project begins with label.
func (a announcement) text(certificateLine, label string) string {
	ca := shellQuote(a.CAFile)
	publicLine := ""
	if a.PublicURL != "" {
		publicLine = "Others reach it at " + a.PublicURL + ", which is the base of Check URLs and other links\n"
	}
	return fmt.Sprintf(`Open the inspector in a browser: %[9]s
%[10]s

The service runs at %[1]s
%[11]s
  CA certificate   %[2]s
                   fingerprint SHA-256 %[12]s
  %-16[17]s client ID %[3]s
                   client secret %[4]s
  workspace        client ID %[5]s
                   client secret %[6]s
  control plane    %[1]s/_sandbox/ (shows and controls the service)
                   control token %[8]s

Get a token and create a PhoneCheck. In the sandbox, the last digits of the number determine the result:

TOKEN=$(curl -sS --cacert %[7]s -u %[14]s -F grant_type=client_credentials -F scope=phone_check %[1]s/oauth2/v1/token | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
curl -sS --cacert %[7]s -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"phone_number":"447700900012"}' %[1]s/phone_check/v0.1/checks

On Linux, a Go client trusts the CA certificate with SSL_CERT_FILE=%[7]s in its environment.

Then open the check_url of the response, as the phone would (a real phone requires -lan or -public-url), read the check again, and list the requests that the service received:

curl -sS --cacert %[7]s -H 'Authorization: Bearer %[8]s' %[1]s/_sandbox/requests

The program idverify (docs/tools.md) and idverify.CredentialsFromEnv use these environment variables:

export IDVERIFY_BASE_URL=%[1]s IDVERIFY_CLIENT_ID=%[15]s IDVERIFY_CLIENT_SECRET=%[16]s IDVERIFY_CA_FILE=%[13]s
go run ./cmd/idverify check create -yes 447700900012

Ctrl-C stops the server.

`, a.URL, a.CAFile, a.Project.ClientID, a.Project.ClientSecret, a.Workspace.ClientID, a.Workspace.ClientSecret, ca, a.ControlToken, a.InspectorURL, certificateLine, publicLine, a.CASHA256, shellQuote(absolute(a.CAFile)),
		shellQuote(a.Project.ClientID+":"+a.Project.ClientSecret), shellQuote(a.Project.ClientID), shellQuote(a.Project.ClientSecret), label)
}

// absolute returns the absolute form of a path, for a program that runs in another directory.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// shellQuote quotes s as one word of a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
