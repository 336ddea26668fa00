package inbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// onDatabases runs test as a parallel subtest for each database.
func onDatabases(t *testing.T, test func(*testing.T, database), more ...database) {
	t.Helper()
	t.Parallel()
	for _, d := range slices.Concat(databases, more) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// intake is a backend that records its events, its log and the effects of OnResult.
type intake struct {
	*backend

	mu     sync.Mutex // guards the fields below
	events []inbox.Event
	log    bytes.Buffer
}

// newIntake returns a backend whose OnResult, if it is set, can write to the table effects.
func newIntake(t testing.TB, d database, onResult func(context.Context, *sql.Tx, inbox.Entry) error) *intake {
	t.Helper()
	i := &intake{}
	i.backend = newBackend(t, d, &inbox.Options{
		OnResult: onResult,
		Observe: func(_ context.Context, e inbox.Event) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.events = append(i.events, e)
		},
		Logger: slog.New(slog.NewJSONHandler(i, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	i.exec(t, "CREATE TABLE effects (check_id text NOT NULL)")
	return i
}

// addEffect is a function for OnResult that has an effect in the database.
func addEffect(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (check_id) VALUES ($1)", e.CheckID)
	return err
}

// Write appends to the log.
func (i *intake) Write(b []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.log.Write(b)
}

// outcomes returns the outcomes of the events of an operation since the last call.
func (i *intake) outcomes(operation string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var names []string
	for _, e := range i.events {
		if e.Operation == operation {
			names = append(names, string(e.Outcome))
		}
	}
	i.events = nil
	return strings.Join(names, " ")
}

// levels returns the levels of the records of callbacks in the log since the last call.
func (i *intake) levels(t testing.TB) string {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	var levels []string
	for line := range strings.Lines(i.log.String()) {
		var record struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Msg == "inbox: callback" {
			levels = append(levels, record.Level)
		}
	}
	i.log.Reset()
	return strings.Join(levels, " ")
}

func (b *backend) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// number returns the number that a query returns.
func (b *backend) number(t testing.TB, query string, args ...any) int {
	t.Helper()
	var n int
	if err := b.db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *backend) effects(t testing.TB) int {
	t.Helper()
	return b.number(t, "SELECT count(*) FROM effects")
}

// responses returns the statuses of the responses to all delivery attempts, oldest delivery first.
func (b *backend) responses() string {
	var all []string
	for _, d := range b.service.Deliveries() {
		for _, a := range d.Attempts {
			all = append(all, fmt.Sprint(a.Status))
		}
	}
	return strings.Join(all, " ")
}

// redeliver sends the last callback again.
func (b *backend) redeliver(t testing.TB) {
	t.Helper()
	all := b.service.Deliveries()
	if err := b.service.Redeliver(t.Context(), all[len(all)-1].ID); err != nil {
		t.Fatal(err)
	}
	if err := b.service.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// serveWith makes the callback URL use handler.
func (b *backend) serveWith(handler http.Handler) {
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", handler)
	b.service.Handle(host, mux)
}

// testKey generates a key once per process.
var testKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// signedURL serves the inbox on a host whose callbacks send signs. keys may be nil.
func (b *backend) signedURL(t testing.TB, keys signature.KeySource) string {
	t.Helper()
	return b.service.Handle("signed.sandbox.test", b.inbox.Handler(b.verifier(t, keys))) + "/"
}

// verifier returns a verifier of the callbacks that send signs. keys may be nil.
func (b *backend) verifier(t testing.TB, keys signature.KeySource) *signature.Verifier {
	t.Helper()
	key, err := testKey()
	if err != nil {
		t.Fatal(err)
	}
	if keys == nil {
		keys = signature.StaticKeys{"test key": &key.PublicKey}
	}
	v, err := signature.NewVerifier(keys, []string{"signed.sandbox.test"}, &signature.VerifierOptions{Now: b.service.Now})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// send sends a signed callback to url and returns the status of the response.
func (b *backend) send(ctx context.Context, t testing.TB, url, kind, body string) (int, error) {
	t.Helper()
	key, err := testKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := signature.NewSigner("test key", key, &signature.SignerOptions{Now: b.service.Now})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-service-callback", kind)
	if err := s.SignCallback(r, []byte(body)); err != nil {
		t.Fatal(err)
	}
	response, err := b.service.HTTPClient().Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}

// planned stores a planned PhoneCheck with a check ID, without the service.
func (b *backend) planned(t testing.TB, reference, checkID string) {
	t.Helper()
	b.plan(t, idverify.ProductPhoneCheck, reference)
	if err := b.inbox.Bind(t.Context(), reference, checkID, 0); err != nil {
		t.Fatal(err)
	}
}

// otherCustomer returns a backend with the same inbox and service whose client has the credentials
// of another project.
func (b *backend) otherCustomer() *backend {
	other := *b
	other.client = b.service.NewWorkspace("Other customer").NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox}).Client()
	return &other
}

// advance moves the clock of the service and of the inbox.
func advance(t testing.TB, s *sandboxfake.Server, d time.Duration) {
	t.Helper()
	if err := s.Advance(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}
