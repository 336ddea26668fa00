package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

// credentialsChecks returns the checks of the credentials. They request access tokens, which are
// free, and read the newest checks of the project.
func (d *doctorRun) credentialsChecks() []doctorCheck {
	needs := []string{"config-base-url", "config-ca-file", "config-credentials", "base-url-response"}
	return []doctorCheck{
		{name: "credentials-token", needs: needs, run: d.checkToken},
		{name: "credentials-scopes", needs: append(needs, "credentials-token"), run: d.checkScopes},
		{name: "credentials-mode", needs: append(needs, "credentials-token", "credentials-scopes"), run: d.checkMode},
	}
}

// productScopes are the scopes of project credentials.
var productScopes = [...]idverify.Scope{idverify.ScopePhoneCheck, idverify.ScopeSIMCheck, idverify.ScopeSubscriberCheck, idverify.ScopeCoverage}

// serviceClient returns a client that sends each request once.
func (d *doctorRun) serviceClient() (*idverify.Client, error) {
	var err error
	if d.api == nil {
		d.api, err = d.client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}))
	}
	return d.api, err
}

// checkToken requests a token for any scope.
func (d *doctorRun) checkToken(ctx context.Context) diagnosis {
	client, err := d.serviceClient()
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	_, err = client.Token(ctx, idverify.ScopePhoneCheck)
	if e, ok := errors.AsType[*idverify.TokenError](err); ok {
		switch {
		case e.Code == "invalid_client":
			return sick("rejected", "the service does not know the client ID, or the secret is wrong (invalid_client)")
		case e.Code == "invalid_scope":
			err = nil // the credentials are right
		}
	}
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	return healthy("accepted by the service")
}

func (d *doctorRun) checkScopes(ctx context.Context) diagnosis {
	client, err := d.serviceClient()
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	var missing []string
	for _, scope := range productScopes {
		_, err := client.Token(ctx, scope)
		if e, ok := errors.AsType[*idverify.TokenError](err); ok && e.Code == "invalid_scope" {
			missing = append(missing, string(scope))
			continue
		}
		if err != nil {
			return sick("unavailable", "%v", err)
		}
		d.scopes = append(d.scopes, scope)
	}
	switch {
	case len(d.scopes) == 0:
		return sick("none", "the credentials have no scope of a product")
	case len(missing) > 0:
		return sick("missing", "no %s", strings.Join(missing, ", "))
	}
	return healthy("%s", strings.Join(scopeNames(d.scopes), ", "))
}

func scopeNames(scopes []idverify.Scope) []string {
	var all []string
	for _, s := range scopes {
		all = append(all, string(s))
	}
	return all
}

// charge is the price of a check.
type charge struct {
	created time.Time
	amount  json.Number
}

// checkMode reports whether the newest stored check was charged. The service does not disclose the
// mode of the project to project credentials, and it may have changed since.
func (d *doctorRun) checkMode(ctx context.Context) diagnosis {
	client, err := d.serviceClient()
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	var newest charge
	for _, scope := range d.scopes {
		found, err := newestCharge(ctx, client, scope)
		if err != nil {
			return sick("unavailable", "%v", err)
		}
		if found.created.After(newest.created) {
			newest = found
		}
	}
	amount, err := newest.amount.Float64()
	switch {
	case newest.created.IsZero() || err != nil:
		return skipped("unknown: the project has no stored check. Compare the ChargeAmount of the first one with 0")
	case amount == 0:
		return sick("free", "the newest check, of %s, was not charged", day(newest.created))
	}
	return healthy("live: the newest check, of %s, was charged", day(newest.created))
}

// newestCharge returns the price of the newest check of a product, or a zero charge.
func newestCharge(ctx context.Context, client *idverify.Client, scope idverify.Scope) (charge, error) {
	one := idverify.ListOptions{Size: 1}
	switch scope {
	case idverify.ScopePhoneCheck:
		page, err := client.PhoneChecks.List(ctx, one)
		if err != nil || len(page.Items) == 0 {
			return charge{}, err
		}
		return charge{page.Items[0].CreatedAt, page.Items[0].ChargeAmount}, nil
	case idverify.ScopeSIMCheck:
		page, err := client.SIMChecks.List(ctx, one)
		if err != nil || len(page.Items) == 0 {
			return charge{}, err
		}
		return charge{page.Items[0].CreatedAt, page.Items[0].ChargeAmount}, nil
	case idverify.ScopeSubscriberCheck:
		page, err := client.SubscriberChecks.List(ctx, one)
		if err != nil || len(page.Items) == 0 {
			return charge{}, err
		}
		return charge{page.Items[0].CreatedAt, page.Items[0].ChargeAmount}, nil
	}
	return charge{}, nil
}
