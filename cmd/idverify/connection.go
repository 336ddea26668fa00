package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// connection is the client of a command, and its flags.
type connection struct {
	*program
	client *idverify.Client
	server *sandboxfake.Server // with -fake, otherwise nil

	fake, json, showNumbers bool
	timeout                 time.Duration
}

// newConnection defines the flags of a command that calls the service. timeout is the default of
// -timeout.
func newConnection(p *program, flags *flag.FlagSet, timeout time.Duration) *connection {
	c := &connection{program: p}
	flags.BoolVar(&c.fake, "fake", false, "use a fake of the service in this process, instead of the service of the environment")
	flags.BoolVar(&c.json, "json", false, "print one JSON document")
	flags.DurationVar(&c.timeout, "timeout", timeout, "stop after this `duration`; 0 for no limit")
	return c
}

// open connects to the service of the environment, or starts the fake. The caller must call close.
func (c *connection) open(ctx context.Context) (code int, ok bool) {
	var err error
	switch {
	case c.fake:
		if c.server, c.client, err = startFake(ctx); err == nil {
			fmt.Fprintln(c.stderr, "Using a fake of the service in this process.")
		}
	default:
		c.client, err = c.program.client()
	}
	if err != nil {
		fmt.Fprintf(c.stderr, "idverify: %v\nSee:  %stools.md#connection-to-the-service\n", err, docsURL)
		return exitError, false
	}
	return exitOK, true
}

func (c *connection) close() {
	if c.server != nil {
		c.server.Close()
	}
}

// limit returns ctx with the timeout of the command.
func (c *connection) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}

// startFake starts a fake with the same IDs in each run, and creates a few checks for the commands
// that read them.
func startFake(ctx context.Context) (*sandboxfake.Server, *idverify.Client, error) {
	// A frozen clock makes the order of the checks the same in each run.
	server, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Now()))
	if err != nil {
		return nil, nil, err
	}
	client := server.Client()
	for _, number := range []string{"447700900012", "447700900013", "447700900016"} {
		if err = createExamples(ctx, server, client, number, number != "447700900016"); err != nil {
			server.Close()
			return nil, nil, fmt.Errorf("start the fake: %w", err)
		}
	}
	return server, client, nil
}

// createExamples creates a check of each product. If open is set, the device opens the Check URLs.
func createExamples(ctx context.Context, server *sandboxfake.Server, client *idverify.Client, number string, open bool) error {
	reference := "order-" + number[len(number)-2:]
	phoneCheck, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference})
	if err != nil {
		return err
	}
	if _, err := client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: reference}); err != nil {
		return err
	}
	subscriberCheck, err := client.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: number, ReferenceID: reference})
	if err != nil || !open {
		return err
	}
	for _, checkURL := range []string{phoneCheck.CheckURL, subscriberCheck.CheckURL} {
		if _, err := server.Device().Open(ctx, checkURL); err != nil {
			return err
		}
	}
	return nil
}

// openCheckURL opens the Check URL of a check as the device, and returns the code that the device
// receives, if there is one.
func (c *connection) openCheckURL(ctx context.Context, checkURL string) (code string, err error) {
	visit, err := c.server.Device().Open(ctx, checkURL)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(c.stderr, "Opened the Check URL as the phone: status %d.\n", visit.Status)
	var page struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(visit.Body, &page) != nil {
		return "", nil // the page has no code
	}
	return page.Code, nil
}
