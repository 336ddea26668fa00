package sandboxfake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// testExpiredCheckCallback is a complete test in a bubble: client, callbacks, expiry and
// redelivery. Its three minutes pass immediately. In your test file, its name starts with Test.
func testExpiredCheckCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		client := srv.Client()
		began := time.Now()
		callbacks := make(chan *idverify.Callback, 1)
		attempts := 0
		url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(_ context.Context, c *idverify.Callback) error {
			if attempts++; attempts < 3 {
				return errors.New("database unavailable") // the service retries
			}
			callbacks <- c
			return nil
		}))
		check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url})
		if err != nil {
			t.Fatal(err)
		}

		c := <-callbacks // nobody opens the Check URL

		if c.CheckID != check.CheckID || c.Status != idverify.StatusExpired {
			t.Errorf("callback status = %s, want EXPIRED", c.Status)
		}
		if waited := time.Since(began); waited != 120*time.Second+10*time.Second+20*time.Second {
			t.Errorf("acknowledged after %v, want the TTL and two retry waits", waited)
		}
		if _, err := client.PhoneChecks.Get(t.Context(), check.CheckID); !errors.Is(err, idverify.ErrNotFound) {
			t.Errorf("Get = %v, want ErrNotFound", err)
		}
		// Redeliver it, as the service's console can.
		if err := srv.Redeliver(t.Context(), srv.Deliveries()[0].ID); err != nil {
			t.Fatal(err)
		}
		if again := <-callbacks; again.CheckID != check.CheckID {
			t.Errorf("redelivered check %s, want the same callback", again.CheckID)
		}
	})
}

// Minutes pass immediately in a testing/synctest bubble: see testExpiredCheckCallback above.
func Example_synctest() {
	var _ func(*testing.T) = testExpiredCheckCallback
}
