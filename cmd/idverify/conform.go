package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/conformance"
	"github.com/idverify/idverify-go/sandboxfake"
)

// conform tests a service by HTTP requests, without the client of this module.
func conform(ctx context.Context, p *program, args []string) int {
	c := &conformRun{program: p}
	flags := newFlags("conform", "")
	c.define(flags)
	if code, ok := p.parse(flags, args); !ok {
		return code
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := c.check(flags.Args(), given); err != nil {
		return p.misused("conform", err)
	}
	switch {
	case c.list:
		p.printRules(conformance.Rules())
		return exitOK
	case c.fake:
		return c.runFake(ctx)
	case !c.yes && !isTerminal(p.stdin):
		fmt.Fprintln(p.stderr, "idverify: conform: nothing was sent: in a live project, the first check costs money, and the program cannot find out the mode of the project (set -yes to test the service)")
		return exitUsage
	}
	return c.runService(ctx)
}

// conformRun contains the flags of conform.
type conformRun struct {
	*program

	baseURL     string
	fake        bool
	callbackURL string
	listen      string
	advanceURL  string
	timeout     time.Duration
	yes, list   bool
	report      reportFlags
}

// conformHelp describes what conform needs and creates.
const conformHelp = `
Use the credentials of a sandbox project: IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET. The rules
about projects need those of its workspace: IDVERIFY_WORKSPACE_CLIENT_ID and
IDVERIFY_WORKSPACE_CLIENT_SECRET.

The command creates up to %d checks of phone numbers reserved for fiction. In a sandbox project they
cost nothing. In a live project the first check costs money, and ends the test. In the workspace, the
command creates %d projects, and deletes them at the end.
`

func (c *conformRun) define(flags *flag.FlagSet) {
	flags.StringVar(&c.baseURL, "base-url", "", "base `URL` of the service; by default that of "+baseURLVariable)
	flags.BoolVar(&c.fake, "fake", false, "test a fake of the service in this process")
	flags.StringVar(&c.callbackURL, "callback-url", "", "receive callbacks at this `URL`, which must lead to the address of -listen")
	flags.StringVar(&c.listen, "listen", defaultListen, "receive callbacks on this `host:port`")
	flags.StringVar(&c.advanceURL, "advance-url", "", "move the clock of a fake by requests to this `URL`, with the token in "+controlTokenVariable)
	flags.DurationVar(&c.timeout, "timeout", 15*time.Second, "longest wait for a callback, and for the result of a check")
	flags.BoolVar(&c.yes, "yes", false, "test the service without a question; required if stdin is not a terminal")
	flags.BoolVar(&c.list, "list", false, "print the rules with their reasons, and test nothing")
	c.report.define(flags)
	usage := flags.Usage
	flags.Usage = func() {
		usage()
		fmt.Fprintf(flags.Output(), conformHelp, conformance.Checks, conformance.Projects)
	}
}

// defaultListen is the default of -listen.
const defaultListen = "127.0.0.1:8080"

// controlTokenVariable is the environment variable with the token for -advance-url. It also sets
// the token of the program sandboxfake.
const controlTokenVariable = "SANDBOXFAKE_CONTROL_TOKEN"

// check verifies the arguments and flags. given contains the names of the flags on the command
// line.
func (c *conformRun) check(arguments []string, given map[string]bool) error {
	service := given["base-url"] || given["callback-url"] || given["listen"] || given["advance-url"] || given["yes"]
	switch {
	case len(arguments) > 0:
		return errors.New("unexpected argument (pass the URL of the service with -base-url)")
	case c.list && len(given) > 1:
		return errors.New("with -list, no other flag has an effect")
	case c.fake && service:
		return errors.New("with -fake, -base-url, -callback-url, -listen, -advance-url and -yes have no effect")
	case given["listen"] && !given["callback-url"]:
		return errors.New("-listen has no effect without -callback-url")
	case c.timeout <= 0:
		return errors.New("-timeout must be positive")
	}
	if given["base-url"] {
		if err := validateBaseURL("-base-url", c.baseURL); err != nil {
			return err
		}
	}
	if given["callback-url"] {
		u, err := parseURL("-callback-url", c.callbackURL)
		if err != nil {
			return err
		}
		if u.RawQuery != "" {
			return errors.New("-callback-url must not contain a query")
		}
	}
	if given["advance-url"] {
		if _, err := parseURL("-advance-url", c.advanceURL); err != nil {
			return err
		}
	}
	return c.report.check()
}

// runFake tests a fake in this process, with its receiver and clock.
func (c *conformRun) runFake(ctx context.Context) int {
	server, err := sandboxfake.Start(sandboxfake.WithInMemory())
	if err != nil {
		return c.unable("conform", err)
	}
	defer server.Close()
	var receiver *conformance.Receiver
	receiverURL := server.Handle("receiver.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { receiver.ServeHTTP(w, r) }))
	if receiver, err = conformance.NewReceiver(receiverURL); err != nil {
		return c.unable("conform", err)
	}
	fmt.Fprintln(c.stderr, "Using a fake of the service in this process.")
	return c.run(ctx, conformance.Config{
		BaseURL: server.URL(), HTTPClient: server.HTTPClient(),
		Project: server.Credentials(), Workspace: server.ConsoleCredentials(),
		Receiver: receiver, Advance: server.Advance,
	})
}

// runService tests the service of the flags and the environment.
func (c *conformRun) runService(ctx context.Context) int {
	config, err := c.config()
	if err != nil {
		code := c.unable("conform", err)
		fmt.Fprintf(c.stderr, "See:  %stools.md#connection-to-the-service\n", docsURL)
		return code
	}
	fmt.Fprintf(c.stderr, "Creates up to %d checks of phone numbers reserved for fiction", conformance.Checks)
	if config.Workspace.ClientID != "" {
		fmt.Fprintf(c.stderr, ", and %d projects, which are deleted at the end", conformance.Projects)
	}
	fmt.Fprintln(c.stderr, ".\nIn a sandbox project, checks cost nothing. In a live project, the first one costs money, and ends the test.")
	if !c.yes && !c.confirm(ctx, bufio.NewReader(io.LimitReader(c.stdin, 4096)), "Test the service?") {
		fmt.Fprintln(c.stderr, "Nothing was sent.")
		return exitError
	}
	if c.callbackURL != "" {
		stop, err := c.serve(config.Receiver)
		if err != nil {
			return c.unable("conform", fmt.Errorf("-listen: %w", err))
		}
		defer stop()
	}
	return c.run(ctx, config)
}

// config returns the configuration of the flags and the environment.
func (c *conformRun) config() (config conformance.Config, err error) {
	if config.BaseURL = c.baseURL; c.baseURL == "" {
		if config.BaseURL, err = c.program.baseURL(); err != nil {
			return config, err
		}
	}
	if config.Project, err = c.credentials(projectVariables); err != nil {
		return config, err
	}
	for _, name := range []string{"CLIENT_ID", "CLIENT_SECRET", "CREDENTIALS_FILE"} {
		if c.getenv(workspaceVariables+name) != "" {
			if config.Workspace, err = c.credentials(workspaceVariables); err != nil {
				return config, err
			}
			break
		}
	}
	if config.HTTPClient, err = c.httpClient(); err != nil {
		return config, err
	}
	if c.callbackURL != "" {
		if config.Receiver, err = conformance.NewReceiver(c.callbackURL); err != nil {
			return config, err
		}
	}
	if c.advanceURL != "" {
		config.Advance = c.advancer(config.HTTPClient)
	}
	return config, nil
}

// serve serves the receiver on -listen until stop is called.
func (c *conformRun) serve(receiver http.Handler) (stop func(), err error) {
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: receiver, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // returns after Close
	}()
	return func() {
		server.Close()
		<-done
	}, nil
}

// advancer returns a function that moves the clock of a fake, as the control plane of sandboxfake
// expects it.
func (c *conformRun) advancer(client *http.Client) func(context.Context, time.Duration) error {
	return func(ctx context.Context, d time.Duration) error {
		body, err := json.Marshal(map[string]float64{"seconds": d.Seconds()})
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.advanceURL, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		if token := c.getenv(controlTokenVariable); token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		httpResp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer httpResp.Body.Close()
		if httpResp.StatusCode/100 != 2 {
			return fmt.Errorf("-advance-url: status is %d", httpResp.StatusCode)
		}
		return nil
	}
}

// run tests the service and writes the report.
func (c *conformRun) run(ctx context.Context, config conformance.Config) int {
	if err := c.report.prepare(); err != nil {
		return c.unable("conform", err)
	}
	progress := newProgress(c.stderr)
	config.Patience, config.Progress = c.timeout, progress.rule
	report, err := conformance.Run(ctx, config)
	progress.clear()
	if err != nil {
		text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "conformance: "), "\n", "; ")
		code := c.unable("conform", errors.New(strings.Replace(text, context.Canceled.Error(), "interrupted", 1)))
		if hint := c.connectionHint(err, "the base URL"); hint != "" {
			fmt.Fprintln(c.stderr, "Next: "+clean(hint, lineLength))
		}
		if len(report.Findings) == 0 {
			return code
		}
	}
	if err := c.writeReport(c.report, report); err != nil {
		return c.unable("conform", fmt.Errorf("write the report: %w", err))
	}
	switch failed := len(report.Failed()) > 0; {
	case err != nil:
		return exitError
	case failed:
		fmt.Fprintln(c.stderr, "See:  "+docsURL+"protocol.md")
		return exitProblem
	}
	return exitOK
}
