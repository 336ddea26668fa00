package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// product is a check product with Check URLs.
type product struct {
	scope string // also the value of x-service-callback
	path  string // of its list of checks
}

// Products with Check URLs. SIMChecks have none.
var (
	phoneCheck      = product{"phone_check", "/phone_check/v0.1/checks"}
	subscriberCheck = product{"subscriber_check", "/subscriber_check/v0.1/checks"}
)

const simCheckPath = "/sim_check/v0.1/checks"

// phoneNumber returns a phone number that ends in lastTwo, from a range reserved for fiction.
func phoneNumber(lastTwo string) string { return "4477009000" + lastTwo }

// timeFormat is the layout of timestamps, yyyy-MM-ddTHH:mm:ss+0000.
const timeFormat = "2006-01-02T15:04:05-0700"

// checkBody returns the body of a create request. It omits empty URLs.
func checkBody(number, callbackURL, redirectURL string) string {
	fields := map[string]string{"phone_number": number}
	if callbackURL != "" {
		fields["callback_url"] = callbackURL
	}
	if redirectURL != "" {
		fields["redirect_url"] = redirectURL
	}
	// A map of strings always marshals.
	body, _ := json.Marshal(fields)
	return string(body)
}

// create creates a check and validates the fields that all checks have.
func (r *run) create(ctx context.Context, p product, body string) (object, error) {
	resp, err := r.call(ctx, p.scope, http.MethodPost, p.path, body)
	if err != nil {
		return nil, err
	}
	check, err := resp.object(201)
	if err != nil {
		return nil, err
	}
	return check, check.validateCheck()
}

// validateCheck validates the fields that every check and every callback has. It returns errCharged
// if the check was charged.
func (o object) validateCheck() error {
	for _, name := range []string{"check_id", "status", "charge_currency"} {
		if _, err := o.text(name); err != nil {
			return err
		}
	}
	charge, ok := o["charge_amount"].(float64)
	if !ok {
		return errors.New("charge_amount is missing or not a number")
	}
	created, err := o.text("created_at")
	if err != nil {
		return err
	}
	if _, err := time.Parse(timeFormat, created); err != nil {
		return errors.New("created_at does not have the form yyyy-MM-ddTHH:mm:ss+0000")
	}
	if charge != 0 {
		return errCharged
	}
	return nil
}

// start creates a check for a rule about a later step. If a PhoneCheck cannot be created,
// the error is blocked{phoneCheckRule}.
func (r *run) start(ctx context.Context, p product, suffix, callbackURL string) (object, error) {
	check, err := r.create(ctx, p, checkBody(phoneNumber(suffix), callbackURL, ""))
	if err != nil && p == phoneCheck && !errors.Is(err, errCharged) {
		return nil, blocked{phoneCheckRule}
	}
	return check, err
}

func (r *run) createsPhoneCheck(ctx context.Context) error {
	_, err := r.create(ctx, phoneCheck, checkBody(phoneNumber("02"), "", ""))
	if errors.Is(err, errCharged) {
		r.charged = true
		return nil // reported by sandboxIsFree
	}
	return err
}

func (r *run) sandboxIsFree(ctx context.Context) error {
	if r.charged {
		return errCharged // do not create another charged check
	}
	_, err := r.start(ctx, phoneCheck, "02", "")
	return err
}

func (r *run) badPhoneNumbers(ctx context.Context) error {
	for _, number := range []string{"++" + phoneNumber("02"), "44 7700 900002", "number", ""} {
		resp, err := r.call(ctx, phoneCheck.scope, http.MethodPost, phoneCheck.path, checkBody(number, "", ""))
		if err != nil {
			return err
		}
		if err := resp.rejected(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) problems(ctx context.Context) error {
	resp, err := r.call(ctx, phoneCheck.scope, http.MethodPost, phoneCheck.path, checkBody("number", "", ""))
	if err != nil {
		return err
	}
	if err := resp.rejected(); err != nil {
		return err
	}
	_, err = resp.problem()
	return err
}

// problem validates the body as a problem document and returns the fragment of the type.
func (a *response) problem() (fragment string, err error) {
	if media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); media != "application/problem+json" && media != mediaJSON {
		return "", errors.New("Content-Type of the problem document is not JSON")
	}
	o, err := parseObject(a.body)
	if err != nil {
		return "", err
	}
	kind, err := o.text("type")
	if err != nil {
		return "", err
	}
	u, err := url.Parse(kind)
	if err != nil || u.Fragment == "" {
		return "", errors.New("type is not a URI with a fragment")
	}
	if _, err := o.text("detail"); err != nil {
		return "", err
	}
	return u.Fragment, o.want(object{"title": http.StatusText(a.status), "status": float64(a.status)})
}

// open opens the Check URL of a check, as a device does. It follows redirects, but not to a URL
// that starts with stop. It returns the last response and its Location header.
func (r *run) open(ctx context.Context, check object, stop string) (last *response, location string, err error) {
	target, ok := check.at("_links", "check_url", "href").(string)
	if !ok {
		return nil, "", errors.New("the check has no Check URL")
	}
	for range 10 {
		if last, err = r.send(ctx, http.MethodGet, target, "", "", nil); err != nil {
			return nil, "", fmt.Errorf("open Check URL: %w", err)
		}
		location = last.header.Get("Location")
		if last.status/100 != 3 || location == "" || stop != "" && strings.HasPrefix(location, stop) {
			return last, location, nil
		}
		base, err := url.Parse(target)
		if err != nil {
			return nil, "", errors.New("open Check URL: invalid redirect")
		}
		next, err := base.Parse(location)
		if err != nil {
			return nil, "", errors.New("open Check URL: invalid redirect")
		}
		target = next.String()
	}
	return nil, "", errors.New("open Check URL: too many redirects")
}

// pollInterval is the interval between reads of a check that has no result yet.
const pollInterval = 250 * time.Millisecond

// awaitResult polls a check until its status is final or it is not found. If it is not found, the
// returned object is nil.
func (r *run) awaitResult(ctx context.Context, p product, check object) (*response, object, error) {
	id, err := check.text("check_id")
	if err != nil {
		return nil, nil, err
	}
	deadline := time.NewTimer(r.config.Patience)
	defer deadline.Stop()
	for {
		resp, err := r.call(ctx, p.scope, http.MethodGet, p.path+"/"+url.PathEscape(id), "")
		if err != nil {
			return nil, nil, err
		}
		if resp.status == http.StatusNotFound {
			return resp, nil, nil
		}
		o, err := resp.object(200)
		if err != nil {
			return nil, nil, fmt.Errorf("get check: %w", err)
		}
		if status := o["status"]; status != "ACCEPTED" && status != "PENDING" {
			return resp, o, nil
		}
		select {
		case <-time.After(pollInterval):
		case <-deadline.C:
			return nil, nil, fmt.Errorf("the check has no result after %v", r.config.Patience)
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// complete creates a check for a phone number that ends in suffix, opens its Check URL and returns
// what awaitResult returns.
func (r *run) complete(ctx context.Context, p product, suffix string) (check object, resp *response, end object, err error) {
	if check, err = r.start(ctx, p, suffix, ""); err != nil {
		return nil, nil, nil, err
	}
	if _, _, err = r.open(ctx, check, ""); err != nil {
		return nil, nil, nil, err
	}
	resp, end, err = r.awaitResult(ctx, p, check)
	return check, resp, end, err
}

// outcomes tests rows of a table of sandbox outcomes. For each suffix, it creates a check for a
// phone number that ends in it, opens the Check URL and compares the result with want.
func outcomes(p product, want object, suffixes ...string) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		for _, suffix := range suffixes {
			_, resp, end, err := r.complete(ctx, p, suffix)
			if err != nil {
				return err
			}
			if end == nil {
				return fmt.Errorf("number ending in %s: the check cannot be read (%s)", suffix, statusText(resp.status))
			}
			if err := end.want(want); err != nil {
				return fmt.Errorf("number ending in %s: %w", suffix, err)
			}
		}
		return nil
	}
}

// notStored tests the rows of a table of sandbox outcomes whose status is ERROR. Such checks can be
// neither read nor listed.
func notStored(p product, suffixes ...string) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		for _, suffix := range suffixes {
			check, _, end, err := r.complete(ctx, p, suffix)
			if err != nil {
				return err
			}
			if end != nil {
				return fmt.Errorf("number ending in %s: the check can still be read (status %v)", suffix, describe(end["status"]))
			}
			listed, err := r.listed(ctx, p, check)
			if err != nil {
				return err
			}
			if listed {
				return fmt.Errorf("number ending in %s: the check is still listed", suffix)
			}
		}
		return nil
	}
}

// listed reports whether a check is on the first page of the list of checks.
func (r *run) listed(ctx context.Context, p product, check object) (bool, error) {
	resp, err := r.call(ctx, p.scope, http.MethodGet, p.path+"?size=100", "")
	if err != nil {
		return false, err
	}
	page, err := resp.object(200)
	if err != nil {
		return false, fmt.Errorf("list checks: %w", err)
	}
	checks, ok := page.at("_embedded", "checks").([]any)
	if !ok {
		return false, errors.New("_embedded.checks is missing or not an array")
	}
	for _, each := range checks {
		if o, ok := each.(map[string]any); ok && o["check_id"] == check["check_id"] {
			return true, nil
		}
	}
	return false, nil
}

func (r *run) listsPhoneChecks(ctx context.Context) error {
	check, _, _, err := r.complete(ctx, phoneCheck, "02")
	if err != nil {
		return err
	}
	listed, err := r.listed(ctx, phoneCheck, check)
	if err == nil && !listed {
		return errors.New("the check is not on the first page of the list")
	}
	return err
}

// simOutcomes tests rows of the table of SIMCheck outcomes. The response to the create request
// contains the result.
func simOutcomes(want object, suffixes ...string) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		for _, suffix := range suffixes {
			resp, err := r.call(ctx, "sim_check", http.MethodPost, simCheckPath, checkBody(phoneNumber(suffix), "", ""))
			if err != nil {
				return err
			}
			check, err := resp.object(200)
			if err != nil {
				return err
			}
			if err := check.want(want); err != nil {
				return fmt.Errorf("number ending in %s: %w", suffix, err)
			}
			if charge, _ := check["charge_amount"].(float64); charge != 0 {
				return errCharged
			}
		}
		return nil
	}
}

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

// requireRedirect returns a redirect for a rule that inspects its contents. If there is
// none, the error is blocked{redirectRule}.
func (r *run) requireRedirect(ctx context.Context, suffix string) (check object, location string, err error) {
	check, location, err = r.openRedirect(ctx, suffix)
	if err != nil && !errors.Is(err, errCharged) {
		err = blocked{redirectRule}
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
		return blocked{redirectRule}
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
			return blocked{redirectRule}
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
