package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/receivertest"
)

// examine examines a receiver of callbacks or redirects in another process. It serves the key set,
// waits until the receiver listens, sends the messages and prints the report.
func examine(ctx context.Context, p *program, args []string) int {
	e := &examination{program: p}
	flags := newFlags("examine", "URL")
	e.define(flags)
	arguments, code, ok := p.parseArguments(flags, args, 0, 1)
	if !ok {
		return code
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := e.check(arguments, given); err != nil {
		return e.misused("examine", err)
	}
	if e.list {
		e.printRules()
		return exitOK
	}
	if err := e.requireLocal(ctx); err != nil {
		return e.misused("examine", err)
	}
	return e.run(ctx)
}

// unable prints an error that ends the command.
func (e *examination) unable(err error) int {
	fmt.Fprintf(e.stderr, "idverify: examine: %v\n", err)
	return exitError
}

// run examines the receiver and writes the report.
func (e *examination) run(ctx context.Context) int {
	if e.output != "" {
		// An examination takes minutes, so a wrong path must not lose its report.
		if err := checkReportFile(e.output); err != nil {
			return e.unable(fmt.Errorf("write the report: %w", err))
		}
	}
	receiver, err := e.newReceiver()
	if err != nil {
		return e.unable(err)
	}
	if err := receiver.Validate(); err != nil {
		return e.misused("examine", forCommand(err))
	}
	server, err := serveKeys(keyServerConfig{addr: e.keys, names: e.keysNames, plain: e.keysHTTP, caFile: e.caFile, now: time.Now()}, receiver.Keys)
	if err != nil {
		return e.unable(err)
	}
	defer server.close()
	e.announce(server)

	progress := newProgress(e.stderr)
	connected, err := waitFor(ctx, e.target.addresses(), e.timeout, progress)
	progress.clear()
	if err != nil {
		return e.unable(err)
	}
	if !e.remote {
		// Another lookup of the host could return another machine.
		receiver.Addr = e.target.scheme + "://" + connected
	}
	receiver.Progress = progress.rule
	report, err := receivertest.Examine(ctx, receiver)
	progress.clear()
	switch {
	case err != nil && len(report.Findings) == 0:
		return e.unable(forCommand(err))
	case err != nil:
		fmt.Fprintf(e.stderr, "The examination ended early: %v\n", forCommand(err))
	}
	if err := e.write(withHandshakes(forFlags(report), server.untrusted())); err != nil {
		return e.unable(fmt.Errorf("write the report: %w", err))
	}
	switch {
	case err != nil:
		return exitError
	case slices.ContainsFunc(report.Failed(), func(f receivertest.Finding) bool { return atLeast(f.Severity, e.fail) }):
		return exitProblem
	}
	return exitOK
}

// forCommand returns an error of receivertest as one of the command.
func forCommand(err error) error {
	return errors.New(strings.NewReplacer(
		"receivertest: examine: ", "", "invalid receiver: ", "",
		"Header must", "-header must", "Header contains", "-header contains", " in Header ", " in -header ",
		"probe Created: ", "-probe: ", "probe Effects: ", "-probe: ", "probe SlowStore: ", "-probe: ", "probe Session: ", "-probe: ",
	).Replace(err.Error()))
}

// announce prints the configuration of the receiver.
func (e *examination) announce(server *keyServer) {
	w := e.stderr
	fmt.Fprintln(w, "Configure the receiver and start it. If it runs already, start it again:")
	fmt.Fprintf(w, "  key set   %s%s\n", server.base, receivertest.KeySetPath)
	if server.caFile != "" {
		fmt.Fprintf(w, "  CA file   %s\n", server.caFile)
		fmt.Fprintln(w, "            Node.js: NODE_EXTRA_CA_CERTS; Python, and Go on Linux: SSL_CERT_FILE;")
		fmt.Fprintln(w, "            Go in code: signature.JWKSOptions.HTTPClient")
	}
	fmt.Fprintf(w, "  host      %s (messages are signed for it)\n", e.url.Host)
	if !e.redirect {
		fmt.Fprintf(w, "  header    %s (contains the product of a callback)\n", e.callbackHeader)
	}
}
