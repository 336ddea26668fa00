package receivertest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	probeTimeout  = 30 * time.Second
	effectTimeout = 10 * time.Second // how long to wait for an effect that must occur
	effectPoll    = 50 * time.Millisecond
	minSettle     = 250 * time.Millisecond
)

// unsupported reports whether a part of the probe is missing.
func unsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// probe calls a part of the probe.
func probe(ctx context.Context, part string, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := call(limited)
	if err == nil || unsupported(err) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("probe %s: %w", part, err)
}

func (e *examination) probeCreated(ctx context.Context, c Check) error {
	return probe(ctx, "Created", func(ctx context.Context) error { return e.Probe.Created(ctx, c) })
}

func (e *examination) probeSession(ctx context.Context) (s Session, err error) {
	err = probe(ctx, "Session", func(ctx context.Context) error {
		s, err = e.Probe.Session(ctx)
		if err == nil && s.CheckID == "" {
			return errors.New("the session has no CheckID")
		}
		if err == nil {
			err = checkHeader(s.Header, e.CallbackHeader)
		}
		return err
	})
	return s, err
}

func (e *examination) probeSlowStore(ctx context.Context, slow bool) error {
	return probe(ctx, "SlowStore", func(ctx context.Context) error { return e.Probe.SlowStore(ctx, slow) })
}

// effects returns how often the receiver has acted on a check. Without this part of the probe, the
// error is errors.ErrUnsupported.
func (e *examination) effects(ctx context.Context, checkID string) (n int, err error) {
	if e.Probe.Effects == nil {
		return 0, errors.ErrUnsupported
	}
	err = probe(ctx, "Effects", func(ctx context.Context) error {
		n, err = e.Probe.Effects(ctx, checkID)
		return err
	})
	return n, err
}

// awaitEffect waits until the receiver has acted on a check, at most for effectTimeout, and returns
// how often.
func (e *examination) awaitEffect(ctx context.Context, checkID string) (int, error) {
	started := time.Now()
	for {
		n, err := e.effects(ctx, checkID)
		if err != nil {
			return 0, err
		}
		waited := time.Since(started)
		if n > 0 {
			// Effects that must not occur get twice the time.
			e.acts, e.settle = true, max(e.settle, 2*waited)
			return n, nil
		}
		if waited >= effectTimeout {
			return 0, nil
		}
		if err := pause(ctx, effectPoll); err != nil {
			return 0, err
		}
	}
}

// settled waits as long as the receiver may need for an effect, and returns how often it has acted
// on a check.
func (e *examination) settled(ctx context.Context, checkID string) (int, error) {
	if e.Probe.Effects == nil {
		return 0, errors.ErrUnsupported
	}
	if err := pause(ctx, max(e.settle, minSettle)); err != nil {
		return 0, err
	}
	return e.effects(ctx, checkID)
}
