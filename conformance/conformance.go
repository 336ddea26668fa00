package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/idverify/idverify-go"
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

// Status is the outcome of an expectation.
type Status string

// The statuses of an expectation. NotRun means that it was not evaluated; Result.Reason says why.
const (
	Held   Status = "held"
	Failed Status = "FAILED"
	NotRun Status = "not run"
)

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

// Result is an expectation with its status.
type Result struct {
	Expectation
	Status Status
	Reason string // why it failed or was not run; empty if it held
}

// Report contains the results of a run, in the order of [Expectations].
type Report struct {
	Results []Result
}

// Run tests every expectation in turn and reports the results. It waits up to Patience for each
// callback that does not arrive. Run returns an error only if config is invalid; faults of the
// service are in the report. After ctx ends, the remaining expectations are not run.
//
// Neither the error nor the report contains secrets, tokens, phone numbers or IP addresses.
func Run(ctx context.Context, config Config) (*Report, error) {
	r, err := newRun(config)
	if err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	defer r.cleanUp(ctx)
	report := new(Report)
	for _, e := range Expectations() {
		report.Results = append(report.Results, r.evaluate(ctx, e))
	}
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

// evaluate runs one expectation and returns its result.
func (r *run) evaluate(ctx context.Context, e Expectation) Result {
	result := Result{Expectation: e, Status: NotRun}
	if missing := r.config.missing(e.needs); missing != "" {
		result.Reason = "requires " + missing
		return result
	}
	if r.stopped != nil {
		result.Reason = r.stopped.Error()
		return result
	}
	if ctx.Err() != nil {
		result.Reason = "the context ended"
		return result
	}
	err := e.check(r, ctx)
	dependency, isBlocked := errors.AsType[blocked](err)
	switch {
	case err == nil:
		result.Status = Held
		return result
	case ctx.Err() != nil:
		result.Reason = "the context ended"
		return result
	case isBlocked && dependency.number != e.Number:
		result.Reason = dependency.Error()
		return result
	case errors.Is(err, errCharged):
		r.stopped = err
	}
	result.Status, result.Reason = Failed, err.Error()
	return result
}

// Failed returns the results of the expectations that failed.
func (r *Report) Failed() []Result {
	var failed []Result
	for _, result := range r.Results {
		if result.Status == Failed {
			failed = append(failed, result)
		}
	}
	return failed
}

// WriteTo writes the report to w as a table. Each expectation has a line, and a second line with
// the reason if it did not hold. The last line contains the totals. WriteTo implements
// [io.WriterTo].
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	counted := &countingWriter{w: w}
	table := tabwriter.NewWriter(counted, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "#\tSECTION\tSTATUS\tEXPECTATION")
	count := make(map[Status]int)
	for _, result := range r.Results {
		count[result.Status]++
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", result.Number, result.Section, result.Status, result.Text)
		if result.Reason != "" {
			fmt.Fprintf(table, "\t\t\t  %s\n", result.Reason)
		}
		if result.Status == Failed && result.Assumes != "" {
			fmt.Fprintf(table, "\t\t\t  assumes %s (docs/protocol.md)\n", result.Assumes)
		}
	}
	fmt.Fprintf(table, "\n%d expectations: %d held, %d failed, %d not run\n", len(r.Results), count[Held], count[Failed], count[NotRun])
	err := table.Flush()
	return counted.n, err
}

// String returns the table that WriteTo writes.
func (r *Report) String() string {
	var b strings.Builder
	_, _ = r.WriteTo(&b)
	return b.String()
}

// countingWriter counts the bytes written to w.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
