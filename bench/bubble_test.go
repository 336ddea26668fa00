package bench

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// TestBubble runs two hours of retries, key rotations and token expiry in a bubble. With the flag
// -bench, it also measures them and prints the results as benchmarks do, because a benchmark cannot
// start a bubble. The baseline is the RSA signatures alone that the service creates in that time.
func TestBubble(t *testing.T) {
	key := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	for _, rounds := range []int{2, 8} {
		run := func() error {
			synctest.Test(t, func(t *testing.T) { twoHours(t, rounds) })
			return nil
		}
		run()
		if flag.Lookup("test.bench").Value.String() == "" || t.Failed() {
			continue
		}
		result := testing.Benchmark(func(b *testing.B) {
			var times []time.Duration
			tooltest.CompareTimes(b, "x-signatures", sign(key, attempts*rounds), func() error {
				began := time.Now() // outside the bubble
				defer func() { times = append(times, time.Since(began)) }()
				return run()
			})
			slices.Sort(times)
			b.ReportMetric(times[len(times)/2].Seconds()*1000, "ms")
		})
		fmt.Printf("BenchmarkBubble/rounds=%d\t%s\n", rounds, result)
	}
}

// sign returns a function that signs n times.
func sign(key *rsa.PrivateKey, n int) func() error {
	var sum [sha256.Size]byte
	return func() error {
		for range n {
			if _, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:]); err != nil {
				return err
			}
		}
		return nil
	}
}

// attempts is the number of attempts of each callback.
const attempts = 2

// twoHours divides two hours into rounds. In each of them the keys rotate, a check is created, a
// read of it is retried, it expires, and its callback is retried.
func twoHours(t *testing.T, rounds int) {
	round := 2 * time.Hour / time.Duration(rounds)
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	client := srv.Client()
	began, received := time.Now(), 0
	callbacks := make(chan *idverify.Callback)
	url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(_ context.Context, c *idverify.Callback) error {
		if received++; received%attempts != 0 {
			return errors.New("database unavailable") // the service retries
		}
		callbacks <- c
		return nil
	}))

	for i := range rounds {
		srv.RotateKeys()
		check := must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url}))(t)
		srv.Inject(sandboxfake.Match{Operation: "phone_check.get"}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})
		must(client.PhoneChecks.Get(t.Context(), check.CheckID))(t)
		if c := <-callbacks; c.CheckID != check.CheckID || c.Status != idverify.StatusExpired {
			t.Errorf("callback of check %s with status %s, want %s, EXPIRED", c.CheckID, c.Status, check.CheckID)
		}
		time.Sleep(time.Until(began.Add(time.Duration(i+1) * round)))
	}

	if tokens := countTokens(srv); tokens < 2 {
		t.Errorf("%d tokens in two hours, want one per hour", tokens)
	}
	if received != attempts*rounds {
		t.Errorf("%d attempts of callbacks, want %d", received, attempts*rounds)
	}
}

func countTokens(srv *sandboxfake.Server) (n int) {
	for _, r := range srv.Requests() {
		if r.Operation == "token.create" {
			n++
		}
	}
	return n
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
