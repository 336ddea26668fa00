package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

// newGetCommand defines the flags of "check get".
func newGetCommand(p *program) *checkCommand {
	return newCheckCommand(p, "check get", "CHECK_ID", defaultTimeout)
}

// checkGet prints a check.
func checkGet(ctx context.Context, p *program, args []string) int {
	c := newGetCommand(p)
	return c.withCheckID(ctx, args, func(ctx context.Context, checkID string) int {
		got, err := c.service.get(ctx, checkID)
		if err != nil {
			return c.failRead(err)
		}
		return c.printCheck(got)
	})
}

// withCheckID connects to the service, and calls run with the only argument. It returns the exit
// code.
func (c *checkCommand) withCheckID(ctx context.Context, args []string, run func(ctx context.Context, checkID string) int) int {
	arguments, code := c.start(ctx, args, 1)
	if code != exitOK || arguments == nil {
		return code
	}
	defer c.close()
	ctx, cancel := c.limit(ctx)
	defer cancel()
	return run(ctx, arguments[0])
}

// newWaitCommand defines the flags of "check wait".
func newWaitCommand(p *program) *checkCommand {
	return newCheckCommand(p, "check wait", "CHECK_ID", 0)
}

// checkWait waits until a check has ended. The exit code is 0 only if every verdict is yes.
func checkWait(ctx context.Context, p *program, args []string) int {
	c := newWaitCommand(p)
	return c.withCheckID(ctx, args, func(ctx context.Context, checkID string) int {
		return c.waitFor(ctx, checkID, false)
	})
}

// waitFor waits until the check has ended. If brief is set, it prints only what has changed.
func (c *checkCommand) waitFor(ctx context.Context, checkID string, brief bool) int {
	fmt.Fprintln(c.stderr, "Waiting for the result.")
	ended, err := c.service.wait(ctx, checkID)
	switch e, isEnded := errors.AsType[*idverify.CheckEndedError](err); {
	case err == nil:
		return c.finish(ended, brief)
	case isEnded:
		if c.json {
			without := check{Product: c.product, CheckID: checkID, Status: e.Status, ErrorCode: e.ErrorCode}
			if c.service.device {
				without.Matched = new(idverify.VerdictUnknown)
			}
			if c.product != idverify.ProductPhoneCheck {
				without.SIMUnchanged = new(idverify.VerdictUnknown)
			}
			c.printCheck(without)
		}
		return c.failRead(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return c.fail(err, c.commandFor("check wait", shellQuote(checkID)))
	}
	return c.failRead(err)
}

// finish prints a check that has ended, and returns the exit code.
func (c *checkCommand) finish(ended check, brief bool) int {
	if brief && !c.json {
		c.printRows([]row{{"Status", string(ended.Status)}, {"Result", ended.result()}})
	} else {
		c.printCheck(ended)
	}
	if !ended.verified() {
		return exitProblem
	}
	return exitOK
}

// trace is the JSON of a trace. It is documented in docs/tools.md.
type trace struct {
	TraceID string     `json:"trace_id"`
	Logs    []traceLog `json:"logs"`
}

type traceLog struct {
	Timestamp  time.Time      `json:"timestamp"`
	Message    string         `json:"message"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

// newTracesCommand defines the flags of "check traces".
func newTracesCommand(p *program) *checkCommand {
	return newCheckCommand(p, "check traces", "CHECK_ID", defaultTimeout)
}

// checkTraces prints the recorded steps of a check.
func checkTraces(ctx context.Context, p *program, args []string) int {
	c := newTracesCommand(p)
	return c.withCheckID(ctx, args, c.readTraces)
}

func (c *checkCommand) readTraces(ctx context.Context, checkID string) int {
	got, err := c.service.traces(ctx, checkID)
	if err != nil {
		return c.failRead(err)
	}
	traces := make([]trace, len(got))
	for i, t := range got {
		traces[i] = trace{t.TraceID, make([]traceLog, len(t.Logs))}
		for j, l := range t.Logs {
			if !c.showNumbers {
				l.Message = mask(l.Message)
				l.Attributes, _ = maskValue(l.Attributes).(map[string]any)
			}
			traces[i].Logs[j] = traceLog{l.Timestamp, l.Message, l.Attributes}
		}
	}
	if c.json {
		return c.printJSON(struct {
			Product idverify.Product `json:"product"`
			CheckID string           `json:"check_id"`
			Traces  []trace          `json:"traces"`
		}{c.product, checkID, traces})
	}
	c.printTraces(traces)
	return exitOK
}

func (c *checkCommand) printTraces(traces []trace) {
	w := newTable(c.stdout)
	w.values("TIME (UTC)", "MESSAGE", "ATTRIBUTES")
	for _, t := range traces {
		for _, l := range t.Logs {
			var attributes []string
			for _, name := range slices.Sorted(maps.Keys(l.Attributes)) {
				value, ok := l.Attributes[name].(string)
				if !ok {
					text, err := json.Marshal(l.Attributes[name])
					value = string(text)
					if err != nil {
						value = "?"
					}
				}
				attributes = append(attributes, clean(name, cellLength)+"="+clean(value, cellLength))
			}
			w.line(shortTime(l.Timestamp), clean(l.Message, cellLength), strings.Join(attributes, " "))
		}
	}
	w.flush()
}
