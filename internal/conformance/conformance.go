package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/receivertest"
)

// Config configures a run. BaseURL and Project are required. An expectation that requires another
// field is not run without it.
type Config struct {
	// BaseURL is the service's https URL, without a path.
	BaseURL string
	// HTTPClient sends the requests. It must trust the service's certificate. If nil, a client with
	// default settings is used. Run replaces CheckRedirect in a copy of the client.
	HTTPClient *http.Client
	// Project contains the credentials of a sandbox project. Run stops at the first check that is
	// charged.
	Project idverify.Credentials
	// Workspace contains credentials of the project's workspace. The suite creates projects with them
	// and deletes these projects at the end.
	Workspace idverify.Credentials
	// Receiver receives the service's callbacks.
	Receiver *Receiver
	// Advance moves the service's clock forward and returns when all events that became due have run.
	// A fake can provide it; the live service cannot.
	Advance func(context.Context, time.Duration) error
	// Patience is the longest wait for a callback or for the result of a check. Zero means 15 seconds.
	Patience time.Duration
}

// Expectation is one requirement of the protocol.
type Expectation struct {
	// Number is the position in [Expectations], starting at 1.
	Number int
	// Section is the number of the section of docs/protocol.md that states the requirement.
	Section string
	// Text states the requirement.
	Text string
	// Assumes names the decision of this module that the expectation relies on, or is empty. If such
	// an expectation fails, check the decision in docs/protocol.md first: your service may differ.
	Assumes string

	needs need
	check func(*run, context.Context) error
}

// Run tests every expectation in turn. The report has one finding for each, in the order of
// [Expectations]; one that was not run is not applicable. Run waits up to Patience for each
// callback that does not arrive. It returns an error only if config is invalid; faults of the
// service are in the report. After ctx ends, the remaining expectations are not run.
//
// Neither the error nor the report contains secrets, tokens, phone numbers or IP addresses.
func Run(ctx context.Context, config Config) (receivertest.Report, error) {
	r, err := newRun(config)
	if err != nil {
		return receivertest.Report{}, fmt.Errorf("conformance: %w", err)
	}
	defer r.cleanUp(ctx)
	report := receivertest.Report{Kind: receivertest.KindService, URL: config.BaseURL, Started: time.Now()}
	for _, e := range Expectations() {
		result, detail := r.evaluate(ctx, e)
		f := receivertest.Finding{
			Rule: fmt.Sprintf("service/%d", e.Number), Title: e.Text,
			Reason: "docs/protocol.md, section " + e.Section,
			Result: result, Detail: detail,
		}
		if e.Assumes != "" {
			f.Reason += "; assumes " + e.Assumes
		}
		if result == receivertest.ResultFail {
			f.Detail = e.Text + ": " + detail
		}
		report.Findings = append(report.Findings, f)
	}
	report.Duration = time.Since(report.Started)
	return report, nil
}

// need is a set of optional Config fields that an expectation requires.
type need int

const (
	workspace need = 1 << iota
	receiver
	clock
)

// missing describes the fields in n that c lacks, or returns "".
func (c *Config) missing(n need) string {
	var missing []string
	if n&workspace != 0 && c.Workspace.ClientID == "" {
		missing = append(missing, "workspace credentials")
	}
	if n&receiver != 0 && c.Receiver == nil {
		missing = append(missing, "a receiver for callbacks")
	}
	if n&clock != 0 && c.Advance == nil {
		missing = append(missing, "a clock that the suite can advance")
	}
	return strings.Join(missing, " and ")
}

// check returns an error if c is invalid.
func (c *Config) check() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return errors.New("BaseURL must be https://host[:port]")
	case c.Project.ClientID == "" || c.Project.ClientSecret.Reveal() == "":
		return errors.New("missing client ID or client secret in Project")
	case c.Patience < 0:
		return errors.New("negative Patience")
	}
	return nil
}

// blocked is the error of an expectation that cannot be evaluated, because it depends on another
// expectation that failed.
type blocked struct{ number int }

func (b blocked) Error() string { return fmt.Sprintf("depends on expectation %d", b.number) }

// errCharged stops the run: the project is not a sandbox project, so every check costs money.
var errCharged = errors.New("the project is charged for checks (use a sandbox project)")

// evaluate runs one expectation. The detail says why it failed or was not run.
func (r *run) evaluate(ctx context.Context, e Expectation) (result receivertest.Result, detail string) {
	const ended = "the context ended"
	switch missing := r.config.missing(e.needs); {
	case missing != "":
		return receivertest.ResultNotApplicable, "requires " + missing
	case r.stopped != nil:
		return receivertest.ResultNotApplicable, r.stopped.Error()
	case ctx.Err() != nil:
		return receivertest.ResultNotApplicable, ended
	}
	err := e.check(r, ctx)
	dependency, isBlocked := errors.AsType[blocked](err)
	switch {
	case err == nil:
		return receivertest.ResultPass, ""
	case ctx.Err() != nil:
		return receivertest.ResultNotApplicable, ended
	case isBlocked && dependency.number != e.Number:
		return receivertest.ResultNotApplicable, dependency.Error()
	case errors.Is(err, errCharged):
		r.stopped = err
	}
	return receivertest.ResultFail, err.Error()
}

// Values of Expectation.Assumes that several expectations share.
const (
	assumesSIMPath        = "the paths of SIMChecks"
	assumesSubscriberPath = "the paths of SubscriberChecks"
	assumesCoveragePath   = "the path of device reachability"
	assumesCheckURL       = "the location of the Check URL (_links.check_url.href) and the path of a check"
	assumesExchange       = "version v0.2: redirect_url and the code exchange"
	assumesConsole        = "the paths and bodies of projects and their credentials"
)

// Expectations returns the suite, ordered by number. A step that others depend on, such as a token
// or a created check, is a separate expectation. If it fails, the expectations that depend on it
// are not run, so that each fault is reported once.
func Expectations() []Expectation {
	table := []Expectation{
		// Tokens and transport.
		{Section: "2", Text: "the token endpoint issues a bearer token for Basic authentication and a multipart form", check: (*run).issuesToken},
		{Section: "2", Text: "the token endpoint rejects a wrong client secret", check: (*run).wrongSecret},
		{Section: "2", Text: "grant_type must be client_credentials", check: (*run).wrongGrantType},
		{Section: "2", Text: "scope is required", check: (*run).noScope},
		{Section: "2", Text: "one token may have several scopes, separated by a single space", Assumes: "the scope sim_check", check: (*run).severalScopes},
		{Section: "2", Text: "a token for phone_check is not valid for another product", Assumes: assumesSIMPath, check: (*run).enforcesScope},
		{Section: "2", Text: "the API rejects a missing or wrong token", check: (*run).noToken},
		{Section: "2", Text: "the product API rejects Basic authentication", check: (*run).rejectsBasicAuth},
		{Section: "2", Text: "the token endpoint rejects workspace credentials for product scopes", needs: workspace, check: (*run).limitsWorkspaceScopes},
		{Section: "1", Text: "requests over plain HTTP fail", check: (*run).plainHTTP},
		{Section: "7", Text: "the key set contains RSA keys with kty, e, n, use, kid and alg", check: (*run).keySet},

		// PhoneChecks.
		{Section: "4", Text: "a created PhoneCheck has check_id, charge_amount, charge_currency and created_at", check: (*run).createsPhoneCheck},
		{Section: "4", Text: "a sandbox check consumes no balance", check: (*run).sandboxIsFree},
		{Section: "4", Text: "phone_number contains digits only", Assumes: "that other values are rejected, except for one leading plus sign", check: (*run).badPhoneNumbers},
		{Section: "8", Text: "errors are problem documents: type with a fragment, title, status and detail", Assumes: "that an invalid phone_number is an error", check: (*run).problems},
		{Section: "4", Text: "PhoneCheck, number ending in 0, 2, 4, 6 or 8: COMPLETED, match", Assumes: assumesCheckURL, check: outcomes(phoneCheck, object{"status": "COMPLETED", "match": true}, "02", "04", "06", "08", "10")},
		{Section: "4", Text: "PhoneCheck, number ending in 1, 3, 5, 7 or 9: COMPLETED, no match", Assumes: assumesCheckURL, check: outcomes(phoneCheck, object{"status": "COMPLETED", "match": false}, "01", "03", "05", "07", "09")},
		{Section: "4", Text: "PhoneCheck, number ending in 00, 55 or 99: ERROR, not stored", Assumes: assumesCheckURL, check: notStored(phoneCheck, "00", "55", "99")},
		{Section: "3", Text: "a completed PhoneCheck is listed", Assumes: "the path and form of lists", check: (*run).listsPhoneChecks},

		// SIMChecks.
		{Section: "4", Text: "SIMCheck, number ending in 0, 1, 2, 3 or 4: COMPLETED, no SIM change", Assumes: assumesSIMPath, check: simOutcomes(object{"status": "COMPLETED", "no_sim_change": true}, "00", "01", "02", "03", "04")},
		{Section: "4", Text: "SIMCheck, number ending in 5, 6, 7, 8 or 9: COMPLETED, SIM change", Assumes: assumesSIMPath, check: simOutcomes(object{"status": "COMPLETED", "no_sim_change": false}, "55", "06", "07", "08", "09")},
		{Section: "4", Text: "SIMCheck, number ending in 99: ERROR, without no_sim_change", Assumes: assumesSIMPath, check: simOutcomes(object{"status": "ERROR", "no_sim_change": absent}, "99")},

		// SubscriberChecks.
		{Section: "4", Text: "SubscriberCheck, number ending in 0, 2 or 4: match, no SIM change", Assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": true, "no_sim_change": true}, "10", "02", "04")},
		{Section: "4", Text: "SubscriberCheck, number ending in 6 or 8: match, SIM change", Assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": true, "no_sim_change": false}, "06", "08")},
		{Section: "4", Text: "SubscriberCheck, number ending in 1, 3, 5, 7 or 9: no match, without no_sim_change", Assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": false, "no_sim_change": absent}, "01", "03", "05", "07", "09")},
		{Section: "4", Text: "SubscriberCheck, number ending in 00, 55 or 99: ERROR, not stored", Assumes: assumesSubscriberPath, check: notStored(subscriberCheck, "00", "55", "99")},

		// Device reachability.
		{Section: "5", Text: "reachability, address ending in an even digit: 200 with network, country and products", Assumes: assumesCoveragePath, check: (*run).reachable},
		{Section: "5", Text: "reachability, address ending in an odd digit: 412 not_mobile_ip", Assumes: assumesCoveragePath, check: unreachable("7", 412, "not_mobile_ip", "Not a mobile IP")},
		{Section: "5", Text: "reachability, address ending in 99: 400 mno_not_supported", Assumes: assumesCoveragePath, check: unreachable("99", 400, "mno_not_supported", "MNO not supported")},

		// Callbacks.
		{Section: "6", Text: "a completed PhoneCheck causes a callback by POST", Assumes: assumesCheckURL, needs: receiver, check: (*run).sendsCallback},
		{Section: "6", Text: "the payload has check_id, status, match, charge_amount, charge_currency and created_at", needs: receiver, check: (*run).callbackPayload},
		{Section: "6", Text: "the callback has Content-Type, Date, Digest, Content-Length and x-service-callback: phone_check", needs: receiver, check: (*run).callbackHeaders},
		{Section: "7", Text: "the signature covers (request-target), host, date, x-service-callback and digest, and verifies with the key named by keyId", needs: receiver, check: (*run).callbackSignature},
		{Section: "7", Text: "the Digest is the SHA-256 of the body, in hexadecimal or base64", needs: receiver, check: (*run).callbackDigest},
		{Section: "6", Text: "a PhoneCheck that ends as ERROR causes a callback with match false", needs: receiver, check: callbackOf(phoneCheck, "99", object{"status": "ERROR", "match": false})},
		{Section: "6", Text: "a completed SubscriberCheck causes a callback", Assumes: "the payload of this callback", needs: receiver, check: callbackOf(subscriberCheck, "06", object{"status": "COMPLETED", "match": true, "no_sim_change": false})},
		{Section: "6", Text: "a SubscriberCheck that ends as ERROR causes a callback with match false, without no_sim_change", Assumes: "the payload of this callback", needs: receiver, check: callbackOf(subscriberCheck, "55", object{"status": "ERROR", "match": false, "no_sim_change": absent})},
		{Section: "6", Text: "after a 2xx response, the callback is not sent again", needs: receiver | clock, check: attempts(204, 1, 1)},
		{Section: "6", Text: "after a 3xx response, the callback is not sent again", needs: receiver | clock, check: attempts(302, 1, 1)},
		{Section: "6", Text: "after a 4xx response, the callback is not sent again", needs: receiver | clock, check: attempts(400, 1, 1)},
		{Section: "6", Text: "after a 5xx response, the callback is retried, with at most 6 attempts in all, each signed", Assumes: "that all attempts are made within 10 minutes", needs: receiver | clock, check: attempts(503, 2, 6)},
		{Section: "4", Text: "a PhoneCheck that is not opened expires, and only a callback reports it", Assumes: "that a check expires after 120 seconds", needs: receiver | clock, check: (*run).expires},

		// Redirects.
		{Section: "7", Text: "the Check URL redirects the device to redirect_url, with check_id, code, authorization and date", Assumes: assumesExchange, check: (*run).redirectsDevice},
		{Section: "7", Text: "the signature of the redirect verifies with the key named by keyId", Assumes: assumesExchange, check: (*run).redirectSignature},
		{Section: "4", Text: "the code exchange returns the result of the sandbox table; a code works only once", Assumes: assumesExchange, check: (*run).exchange},

		// Projects.
		{Section: "10", Text: "the token endpoint issues a token for the credentials of a new project", Assumes: assumesConsole, needs: workspace, check: (*run).createsProject},
		{Section: "10", Text: "the secret of a project is returned only once", Assumes: assumesConsole, needs: workspace, check: (*run).showsSecretOnce},
		{Section: "10", Text: "a project has at most 2 pairs of credentials", Assumes: assumesConsole, needs: workspace, check: (*run).limitsCredentials},
		{Section: "10", Text: "a project's mode can be updated to sandbox", Assumes: assumesConsole, needs: workspace, check: (*run).updatesMode},
		{Section: "6", Text: "a check's own callback_url overrides the project's", Assumes: assumesConsole, needs: workspace | receiver, check: (*run).callbackURLOverrides},
	}
	for i := range table {
		table[i].Number = i + 1
	}
	return table
}

// Numbers of the expectations that others depend on.
const (
	phoneCheckExpectation = 12
	callbackExpectation   = 30
	keySetExpectation     = 11
	redirectExpectation   = 43
	projectExpectation    = 46
)
