package receivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	ID      string // a random UUID
	Product string // "phone_check" or "subscriber_check"
}

// Session is a session of a user that has just started a check.
type Session struct {
	CheckID string

	// Header is that of the user's browser, for example the Cookie of the session. It must not
	// contain a field of the message, such as Host.
	Header http.Header
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
		return nil, fmt.Errorf("response %d: %w", resp.StatusCode, errors.ErrUnsupported)
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
	_, err := p.do(ctx, http.MethodPut, url.Values{"check_id": {c.ID}, "product": {c.Product}})
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
