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

// Config is what the suite is told of the service that it judges. BaseURL and Project are needed; expectations that need more say so and are not run without it.
type Config struct {
	// BaseURL of the service: https, without a path.
	BaseURL string
	// HTTPClient reaches the service, for example with the fake's certificate. Nil: http.DefaultClient. The suite follows redirects itself.
	HTTPClient *http.Client
	// Project holds credentials of a sandbox project. The suite stops at the first check that costs anything.
	Project idverify.Credentials
	// Workspace holds credentials of the project's workspace. The suite makes projects with them, and deletes them at its end.
	Workspace idverify.Credentials
	// Receiver is where callbacks reach the suite.
	Receiver *Receiver
	// Advance moves the service's clock: a fake has such a thing, the live service has none. It returns when what fell due was done.
	Advance func(context.Context, time.Duration) error
	// Patience is how long a callback, or the end of a check, may take. Zero: 15 seconds.
	Patience time.Duration
}

// Verdict is what came of an expectation.
type Verdict string

// The verdicts. What is not run is neither held nor failed: the service's answer is not known.
const (
	Held   Verdict = "held"
	Failed Verdict = "FAILED"
	NotRun Verdict = "not run"
)

// Expectation is one thing that the specification says of the wire.
type Expectation struct {
	// Number is its place in [Expectations], from 1.
	Number int
	// Section of the specification that says it.
	Section string
	// Text says it in a sentence.
	Text string
	// Assumes names what the specification leaves open and the expectation takes for decided, as docs/assumptions.md lists it. When it fails, and this is not empty, look there first.
	Assumes string

	needs need
	check func(*run, context.Context) error
}

// Result is an expectation with its verdict.
type Result struct {
	Expectation
	Verdict Verdict
	Reason  string // why it failed or was not run; empty when it held
}

// Report is what came of a run, in the order of [Expectations].
type Report struct {
	Results []Result
}

// Run tries every expectation against a service, one after another, and reports what held. It takes as long as the service does; with Receiver and without a callback that comes, Patience for each.
// The error is for a Config that cannot be used; what the service does wrong is in the report. When ctx ends, the rest is not run.
//
// The error and the report hold no secret, token, phone number or IP address.
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

// need is what an expectation needs of the Config beyond what is always there.
type need int

const (
	workspace need = 1 << iota
	receiver
	clock
)

// missing says what of the needs the Config lacks, or nothing.
func (c *Config) missing(n need) string {
	var missing []string
	if n&workspace != 0 && c.Workspace.ClientID == "" {
		missing = append(missing, "workspace credentials")
	}
	if n&receiver != 0 && c.Receiver == nil {
		missing = append(missing, "a receiver for callbacks")
	}
	if n&clock != 0 && c.Advance == nil {
		missing = append(missing, "a clock that can be moved")
	}
	return strings.Join(missing, " and ")
}

// check refuses what no run could use.
func (c *Config) check() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return errors.New("the BaseURL must be https://host[:port]")
	case c.Project.ClientID == "" || c.Project.ClientSecret.Reveal() == "":
		return errors.New("the Project needs a client ID and a client secret")
	case c.Patience < 0:
		return errors.New("the Patience must not be negative")
	}
	return nil
}

// blocked is an expectation that cannot be judged because another, on which it rests, does not hold.
type blocked struct{ number int }

func (b blocked) Error() string { return fmt.Sprintf("it rests on expectation %d", b.number) }

// errCharged stops a run: the project is not a sandbox.
var errCharged = errors.New("the project charges for checks: it is no sandbox project, and the suite stops before it costs more")

// try judges one expectation.
func (r *run) evaluate(ctx context.Context, e Expectation) Result {
	result := Result{Expectation: e, Verdict: NotRun}
	if missing := r.config.missing(e.needs); missing != "" {
		result.Reason = "it needs " + missing
		return result
	}
	if r.stopped != nil {
		result.Reason = r.stopped.Error()
		return result
	}
	if ctx.Err() != nil {
		result.Reason = "the time was up"
		return result
	}
	err := e.check(r, ctx)
	dependency, isBlocked := errors.AsType[blocked](err)
	switch {
	case err == nil:
		result.Verdict = Held
		return result
	case ctx.Err() != nil:
		result.Reason = "the time was up"
		return result
	case isBlocked && dependency.number != e.Number:
		result.Reason = dependency.Error()
		return result
	case errors.Is(err, errCharged):
		r.stopped = err
	}
	result.Verdict, result.Reason = Failed, err.Error()
	return result
}

// Failed returns the expectations that failed.
func (r *Report) Failed() []Result {
	var failed []Result
	for _, result := range r.Results {
		if result.Verdict == Failed {
			failed = append(failed, result)
		}
	}
	return failed
}

// WriteTo writes the report as a table: a line an expectation, with the reason below where it did not hold, and a sum.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	counted := &countingWriter{w: w}
	table := tabwriter.NewWriter(counted, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "#\tSECTION\tVERDICT\tEXPECTATION")
	count := make(map[Verdict]int)
	for _, result := range r.Results {
		count[result.Verdict]++
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", result.Number, result.Section, result.Verdict, result.Text)
		if result.Reason != "" {
			fmt.Fprintf(table, "\t\t\t  %s\n", result.Reason)
		}
		if result.Verdict == Failed && result.Assumes != "" {
			fmt.Fprintf(table, "\t\t\t  it assumes %s (docs/assumptions.md)\n", result.Assumes)
		}
	}
	fmt.Fprintf(table, "\n%d expectations: %d held, %d failed, %d not run\n", len(r.Results), count[Held], count[Failed], count[NotRun])
	err := table.Flush()
	return counted.n, err
}

// String is the table of WriteTo.
func (r *Report) String() string {
	var b strings.Builder
	_, _ = r.WriteTo(&b)
	return b.String()
}

// countingWriter counts what went through it.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
