package receivertest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

const callbackURL = "https://api.example.com/callbacks?tenant=7"

// backend stores checks, and the effects of their results, in memory.
type backend struct {
	fault string // a mistake of the backend, or empty

	mu       sync.Mutex // guards the fields below
	products map[string]string
	effects  map[string]int
	received map[string]bool
	slow     bool
}

func newBackend(fault string) *backend {
	return &backend{fault: fault, products: map[string]string{}, effects: map[string]int{}, received: map[string]bool{}}
}

func (b *backend) probe() receivertest.Probe {
	return receivertest.Probe{
		Created: func(_ context.Context, c receivertest.Check) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.products[c.ID] = c.Product
			return nil
		},
		Effects: func(_ context.Context, id string) (int, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.effects[id], nil
		},
		SlowStore: func(_ context.Context, slow bool) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.slow = slow
			return nil
		},
	}
}

// Mistakes of a backend.
const (
	actsOnUnknownChecks  = "acts on unknown checks"
	actsOnOtherProducts  = "acts on other products"
	actsOnDuplicates     = "acts on duplicates"
	rejectsDuplicates    = "rejects duplicates"
	actsTwice            = "acts twice"
	losesResults         = "loses results"
	hangsWithStore       = "hangs with the store"
	acknowledgesUnstored = "acknowledges unstored callbacks"
	marksUnstored        = "marks unstored callbacks"
)

var errStore = errors.New("store unavailable")

// errDuplicate is returned with the mistake rejectsDuplicates.
var errDuplicate = errors.New("duplicate")

// record acts on the result of a check.
func (b *backend) record(ctx context.Context, product, id string, created time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.products[id]
	switch {
	case b.fault == losesResults:
		return nil
	case !ok && b.fault != actsOnUnknownChecks:
		if time.Since(created) < time.Minute {
			return errors.New("check is not stored yet")
		}
		return nil
	case ok && known != product && b.fault != actsOnOtherProducts:
		return nil
	case b.received[id] && b.fault == rejectsDuplicates:
		return errDuplicate
	case b.received[id] && b.fault != actsOnDuplicates:
		return nil
	}
	if b.fault == marksUnstored {
		b.received[id] = true
	}
	if b.slow && b.fault != acknowledgesUnstored {
		if err := b.wait(ctx); err != nil {
			return err
		}
	}
	b.received[id] = true
	b.effects[id]++
	if b.fault == actsTwice {
		b.effects[id]++
	}
	return nil
}

// wait waits for the slow store, without the lock.
func (b *backend) wait(ctx context.Context) error {
	b.mu.Unlock()
	defer b.mu.Lock()
	timeout := time.After(3 * time.Second)
	if b.fault == hangsWithStore {
		timeout = nil
	}
	select {
	case <-timeout:
	case <-ctx.Done():
	}
	return errStore
}

func newKeys(t *testing.T) *receivertest.Keys {
	t.Helper()
	keys, err := receivertest.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// newVerifier returns a verifier for the host of callbackURL.
func newVerifier(t *testing.T, keys *receivertest.Keys, opts *signature.VerifierOptions) *signature.Verifier {
	t.Helper()
	jwks, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := signature.NewVerifier(jwks, []string{"api.example.com"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// handle returns the function for idverify.CallbackHandler.
func (b *backend) handle() func(context.Context, *idverify.Callback) error {
	return func(ctx context.Context, c *idverify.Callback) error {
		return b.record(ctx, string(c.Product), c.CheckID, c.CreatedAt)
	}
}
