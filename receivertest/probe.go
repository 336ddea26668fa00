package receivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Probe observes and controls the backend of a receiver. Each part is optional: a rule that needs a
// missing part is not applicable. A part that returns an error matching [errors.ErrUnsupported] is
// missing too; any other error ends the examination.
type Probe struct {
	// Created stores a check in the backend, as one that the backend has created. It is called before
	// the messages about the check. Without it, messages are about checks that the backend does not
	// know, created an hour ago.
	Created func(ctx context.Context, check Check) error

	// Effects returns how often the backend acted on a check, for example the number of sign-ins that
	// it completed. An effect may occur after the response, within a few seconds.
	Effects func(ctx context.Context, checkID string) (int, error)

	// SlowStore makes the receiver's store hang if slow is true, and makes it work again if slow is
	// false.
	SlowStore func(ctx context.Context, slow bool) error

	// Session starts a check for a new session of a user. It is used for redirects only. Created is
	// not called for its check.
	Session func(ctx context.Context) (Session, error)
}

// Check is a check for Probe.Created.
type Check struct {
	CheckID string // a random UUID
	Product string // "phone_check" or "subscriber_check"
}

// Session is a session of a user that has just started a check.
type Session struct {
	CheckID string

	// Header is that of the user's browser, for example the Cookie of the session. It must not
	// contain a field of the message, such as Host. Packages fmt and slog print the session without
	// it.
	Header http.Header
}

// Format implements [fmt.Formatter]. It omits Header.
func (s Session) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), s.withoutHeader())
}

// LogValue implements [slog.LogValuer]. It omits Header.
func (s Session) LogValue() slog.Value { return slog.AnyValue(s.withoutHeader()) }

// withoutHeader returns s without Header and without methods.
func (s Session) withoutHeader() any {
	type session Session
	s.Header = nil
	return session(s)
}

// HTTPProbe returns a Probe that sends requests to an endpoint of the backend:
//
//	GET  url?check_id=ID                 Effects: the response is a decimal number
//	PUT  url?check_id=ID&product=PRODUCT Created
//	POST url?store=slow                  SlowStore: the store hangs
//	POST url?store=ok                    SlowStore: the store works again
//	POST url?session                     Session: the response is JSON, {"check_id": "…", "header": {"Cookie": "…"}}
//
// Responses must be 2XX. A response 404, 405 or 501 means that this part of the probe is missing.
// The endpoint must exist in test builds only. If client is nil, http.DefaultClient is used.
func HTTPProbe(url string, client *http.Client) Probe {
	if client == nil {
		client = http.DefaultClient
	}
	p := httpProbe{url, client}
	return Probe{Created: p.created, Effects: p.effects, SlowStore: p.slowStore, Session: p.session}
}

type httpProbe struct {
	url    string
	client *http.Client
}

// maxProbeBody is the maximum size of a response to a probe, in bytes.
const maxProbeBody = 64 << 10

// do sends a request and returns the body of the response. Its errors name the request, without
// IDs.
func (p httpProbe) do(ctx context.Context, method string, query url.Values) ([]byte, error) {
	body, err := p.send(ctx, method, query)
	if err != nil {
		names := slices.Sorted(maps.Keys(query))
		return nil, fmt.Errorf("%s with %s: %w", method, strings.Join(names, " and "), err)
	}
	return body, nil
}

func (p httpProbe) send(ctx context.Context, method string, query url.Values) ([]byte, error) {
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, errors.New("invalid URL of the probe")
	}
	q := u.Query()
	maps.Copy(q, query)
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, errors.New("invalid URL of the probe")
	}
	// An HTTP client does not repeat a PUT if the server closes an idle connection at that moment, and
	// some servers do so after a few seconds.
	req.Close = true
	resp, err := p.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok { // without the URL
			err = e.Err
		}
		return nil, fmt.Errorf("no response: %s", connectionError(err))
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return nil, fmt.Errorf("probe rejected: response %d: %w", resp.StatusCode, errors.ErrUnsupported)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("response %d, want 2XX", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbeBody))
	if err != nil {
		return nil, errors.New("response is incomplete")
	}
	return body, nil
}

func (p httpProbe) created(ctx context.Context, c Check) error {
	_, err := p.do(ctx, http.MethodPut, url.Values{"check_id": {c.CheckID}, "product": {c.Product}})
	return err
}

func (p httpProbe) effects(ctx context.Context, checkID string) (int, error) {
	body, err := p.do(ctx, http.MethodGet, url.Values{"check_id": {checkID}})
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(body)))
	if err != nil || n < 0 {
		return 0, errors.New("GET with check_id: response is not a decimal number")
	}
	return n, nil
}

func (p httpProbe) slowStore(ctx context.Context, slow bool) error {
	state := "ok"
	if slow {
		state = "slow"
	}
	_, err := p.do(ctx, http.MethodPost, url.Values{"store": {state}})
	return err
}

func (p httpProbe) session(ctx context.Context) (Session, error) {
	body, err := p.do(ctx, http.MethodPost, url.Values{"session": {""}})
	if err != nil {
		return Session{}, err
	}
	var j struct {
		CheckID string            `json:"check_id"`
		Header  map[string]string `json:"header"`
	}
	if err := json.Unmarshal(body, &j); err != nil || j.CheckID == "" {
		return Session{}, errors.New(`POST with session: response is not JSON with "check_id" and "header"`)
	}
	s := Session{CheckID: j.CheckID, Header: make(http.Header)}
	for name, value := range j.Header {
		s.Header.Set(name, value)
	}
	return s, nil
}

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
