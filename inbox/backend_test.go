package inbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/pgtest"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// database opens empty databases of a kind.
type database struct {
	name    string
	dialect inbox.Dialect
	driver  string
	source  func(testing.TB) string // data source name of a new database
}

// databases are the databases that the tests use.
var databases = []database{
	{"SQLite", inbox.SQLite, "sqlite", sqliteSource},
	{"PostgreSQL", inbox.Postgres, "pgx", postgres.Database},
}

// serializable is PostgreSQL with another default isolation level.
var serializable = database{"PostgreSQL, serializable", inbox.Postgres, "pgx", func(t testing.TB) string {
	source := postgres.Database(t)
	makeSerializable(t, openDB(t, "pgx", source))
	return source
}}

// makeSerializable changes the default isolation level of new connections.
func makeSerializable(t testing.TB, db *sql.DB) {
	t.Helper()
	must(db.ExecContext(t.Context(), "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_isolation = serializable'; END $$"))(t)
	db.SetMaxIdleConns(0)
}

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

// inBubbles is onDatabases with a bubble of testing/synctest for each subtest. In the bubble, no
// time passes while the database works, so that a busy machine does not exceed the time limits of
// the package.
func inBubbles(t *testing.T, test func(*testing.T, database), more ...database) {
	t.Helper()
	onDatabases(t, func(t *testing.T, d database) {
		if d.driver == "pgx" {
			postgres.Start(t) // outside of the bubble
		}
		synctest.Test(t, func(t *testing.T) { test(t, d) })
	}, more...)
}

// open opens a new database.
func (d database) open(t testing.TB) *sql.DB { t.Helper(); return openDB(t, d.driver, d.source(t)) }

func openDB(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db := must(sql.Open(driver, source))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

func sqliteSource(t testing.TB) string {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "checks.db") + "?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}

// postgres is the PostgreSQL server of the tests. Each test has its own database in it.
var postgres pgtest.Shared

func TestMain(m *testing.M) {
	defer postgres.Close()
	registerCancel()
	m.Run()
}

// texts returns the last column of the rows of a query.
func texts(t testing.TB, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	rows := must(db.QueryContext(t.Context(), query, args...))(t)
	defer rows.Close()
	columns := must(rows.Columns())(t)
	var all []string
	for rows.Next() {
		row, dest := make([]string, len(columns)), make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		noError(t, rows.Scan(dest...))
		all = append(all, row[len(row)-1])
	}
	noError(t, rows.Err())
	return all
}

// dump returns all values of a table.
func dump(t testing.TB, db *sql.DB, table string) string {
	t.Helper()
	rows := must(db.QueryContext(t.Context(), "SELECT * FROM "+table))(t)
	defer rows.Close()
	columns := must(rows.Columns())(t)
	var text strings.Builder
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		dest := make([]any, len(columns))
		for n := range values {
			dest[n] = &values[n]
		}
		noError(t, rows.Scan(dest...))
		for n, v := range values {
			fmt.Fprintf(&text, "%s=%s ", columns[n], v.String)
		}
		text.WriteString("\n")
	}
	noError(t, rows.Err())
	return text.String()
}

const (
	matching = "447700900012"
	noResult = "447700900055" // ends as ERROR
)

// backend is a backend with an inbox, and a fake with a frozen clock. Its database has a table
// effects.
type backend struct {
	*recorder

	service     *sandboxfake.Server
	client      *idverify.Client // does not retry
	db          *sql.DB
	inbox       *inbox.Inbox
	callbackURL string
}

const host = "shop.sandbox.test"

// newBackend returns a backend whose inbox uses an empty database. For opts see newBackendOn.
func newBackend(t testing.TB, d database, opts *inbox.Options) *backend {
	t.Helper()
	return newBackendOn(t, d.open(t), d.dialect, opts)
}

// newBackendOn returns a backend whose inbox uses db and the fake's clock. opts may be nil. Without
// an observer or a logger in it, the backend records the events and the log.
func newBackendOn(t testing.TB, db *sql.DB, d inbox.Dialect, opts *inbox.Options) *backend {
	t.Helper()
	service := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	b := &backend{recorder: new(recorder), service: service, db: db}
	b.client = service.Client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}))
	if opts == nil {
		opts = &inbox.Options{}
	}
	opts.Now = service.Now
	if opts.Observe == nil {
		opts.Observe = b.observe
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	b.inbox = newInbox(t, db, d, opts)
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", b.inbox.Handler(service.Verifier([]string{host}, nil)))
	b.callbackURL = service.Handle(host, mux) + "/callbacks"
	b.exec(t, "CREATE TABLE effects (reference text NOT NULL)")
	return b
}

// newInbox returns an Inbox of db, which may be empty.
func newInbox(t testing.TB, db *sql.DB, d inbox.Dialect, opts *inbox.Options) *inbox.Inbox {
	t.Helper()
	noError(t, inbox.Migrate(t.Context(), db, d))
	return must(inbox.New(t.Context(), db, d, opts))(t)
}

// insertEffect is a function for Work and OnResult that has an effect in the database.
func insertEffect(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (reference) VALUES ($1)", e.Reference)
	return err
}

var errEffect = errors.New("effect failed")

// failEffect is a function for Work and OnResult that fails.
func failEffect(context.Context, *sql.Tx, inbox.Entry) error { return errEffect }

// recorder records the events and the log of an Inbox.
type recorder struct {
	mu     sync.Mutex // guards the fields below
	events []inbox.Event
	log    bytes.Buffer
}

func (r *recorder) observe(_ context.Context, e inbox.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Write appends to the log.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

// logged returns the log since the last call.
func (r *recorder) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.log.Reset()
	return r.log.String()
}

// levels returns the levels of the records of callbacks in the log since the last call.
func (r *recorder) levels() string {
	var levels []string
	for _, record := range callbackRecord.FindAllStringSubmatch(r.logged(), -1) {
		levels = append(levels, record[1])
	}
	return strings.Join(levels, " ")
}

var callbackRecord = regexp.MustCompile(`level=(\w+) msg="inbox: callback"`)

// eventsOf returns the events of an operation since the last call.
func (r *recorder) eventsOf(operation string) (events []inbox.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Operation == operation {
			events = append(events, e)
		}
	}
	r.events = nil
	return events
}

// outcomesOf returns the outcomes of the events of an operation since the last call.
func (r *recorder) outcomesOf(operation string) string {
	var names []string
	for _, e := range r.eventsOf(operation) {
		names = append(names, string(e.Outcome))
	}
	return strings.Join(names, " ")
}

// wantOutcomes verifies the operations and outcomes of all events except those of Record.
func (r *recorder) wantOutcomes(t testing.TB, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, e := range r.events {
		if e.Operation != "record" {
			got = append(got, e.Operation+" "+string(e.Outcome))
		}
	}
	wantEqual(t, want, got, "events")
}

func (b *backend) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	must(b.db.ExecContext(t.Context(), statement, args...))(t)
}

// number returns the number that a query returns.
func (b *backend) number(t testing.TB, query string, args ...any) int {
	t.Helper()
	var n int
	noError(t, b.db.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

func (b *backend) get(t testing.TB, reference string) *inbox.Entry {
	t.Helper()
	return must(b.inbox.Get(t.Context(), reference))(t)
}

// effects returns the number of effects.
func (b *backend) effects(t testing.TB) int {
	t.Helper()
	return b.number(t, "SELECT count(*) FROM effects")
}

// wantEffects verifies the references of the effects.
func (b *backend) wantEffects(t testing.TB, want ...string) {
	t.Helper()
	wantEqual(t, want, texts(t, b.db, "SELECT reference FROM effects ORDER BY reference"), "effects")
}

func (b *backend) wantStats(t testing.TB, want inbox.Stats) {
	t.Helper()
	got := must(b.inbox.Stats(t.Context()))(t)
	wantEqual(t, want, got, "stats")
}

// advance moves the clock of the service and of the inbox.
func (b *backend) advance(t testing.TB, d time.Duration) {
	t.Helper()
	noError(t, b.service.Advance(t.Context(), d))
}

// plan plans a check in its own transaction.
func (b *backend) plan(t testing.TB, product idverify.Product, reference string) {
	t.Helper()
	planTx(t, b.db, b.inbox, product, reference)
}

func planTx(t testing.TB, db *sql.DB, checks *inbox.Inbox, product idverify.Product, reference string) {
	t.Helper()
	noError(t, planCommitted(t.Context(), db, checks, product, reference))
}

// planned stores a planned PhoneCheck with a check ID, without the service.
func (b *backend) planned(t testing.TB, reference, checkID string) {
	t.Helper()
	b.plan(t, idverify.ProductPhoneCheck, reference)
	noError(t, b.inbox.Bind(t.Context(), reference, checkID, 0))
}

// result stores a match, without the service.
func (b *backend) result(t testing.TB, reference string) {
	t.Helper()
	storeResult(t, b.db, b.inbox, reference)
}

// storeResult plans a check and stores that it is a match.
func storeResult(t testing.TB, db *sql.DB, checks *inbox.Inbox, reference string) {
	t.Helper()
	planTx(t, db, checks, idverify.ProductPhoneCheck, reference)
	stored, err := checks.Record(t.Context(), inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check of " + reference, ReferenceID: reference,
		Status: idverify.StatusCompleted, Match: idverify.VerdictYes})
	if err != nil || !stored {
		t.Fatalf("stored = %t, error = %v", stored, err)
	}
}

// insertEnded inserts n entries that ended some time ago. The times of column are the same.
func (b *backend) insertEnded(t testing.TB, reference string, n int, column string, ago time.Duration) {
	t.Helper()
	b.exec(t, "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < $1) "+
		"INSERT INTO idverify_checks (reference, product, check_id, planned_at, give_up_at, status, ended_at, "+column+") "+
		"SELECT $2 || ' ' || i, 'phone_check', 'check of ' || $2 || ' ' || i, $3, $3, 'EXPIRED', $3, $3 FROM numbers",
		n, reference, b.service.Now().Add(-ago).UnixMicro())
}

// create creates a PhoneCheck with the callback URL of the backend.
func (b *backend) create(t testing.TB, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	return b.createWith(t, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference, CallbackURL: b.callbackURL})
}

// createSilent creates a PhoneCheck without a callback.
func (b *backend) createSilent(t testing.TB, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	return b.createWith(t, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference})
}

func (b *backend) createWith(t testing.TB, params idverify.PhoneCheckParams) *idverify.PhoneCheck {
	t.Helper()
	return must(b.client.PhoneChecks.Create(t.Context(), params))(t)
}

// createAny creates a check of a product without a callback, and returns its ID.
func (b *backend) createAny(t testing.TB, product idverify.Product, reference string) (checkID string) {
	t.Helper()
	switch product {
	case idverify.ProductPhoneCheck:
		return b.createSilent(t, matching, reference).CheckID
	case idverify.ProductSIMCheck:
		params := idverify.SIMCheckParams{PhoneNumber: matching, ReferenceID: reference}
		return must(b.client.SIMChecks.Create(t.Context(), params))(t).CheckID
	case idverify.ProductSubscriberCheck:
		params := idverify.SubscriberCheckParams{PhoneNumber: matching, ReferenceID: reference}
		return must(b.client.SubscriberChecks.Create(t.Context(), params))(t).CheckID
	}
	t.Fatalf("unknown product %q", product)
	return ""
}

// start plans, creates and binds a PhoneCheck.
func (b *backend) start(t testing.TB, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	b.plan(t, idverify.ProductPhoneCheck, reference)
	return b.bind(t, reference, b.create(t, number, reference))
}

// startSilent plans, creates and binds a PhoneCheck without a callback.
func (b *backend) startSilent(t testing.TB, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	b.plan(t, idverify.ProductPhoneCheck, reference)
	return b.bind(t, reference, b.createSilent(t, number, reference))
}

func (b *backend) bind(t testing.TB, reference string, check *idverify.PhoneCheck) *idverify.PhoneCheck {
	t.Helper()
	noError(t, b.inbox.Bind(t.Context(), reference, check.CheckID, check.TTL))
	return check
}

// open opens the Check URL on a phone and waits for the first delivery attempt.
func (b *backend) open(t testing.TB, check *idverify.PhoneCheck) {
	t.Helper()
	must(b.service.Device().Open(t.Context(), check.CheckURL))(t)
	noError(t, b.service.WaitIdle(t.Context()))
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
	noError(t, b.service.Redeliver(t.Context(), all[len(all)-1].ID))
	noError(t, b.service.WaitIdle(t.Context()))
}

// count returns the number of requests of an operation.
func (b *backend) count(operation string) (n int) {
	for _, r := range b.service.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// workOnce processes the entry that is due first, and reports whether there was one.
func (b *backend) workOnce(t testing.TB, do func(context.Context, *sql.Tx, inbox.Entry) error) bool {
	t.Helper()
	return must(b.inbox.WorkOnce(t.Context(), do))(t)
}

// otherCustomer returns a backend with the same inbox and service whose client has the credentials
// of another project.
func (b *backend) otherCustomer() *backend {
	other := *b
	other.client = b.service.NewWorkspace("Other customer").NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox}).Client()
	return &other
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
	key := must(testKey())(t)
	if keys == nil {
		keys = signature.StaticKeys{"test key": &key.PublicKey}
	}
	return must(signature.NewVerifier(keys, []string{"signed.sandbox.test"}, &signature.VerifierOptions{Now: b.service.Now}))(t)
}

// send sends a signed callback to url and returns the status of the response.
func (b *backend) send(ctx context.Context, t testing.TB, url, kind, body string) (int, error) {
	t.Helper()
	key := must(testKey())(t)
	s := must(signature.NewSigner("test key", key, &signature.SignerOptions{Now: b.service.Now}))(t)
	r := must(http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody))(t)
	r.Header.Set("x-service-callback", kind)
	noError(t, s.SignCallback(r, []byte(body)))
	response, err := b.service.HTTPClient().Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}

// signedBody returns the body of a callback of the check "check" that was created now, with more
// fields.
func signedBody(b *backend, fields string) string { return bodyOf("check", b.service.Now(), fields) }

// bodyOf returns the body of a callback. checkID is the content of a JSON string.
func bodyOf(checkID string, created time.Time, fields string) string {
	return `{"check_id":"` + checkID + `","charge_amount":1,"charge_currency":"API","created_at":"` + created.Format("2006-01-02T15:04:05-0700") + `",` + fields + `}`
}

// concurrently calls f with 0 to n-1, each in a goroutine, and waits until all have returned.
func concurrently(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// logRecords is a writer for a log that sends each record. It discards records while it is full.
type logRecords chan string

func (r logRecords) Write(p []byte) (int, error) {
	select {
	case r <- string(p):
	default:
	}
	return len(p), nil
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }

// wantEqual reports the difference between want and got, if any.
func wantEqual(t testing.TB, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}
