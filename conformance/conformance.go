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
	report := receivertest.Report{Kind: "service", URL: config.BaseURL, Started: time.Now()}
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
		if result == receivertest.Fail {
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
		return receivertest.NotApplicable, "requires " + missing
	case r.stopped != nil:
		return receivertest.NotApplicable, r.stopped.Error()
	case ctx.Err() != nil:
		return receivertest.NotApplicable, ended
	}
	err := e.check(r, ctx)
	dependency, isBlocked := errors.AsType[blocked](err)
	switch {
	case err == nil:
		return receivertest.Pass, ""
	case ctx.Err() != nil:
		return receivertest.NotApplicable, ended
	case isBlocked && dependency.number != e.Number:
		return receivertest.NotApplicable, dependency.Error()
	case errors.Is(err, errCharged):
		r.stopped = err
	}
	return receivertest.Fail, err.Error()
}
