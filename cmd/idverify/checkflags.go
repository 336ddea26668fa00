package main

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

// checkCommand is a command for checks of one product.
type checkCommand struct {
	*connection
	flags   *flag.FlagSet
	product idverify.Product
	version string
	service checkService // set by start
}

// defaultTimeout is the default of -timeout for commands that do not wait for a device.
const defaultTimeout = 30 * time.Second

// newCheckCommand defines the flags that all commands for checks have.
func newCheckCommand(p *program, name, arguments string, timeout time.Duration) *checkCommand {
	flags := newFlags(name, arguments)
	c := &checkCommand{connection: newConnection(p, flags, timeout), flags: flags, product: idverify.ProductPhoneCheck}
	flags.Func("product", "`product` of the check: phone_check, sim_check or subscriber_check (default phone_check)", func(text string) error {
		c.product = idverify.Product(text)
		if !slices.Contains(products(), c.product) {
			return errors.New("must be phone_check, sim_check or subscriber_check")
		}
		return nil
	})
	flags.StringVar(&c.version, "version", "", "`version` of the product's API, such as v0.2 (default v0.1)")
	flags.BoolVar(&c.showNumbers, "show-numbers", false, "print whole phone numbers, not only their last two digits")
	return c
}

// start parses args, which must contain the given number of arguments, and connects to the service.
// The caller must call close. arguments is nil if the command must end with code.
func (c *checkCommand) start(ctx context.Context, args []string, count int) (arguments []string, code int) {
	arguments, code, ok := c.parseArguments(c.flags, args, count, count)
	if !ok {
		return nil, code
	}
	return arguments, c.connect(ctx)
}

// connect connects to the service, and returns the exit code of a failure or exitOK.
func (c *checkCommand) connect(ctx context.Context) int {
	code, ok := c.open(ctx)
	if ok {
		c.service = newCheckService(c.client, c.product, c.version)
	}
	return code
}

// commandFor returns the command line of another command for the same service, product and version.
func (c *checkCommand) commandFor(name, arguments string) string {
	line := "idverify " + name
	if c.fake {
		line += " -fake"
	}
	if c.product != idverify.ProductPhoneCheck {
		line += " -product " + string(c.product)
	}
	if c.version != "" {
		line += " -version " + shellQuote(c.version)
	}
	return strings.TrimSpace(line + " " + arguments)
}

// failRead prints an error of a command that reads a check.
func (c *checkCommand) failRead(err error) int {
	_, ended := errors.AsType[*idverify.CheckEndedError](err)
	rejected, _ := errors.AsType[*idverify.Error](err)
	if ended || rejected != nil && rejected.Fragment() == "check_not_found" {
		missing := "a SIMCheck that ends as ERROR is not stored and has no callback: only its create reports it"
		if c.service.device {
			missing = "read the callback of the check: a check that ends as EXPIRED or ERROR is not stored"
		}
		return c.fail(err, missing,
			"set -product if the check is not a "+c.service.title,
			c.commandFor("check list", ""))
	}
	return c.fail(err)
}
