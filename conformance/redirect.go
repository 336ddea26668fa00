package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// phoneCheckV2 is version v0.2 of PhoneCheck, whose redirects contain a code.
var phoneCheckV2 = product{"phone_check", "/phone_check/v0.2/checks"}

// redirectURL is the redirect_url of checks. The suite does not follow redirects to it. Its query
// contains escapes that the signature must cover byte for byte.
const redirectURL = "https://example.com/conformance?from=conformance&a=%2f+b"

// openRedirect creates a check with a redirect URL and opens its Check URL. It returns the check
// and the Location of the redirect.
func (r *run) openRedirect(ctx context.Context, suffix string) (check object, location string, err error) {
	if check, err = r.create(ctx, phoneCheckV2, checkBody(phoneNumber(suffix), "", redirectURL)); err != nil {
		return nil, "", err
	}
	last, location, err := r.open(ctx, check, redirectURL)
	if err != nil {
		return nil, "", err
	}
	if last.status/100 != 3 || !strings.HasPrefix(location, redirectURL+"&") {
		return nil, "", fmt.Errorf("the Check URL does not redirect to redirect_url with an unchanged query: status is %s", statusText(last.status))
	}
	return check, location, nil
}

func (r *run) redirectsDevice(ctx context.Context) error {
	check, location, err := r.openRedirect(ctx, "02")
	if err != nil {
		return err
	}
	target, _, date, err := splitRedirect(location)
	if err != nil {
		return err
	}
	if _, err := http.ParseTime(date); err != nil {
		return errors.New("date of the redirect is invalid")
	}
	query := target.Query()
	if query.Get("check_id") != check["check_id"] {
		return errors.New("check_id of the redirect is missing or does not match the check")
	}
	if query.Get("code") == "" {
		return errors.New("the redirect has no code")
	}
	return nil
}

// requireRedirect returns a redirect for an expectation that inspects its contents. If there is
// none, the error is blocked{redirectExpectation}.
func (r *run) requireRedirect(ctx context.Context, suffix string) (check object, location string, err error) {
	check, location, err = r.openRedirect(ctx, suffix)
	if err != nil && !errors.Is(err, errCharged) {
		err = blocked{redirectExpectation}
	}
	return check, location, err
}

func (r *run) redirectSignature(ctx context.Context) error {
	_, location, err := r.requireRedirect(ctx, "02")
	if err != nil {
		return err
	}
	target, header, date, err := splitRedirect(location)
	if err != nil {
		return blocked{redirectExpectation}
	}
	a, err := parseAuthorization(header)
	if err != nil {
		return err
	}
	for _, name := range []string{"(request-target)", "host", "date"} {
		if !strings.Contains(" "+strings.Join(a.covered, " ")+" ", " "+name+" ") {
			return fmt.Errorf("the signature does not cover %s", name)
		}
	}
	return r.verify(ctx, a, map[string]string{"(request-target)": "get " + target.RequestURI(), "host": target.Host, "date": date})
}

// exchange tests that a code exchange returns the sandbox outcome, and that a code works only once.
func (r *run) exchange(ctx context.Context) error {
	for _, row := range []struct {
		suffix string
		match  bool
	}{{"02", true}, {"03", false}} {
		check, location, err := r.requireRedirect(ctx, row.suffix)
		if err != nil {
			return err
		}
		u, err := url.Parse(location)
		if err != nil {
			return blocked{redirectExpectation}
		}
		path := phoneCheckV2.path + "/" + url.PathEscape(check["check_id"].(string))
		patch := `[{"op":"add","path":"/code","value":"` + u.Query().Get("code") + `"}]`
		resp, err := r.call(ctx, phoneCheckV2.scope, http.MethodPatch, path, patch)
		if err != nil {
			return err
		}
		end, err := resp.object(200)
		if err != nil {
			return fmt.Errorf("exchange code: %w", err)
		}
		if err := end.want(object{"status": "COMPLETED", "match": row.match}); err != nil {
			return fmt.Errorf("number ending in %s: %w", row.suffix, err)
		}
		repeated, err := r.call(ctx, phoneCheckV2.scope, http.MethodPatch, path, patch)
		if err != nil {
			return err
		}
		if err := repeated.rejected(); err != nil {
			return fmt.Errorf("exchange code again: %w", err)
		}
	}
	return nil
}
