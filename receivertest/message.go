package receivertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
)

// request is a message with the headers that the user added.
type request struct {
	message *attack.Message
	header  http.Header // its values may be secret
	date    time.Time
	checkID string
}

// bytes returns the request as it is sent.
func (r request) bytes() []byte {
	m := r.message.Clone()
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		for _, value := range r.header[name] {
			m.Add(name, value)
		}
	}
	return m.Bytes()
}

// attempt is a request and its response.
type attempt struct {
	request
	response
}

// Products of checks, the values of the callback header.
const (
	phoneCheck      = "phone_check"
	subscriberCheck = "subscriber_check"
)

// subject is a check, and the session of the user that started it.
type subject struct {
	checkID string
	known   bool // the backend has created the check
	header  http.Header
}

// newSubject returns a new check, which the backend knows if the Probe allows that.
func (e *examination) newSubject(ctx context.Context, product string) (subject, error) {
	s := subject{checkID: newCheckID(), header: e.Header}
	if e.Kind == KindRedirect && e.Probe.Session != nil {
		session, err := e.probeSession(ctx)
		if err == nil {
			s.checkID, s.known = session.CheckID, true
			s.header = maps.Clone(e.Header)
			if s.header == nil {
				s.header = make(http.Header)
			}
			maps.Copy(s.header, session.Header)
		}
		if !unsupported(err) {
			return s, err
		}
	}
	if e.Probe.Created != nil {
		err := e.probeCreated(ctx, Check{CheckID: s.checkID, Product: product})
		if !unsupported(err) {
			s.known = err == nil
			return s, err
		}
	}
	return s, nil
}

// setup returns the values of a valid message about s.
func (e *examination) setup(s subject) attack.Setup {
	setup := attack.Setup{
		URL: e.address.url, KeyID: keyIDOf(&e.Keys.signing.PublicKey), Key: e.Keys.signing, Unpublished: e.Keys.unpublished,
		Now: e.Now(), CheckID: s.checkID,
		CallbackHeader: e.CallbackHeader, Base64Digest: e.Base64Digest,
	}
	if !s.known {
		// A receiver asks the service to send a callback about a new check again, because it may not
		// have stored the check yet.
		setup.Created = setup.Now.Add(-time.Hour)
	}
	return setup
}

// signed returns the valid message of a setup.
func (e *examination) signed(s attack.Setup) *attack.Message {
	m := s.Callback()
	if e.Kind == KindRedirect {
		m = s.Redirect()
	}
	m.Sign()
	return m
}

// send sends a message about s.
func (e *examination) send(ctx context.Context, m *attack.Message, s subject, date time.Time) (attempt, error) {
	r := request{message: m, header: s.header, date: date, checkID: s.checkID}
	resp, err := e.sender.send(ctx, m.Method, r.bytes())
	resp.secrets = secretsOf(e.Header, s.header)
	return attempt{r, resp}, err
}

// sendValid sends a valid message about s. change, which may be nil, changes its values. If the
// receiver limits the rate, sendValid waits.
func (e *examination) sendValid(ctx context.Context, s subject, change func(*attack.Setup)) (attempt, error) {
	build := func(setup attack.Setup) *attack.Message {
		if change != nil {
			change(&setup)
		}
		return e.signed(setup)
	}
	limited := func(r response) bool { return r.status == http.StatusTooManyRequests }
	return e.sendWhile(ctx, s, build, limited, maxRecovery)
}

// sendPatiently is like sendValid, but also sends the message again after a 503, as the service
// does. Use it for messages that a correct receiver accepts in the end.
func (e *examination) sendPatiently(ctx context.Context, s subject, build func(attack.Setup) *attack.Message) (attempt, error) {
	busy := func(r response) bool {
		return r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
	}
	return e.sendWhile(ctx, s, build, busy, busyPatience)
}

// busyPatience is how long a receiver may respond with 503 to valid messages.
const busyPatience = 10 * time.Second

// sendWhile sends messages about s while again reports true for the response, at most for limit.
func (e *examination) sendWhile(ctx context.Context, s subject, build func(attack.Setup) *attack.Message, again func(response) bool, limit time.Duration) (attempt, error) {
	for waited := time.Duration(0); ; {
		a, err := e.sendInTime(ctx, s, build)
		wait := retryAfter(a.response)
		if err != nil || a.failure != responded || !again(a.response) || waited+wait > limit {
			return a, err
		}
		if err := pause(ctx, wait); err != nil {
			return a, err
		}
		waited += wait
	}
}

// maxDelay is the time until a response after which a rejection may be due to a slow machine:
// receivers accept the date of a message for 5 s.
const maxDelay = 3 * time.Second

// sendInTime sends a message about s. If the receiver rejects it late, and not because of the key
// set, sendInTime sends it again with a new date.
func (e *examination) sendInTime(ctx context.Context, s subject, build func(attack.Setup) *attack.Message) (a attempt, err error) {
	for range 3 {
		started := time.Now()
		setup := e.setup(s)
		a, err = e.send(ctx, build(setup), s, setup.Now)
		if err != nil || !e.rejected(a) || time.Since(started) < maxDelay || e.Keys.failing() {
			break
		}
	}
	return a, err
}

// retryAfter returns the Retry-After of a response, from one second to a minute.
func retryAfter(r response) time.Duration {
	seconds, _ := strconv.Atoi(r.header.Get("Retry-After"))
	return time.Duration(min(max(seconds, 1), 60)) * time.Second
}

// newCheckID returns a random UUID.
func newCheckID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// productOf returns the product of a variant.
func productOf(v attack.Variant) string { return cmp.Or(v.Product, phoneCheck) }
