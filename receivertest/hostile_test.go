package receivertest_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// TestExamine_HostileReceiver examines receivers that violate HTTP. The examination ends, and
// reports that valid messages are not accepted.
func TestExamine_HostileReceiver(t *testing.T) {
	t.Parallel()
	write := func(text string) func(net.Conn) {
		return func(c net.Conn) { io.WriteString(c, text) }
	}
	tests := []struct {
		name  string
		serve func(net.Conn)
		want  string
	}{
		{"closes at once", func(net.Conn) {}, "the receiver closed the connection without a response"},
		{"garbage", write("SSH-2.0-OpenSSH_9.2\r\n"), "the response is not HTTP/1.1"},
		{"half a header", write("HTTP/1.1 204 No Content\r\nA: b"), "the response is not HTTP/1.1"},
		{"endless header", func(c net.Conn) { endless(c, "HTTP/1.1 200 OK\r\n", "A: b\r\n") }, "the response is not HTTP/1.1"},
		{"endless informational responses", func(c net.Conn) { endless(c, "", "HTTP/1.1 102 Processing\r\n\r\n") }, "the response is not HTTP/1.1"},
		{"control characters", write("HTTP/1.1 400 Bad Request\r\nContent-Length: 10\r\n\r\n\x1b[31m\x00\x01]]>"), `the body is "\x1b[31m\x00\x01]]>"`},
		{"switching protocols", write("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "response 101"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			report := examine(t, receivertest.Receiver{Keys: newKeys(t), URL: callbackURL, Addr: "http://" + serveRaw(t, test.serve), Strict: true})

			wantFinding(t, report, "callback/valid", receivertest.ResultFail, test.want)
			var b bytes.Buffer
			noError(t, report.WriteJUnit(&b))
			if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
				t.Errorf("JUnit: %v", err)
			}
		})
	}
}

// endless writes first, and then text until the connection is closed.
func endless(c net.Conn, first, text string) {
	io.WriteString(c, first)
	text = strings.Repeat(text, 10_000) // the limit of the receiver's response is reached at once
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

// serveRaw accepts connections until the test ends, reads the beginning of a request and calls
// serve. It returns the address.
func serveRaw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 16<<10))
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// TestExamine_EndlessBody examines a receiver whose responses are complete except for the body.
func TestExamine_EndlessBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		endlessBody := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNoContent - 4)
			for r.Context().Err() == nil {
				io.WriteString(w, "a")
				http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond) // of the bubble's clock, so that the time limit is reached
			}
		})

		report := examine(t, receivertest.Receiver{Keys: newKeys(t), URL: callbackURL, Handler: endlessBody, Only: []string{"callback/no-authorization"}})

		if got := failures(report); got != "no-authorization" {
			t.Errorf("failed rules = %q, want no-authorization", got)
		}
	})
}

// TestExamine_BusyMachine delays an invalid message until its date is too old. The receiver rejects
// it for this reason only, which must not hide the receiver's mistake.
func TestExamine_BusyMachine(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rule, fault, backendFault string
		delayed                   int // number of the message: the first one is valid
	}{
		{"callback/changed-match", noDigest, "", 2},
		{"callback/replay", noReplayStore, actsOnDuplicates, 3},
	} {
		bubble(t, row.rule, func(t *testing.T) {
			r := handmadeReceiver(t, row.fault)
			h := r.Handler.(*handmade)
			h.backend.fault = row.backendFault
			messages := 0
			r.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if messages++; messages == row.delayed {
					time.Sleep(6 * time.Second) // of the bubble's clock: a date is valid for 5 s
				}
				h.ServeHTTP(w, r)
			})
			r.Only = []string{row.rule}

			wantFinding(t, examine(t, r), row.rule, receivertest.ResultFail, "")
		})
	}
}

func TestExamine_PanickingHandler(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"panic":  func(http.ResponseWriter, *http.Request) { panic("secret") },
		"Goexit": func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
	} {
		bubble(t, name, func(t *testing.T) {
			report := examine(t, receivertest.Receiver{Keys: newKeys(t), URL: callbackURL, Handler: handler})

			if f := report.Findings[0]; f.Result != receivertest.ResultFail || !strings.Contains(f.Detail, "closed the connection") || f.Causes[0].Code != receivertest.CauseConnection {
				t.Errorf("%s: %s, %q, want the closed connection", f.Rule, f.Result, f.Detail)
			}
		})
	}
}

// TestExamine_Canceled cancels examinations while the receiver hangs. In the bubble, the test fails
// if a goroutine remains.
func TestExamine_Canceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		started := time.Now()

		_, err := receivertest.Examine(ctx, receivertest.Receiver{Keys: newKeys(t), URL: callbackURL, Handler: hangs})

		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want DeadlineExceeded", err)
		}
		if waited := time.Since(started); waited != 3*time.Second {
			t.Errorf("returned after %v, want 3s", waited)
		}
	})
}

// TestExamine_CanceledRestores cancels an examination in which the key set fails and the store
// hangs.
func TestExamine_CanceledRestores(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"callback/slow-store", "callback/key-set-hangs"} {
		bubble(t, rule, func(t *testing.T) {
			r := handmadeReceiver(t, hangsWithStore)
			r.Only = []string{rule}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			restored := false
			slowStore := r.Probe.SlowStore
			r.Probe.SlowStore = func(ctx context.Context, slow bool) error {
				restored = !slow && ctx.Err() == nil
				return slowStore(ctx, slow)
			}

			_, err := receivertest.Examine(ctx, r)

			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("error = %v, want DeadlineExceeded", err)
			}
			if rule == "callback/slow-store" && !restored {
				t.Error("the store still hangs")
			}
			resp := must(r.Keys.Client().Get(r.Keys.URL()))(t)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("key set: status %d, want 200", resp.StatusCode)
			}
		})
	}
}

// TestExamine_LeavesNoGoroutine examines a receiver that does not read a large body. net/http keeps
// such a connection for a moment. In the bubble, the test fails if a goroutine remains.
func TestExamine_LeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rejectsAtOnce := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1<<20 {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}
		})

		report := examine(t, receivertest.Receiver{Keys: newKeys(t), URL: callbackURL, Handler: rejectsAtOnce, Only: []string{"callback/body-of-10-mib"}})

		wantAllPassed(t, report, 2)
	})
}
