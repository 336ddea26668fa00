package browser

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

// receiver is a server for callbacks and redirects that verifies them as a backend would.
type receiver struct {
	url         string // for callbacks
	redirectURL string
	origin      string
	got         chan message
}

// message is a callback or redirect that a receiver got.
type message struct {
	callback *idverify.Callback // nil if it was rejected or its body is not a check
	message  *signature.Message // nil if it was rejected
	err      error              // why it was rejected
}

// newReceiver starts a receiver of messages of p that runs until the test ends.
func newReceiver(t *testing.T, p *program) *receiver {
	t.Helper()
	keys := must(p.client(idverify.WithHTTPClient(tooltest.WithoutDeadlines(p.http))).NewJWKS(nil))(t)
	// With a large clock skew, a copy of a callback is rejected as a replay, however late it arrives.
	verifier := must(signature.NewVerifier(keys, []string{"127.0.0.1:*"}, &signature.VerifierOptions{
		ClockSkew: time.Hour,
		Replay:    signature.NewMemoryReplayStore(0),
	}))(t)
	r := &receiver{got: make(chan message, 64)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /callbacks", func(w http.ResponseWriter, request *http.Request) {
		verified, err := verifier.VerifyCallback(request)
		if err != nil {
			r.got <- message{err: err}
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		parsed, _ := idverify.ParseCallback(verified)
		r.got <- message{callback: parsed, message: verified}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /back", func(w http.ResponseWriter, request *http.Request) {
		verified, err := verifier.VerifyRedirect(request)
		r.got <- message{message: verified, err: err}
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<!doctype html><title>shop</title><link rel=icon href=data:,><h1>Back in the shop</h1>"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.origin, r.url, r.redirectURL = server.URL, server.URL+"/callbacks", server.URL+"/back"
	return r
}

// next waits for the next message.
func (r *receiver) next(t *testing.T) message {
	t.Helper()
	select {
	case m := <-r.got:
		return m
	case <-time.After(timeout):
		t.Fatal("no message arrived")
		return message{}
	}
}

// nextVerified waits for the next callback and fails the test if it was rejected.
func (r *receiver) nextVerified(t *testing.T) *idverify.Callback {
	t.Helper()
	m := r.next(t)
	if m.callback == nil {
		t.Fatalf("callback rejected: %v, want a verified check", m.err)
	}
	return m.callback
}

// none fails the test if a message arrived. Call it when nothing is in flight.
func (r *receiver) none(t *testing.T) {
	t.Helper()
	select {
	case m := <-r.got:
		t.Errorf("a message arrived: %+v", m)
	default:
	}
}
