package sandboxfake

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/idverify/idverify-go"
)

// deliveryRule is a row of deliveryRules. It determines the result of an attempt from the status of
// the response.
type deliveryRule struct {
	from, to int // statuses
	result   AttemptResult
	retry    bool
}

// deliveryRules is the table of delivery rules.
var deliveryRules = []deliveryRule{
	{200, 299, ResultAcknowledged, false},
	{300, 399, ResultRejected, false},
	{400, 499, ResultRejected, false},
	{500, 599, ResultFailed, true},
}

// Maximum number of delivery attempts, and timeout of each attempt.
const (
	maxAttempts     = 6
	deliveryTimeout = 10 * time.Second
)

// retryWait returns the delay before the next attempt, after the given number of attempts.
func retryWait(attempts int) time.Duration { return time.Duration(attempts) * 10 * time.Second }

// maxInFlight is the maximum number of attempts in flight. Each uses a goroutine and a connection.
// Further attempts that become due wait.
const maxInFlight = 64

// delivery is a Delivery that may still change. The service's mutex guards it.
type delivery struct {
	Delivery
	project  *project
	dated    string    // key of messageDates: the check, or without one the delivery that this one repeats
	revision uint64    // revision of the service at the last change
	queued   time.Time // on the server's clock
	due      time.Time // of the attempt that is in flight, or waits for others in flight
	inFlight bool
}

// queueCallback queues the callback of a check that has ended, if it has a callback URL.
func (s *service) queueCallback(ck *check) {
	target := s.callbackURL(ck)
	if target == "" {
		return
	}
	s.queueDelivery(&delivery{project: ck.project, Delivery: Delivery{
		CheckID:     ck.id,
		ReferenceID: ck.referenceID,
		Product:     idverify.Product(ck.product.name),
		Status:      idverify.CheckStatus(ck.status),
		ProjectID:   ck.project.id,
		URL:         target,
		Body:        callbackBody(ck),
	}})
}

// callbackURL returns the URL for the callback of a check, or "" for none.
func (s *service) callbackURL(ck *check) string {
	switch {
	case !ck.product.callbacks:
		return ""
	case ck.callbackURL != "":
		return ck.callbackURL
	}
	return ck.project.callbackFor(ck.product.name)
}

// callbackFor returns the project's callback URL for a product, or "".
func (p *project) callbackFor(product string) string {
	if url := p.products[product].callbackURL; url != "" {
		return url
	}
	return p.callbackURL
}

// queueDelivery sets the ID of d and queues its first attempt.
func (s *service) queueDelivery(d *delivery) {
	d.ID = s.ids.uuid("delivery", d.project.id, &d.project.counter)
	d.dated = cmp.Or(d.dated, d.CheckID, d.ID)
	d.queued = s.clock.Now()
	s.noteDelivery(d, s.deliveries.add(d))
	s.recent.add(recent{kind: recentQueued, at: d.queued, cause: s.performing, ref: d})
	s.queueAttempt(d, s.clock.Now())
}

// queueAttempt queues the next attempt of d.
func (s *service) queueAttempt(d *delivery, due time.Time) {
	d.NextAttempt = due
	s.markChanged(d)
	s.clock.Schedule(due, func() { s.startAttempt(d) })
}

// markChanged updates the revision of d and wakes the callers that wait for a change.
func (s *service) markChanged(d *delivery) {
	s.noteChange()
	d.revision = s.revision
}

// startAttempt starts the next attempt of d. If maxInFlight attempts are in flight, it adds d to
// the waiting deliveries.
func (s *service) startAttempt(d *delivery) {
	d.NextAttempt, d.due = time.Time{}, s.clock.Now()
	s.markChanged(d)
	if s.inFlight == maxInFlight {
		s.waiting = append(s.waiting, d)
		return
	}
	s.inFlight++
	d.inFlight = true
	fault := s.takeFault(OperationCallback, d.project, d.project.workspace, d.CheckID)
	attempt := Attempt{Time: s.clock.Now(), Fault: fault}
	n := len(d.Attempts) + 1
	s.running.Go(func() {
		started := time.Now()
		s.deliver(d, &attempt)
		s.opts.log.attempt(d, n, attempt, time.Since(started))
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ended == nil {
			s.settle(d, attempt)
		}
	})
}

// settle records an attempt that has ended. If deliveryRules allow a retry, it queues the next
// attempt.
func (s *service) settle(d *delivery, attempt Attempt) {
	s.inFlight--
	d.inFlight = false
	d.Attempts = append(d.Attempts, attempt)
	s.recent.add(recent{kind: recentAttempt, at: s.clock.Now(), number: len(d.Attempts), ref: d})
	d.Done = true
	s.markChanged(d)
	if ruleFor(attempt.Status).retry && len(d.Attempts) < maxAttempts {
		d.Done = false
		s.queueAttempt(d, s.clock.Now().Add(retryWait(len(d.Attempts))))
	}
	if len(s.waiting) > 0 {
		next := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.startAttempt(next)
	}
	s.runDue()
}

// deliver makes one attempt and stores the result in attempt. The mutex is not held.
func (s *service) deliver(d *delivery, attempt *Attempt) {
	timeout := deliveryTimeout
	var latency time.Duration
	if attempt.Fault != nil && attempt.Fault.Latency > 0 {
		latency = min(attempt.Fault.Latency, timeout)
		wait(s.ctx, latency)
		timeout -= latency
	}
	request, err := s.signedCallback(d, attempt.Fault)
	if err != nil {
		attempt.Result, attempt.Error = ResultUnreachable, "the callback could not be created"
		return
	}
	attempt.Header = request.Header
	// Start the timeout here, so that it does not include the wait for a date.
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	request = request.WithContext(ctx)
	sent := time.Now()
	status, err := s.send(request, attempt.Fault)
	attempt.Duration = latency + time.Since(sent)
	switch {
	case err == nil:
		attempt.Status = status
		attempt.Result = ruleFor(status).result
	case isTimeout(err):
		attempt.Result, attempt.Error = ResultTimedOut, fmt.Sprintf("no response within %v", deliveryTimeout)
	default:
		attempt.Result, attempt.Error = ResultUnreachable, unreachableCause+rootCause(err)
	}
}

// unreachableCause is the beginning of the error of an attempt whose connection failed or was lost.
const unreachableCause = "the connection failed or was lost: "

// send sends a callback, unless a fault drops or replaces it, and returns the status of the
// response.
func (s *service) send(request *http.Request, fault *Fault) (status int, err error) {
	switch {
	case request.Context().Err() != nil:
		return 0, request.Context().Err()
	case fault != nil && fault.Drop:
		return 0, errDropped
	case fault != nil && fault.Status != 0:
		return fault.Status, nil
	}
	transport := s.transport
	if fault != nil && fault.Truncate {
		transport = unbuffered(transport)
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	// Read short responses to the end, so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	return response.StatusCode, nil
}

// unbuffered returns a copy of transport without a write buffer. With a buffer, a request with a
// truncated body would not be sent at all.
func unbuffered(transport *http.Transport) *http.Transport {
	transport = transport.Clone()
	transport.WriteBufferSize, transport.DisableKeepAlives = 1, true
	return transport
}

// isTimeout reports whether err is a timeout of the delivery or of a lower layer, such as TLS.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

var errDropped = errors.New("dropped by an injected fault")

// signedCallback returns the request of one attempt, with its own date and signature.
func (s *service) signedCallback(d *delivery, fault *Fault) (*http.Request, error) {
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, d.URL, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "sandboxfake")
	request.Header.Set(s.opts.callbackHeader, string(d.Product))
	s.mu.Lock()
	key, err := s.keys.signingUnder(fault)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	signer, err := s.signer(s.ctx, d.dated, false, key)
	if err != nil {
		return nil, err
	}
	if err := signer.SignCallback(request, d.Body); err != nil {
		return nil, err
	}
	if fault != nil && (fault.Truncate || fault.Body != "") {
		sent := fault.sent(d.Body)
		request.Body, request.GetBody = io.NopCloser(bytes.NewReader(sent)), nil
		if !fault.Truncate { // otherwise Content-Length remains the length of the complete body
			request.ContentLength = int64(len(sent))
		}
	}
	return request, nil
}

// sent returns the part of a callback's body that is sent, or the body that replaces it. f may be
// nil.
func (f *Fault) sent(body []byte) []byte {
	switch {
	case f == nil:
		return body
	case f.Truncate:
		return body[:len(body)/2]
	case f.Body != "" && f.Status == 0:
		return []byte(f.Body)
	}
	return body
}

// ruleFor returns the rule for a status. Statuses outside the table, including 0 for no response,
// are not retried.
func ruleFor(status int) deliveryRule {
	for _, rule := range deliveryRules {
		if rule.from <= status && status <= rule.to {
			return rule
		}
	}
	return deliveryRule{result: ResultRejected}
}

// rootCause returns the text of the innermost error. The outer errors of net and net/url contain
// the address, which may contain a secret of the receiver.
func rootCause(err error) string {
	if dnsErr, ok := errors.AsType[*net.DNSError](err); ok {
		return "host lookup failed: " + dnsErr.Err
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another host"
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "closed by the receiver before the response was complete"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
