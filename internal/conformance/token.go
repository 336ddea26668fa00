package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/idverify/idverify-go"
)

func (r *run) issuesToken(ctx context.Context) error {
	token, err := r.newToken(ctx, r.config.Project, "phone_check")
	if err != nil {
		return fmt.Errorf("%w (compare the credentials with those of the project)", err)
	}
	r.tokens["phone_check"] = token
	return nil
}

// expectNoToken sends a token request and returns an error unless the service rejects it.
func (r *run) expectNoToken(ctx context.Context, c idverify.Credentials, grantType, scope string) error {
	resp, err := r.tokenCall(ctx, c, grantType, scope)
	if err != nil {
		return err
	}
	return resp.rejected()
}

func (r *run) wrongSecret(ctx context.Context) error {
	c := r.config.Project
	c.ClientSecret = idverify.NewSecret("wrong secret")
	return r.expectNoToken(ctx, c, "client_credentials", "phone_check")
}

func (r *run) wrongGrantType(ctx context.Context) error {
	return r.expectNoToken(ctx, r.config.Project, "password", "phone_check")
}

func (r *run) noScope(ctx context.Context) error {
	return r.expectNoToken(ctx, r.config.Project, "client_credentials", "")
}

func (r *run) severalScopes(ctx context.Context) error {
	if _, err := r.token(ctx, "phone_check"); err != nil {
		return err
	}
	token, err := r.newToken(ctx, r.config.Project, "phone_check sim_check")
	if err != nil {
		return err
	}
	for _, path := range []string{phoneCheck.path, simCheckPath} {
		resp, err := r.send(ctx, http.MethodGet, r.config.BaseURL+path, "Bearer "+token, "", nil)
		if err != nil {
			return err
		}
		if resp.status/100 != 2 {
			return fmt.Errorf("list checks at %s with a token for both products: status is %s", path, statusText(resp.status))
		}
	}
	return nil
}

func (r *run) enforcesScope(ctx context.Context) error {
	resp, err := r.call(ctx, "phone_check", http.MethodGet, simCheckPath, "")
	if err != nil {
		return err
	}
	if resp.status != http.StatusUnauthorized && resp.status != http.StatusForbidden {
		return fmt.Errorf("status for another product is %s, want 401 or 403", statusText(resp.status))
	}
	return nil
}

func (r *run) noToken(ctx context.Context) error {
	for _, authorization := range []string{"", "Bearer", "Bearer wrong"} {
		resp, err := r.send(ctx, http.MethodGet, r.config.BaseURL+phoneCheck.path, authorization, "", nil)
		if err != nil {
			return err
		}
		if err := resp.rejected(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) rejectsBasicAuth(ctx context.Context) error {
	resp, err := r.send(ctx, http.MethodPost, r.config.BaseURL+phoneCheck.path, basic(r.config.Project), mediaJSON, []byte(`{"phone_number":"`+phoneNumber("02")+`"}`))
	if err != nil {
		return err
	}
	return resp.rejected()
}

func (r *run) limitsWorkspaceScopes(ctx context.Context) error {
	for _, scope := range []string{"phone_check", "projects phone_check"} {
		if err := r.expectNoToken(ctx, r.config.Workspace, "client_credentials", scope); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) plainHTTP(ctx context.Context) error {
	target := "http://" + strings.TrimPrefix(r.config.BaseURL, "https://") + keySetPath
	resp, err := r.send(ctx, http.MethodGet, target, "", "", nil)
	if err != nil {
		return ctx.Err() // rejected, as required
	}
	if resp.status/100 == 2 {
		return fmt.Errorf("request over plain HTTP succeeded: status is %s", statusText(resp.status))
	}
	return nil
}
