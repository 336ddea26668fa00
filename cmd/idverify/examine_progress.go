package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// progress shows the progress of a command: on a terminal as one line that changes, elsewhere as a
// few lines.
type progress struct {
	w        io.Writer
	terminal bool
	shown    int // tenths of the rules, on other outputs than terminals
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w)}
}

// The control sequence erases the rest of the line.
const eraseLine = "\r\x1b[K"

// rule shows that done rules of total are examined, and that rule is next. It is a
// receivertest.Receiver.Progress.
func (p *progress) rule(done, total int, rule string) {
	switch tenths := 10 * done / max(total, 1); {
	case p.terminal:
		fmt.Fprintf(p.w, "%sexamined %d of %d rules: %s", eraseLine, done, total, rule)
	case tenths > p.shown:
		p.shown = tenths
		fmt.Fprintf(p.w, "examined %d of %d rules\n", done, total)
	}
}

// waiting shows that the command waits for the receiver. first is false if that was shown before.
func (p *progress) waiting(first bool, left time.Duration) {
	switch left := seconds(left.Round(time.Second)); {
	case p.terminal:
		fmt.Fprintf(p.w, "%swaiting until the receiver listens, for %s", eraseLine, left)
	case first:
		fmt.Fprintf(p.w, "waiting until the receiver listens, for at most %s\n", left)
	}
}

// clear removes the line from a terminal.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, eraseLine)
	}
}

// connectInterval is the time between two connections to a receiver that does not listen.
const connectInterval = 200 * time.Millisecond

// waitFor waits until a server listens at one of addrs, and returns this address. It closes the
// connection without sending anything.
func waitFor(ctx context.Context, addrs []string, limit time.Duration, progress *progress) (string, error) {
	end := time.Now().Add(limit)
	for first := true; ; first = false {
		dialer := net.Dialer{Timeout: 5 * time.Second}
		var err error
		for _, addr := range addrs {
			var conn net.Conn
			if conn, err = dialer.DialContext(ctx, "tcp", addr); err == nil {
				return addr, conn.Close()
			}
		}
		left := time.Until(end)
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("interrupted before the receiver listened at %s", strings.Join(addrs, " or "))
		case left <= 0:
			return "", fmt.Errorf("the receiver does not listen: %w (start it, compare its port with that of the URL or -addr, or set a longer -timeout)", err)
		}
		progress.waiting(first, left)
		select {
		case <-ctx.Done():
		case <-time.After(min(connectInterval, left)):
		}
	}
}
