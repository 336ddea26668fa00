package sandboxfake_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// eventStream is an open stream of events.
type eventStream struct {
	body  io.ReadCloser
	close context.CancelFunc
	lines chan string // not empty lines; closed at the end of the stream
}

// event is a change in an eventStream.
type event struct{ generation, revision int }

// stream opens a stream of events. The response may be an error.
func (a *api) stream() (*http.Response, *eventStream) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	request := a.request(http.MethodGet, "/_sandbox/events", "").WithContext(ctx)
	request.Header = bearer(a.srv.ControlToken())
	response, err := a.srv.HTTPClient().Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	s := &eventStream{body: response.Body, close: cancel, lines: make(chan string, 1000)}
	a.t.Cleanup(func() {
		cancel()
		response.Body.Close()
	})
	if response.StatusCode != http.StatusOK {
		return response, s
	}
	go func() {
		defer close(s.lines)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			if scanner.Text() != "" {
				s.lines <- scanner.Text()
			}
		}
	}()
	return response, s
}

// next returns the next event. It fails the test if the next message is not an event.
func (s *eventStream) next(t *testing.T) event {
	t.Helper()
	name, data := <-s.lines, <-s.lines
	var e event
	if _, err := fmt.Sscanf(data, `data: {"generation":%d,"revision":%d}`, &e.generation, &e.revision); err != nil || name != "event: change" {
		t.Fatalf("message = %q %q, want an event", name, data)
	}
	return e
}

func TestServer_Events(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)

		response, stream := a.stream()
		first := stream.next(t)

		if response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("header = %v, want an event stream that is not cached", response.Header)
		}
		time.Sleep(time.Second) // after the minimum time between two events
		started := time.Now()
		a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{})
		if second := stream.next(t); second.revision <= first.revision || second.generation != first.generation {
			t.Errorf("events = %v, %v, want a greater revision of the same generation", first, second)
		}
		if waited := time.Since(started); waited > time.Second {
			t.Errorf("the event arrived after %v, want at most a second", waited)
		}
		a.srv.Reset()
		if third := stream.next(t); third.generation != first.generation+1 {
			t.Errorf("event after a reset = %v, want generation %d", third, first.generation+1)
		}
		a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{})
		if fourth := stream.next(t); fourth.generation != first.generation+1 {
			t.Errorf("event after a change after a reset = %v, want generation %d", fourth, first.generation+1)
		}
		a.srv.Close()
		if line, open := <-stream.lines; open {
			t.Errorf("message after Close = %q, want the end of the stream", line)
		}
	})
}

// Each kind of change causes an event, so that a page that reads again after each event is current.
func TestServer_EventsOfChanges(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name string
		do   func(a *api, checkID string, removeFault func())
	}{
		{"call of the service", func(a *api, _ string, _ func()) { a.get("/nothing") }},
		{"fault", func(a *api, _ string, _ func()) { a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{}) }},
		{"removal of a fault", func(_ *api, _ string, removeFault func()) { removeFault() }},
		{"removal of the faults", func(a *api, _ string, _ func()) { a.control(http.MethodDelete, "faults", "") }},
		{"expiry by request", func(a *api, id string, _ func()) { a.srv.Expire(id) }},
		{"new key", func(a *api, _ string, _ func()) { a.srv.RotateKeys() }},
		{"other dates", func(a *api, _ string, _ func()) { a.control(http.MethodPost, "dates", `{"clock":"system"}`) }},
		{"advance", func(a *api, _ string, _ func()) {
			if err := a.srv.Advance(a.t.Context(), time.Millisecond); err != nil {
				a.t.Error(err)
			}
		}},
		{"sign-up", func(a *api, _ string, _ func()) { a.srv.SignUp("Ada") }},
		{"expiry by the clock", func(*api, string, func()) { time.Sleep(3 * time.Minute) }},
	}
	for _, change := range changes {
		synctest.Test(t, func(t *testing.T) {
			a := newControlAPI(t)
			id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
			removeFault := a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{})
			_, stream := a.stream()
			before := stream.next(t)

			change.do(a, id, removeFault)

			time.Sleep(time.Second)
			var events []string
			for len(stream.lines) > 0 {
				if line := <-stream.lines; strings.HasPrefix(line, "data: ") {
					events = append(events, line)
				}
			}
			if len(events) == 0 {
				t.Errorf("%s: no event after revision %d", change.name, before.revision)
			}
		})
	}
}

func TestServer_EventsCoalesce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		_, stream := a.stream()
		stream.next(t)

		for range 200 { // 2 s
			a.get("/nothing")
			time.Sleep(10 * time.Millisecond)
		}

		time.Sleep(time.Second)
		n := len(stream.lines) / 2
		if n < 6 || n > 9 {
			t.Errorf("%d events for 200 changes in 2 s, want about 4 per second", n)
		}
		var last event
		for range n {
			last = stream.next(t)
		}
		if _, another := a.stream(); another.next(t) != last {
			t.Errorf("last event = %v, want the latest revision", last)
		}
	})
}

func TestServer_EventsPing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		_, stream := a.stream()
		stream.next(t)
		started := time.Now()

		first, second := <-stream.lines, <-stream.lines

		if first != ": ping" || second != ": ping" || time.Since(started) > 31*time.Second {
			t.Errorf("messages without a change = %q, %q after %v, want two pings in 30 s", first, second, time.Since(started))
		}
	})
}

func TestServer_EventsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		streams := make([]*eventStream, 32)
		for i := range streams {
			_, streams[i] = a.stream()
			streams[i].next(t)
		}

		response, over := a.stream()

		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("stream 33: %d %s, want a problem with 503", response.StatusCode, response.Header.Get("Content-Type"))
		}
		over.close()
		streams[0].close()
		synctest.Wait()
		if response, _ := a.stream(); response.StatusCode != http.StatusOK {
			t.Errorf("stream after another was closed: %d, want 200", response.StatusCode)
		}
	})
}

func TestServer_EventsHead(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)

	for range 40 { // more than the limit of streams
		if got := a.control(http.MethodHead, "events", ""); got.status != http.StatusOK || got.header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("HEAD = %d %s, want 200 without a stream", got.status, got.header.Get("Content-Type"))
		}
	}
}

// A client that stops reading must not keep one of the streams.
func TestServer_EventsToSlowClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		for range 32 {
			a.openWithoutReading()
		}
		synctest.Wait()

		for range 1500 { // fills the buffers of the connections
			a.srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{})
			time.Sleep(250 * time.Millisecond)
		}

		time.Sleep(time.Minute)
		if response, _ := a.stream(); response.StatusCode != http.StatusOK {
			t.Errorf("stream after 32 clients stopped reading: %d, want 200", response.StatusCode)
		}
	})
}

// openWithoutReading sends a request for events and does not read the response.
func (a *api) openWithoutReading() {
	a.t.Helper()
	conn, host := a.dial()
	if _, err := fmt.Fprintf(conn, "GET /_sandbox/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, a.srv.ControlToken()); err != nil {
		a.t.Fatal(err)
	}
}

// dial connects to an in-memory server. It also returns the server's host.
func (a *api) dial() (conn *tls.Conn, hostname string) {
	a.t.Helper()
	transport := a.srv.HTTPClient().Transport.(*http.Transport)
	host, err := url.Parse(a.srv.URL())
	if err != nil {
		a.t.Fatal(err)
	}
	plain, err := transport.DialContext(a.t.Context(), "tcp", host.Host+":443")
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { plain.Close() })
	config := transport.TLSClientConfig.Clone()
	config.ServerName = host.Host
	return tls.Client(plain, config), host.Host
}
