package inbox_test

import (
	"database/sql"
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestInbox_StoresCallback(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, d, nil)

			check := b.start(t, "447700900012", "sign-up 1")
			b.open(t, check)

			e := b.get(t, "sign-up 1")
			if e.Match != idverify.VerdictYes || e.Source != inbox.SourceCallback || e.CheckID != check.CheckID {
				t.Errorf("entry = %+v, want the result of the callback", e)
			}
		})
	}
}

// backend is a backend with an inbox, and a fake with a frozen clock.
type backend struct {
	service     *sandboxfake.Server
	client      *idverify.Client
	db          *sql.DB
	inbox       *inbox.Inbox
	callbackURL string
}

const host = "shop.sandbox.test"

// newBackend returns a backend whose inbox uses an empty database and the fake's clock.
func newBackend(t testing.TB, d database, opts *inbox.Options) *backend {
	t.Helper()
	service := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	if opts == nil {
		opts = &inbox.Options{}
	}
	opts.Now = service.Now
	db := d.open(t)
	if err := inbox.Migrate(t.Context(), db, d.dialect); err != nil {
		t.Fatal(err)
	}
	checks, err := inbox.New(t.Context(), db, d.dialect, opts)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{service: service, client: service.Client(), db: db, inbox: checks}
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", checks.Handler(service.Verifier([]string{host}, nil)))
	b.callbackURL = service.Handle(host, mux) + "/callbacks"
	return b
}

// plan plans a check in its own transaction.
func (b *backend) plan(t testing.TB, product idverify.Product, reference string) {
	t.Helper()
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := b.inbox.Plan(t.Context(), tx, product, reference); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// create creates a PhoneCheck with the callback URL of the backend.
func (b *backend) create(t testing.TB, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	check, err := b.client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference, CallbackURL: b.callbackURL})
	if err != nil {
		t.Fatal(err)
	}
	return check
}

// start plans, creates and binds a PhoneCheck.
func (b *backend) start(t testing.TB, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	b.plan(t, idverify.ProductPhoneCheck, reference)
	check := b.create(t, number, reference)
	if err := b.inbox.Bind(t.Context(), reference, check.CheckID, check.TTL); err != nil {
		t.Fatal(err)
	}
	return check
}

// open opens the Check URL on a phone and waits for the first delivery attempt.
func (b *backend) open(t testing.TB, check *idverify.PhoneCheck) {
	t.Helper()
	if _, err := b.service.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	if err := b.service.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b *backend) get(t testing.TB, reference string) *inbox.Entry {
	t.Helper()
	e, err := b.inbox.Get(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
