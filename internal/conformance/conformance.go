// Package conformance tests a service by HTTP requests, for the command "idverify conform". It does
// not use this module's client, verifier or signer, so a fault in them cannot hide a fault of the
// service.
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

// Config configures a run. BaseURL and Project are required. A rule that requires another field is
// not applicable without it.
type Config struct {
	// BaseURL is the service's https URL, without a path.
	BaseURL string
	// HTTPClient sends the requests. It must trust the service's certificate. If nil, a client with
	// default settings is used. Run replaces CheckRedirect in a copy of the client.
	HTTPClient *http.Client
	// Project contains the credentials of a sandbox project. Run stops at the first check that is
	// charged.
	Project idverify.Credentials
	// Workspace contains credentials of the project's workspace. Run creates projects with them and
	// deletes these projects at the end.
	Workspace idverify.Credentials
	// Receiver receives the service's callbacks.
	Receiver *Receiver
	// Advance moves the service's clock forward and returns when all events that became due have run.
	// A fake can provide it; the live service cannot.
	Advance func(context.Context, time.Duration) error
	// Patience is the longest wait for a callback or for the result of a check. Zero means 15 seconds.
	Patience time.Duration
	// Progress is called before each rule and, with an empty rule, at the end. It may be nil.
	Progress func(done, total int, rule string)
}

// What a run with a complete Config creates. Checks remain, but they are free in a sandbox project.
const (
	Checks   = 59
	Projects = 5 // deleted at the end
)

// rule is one requirement of the protocol.
type rule struct {
	name    string // without the kind
	section string // of docs/protocol.md
	title   string // what the service must do
	assumes string // the decision of this module that the rule relies on, or empty
	needs   need
	check   func(*run, context.Context) error
}

// reason says where the rule is described, and what it assumes and requires.
func (r rule) reason() string {
	text := "docs/protocol.md, section " + r.section
	if r.assumes != "" {
		text += "; assumes " + r.assumes
	}
	if all := r.needs.String(); all != "" {
		text += "; requires " + all
	}
	return text
}

// fullName returns the name of a rule with its kind.
func fullName(name string) string { return string(receivertest.KindService) + "/" + name }

// Rules returns the rules, in the order in which Run examines them.
func Rules() []receivertest.Rule {
	var rules []receivertest.Rule
	for _, r := range allRules() {
		rules = append(rules, receivertest.Rule{Name: fullName(r.name), Title: r.title, Reason: r.reason()})
	}
	return rules
}

// Run examines every rule in turn. The report has one finding for each, in the order of [Rules].
// Run waits up to Patience for each callback that does not arrive.
//
// Run returns an error if it cannot run: config is invalid, the service is unreachable, or ctx
// ends. The report then contains the findings so far. Run also returns an error if it cannot delete
// a project. Neither the errors nor the report contain secrets, tokens, phone numbers or IP
// addresses.
func Run(ctx context.Context, config Config) (receivertest.Report, error) {
	r, err := newRun(config)
	if err != nil {
		return receivertest.Report{}, fmt.Errorf("conformance: %w", err)
	}
	if err := r.connect(ctx); err != nil {
		return receivertest.Report{}, fmt.Errorf("conformance: connect to the service: %w", err)
	}
	report := receivertest.Report{Kind: receivertest.KindService, URL: config.BaseURL, Started: time.Now()}
	report.Findings, err = r.examine(ctx)
	report.Duration = time.Since(report.Started)
	if left := r.cleanUp(ctx); left != nil {
		err = errors.Join(err, left)
	}
	if err != nil {
		return report, fmt.Errorf("conformance: %w", err)
	}
	return report, nil
}

// examine examines every rule until ctx ends.
func (r *run) examine(ctx context.Context) ([]receivertest.Finding, error) {
	var findings []receivertest.Finding
	progress := r.config.Progress
	if progress == nil {
		progress = func(int, int, string) {}
	}
	rules := allRules()
	for i, rule := range rules {
		name := fullName(rule.name)
		progress(i, len(rules), name)
		result, detail := r.evaluate(ctx, rule)
		if ctx.Err() != nil {
			return findings, ctx.Err() // the cause of the result
		}
		if result == receivertest.ResultFail {
			detail = rule.title + ": " + detail
		}
		findings = append(findings, receivertest.Finding{Rule: name, Title: rule.title, Reason: rule.reason(), Result: result, Detail: detail})
	}
	progress(len(rules), len(rules), "")
	return findings, nil
}

// need is a set of optional Config fields that a rule requires.
type need int

const (
	workspace need = 1 << iota
	receiver
	clock
)

// String describes the fields, and how to set them in the command.
func (n need) String() string {
	var all []string
	for _, field := range []struct {
		need need
		text string
	}{
		{workspace, "credentials of the workspace (IDVERIFY_WORKSPACE_CLIENT_ID, IDVERIFY_WORKSPACE_CLIENT_SECRET)"},
		{receiver, "a receiver of callbacks (-callback-url)"},
		{clock, "a clock that can be moved (-advance-url)"},
	} {
		if n&field.need != 0 {
			all = append(all, field.text)
		}
	}
	return strings.Join(all, " and ")
}

// missing returns the fields in n that c lacks.
func (c *Config) missing(n need) need {
	if c.Workspace.ClientID != "" {
		n &^= workspace
	}
	if c.Receiver != nil {
		n &^= receiver
	}
	if c.Advance != nil {
		n &^= clock
	}
	return n
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

// blocked is the error of a rule that cannot be evaluated, because it depends on another one, which
// failed.
type blocked struct{ rule string }

func (b blocked) Error() string { return "depends on " + fullName(b.rule) }

// errCharged stops the run: the project is not a sandbox project, so every check costs money.
var errCharged = errors.New("the project is charged for checks (use a sandbox project)")

// evaluate runs one rule. The detail says why it failed or is not applicable.
func (r *run) evaluate(ctx context.Context, rule rule) (result receivertest.Result, detail string) {
	switch missing := r.config.missing(rule.needs); {
	case missing != 0:
		return receivertest.ResultNotApplicable, "requires " + missing.String()
	case r.stopped != nil:
		return receivertest.ResultNotApplicable, r.stopped.Error()
	}
	err := rule.check(r, ctx)
	dependency, isBlocked := errors.AsType[blocked](err)
	switch {
	case err == nil:
		return receivertest.ResultPass, ""
	case isBlocked && dependency.rule != rule.name:
		return receivertest.ResultNotApplicable, dependency.Error()
	case errors.Is(err, errCharged):
		r.stopped = err
	}
	return receivertest.ResultFail, err.Error()
}

// Values of rule.assumes that several rules share.
const (
	assumesSIMPath        = "the paths of SIMChecks"
	assumesSubscriberPath = "the paths of SubscriberChecks"
	assumesCoveragePath   = "the path of device reachability"
	assumesCheckURL       = "the location of the Check URL (_links.check_url.href) and the path of a check"
	assumesExchange       = "version v0.2: redirect_url and the code exchange"
	assumesConsole        = "the paths and bodies of projects and their credentials"
)

// allRules returns the rules in their order. A step that others depend on, such as a token or a
// created check, is a separate rule. If it fails, the rules that depend on it are not applicable,
// so that each fault is reported once.
func allRules() []rule {
	return []rule{
		// Tokens and transport.
		{name: tokenRule, section: "2", title: "the token endpoint issues a bearer token for Basic authentication and a multipart form", check: (*run).issuesToken},
		{name: "wrong-secret", section: "2", title: "the token endpoint rejects a wrong client secret", check: (*run).wrongSecret},
		{name: "grant-type", section: "2", title: "grant_type must be client_credentials", check: (*run).wrongGrantType},
		{name: "scope-required", section: "2", title: "scope is required", check: (*run).noScope},
		{name: "several-scopes", section: "2", title: "one token may have several scopes, separated by a single space", assumes: "the scope sim_check", check: (*run).severalScopes},
		{name: "product-scope", section: "2", title: "a token for phone_check is not valid for another product", assumes: assumesSIMPath, check: (*run).enforcesScope},
		{name: "bearer-required", section: "2", title: "the API rejects a missing or wrong token", check: (*run).noToken},
		{name: "basic-rejected", section: "2", title: "the product API rejects Basic authentication", check: (*run).rejectsBasicAuth},
		{name: "workspace-scopes", section: "2", title: "the token endpoint rejects workspace credentials for product scopes", needs: workspace, check: (*run).limitsWorkspaceScopes},
		{name: "plain-http", section: "1", title: "requests over plain HTTP fail", check: (*run).plainHTTP},
		{name: keySetRule, section: "7", title: "the key set contains RSA keys with kty, e, n, use, kid and alg", check: (*run).keySet},

		// PhoneChecks.
		{name: phoneCheckRule, section: "4", title: "a created PhoneCheck has check_id, charge_amount, charge_currency and created_at", check: (*run).createsPhoneCheck},
		{name: "sandbox-free", section: "4", title: "a sandbox check consumes no balance", check: (*run).sandboxIsFree},
		{name: "phone-number", section: "4", title: "phone_number contains digits only", assumes: "that other values are rejected, except for one leading plus sign", check: (*run).badPhoneNumbers},
		{name: "problems", section: "8", title: "errors are problem documents: type with a fragment, title, status and detail", assumes: "that an invalid phone_number is an error", check: (*run).problems},
		{name: "phone-check-match", section: "4", title: "PhoneCheck, number ending in 0, 2, 4, 6 or 8: COMPLETED, match", assumes: assumesCheckURL, check: outcomes(phoneCheck, object{"status": "COMPLETED", "match": true}, "02", "04", "06", "08", "10")},
		{name: "phone-check-no-match", section: "4", title: "PhoneCheck, number ending in 1, 3, 5, 7 or 9: COMPLETED, no match", assumes: assumesCheckURL, check: outcomes(phoneCheck, object{"status": "COMPLETED", "match": false}, "01", "03", "05", "07", "09")},
		{name: "phone-check-error", section: "4", title: "PhoneCheck, number ending in 00, 55 or 99: ERROR, not stored", assumes: assumesCheckURL, check: notStored(phoneCheck, "00", "55", "99")},
		{name: "phone-check-list", section: "3", title: "a completed PhoneCheck is listed", assumes: "the path and form of lists", check: (*run).listsPhoneChecks},

		// SIMChecks.
		{name: "sim-check-no-change", section: "4", title: "SIMCheck, number ending in 0, 1, 2, 3 or 4: COMPLETED, no SIM change", assumes: assumesSIMPath, check: simOutcomes(object{"status": "COMPLETED", "no_sim_change": true}, "00", "01", "02", "03", "04")},
		{name: "sim-check-change", section: "4", title: "SIMCheck, number ending in 5, 6, 7, 8 or 9: COMPLETED, SIM change", assumes: assumesSIMPath, check: simOutcomes(object{"status": "COMPLETED", "no_sim_change": false}, "55", "06", "07", "08", "09")},
		{name: "sim-check-error", section: "4", title: "SIMCheck, number ending in 99: ERROR, without no_sim_change", assumes: assumesSIMPath, check: simOutcomes(object{"status": "ERROR", "no_sim_change": absent}, "99")},

		// SubscriberChecks.
		{name: "subscriber-check-match", section: "4", title: "SubscriberCheck, number ending in 0, 2 or 4: match, no SIM change", assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": true, "no_sim_change": true}, "10", "02", "04")},
		{name: "subscriber-check-sim-change", section: "4", title: "SubscriberCheck, number ending in 6 or 8: match, SIM change", assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": true, "no_sim_change": false}, "06", "08")},
		{name: "subscriber-check-no-match", section: "4", title: "SubscriberCheck, number ending in 1, 3, 5, 7 or 9: no match, without no_sim_change", assumes: assumesSubscriberPath, check: outcomes(subscriberCheck, object{"status": "COMPLETED", "match": false, "no_sim_change": absent}, "01", "03", "05", "07", "09")},
		{name: "subscriber-check-error", section: "4", title: "SubscriberCheck, number ending in 00, 55 or 99: ERROR, not stored", assumes: assumesSubscriberPath, check: notStored(subscriberCheck, "00", "55", "99")},

		// Device reachability.
		{name: "reachability", section: "5", title: "reachability, address ending in an even digit: 200 with network, country and products", assumes: assumesCoveragePath, check: (*run).reachable},
		{name: "reachability-not-mobile", section: "5", title: "reachability, address ending in an odd digit: 412 not_mobile_ip", assumes: assumesCoveragePath, check: unreachable("7", 412, "not_mobile_ip", "Not a mobile IP")},
		{name: "reachability-no-network", section: "5", title: "reachability, address ending in 99: 400 mno_not_supported", assumes: assumesCoveragePath, check: unreachable("99", 400, "mno_not_supported", "MNO not supported")},

		// Callbacks.
		{name: callbackRule, section: "6", title: "a completed PhoneCheck causes a callback by POST", assumes: assumesCheckURL, needs: receiver, check: (*run).sendsCallback},
		{name: "callback-payload", section: "6", title: "the payload has check_id, status, match, charge_amount, charge_currency and created_at", needs: receiver, check: (*run).callbackPayload},
		{name: "callback-headers", section: "6", title: "the callback has Content-Type, Date, Digest, Content-Length and x-service-callback: phone_check", needs: receiver, check: (*run).callbackHeaders},
		{name: "callback-signature", section: "7", title: "the signature covers (request-target), host, date, x-service-callback and digest, and verifies with the key named by keyId", needs: receiver, check: (*run).callbackSignature},
		{name: "callback-digest", section: "7", title: "the Digest is the SHA-256 of the body, in hexadecimal or base64", needs: receiver, check: (*run).callbackDigest},
		{name: "callback-error", section: "6", title: "a PhoneCheck that ends as ERROR causes a callback with match false", needs: receiver, check: callbackOf(phoneCheck, "99", object{"status": "ERROR", "match": false})},
		{name: "callback-subscriber-check", section: "6", title: "a completed SubscriberCheck causes a callback", assumes: "the payload of this callback", needs: receiver, check: callbackOf(subscriberCheck, "06", object{"status": "COMPLETED", "match": true, "no_sim_change": false})},
		{name: "callback-subscriber-check-error", section: "6", title: "a SubscriberCheck that ends as ERROR causes a callback with match false, without no_sim_change", assumes: "the payload of this callback", needs: receiver, check: callbackOf(subscriberCheck, "55", object{"status": "ERROR", "match": false, "no_sim_change": absent})},
		{name: "callback-after-2xx", section: "6", title: "after a 2xx response, the callback is not sent again", needs: receiver | clock, check: attempts(204, 1, 1)},
		{name: "callback-after-3xx", section: "6", title: "after a 3xx response, the callback is not sent again", needs: receiver | clock, check: attempts(302, 1, 1)},
		{name: "callback-after-4xx", section: "6", title: "after a 4xx response, the callback is not sent again", needs: receiver | clock, check: attempts(400, 1, 1)},
		{name: "callback-after-5xx", section: "6", title: "after a 5xx response, the callback is retried, with at most 6 attempts in all, each signed", assumes: "that all attempts are made within 10 minutes", needs: receiver | clock, check: attempts(503, 2, 6)},
		{name: "expiry", section: "4", title: "a PhoneCheck that is not opened expires, and only a callback reports it", assumes: "that a check expires after 120 seconds", needs: receiver | clock, check: (*run).expires},

		// Redirects.
		{name: redirectRule, section: "7", title: "the Check URL redirects the device to redirect_url, with check_id, code, authorization and date", assumes: assumesExchange, check: (*run).redirectsDevice},
		{name: "redirect-signature", section: "7", title: "the signature of the redirect verifies with the key named by keyId", assumes: assumesExchange, check: (*run).redirectSignature},
		{name: "code-exchange", section: "4", title: "the code exchange returns the result of the sandbox table; a code works only once", assumes: assumesExchange, check: (*run).exchange},

		// Projects.
		{name: projectRule, section: "10", title: "the token endpoint issues a token for the credentials of a new project", assumes: assumesConsole, needs: workspace, check: (*run).createsProject},
		{name: "project-secret", section: "10", title: "the secret of a project is returned only once", assumes: assumesConsole, needs: workspace, check: (*run).showsSecretOnce},
		{name: "project-credentials", section: "10", title: "a project has at most 2 pairs of credentials", assumes: assumesConsole, needs: workspace, check: (*run).limitsCredentials},
		{name: "project-mode", section: "10", title: "a project's mode can be updated to sandbox", assumes: assumesConsole, needs: workspace, check: (*run).updatesMode},
		{name: "callback-url", section: "6", title: "a check's own callback_url overrides the project's", assumes: assumesConsole, needs: workspace | receiver, check: (*run).callbackURLOverrides},
	}
}

// Names of the rules that others depend on.
const (
	tokenRule      = "token"
	keySetRule     = "key-set"
	phoneCheckRule = "phone-check"
	callbackRule   = "callback"
	redirectRule   = "redirect"
	projectRule    = "project"
)
