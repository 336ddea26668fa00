package idverify

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Credentials are a client ID and its secret, which the client exchanges for access tokens. Project
// credentials are for a [Client], workspace credentials for a [Console].
//
// Read them from the environment with [CredentialsFromEnv], or decode them from the JSON of a file
// or a secret store, for example {"client_id": "…", "client_secret": "…"}. Other fields of the JSON
// are ignored; NewClient and NewConsole report missing ones. Encoded as JSON, the secret is a
// placeholder.
//
// Protocol: docs/protocol.md, section 2.
type Credentials struct {
	ClientID     string `json:"client_id"`
	ClientSecret Secret `json:"client_secret"`
}

// CredentialsFromEnv returns the credentials in the environment variables IDVERIFY_CLIENT_ID and
// IDVERIFY_CLIENT_SECRET.
//
// The error names a variable that is missing, empty or invalid, and does not contain its value.
// White space around a value, such as the newline at the end of a file, is an error.
func CredentialsFromEnv() (Credentials, error) {
	const id, secret = "IDVERIFY_CLIENT_ID", "IDVERIFY_CLIENT_SECRET"
	c := Credentials{ClientID: os.Getenv(id), ClientSecret: NewSecret(os.Getenv(secret))}
	if err := c.validateAs(id, secret); err != nil {
		return Credentials{}, fmt.Errorf("idverify: read credentials from the environment: %w", err)
	}
	return c, nil
}

// validate returns an error for credentials that are incomplete or cannot be sent in a Basic
// header.
func (c Credentials) validate() error { return c.validateAs("the client ID", "the client secret") }

// validateAs is validate with the names of the ID and the secret in errors.
func (c Credentials) validateAs(id, secret string) error {
	text := c.ClientSecret.Reveal()
	switch {
	case c.ClientID == "" && text == "":
		return errors.New(id + " and " + secret + " are missing")
	case c.ClientID == "":
		return errors.New(id + " is missing")
	case text == "":
		return errors.New(secret + " is missing")
	case strings.TrimSpace(c.ClientID) != c.ClientID:
		return errors.New(id + surrounded)
	case strings.TrimSpace(text) != text:
		return errors.New(secret + surrounded)
	case text == redacted:
		return errors.New(secret + " is the placeholder of a printed Secret (use the original secret)")
	case strings.ContainsFunc(c.ClientID, func(r rune) bool { return r == ':' || r < ' ' }):
		return errors.New(id + " contains a colon or a control character")
	}
	return nil
}

// surrounded ends the error for a value with white space around it.
const surrounded = " begins or ends with white space, such as the newline at the end of a file (remove it)"
