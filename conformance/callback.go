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

// awaitCallback creates a check for a phone number that ends in suffix, opens its Check URL and
// waits for the callback. target is the URL to which the callback was sent.
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

// requireCallback returns a PhoneCheck callback for an expectation that inspects its contents. If
// none arrives, the error is blocked{callbackExpectation}.
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
		return fmt.Errorf("method is %s, want POST", redact(m.method))
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

// validatePayload checks that the body of a callback describes check and has the wanted fields.
func validatePayload(m *message, check, want object) error {
	payload, err := parseObject(m.body)
	if err != nil {
		return err
	}
	if err := payload.validateCheck(); err != nil {
		return err
	}
	if payload["check_id"] != check["check_id"] {
		return errors.New("check_id does not match the check")
	}
	return payload.want(want)
}

func (r *run) callbackHeaders(ctx context.Context) error {
	m, _, _, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	if media, _, _ := mime.ParseMediaType(m.header.Get("Content-Type")); media != mediaJSON {
		return errors.New("Content-Type is not application/json")
	}
	if _, err := http.ParseTime(m.header.Get("Date")); err != nil {
		return errors.New("header Date is missing or invalid")
	}
	if m.header.Get("Digest") == "" {
		return errors.New("header Digest is missing")
	}
	if m.header.Get("Content-Length") != strconv.Itoa(len(m.body)) {
		return errors.New("Content-Length is missing or does not match the body")
	}
	if kind := m.header.Get(callbackHeader); kind != phoneCheck.scope {
		return fmt.Errorf("%s is %s, want %q", callbackHeader, redact(kind), phoneCheck.scope)
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

// callbackOf tests the callback for a check whose phone number ends in suffix.
func callbackOf(p product, suffix string, want object) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		m, check, _, err := r.awaitCallback(ctx, p, suffix)
		if err != nil {
			return err
		}
		if kind := m.header.Get(callbackHeader); kind != p.scope {
			return fmt.Errorf("%s is %s, want %q", callbackHeader, redact(kind), p.scope)
		}
		return validatePayload(m, check, want)
	}
}

// retryWindow is long enough for all attempts of a delivery.
const retryWindow = 10 * time.Minute

// attempts tests how many attempts the service makes when the receiver responds with status. If
// several are allowed, it also verifies the signature of each.
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
			return fmt.Errorf("got %d attempts in %v, want %d to %d", len(messages), retryWindow, atLeast, atMost)
		}
		if atMost == 1 {
			return nil
		}
		for i, m := range messages {
			if err := r.verifyCallback(ctx, box.url, m); err != nil {
				return fmt.Errorf("attempt %d: %w", i+1, err)
			}
		}
		return nil
	}
}

// checkLifetime is longer than the time after which an unopened check expires.
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
