package idverify

import (
	"cmp"
	"errors"
)

// Credentials are a client ID and its secret, which the client exchanges for access tokens. Project
// credentials are for a [Client], workspace credentials for a [Console].
//
// Protocol: docs/protocol.md, section 2.
type Credentials struct {
	ClientID     string
	ClientSecret Secret
}

// validate returns an error for credentials that cannot be sent in a Basic header.
func (c Credentials) validate() error {
	if cmp.Or(c.ClientID, c.ClientSecret.Reveal()) == "" {
		return errors.New("the credentials are empty")
	}
	if c.ClientID == "" {
		return errors.New("the credentials have no client ID")
	}
	if c.ClientSecret.Reveal() == "" {
		return errors.New("the credentials have no client secret")
	}
	for _, r := range c.ClientID {
		if r == ':' || r < ' ' {
			return errors.New("the client ID contains a colon or a control character")
		}
	}
	return nil
}
