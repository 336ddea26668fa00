package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// phoneCheckV2 is the PhoneCheck whose device comes back with a code.
var phoneCheckV2 = product{"phone_check", "/phone_check/v0.2/checks"}

// redirectURL is where devices come back to. Nobody goes there: the suite reads the redirect and does not follow it. Its query is for the signature to cover.
const redirectURL = "https://example.com/conformance?from=conformance&a=%2f+b"

// comeBack opens the Check URL of a new check with a redirect URL, and returns the check and where the device is sent.
func (r *run) openRedirect(ctx context.Context, suffix string) (check object, location string, err error) {
	if check, err = r.create(ctx, phoneCheckV2, checkBody(phoneNumber(suffix), "", redirectURL)); err != nil {
		return nil, "", err
	}
	last, location, err := r.open(ctx, check, redirectURL)
	if err != nil {
		return nil, "", err
	}
	if last.status/100 != 3 || !strings.HasPrefix(location, redirectURL+"&") {
		return nil, "", fmt.Errorf("the Check URL does not lead to redirect_url with its query as it was: it is %s", statusText(last.status))
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
		return errors.New("the redirect's date cannot be read")
	}
	query := target.Query()
	if query.Get("check_id") != check["check_id"] {
		return errors.New("the redirect's check_id is missing or that of another check")
	}
	if query.Get("code") == "" {
		return errors.New("the redirect has no code")
	}
	return nil
}

// aRedirect is that of a check, for an expectation about what is in it, which rests on its coming.
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

// exchange judges rows of the sandbox table by the exchange of the code.
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
			return fmt.Errorf("exchange the code: %w", err)
		}
		if err := end.want(object{"status": "COMPLETED", "match": row.match}); err != nil {
			return fmt.Errorf("a number that ends in %s: %w", row.suffix, err)
		}
		repeated, err := r.call(ctx, phoneCheckV2.scope, http.MethodPatch, path, patch)
		if err != nil {
			return err
		}
		if err := repeated.rejected(); err != nil {
			return fmt.Errorf("exchange the code once more: %w", err)
		}
	}
	return nil
}
