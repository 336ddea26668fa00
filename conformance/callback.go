package conformance

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// awaitCallback ends a check of a number that ends so, and waits for its callback. It returns the URL that it was sent to.
func (r *run) awaitCallback(ctx context.Context, p product, suffix string) (m *message, check object, target string, err error) {
	box := r.config.Receiver.open(http.StatusNoContent)
	defer box.close()
	if check, err = r.start(ctx, p, suffix, box.url); err != nil {
		return nil, nil, "", err
	}
	if _, _, err = r.open(ctx, check, ""); err != nil {
		return nil, nil, "", err
	}
	m, err = box.first(ctx, r.config.Patience)
	return m, check, box.url, err
}

// aCallback is that of a PhoneCheck, for an expectation about what is in it, which rests on its coming.
func (r *run) requireCallback(ctx context.Context) (m *message, check object, target string, err error) {
	m, check, target, err = r.awaitCallback(ctx, phoneCheck, "02")
	if err != nil && !errors.Is(err, errCharged) {
		err = blocked{callbackExpectation}
	}
	return m, check, target, err
}

func (r *run) sendsCallback(ctx context.Context) error {
	m, _, _, err := r.awaitCallback(ctx, phoneCheck, "02")
	if err != nil {
		return err
	}
	if m.method != http.MethodPost {
		return fmt.Errorf("its method is %s", redact(m.method))
	}
	return nil
}

func (r *run) callbackPayload(ctx context.Context) error {
	m, check, _, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	return validatePayload(m, check, object{"status": "COMPLETED", "match": true})
}

// judgePayload judges the body of a callback (section 6).
func validatePayload(m *message, check, want object) error {
	payload, err := parseObject(m.body)
	if err != nil {
		return err
	}
	if err := payload.validateCheck(); err != nil {
		return err
	}
	if payload["check_id"] != check["check_id"] {
		return errors.New("check_id is that of another check")
	}
	return payload.want(want)
}

func (r *run) callbackHeaders(ctx context.Context) error {
	m, _, _, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	if media, _, _ := mime.ParseMediaType(m.header.Get("Content-Type")); media != mediaJSON {
		return errors.New("the Content-Type is not application/json")
	}
	if _, err := http.ParseTime(m.header.Get("Date")); err != nil {
		return errors.New("the Date is missing or cannot be read")
	}
	if m.header.Get("Digest") == "" {
		return errors.New("the Digest is missing")
	}
	if m.header.Get("Content-Length") != strconv.Itoa(len(m.body)) {
		return errors.New("the Content-Length is missing or is not that of the body")
	}
	if kind := m.header.Get(callbackHeader); kind != phoneCheck.scope {
		return fmt.Errorf("%s is %s, not %q", callbackHeader, redact(kind), phoneCheck.scope)
	}
	return nil
}

func (r *run) callbackSignature(ctx context.Context) error {
	m, _, target, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	return r.verifyCallback(ctx, target, m)
}

func (r *run) callbackDigest(ctx context.Context) error {
	m, _, _, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	return validateDigest(m.header.Get("Digest"), m.body)
}

// callbackOf judges the callback of a check of a number that ends so.
func callbackOf(p product, suffix string, want object) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		m, check, _, err := r.awaitCallback(ctx, p, suffix)
		if err != nil {
			return err
		}
		if kind := m.header.Get(callbackHeader); kind != p.scope {
			return fmt.Errorf("%s is %s, not %q", callbackHeader, redact(kind), p.scope)
		}
		return validatePayload(m, check, want)
	}
}

// retryWindow is the time in which all tries of a callback are over.
const retryWindow = 10 * time.Minute

// tries judges how often a callback is tried that is answered with status (section 6, "Delivery rules").
func attempts(status, atLeast, atMost int) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		box := r.config.Receiver.open(status)
		defer box.close()
		check, err := r.start(ctx, phoneCheck, "02", box.url)
		if err != nil {
			return err
		}
		if _, _, err := r.open(ctx, check, ""); err != nil {
			return err
		}
		if _, err := box.first(ctx, r.config.Patience); err != nil {
			return blocked{callbackExpectation}
		}
		if err := r.advance(ctx, retryWindow); err != nil {
			return err
		}
		messages, _ := box.all()
		if len(messages) < atLeast || len(messages) > atMost {
			return fmt.Errorf("it was tried %d times in %v, not %d to %d times", len(messages), retryWindow, atLeast, atMost)
		}
		if atMost == 1 {
			return nil
		}
		for i, m := range messages {
			if err := r.verifyCallback(ctx, box.url, m); err != nil {
				return fmt.Errorf("try %d: %w", i+1, err)
			}
		}
		return nil
	}
}

// checkLifetime is longer than a check may wait for its Check URL to be opened.
const checkLifetime = 121 * time.Second

func (r *run) expires(ctx context.Context) error {
	box := r.config.Receiver.open(http.StatusNoContent)
	defer box.close()
	check, err := r.start(ctx, phoneCheck, "02", box.url)
	if err != nil {
		return err
	}
	if err := r.advance(ctx, checkLifetime); err != nil {
		return err
	}
	m, err := box.first(ctx, r.config.Patience)
	if err != nil {
		return err
	}
	if err := validatePayload(m, check, object{"status": "EXPIRED"}); err != nil {
		return err
	}
	_, end, err := r.awaitResult(ctx, phoneCheck, check)
	if err == nil && end != nil {
		return errors.New("the expired check can still be read")
	}
	return err
}
