package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/idverify/idverify-go"
)

// createCommand is the command "check create".
type createCommand struct {
	*checkCommand
	params          createParams
	yes, open, wait bool
}

// newCreateCommand defines the flags of "check create".
func newCreateCommand(p *program) *createCommand {
	c := &createCommand{checkCommand: newCheckCommand(p, "check create", "NUMBER\n\n"+
		"NUMBER is a phone number in international format, or - to read it from stdin:\n"+
		"other users of this machine can see arguments.\n", defaultTimeout)}
	c.flags.StringVar(&c.params.referenceID, "reference", "", "your own `ID` for the check; random by default")
	c.flags.StringVar(&c.params.callbackURL, "callback-url", "", "`URL` that receives the result; by default that of the project")
	c.flags.StringVar(&c.params.redirectURL, "redirect-url", "", "`URL` to which the device returns with a code; requires -version v0.2")
	c.flags.BoolVar(&c.yes, "yes", false, "create the check without a question; required if stdin is not a terminal")
	c.flags.BoolVar(&c.wait, "wait", false, "wait for the result, like the command check wait")
	c.flags.BoolVar(&c.open, "open", false, "open the Check URL as the phone; requires -fake")
	return c
}

// checkCreate creates a check, and waits for its result with -wait.
func checkCreate(ctx context.Context, p *program, args []string) int {
	c := newCreateCommand(p)
	arguments, code, ok := p.parseArguments(c.flags, args, 1, 1)
	if !ok {
		return code
	}
	if err := c.invalid(); err != nil {
		return c.misused("check create", err)
	}
	ask := !c.fake && !c.yes
	if ask && !isTerminal(c.stdin) {
		fmt.Fprintln(c.stderr, "idverify: check create: not sent: in a live project, a check costs money, and the program cannot find out the mode of the project (set -yes to create the check)")
		return exitUsage
	}
	if code := c.connect(ctx); code != exitOK {
		return code
	}
	defer c.close()
	if code, ok := c.readNumber(ctx, arguments[0], ask); !ok {
		return code
	}
	return c.run(ctx)
}

// invalid returns why the flags cannot be used together, or nil.
func (c *createCommand) invalid() error {
	switch {
	case c.open && !c.fake:
		return errors.New("-open requires -fake (only the device with the number can open the Check URL)")
	case c.open && c.params.redirectURL != "":
		return errors.New("-open and -redirect-url cannot be used together (the fake cannot reach the URL)")
	case c.product == idverify.ProductSIMCheck && (c.open || c.params.callbackURL != "" || c.params.redirectURL != ""):
		return errors.New("a SIMCheck has no device: -open, -callback-url and -redirect-url are not supported")
	}
	return nil
}

// readNumber reads and normalizes the number, and requests confirmation if ask is set. It returns
// false if the command must end with code.
//
// A check of a live project costs money. Project credentials do not disclose the mode of their
// project, so the command cannot know whether the check is free.
func (c *createCommand) readNumber(ctx context.Context, argument string, ask bool) (code int, ok bool) {
	input := bufio.NewReader(io.LimitReader(c.stdin, 4096))
	var err error
	if argument == "-" {
		if isTerminal(c.stdin) {
			fmt.Fprint(c.stderr, "Phone number: ")
		}
		if argument, err = readLine(ctx, input); err != nil {
			return c.fail(fmt.Errorf("read the number: %w", err)), false
		}
	}
	if c.params.number, err = idverify.NormalizePhoneNumber(argument); err != nil {
		return c.fail(err), false
	}
	if !ask {
		return exitOK, true
	}
	fmt.Fprintf(c.stderr, "Create a check of %s? In a live project, it costs money. [y/N] ", maskNumber(c.params.number))
	reply, err := readLine(ctx, input)
	if err == nil && (strings.EqualFold(reply, "y") || strings.EqualFold(reply, "yes")) {
		return exitOK, true
	}
	fmt.Fprintln(c.stderr, "Not created.")
	return exitError, false
}

// run creates the check.
func (c *createCommand) run(ctx context.Context) int {
	if c.params.referenceID == "" {
		c.params.referenceID = "idverify-" + rand.Text()
	}
	find := c.commandFor("check list", "-reference "+shellQuote(c.params.referenceID))
	fmt.Fprintf(c.stderr, "Creating a %s of %s with reference ID %s\n",
		c.service.title, maskNumber(c.params.number), clean(c.params.referenceID, lineLength))
	limited, cancel := c.limit(ctx)
	created, err := c.service.create(limited, c.params)
	cancel()
	if errors.Is(err, idverify.ErrOutcomeUnknown) {
		return c.fail(err, "find the check before you create it again: it may exist and may have been charged", find)
	}
	if err != nil {
		return c.fail(err)
	}
	c.explainCharge(created)
	if !c.json || !c.wait {
		c.printCheck(created)
	} else if created.CheckURL != "" {
		fmt.Fprintf(c.stderr, "Check ID: %s\nCheck URL: %s\n", clean(created.CheckID, lineLength), clean(created.CheckURL, lineLength))
	}
	if c.open {
		if err := c.openAsDevice(ctx, created); err != nil {
			return c.fail(err)
		}
	}
	switch {
	case !c.wait:
		return exitOK
	case created.Status.Final():
		return c.finish(created, !c.json)
	}
	return c.waitFor(ctx, created.CheckID, true)
}

// explainCharge warns of a check that was not charged.
func (c *createCommand) explainCharge(created check) {
	amount, ok := new(big.Rat).SetString(created.ChargeAmount)
	if c.fake || ok && amount.Sign() != 0 {
		return
	}
	fmt.Fprintln(c.stderr, "The check was not charged. In a sandbox project, only the digits of the number determine the result:")
	fmt.Fprintln(c.stderr, "see "+docsURL+"production.md#sandbox-credentials-in-production")
}

// openAsDevice opens the Check URL in the fake, and exchanges the code of version v0.2.
func (c *createCommand) openAsDevice(ctx context.Context, created check) error {
	code, err := c.openCheckURL(ctx, created.CheckURL)
	if err != nil || code == "" {
		return err
	}
	if _, err = c.service.complete(ctx, created.CheckID, code); err == nil {
		fmt.Fprintln(c.stderr, "Exchanged the code of the device for the result.")
	}
	return err
}

// readLine reads a line without white space around it. It returns when ctx is done, although a read
// from a terminal cannot be interrupted: its goroutine then ends with the program.
func readLine(ctx context.Context, input *bufio.Reader) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := input.ReadString('\n')
		if err == io.EOF && line != "" {
			err = nil
		}
		read <- result{strings.TrimSpace(line), err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
