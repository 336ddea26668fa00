package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

// newTokenCommand defines the flags of "token".
func newTokenCommand(p *program) (c *connection, flags *flag.FlagSet, scopes *string, show *bool) {
	flags = newFlags("token", "")
	c = newConnection(p, flags, defaultTimeout)
	scopes = flags.String("scope", string(idverify.ScopePhoneCheck), "`scopes` of the token, separated by commas: "+strings.Join(scopeNames(productScopes[:]), ", "))
	show = flags.Bool("show-token", false, "print the token, with which anyone can use the service until it expires")
	return c, flags, scopes, show
}

// token obtains an access token. It is free.
func token(ctx context.Context, p *program, args []string) int {
	c, flags, names, show := newTokenCommand(p)
	if _, code, ok := p.parseArguments(flags, args, 0, 0); !ok {
		return code
	}
	var scopes []idverify.Scope
	for _, name := range strings.FieldsFunc(*names, func(r rune) bool { return r == ',' || r == ' ' }) {
		scopes = append(scopes, idverify.Scope(name))
	}
	if code, ok := c.open(ctx); !ok {
		return code
	}
	defer c.close()
	ctx, cancel := c.limit(ctx)
	defer cancel()
	got, err := c.client.Token(ctx, scopes...)
	if errors.Is(err, idverify.ErrForbidden) {
		return c.fail(err, "set -scope to scopes of these credentials: those of a project can have "+strings.Join(scopeNames(productScopes[:]), ", ")+"; those of a workspace, "+string(idverify.ScopeConsole))
	}
	if err != nil {
		return c.fail(err)
	}
	if c.json {
		document := struct {
			Scopes           []idverify.Scope `json:"scopes"`
			ExpiresAt        time.Time        `json:"expires_at"`
			ExpiresInSeconds int64            `json:"expires_in_seconds"`
			AccessToken      string           `json:"access_token,omitempty"`
		}{scopes, got.Expiry.UTC().Truncate(time.Second), got.ExpiresIn, ""}
		if *show {
			document.AccessToken = got.AccessToken
		}
		return c.printJSON(document)
	}
	rows := []row{
		{"Scopes", strings.Join(strings.Fields(strings.ReplaceAll(*names, ",", " ")), " ")},
		{"Expires", fmt.Sprintf("%s UTC (in %d s)", shortTime(got.Expiry), got.ExpiresIn)},
	}
	if *show {
		rows = append(rows, row{"Token", got.AccessToken})
	}
	c.printRows(rows)
	return exitOK
}
