package conformance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/idverify/idverify-go"
)

const projectsPath = "/console/v0.1/projects"

// projectPrefix begins the names of created projects.
const projectPrefix = "conformance "

// createProject creates a project and returns it with its path and credentials. The run deletes it
// at the end.
func (r *run) createProject(ctx context.Context, mode, callbackURL string) (project object, path string, c idverify.Credentials, err error) {
	fields := map[string]string{"name": projectPrefix + rand.Text(), "mode": mode}
	if callbackURL != "" {
		fields["callback_url"] = callbackURL
	}
	// A map of strings always marshals.
	body, _ := json.Marshal(fields)
	resp, err := r.call(ctx, "projects", http.MethodPost, projectsPath, string(body))
	if err != nil {
		return nil, "", c, err
	}
	if project, err = resp.object(201); err != nil {
		return nil, "", c, err
	}
	id, err := project.text("project_id")
	if err != nil {
		return nil, "", c, err
	}
	r.projects = append(r.projects, id)
	pairs, _ := project.at("_embedded", "credentials").([]any)
	if len(pairs) != 1 {
		return nil, "", c, errors.New("the created project does not contain exactly one pair of credentials")
	}
	pair, _ := pairs[0].(map[string]any)
	clientID, err := object(pair).text("client_id")
	if err != nil {
		return nil, "", c, err
	}
	secret, err := object(pair).text("client_secret")
	if err != nil {
		return nil, "", c, err
	}
	return project, projectsPath + "/" + url.PathEscape(id), idverify.Credentials{ClientID: clientID, ClientSecret: idverify.NewSecret(secret)}, nil
}

// requireProject creates a project for a rule that uses it. If that fails, the error is
// blocked{projectRule}.
func (r *run) requireProject(ctx context.Context, mode, callbackURL string) (path string, c idverify.Credentials, err error) {
	_, path, c, err = r.createProject(ctx, mode, callbackURL)
	if err != nil {
		err = blocked{projectRule}
	}
	return path, c, err
}

func (r *run) createsProject(ctx context.Context) error {
	project, _, c, err := r.createProject(ctx, "sandbox", "")
	if err != nil {
		return err
	}
	if err := project.want(object{"mode": "sandbox"}); err != nil {
		return err
	}
	if _, err := r.newToken(ctx, c, "phone_check"); err != nil {
		return fmt.Errorf("get a token with the new credentials: %w", err)
	}
	return nil
}

func (r *run) showsSecretOnce(ctx context.Context) error {
	path, c, err := r.requireProject(ctx, "sandbox", "")
	if err != nil {
		return err
	}
	for _, each := range []string{path, path + "/credentials", path + "/credentials/" + url.PathEscape(c.ClientID)} {
		resp, err := r.call(ctx, "projects", http.MethodGet, each, "")
		if err != nil {
			return err
		}
		if _, err := resp.object(200); err != nil {
			return err
		}
		if strings.Contains(string(resp.body), c.ClientSecret.Reveal()) {
			return errors.New("a later response contains the secret")
		}
	}
	return nil
}

func (r *run) limitsCredentials(ctx context.Context) error {
	path, _, err := r.requireProject(ctx, "sandbox", "")
	if err != nil {
		return err
	}
	second, err := r.call(ctx, "projects", http.MethodPost, path+"/credentials", "{}")
	if err != nil {
		return err
	}
	if _, err := second.object(201); err != nil {
		return fmt.Errorf("second pair: %w", err)
	}
	third, err := r.call(ctx, "projects", http.MethodPost, path+"/credentials", "{}")
	if err != nil {
		return err
	}
	if err := third.rejected(); err != nil {
		return fmt.Errorf("third pair: %w", err)
	}
	return nil
}

func (r *run) updatesMode(ctx context.Context) error {
	path, _, err := r.requireProject(ctx, "live", "")
	if err != nil {
		return err
	}
	patched, err := r.call(ctx, "projects", http.MethodPatch, path, `[{"op":"replace","path":"/mode","value":"sandbox"}]`)
	if err != nil {
		return err
	}
	if _, err := patched.object(200); err != nil {
		return err
	}
	resp, err := r.call(ctx, "projects", http.MethodGet, path, "")
	if err != nil {
		return err
	}
	project, err := resp.object(200)
	if err != nil {
		return err
	}
	return project.want(object{"mode": "sandbox"})
}

// callbackURLOverrides tests where callbacks arrive in a project with a callback URL, for a check
// without callback_url and for a check with another one.
func (r *run) callbackURLOverrides(ctx context.Context) error {
	projects, checks := r.config.Receiver.open(http.StatusNoContent), r.config.Receiver.open(http.StatusNoContent)
	defer projects.close()
	defer checks.close()
	_, c, err := r.requireProject(ctx, "sandbox", projects.url)
	if err != nil {
		return err
	}
	other := *r
	other.config.Project, other.tokens = c, make(map[string]string)
	for _, row := range []struct {
		name, callbackURL string
		box               *inbox
	}{{"without callback_url", "", projects}, {"with callback_url", checks.url, checks}} {
		check, err := other.start(ctx, phoneCheck, "02", row.callbackURL)
		if err != nil {
			return err
		}
		if _, _, err := other.open(ctx, check, ""); err != nil {
			return err
		}
		if _, err := row.box.first(ctx, r.config.Patience); err != nil {
			return fmt.Errorf("check %s: %w", row.name, err)
		}
	}
	if messages, _ := projects.all(); len(messages) != 1 {
		return fmt.Errorf("the project's callback URL received %d callbacks, want 1", len(messages))
	}
	return nil
}
