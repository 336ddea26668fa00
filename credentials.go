package idverify

import (
	"cmp"
	"errors"
)

// Credentials are a client ID and its secret (specification, section 5.1). They belong to a project or to a workspace and are exchanged for access tokens, nothing else.
type Credentials struct {
	ClientID     string
	ClientSecret Secret
}

// validate refuses credentials that cannot be written as a Basic header.
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
