package inbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// The snippets of docs/production.md. TestDocs_SnippetsCompiled compares them with the page.

func process(ctx context.Context, checks *inbox.Inbox, mux *http.ServeMux, verifier *signature.Verifier, client *idverify.Client, serve func()) {
	mux.Handle("POST /callbacks", checks.Handler(verifier)) // stores each result once
	stop := checks.Start(context.WithoutCancel(ctx), client, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
		_, err := tx.ExecContext(ctx, "UPDATE sign_ups SET verdict = $1 WHERE reference = $2", e.Match, e.Reference)
		return err // called again until it returns nil
	})
	defer stop() // after the HTTP server has shut down, and before db.Close
	serve()
}

func signIn(ctx context.Context, checks *inbox.Inbox, client *idverify.Client, verifier *signature.Verifier, allow func(*http.Request, string) error, serve func(*checkflow.Web)) error {
	web, err := checkflow.NewWeb(checkflow.Config{
		Client:      client,
		Verifier:    verifier,
		Store:       checks.Flows(0),
		Create:      checks.CreatePhoneCheck,
		CallbackURL: "https://shop.example.com/callbacks",
		Allow:       allow,
		RedirectURL: "https://shop.example.com/return",
		StartPage:   "/",
		Logger:      slog.Default(),
	})
	if err != nil {
		return err
	}
	stop := checks.Start(context.WithoutCancel(ctx), client, func(context.Context, *sql.Tx, inbox.Entry) error { return nil })
	defer stop()
	serve(web)
	return nil
}

func planAndCreate(ctx context.Context, checks *inbox.Inbox, client *idverify.Client, tx *sql.Tx, reference, number, callbackURL string) (checkURL string, err error) {
	if err := checks.Plan(ctx, tx, idverify.ProductPhoneCheck, reference); err != nil { // tx also stores your own row
		return "", err
	}
	if err := tx.Commit(); err != nil {
		return "", err
	}
	check, err := checks.CreatePhoneCheck(ctx, client, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference, CallbackURL: callbackURL})
	if err != nil {
		return "", err // after idverify.ErrOutcomeUnknown, Start finds the check: do not create another
	}
	return check.CheckURL, nil
}

func openDatabase(ctx context.Context, path string, use func(*sql.DB, *inbox.Inbox)) error {
	source := "file:" + url.PathEscape(path) + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db, err := sql.Open("sqlite", source) // modernc.org/sqlite
	if err != nil {
		return err
	}
	if err := inbox.Migrate(ctx, db, inbox.SQLite); err != nil {
		return err
	}
	checks, err := inbox.New(ctx, db, inbox.SQLite, &inbox.Options{Logger: slog.Default()})
	if err != nil {
		return err // for example inbox.ErrSettings
	}
	use(db, checks)
	return db.Close()
}

func retryStopped(ctx context.Context, checks *inbox.Inbox) error {
	stopped, err := checks.Stopped(ctx, 1000) // those that stopped first
	if err != nil {
		return err
	}
	for _, e := range stopped {
		if e.Attempts == 0 {
			continue // its transaction ended: verify its effects first
		}
		if err := checks.Retry(ctx, e.Reference); err != nil {
			return err
		}
	}
	return nil
}

// setVerdict replaces a function of the reader's program.
func setVerdict(ctx context.Context, tx *sql.Tx, reference string, verdict idverify.Verdict) error {
	_, err := tx.ExecContext(ctx, "UPDATE sign_ups SET verdict = $1 WHERE reference = $2", verdict, reference)
	return err
}

func TestProduction_StoresDurably(t *testing.T) {
	t.Parallel()
	processed := make(chan inbox.Event, 100)
	b := newBackend(t, databases[0], &inbox.Options{Observe: func(_ context.Context, e inbox.Event) { processed <- e }})
	b.exec(t, "CREATE TABLE sign_ups (reference text PRIMARY KEY, verdict text)")
	reference := rand.Text()
	tx := must(b.db.BeginTx(t.Context(), nil))(t)
	must(tx.ExecContext(t.Context(), "INSERT INTO sign_ups (reference) VALUES ($1)", reference))(t)
	mux := http.NewServeMux()
	callbackURL := b.service.Handle("app.sandbox.test", mux) + "/callbacks"
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	process(ctx, b.inbox, mux, b.service.Verifier([]string{"app.sandbox.test"}, nil), b.client, func() {
		checkURL := must(planAndCreate(ctx, b.inbox, b.client, tx, reference, "447700900012", callbackURL))(t)
		must(b.service.Device().Open(ctx, checkURL))(t)
		awaitOutcome(ctx, t, processed, inbox.OutcomeDone)
	})

	wantEqual(t, []string{"yes"}, texts(t, b.db, "SELECT verdict FROM sign_ups"), "verdicts")
}

func TestProduction_RecordsSignIn(t *testing.T) {
	t.Parallel()
	processed := make(chan inbox.Event, 100)
	b := newBackend(t, databases[0], &inbox.Options{Observe: func(_ context.Context, e inbox.Event) { processed <- e }})
	mux := http.NewServeMux()
	shop := b.service.Handle("shop.example.com", mux)
	verifier := b.service.Verifier([]string{"shop.example.com"}, nil)
	ctx := t.Context()

	results := make(chan checkflow.Result, 1)
	err := signIn(ctx, b.inbox, b.client, verifier, func(*http.Request, string) error { return nil }, func(web *checkflow.Web) {
		mux.Handle("POST /callbacks", b.inbox.Handler(verifier))
		mux.HandleFunc("POST /start", func(w http.ResponseWriter, r *http.Request) {
			checkURL, err := web.Start(w, r, checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: "447700900012"}})
			if err != nil {
				t.Error(err)
			}
			http.Redirect(w, r, checkURL, http.StatusSeeOther)
		})
		mux.Handle("/return", web.Return(func(_ http.ResponseWriter, _ *http.Request, result checkflow.Result) string {
			results <- result
			return "/"
		}))
		page := must(b.service.Device().Client().PostForm(shop+"/start", nil))(t)
		noError(t, page.Body.Close())
		awaitOutcome(ctx, t, processed, inbox.OutcomeDone)
	})
	noError(t, err)

	result := <-results
	if e := must(b.inbox.GetByCheckID(ctx, result.CheckID))(t); result.Verdict != idverify.VerdictYes || e.Match != idverify.VerdictYes || e.Source != inbox.SourceCallback || e.DoneAt.IsZero() {
		t.Errorf("result = %+v, entry = %+v, want a match that the callback recorded and Work processed", result, e)
	}
}

// awaitOutcome waits until an operation has the given outcome.
func awaitOutcome(ctx context.Context, t *testing.T, events <-chan inbox.Event, want inbox.Outcome) {
	t.Helper()
	for {
		select {
		case e := <-events:
			if e.Outcome == want {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no event with outcome %s", want)
		}
	}
}

func TestProduction_OpensDatabase(t *testing.T) {
	t.Parallel()
	called := false

	err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "checks.db"), func(*sql.DB, *inbox.Inbox) { called = true })

	if err != nil || !called {
		t.Errorf("error = %v, want an open database", err)
	}
}

func TestProduction_RetriesStopped(t *testing.T) {
	t.Parallel()
	events := make(chan inbox.Event, 100)
	b := newBackend(t, databases[0], &inbox.Options{MaxAttempts: 1, Observe: func(_ context.Context, e inbox.Event) { events <- e }})
	b.open(t, b.start(t, "447700900012", "sign-up 1"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var corrected atomic.Bool
	go b.inbox.Work(ctx, func(context.Context, *sql.Tx, inbox.Entry) error {
		if !corrected.Load() {
			return errors.New("a bug")
		}
		return nil
	})
	awaitOutcome(ctx, t, events, inbox.OutcomeStopped)

	corrected.Store(true)
	noError(t, retryStopped(ctx, b.inbox))
	awaitOutcome(ctx, t, events, inbox.OutcomeDone)

	if e := b.get(t, "sign-up 1"); e.DoneAt.IsZero() || !e.StoppedAt.IsZero() {
		t.Errorf("entry = %+v, want processed", e)
	}
}

// TestProduction_Grants processes a check with a role that has the rights of docs/production.md,
// through a pool in the mode for PgBouncer.
func TestProduction_Grants(t *testing.T) {
	t.Parallel()
	source := postgres.Database(t)
	owner := openDB(t, "pgx", source)
	noError(t, inbox.Migrate(t.Context(), owner, inbox.Postgres))
	grants := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(page(t, "docs/production.md"))
	if grants == nil {
		t.Fatal("docs/production.md has no grants")
	}
	must(owner.ExecContext(t.Context(), "CREATE ROLE shop LOGIN; "+grants[1]))(t)
	t.Cleanup(func() { // all databases of the server share the role
		if _, err := owner.ExecContext(context.Background(), "DROP OWNED BY shop; DROP ROLE shop"); err != nil {
			t.Error(err)
		}
	})
	db := openDB(t, "pgx", strings.Replace(source, "user=test", "user=shop", 1)+" default_query_exec_mode=exec")
	checks := must(inbox.New(t.Context(), db, inbox.Postgres, &inbox.Options{Retention: time.Nanosecond}))(t)
	b := &backend{service: sandboxfake.New(t, sandboxfake.WithInMemory()), db: db, inbox: checks}
	b.client = b.service.Client()
	b.callbackURL = b.service.Handle(host, checks.Handler(b.service.Verifier([]string{host}, &signature.VerifierOptions{ClockSkew: time.Hour})))

	b.open(t, b.start(t, "447700900012", "sign-up 1"))
	noError(t, checks.Reconcile(t.Context(), b.client))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := checks.Work(ctx, func(context.Context, *sql.Tx, inbox.Entry) error {
		cancel()
		return nil
	})
	noError(t, err)
	if n, err := checks.Purge(t.Context()); n != 1 || err != nil {
		t.Errorf("Purge = %d, %v, want 1 deleted entry", n, err)
	}
}

func TestProduction_Restore(t *testing.T) {
	t.Parallel()
	b := newBackend(t, databases[0], nil)
	completed := b.start(t, "447700900012", "completed")
	b.start(t, "447700900012", "expired")
	backup := filepath.Join(t.TempDir(), "backup.db")
	b.exec(t, "VACUUM INTO '"+backup+"'")
	b.open(t, completed)
	b.advance(t, time.Hour)

	got := make(map[string]inbox.Status)
	err := openDatabase(t.Context(), backup, func(db *sql.DB, _ *inbox.Inbox) {
		checks := must(inbox.New(t.Context(), db, inbox.SQLite, &inbox.Options{Now: b.service.Now}))(t)
		noError(t, checks.Reconcile(t.Context(), b.client))
		for _, reference := range []string{"completed", "expired"} {
			got[reference] = must(checks.Get(t.Context(), reference))(t).Status
		}
	})

	noError(t, err)
	wantEqual(t, map[string]inbox.Status{"completed": inbox.StatusCompleted, "expired": inbox.StatusLost}, got, "states of the restored entries")
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestDocs_SnippetsCompiled verifies that each snippet about this package is in this directory,
// with one more tab or the same indentation.
func TestDocs_SnippetsCompiled(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, name := range must(filepath.Glob("*_test.go"))(t) {
		source.WriteString(page(t, "inbox/"+name))
	}

	for document, want := range map[string]int{"docs/production.md": 5} {
		got := 0
		for _, block := range goBlock.FindAllStringSubmatch(page(t, document), -1) {
			if !strings.Contains(block[1], "inbox.") && !strings.Contains(block[1], "checks.") {
				continue
			}
			got++
			indented := strings.TrimSuffix(strings.ReplaceAll("\t"+block[1], "\n", "\n\t"), "\t")
			if !strings.Contains(source.String(), strings.ReplaceAll(indented, "\n\t\n", "\n\n")) && !strings.Contains(source.String(), "\n"+block[1]) {
				t.Errorf("%s has a snippet that no test compiles:\n%s", document, block[1])
			}
		}
		if got != want {
			t.Errorf("%s has %d snippets of this package, want %d", document, got, want)
		}
	}
}

// page reads a file of the repository.
func page(t *testing.T, name string) string {
	t.Helper()
	return string(must(os.ReadFile(filepath.Join("..", name)))(t))
}

// TestErrors_ReturnedBy compares the column "Returned by" of docs/errors.md with the methods.
func TestErrors_ReturnedBy(t *testing.T) {
	t.Parallel()
	b := newBackend(t, databases[0], nil)
	ctx, product := t.Context(), idverify.ProductPhoneCheck
	plan := func(reference string) error { return planCommitted(ctx, b.db, b.inbox, product, reference) }
	noError(t, errors.Join(plan("planned"), plan("bound"), b.inbox.Bind(ctx, "bound", "check", time.Minute)))
	record := func(checks *inbox.Inbox, checkID string, product idverify.Product) error {
		_, err := checks.Record(ctx, inbox.Result{Product: product, CheckID: checkID, Status: idverify.StatusCompleted})
		return err
	}
	create := func(reference string) error {
		_, err := b.inbox.CreatePhoneCheck(ctx, b.client, idverify.PhoneCheckParams{PhoneNumber: "447700900012", ReferenceID: reference})
		return err
	}
	get := func(reference string) error { _, err := b.inbox.Get(ctx, reference); return err }
	open := func(source string) error {
		_, err := inbox.New(ctx, openDB(t, "sqlite", source), inbox.SQLite, nil)
		return err
	}
	ending := newInbox(t, b.db, inbox.SQLite, &inbox.Options{
		Now: func() time.Time { return b.service.Now().Add(time.Hour) },
		OnResult: func(ctx context.Context, tx *sql.Tx, _ inbox.Entry) error {
			_, err := tx.ExecContext(ctx, "ROLLBACK")
			return err
		},
	})
	sentinels := map[string]error{"inbox.ErrReferenceUsed": inbox.ErrReferenceUsed, "inbox.ErrNotFound": inbox.ErrNotFound,
		"inbox.ErrConflict": inbox.ErrConflict, "inbox.ErrSchema": inbox.ErrSchema, "inbox.ErrSettings": inbox.ErrSettings, "inbox.ErrTransactionEnded": inbox.ErrTransactionEnded}
	returned := make(map[string][]string)
	for _, call := range []struct {
		method string
		err    error
	}{
		{"Plan", plan("planned")},
		{"Bind", b.inbox.Bind(ctx, "unknown", "other", time.Minute)},
		{"Bind", b.inbox.Bind(ctx, "bound", "other", time.Minute)},
		{"Create…", create("unknown")},
		{"Create…", create("bound")},
		{"Discard", b.inbox.Discard(ctx, "unknown")},
		{"Discard", b.inbox.Discard(ctx, "bound")},
		{"Record", record(b.inbox, "unknown", product)},
		{"Record", record(b.inbox, "check", idverify.ProductSIMCheck)},
		{"Get", get("unknown")},
		{"Retry", b.inbox.Retry(ctx, "unknown")},
		{"New", open(sqliteSource(t))},
		{"Record", record(ending, "check", product)},
		{"Reconcile", ending.Reconcile(ctx, b.client)}, // "planned" was not created
		{"New", open("file:" + filepath.Join(t.TempDir(), "checks.db"))},
	} {
		for name, sentinel := range sentinels {
			if errors.Is(call.err, sentinel) {
				returned[name] = append(returned[name], "`"+call.method+"`")
			}
		}
	}

	for name := range sentinels {
		want := "| `" + name + "` | " + strings.Join(returned[name], ", ") + " | "
		if !strings.Contains(page(t, "docs/errors.md"), want) {
			t.Errorf("docs/errors.md lacks a row %s", want)
		}
	}
}
