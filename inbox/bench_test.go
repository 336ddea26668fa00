package inbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/signature"
)

// BenchmarkHandler compares the handler with a handler of the user that has one UPDATE.
func BenchmarkHandler(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			s := newBenched(b, d, 0)
			byHand := newHandWritten(b, d, s.verifier)
			var base, other *http.Request
			prepare := func() {
				id := rand.Text()
				byHand.insert(b, id)
				s.insert(b, id, "reconcile_at", s.now()+hour)
				base, other = s.callback(b, id), s.callback(b, id)
			}
			compareTimes(b, "x-hand-written", prepare,
				func() error { return serve(byHand.handler, base) },
				func() error { return serve(s.handler, other) })
		})
	}
}

// BenchmarkRows compares operations among 10^6 processed entries with the same among 10^3. With
// -benchtime 1x, there are 10^4 instead of 10^6.
func BenchmarkRows(b *testing.B) {
	many := 1_000_000
	if flag.Lookup("test.benchtime").Value.String() == "1x" {
		many = 10_000
	}
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			small, large := newBenched(b, d, 1000), newBenched(b, d, many)
			for _, op := range []struct {
				name    string
				prepare func(*benched, testing.TB)
				run     func(*benched, testing.TB) error
			}{
				{"Handler", (*benched).prepareHandler, (*benched).runHandler},
				{"Work", (*benched).prepareWork, (*benched).runWork},
				{"Reconcile", (*benched).prepareReconcile, (*benched).runReconcile},
			} {
				b.Run(op.name, func(b *testing.B) {
					prepare := func() {
						op.prepare(small, b)
						op.prepare(large, b)
					}
					compareTimes(b, "x-1000-rows", prepare,
						func() error { return op.run(small, b) },
						func() error { return op.run(large, b) })
				})
			}
		})
	}
}

// BenchmarkThroughput measures the results that 16 goroutines store in a second, and the entries
// that one Work processes in a second. Its figures are in docs/replicas.md.
func BenchmarkThroughput(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name+"/record", func(b *testing.B) {
			checks, db := throughputInbox(b, d)
			results := plannedResults(b, checks, db)
			var next atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()

			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := checks.Record(b.Context(), results[next.Add(1)-1]); err != nil {
						b.Error(err)
					}
				}
			})

			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "results/s")
		})
		b.Run(d.name+"/work", func(b *testing.B) {
			checks, db := throughputInbox(b, d)
			for _, r := range plannedResults(b, checks, db) {
				must(checks.Record(b.Context(), r))(b)
			}
			must(db.ExecContext(b.Context(), "CREATE TABLE sign_ups (reference text PRIMARY KEY, verdict text)"))(b)
			ctx, cancel := context.WithCancel(b.Context())
			processed := 0
			b.ResetTimer()

			err := checks.Work(ctx, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				if processed++; processed == b.N {
					cancel()
				}
				_, err := tx.ExecContext(context.WithoutCancel(ctx), "INSERT INTO sign_ups (reference, verdict) VALUES ($1, $2)", e.Reference, e.Match)
				return err
			})

			if err != nil || processed != b.N {
				b.Fatalf("processed %d entries with error %v, want %d", processed, err, b.N)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// compareTimes runs base and other alternately, because a busy machine slows both, each after its
// preparation, which is not measured. It reports the ratio of other's median time to base's as the
// metric name.
func compareTimes(b *testing.B, name string, prepare func(), base, other func() error) {
	b.Helper()
	times := make([][]time.Duration, 2)
	for i := 0; b.Loop(); i++ {
		prepare()
		sides := []func() error{base, other}
		for turn := range sides {
			side := (i + turn) % 2 // the first of two commits may have to wait for the disk longer
			began := time.Now()
			noError(b, sides[side]())
			times[side] = append(times[side], time.Since(began))
		}
	}
	median := func(t []time.Duration) float64 { slices.Sort(t); return float64(t[len(t)/2]) }
	b.ReportMetric(median(times[1])/median(times[0]), name)
	b.ReportMetric(0, "ns/op") // contains the preparation
}

// hour is an hour as it is stored.
const hour = int64(time.Hour / time.Microsecond)

// benched is an inbox whose operations are measured, one at a time.
type benched struct {
	db       *sql.DB
	inbox    *inbox.Inbox
	client   *idverify.Client
	signer   *signature.Signer
	verifier *signature.Verifier
	handler  http.Handler

	request *http.Request      // for runHandler
	stop    context.CancelFunc // ends runWork
}

// newBenched returns an inbox with processed entries.
func newBenched(b *testing.B, d database, entries int) *benched {
	b.Helper()
	s := &benched{db: d.open(b)}
	noError(b, inbox.Migrate(b.Context(), s.db, d.dialect))
	s.fill(b, entries)
	execute(b, s.db, "ANALYZE")
	opts := &inbox.Options{Observe: func(_ context.Context, e inbox.Event) {
		if e.Operation == "work" {
			s.stop()
		}
	}}
	s.inbox = must(inbox.New(b.Context(), s.db, d.dialect, opts))(b)
	key := must(rsa.GenerateKey(rand.Reader, 2048))(b)
	s.signer = must(signature.NewSigner("key", key, nil))(b)
	s.verifier = must(signature.NewVerifier(signature.StaticKeys{"key": &key.PublicKey}, []string{host}, nil))(b)
	s.handler = s.inbox.Handler(s.verifier)
	credentials := idverify.Credentials{ClientID: "client", ClientSecret: idverify.NewSecret("secret")}
	s.client = must(idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: completedChecks{}})))(b)
	return s
}

// completedChecks is a service without a network, in which every check is completed.
type completedChecks struct{}

// RoundTrip implements http.RoundTripper.
func (completedChecks) RoundTrip(r *http.Request) (*http.Response, error) {
	body := checkBody(path.Base(r.URL.Path))
	if r.Method == http.MethodPost {
		body = `{"access_token":"token","token_type":"bearer","expires_in":3599,"scope":"phone_check"}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func checkBody(id string) string {
	return fmt.Sprintf(`{"check_id":%q,"status":"COMPLETED","match":true,"charge_amount":1.00000,"charge_currency":"API","created_at":"2026-01-02T03:04:05+0000","network_id":"23410"}`, id)
}

func (s *benched) now() int64 { return time.Now().UnixMicro() }

// fill inserts entries that were processed a day to a week ago.
func (s *benched) fill(b *testing.B, entries int) {
	b.Helper()
	if entries == 0 {
		return
	}
	execute(b, s.db, "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < $1) "+
		"INSERT INTO idverify_checks (reference, product, planned_at, check_id, give_up_at, status, is_match, source, ended_at, attempts, done_at) "+
		"SELECT 'reference ' || i, 'phone_check', at, 'check ' || i, at, 'COMPLETED', 1, 'callback', at, 1, at FROM (SELECT i, CAST($2 AS bigint) + CAST(i AS bigint) * 500000 AS at FROM numbers) AS times",
		entries, s.now()-7*24*hour)
}

// insert inserts an entry and sets one column.
func (s *benched) insert(b testing.TB, id, column string, value int64) {
	b.Helper()
	execute(b, s.db, "INSERT INTO idverify_checks (reference, check_id, product, planned_at, give_up_at, "+column+") VALUES ($1, $2, 'phone_check', $3, $4, $5)",
		id, id, s.now(), s.now()+hour, value)
}

// callback returns the signed callback of a check.
func (s *benched) callback(b testing.TB, id string) *http.Request {
	b.Helper()
	body := []byte(checkBody(id))
	r := httptest.NewRequest(http.MethodPost, "https://"+host+"/callbacks", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Service-Callback", "phone_check")
	noError(b, s.signer.SignCallback(r, body))
	return r.WithContext(b.Context()) // which can end, as the context of a request that a server received
}

func (s *benched) prepareHandler(b testing.TB) {
	id := rand.Text()
	s.insert(b, id, "reconcile_at", s.now()+hour)
	s.request = s.callback(b, id)
}

func (s *benched) runHandler(testing.TB) error { return serve(s.handler, s.request) }

func (s *benched) prepareWork(b testing.TB) {
	id := rand.Text()
	s.insert(b, id, "due_at", s.now()-hour)
	execute(b, s.db, "UPDATE idverify_checks SET status = 'COMPLETED', ended_at = planned_at WHERE reference = $1", id)
}

func (s *benched) runWork(b testing.TB) error {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	s.stop = cancel
	var failed error
	err := s.inbox.Work(ctx, func(_ context.Context, _ *sql.Tx, e inbox.Entry) error {
		if e.EndedAt.IsZero() {
			failed = errors.New("the entry has not ended")
		}
		return nil
	})
	return errors.Join(err, failed)
}

func (s *benched) prepareReconcile(b testing.TB) { s.insert(b, rand.Text(), "reconcile_at", s.now()-1) }

func (s *benched) runReconcile(b testing.TB) error { return s.inbox.Reconcile(b.Context(), s.client) }

// handWritten is the handler that a user writes without package inbox. It gives the same guarantee
// for results that a worker processes later.
type handWritten struct {
	db      *sql.DB
	handler http.Handler
}

func newHandWritten(b *testing.B, d database, v *signature.Verifier) *handWritten {
	b.Helper()
	h := &handWritten{db: d.open(b)}
	execute(b, h.db, "CREATE TABLE checks (check_id text PRIMARY KEY, reference text NOT NULL UNIQUE, planned_at bigint NOT NULL, overdue_at bigint, status text, is_match smallint, "+
		"network_id text, error_code text, charge_amount text, charge_currency text, ended_at bigint, due_at bigint)")
	execute(b, h.db, "CREATE INDEX checks_overdue ON checks (overdue_at) WHERE overdue_at IS NOT NULL")
	execute(b, h.db, "CREATE INDEX checks_due ON checks (due_at) WHERE due_at IS NOT NULL")
	h.handler = idverify.CallbackHandler(v, h.store)
	return h
}

func (h *handWritten) insert(b testing.TB, id string) {
	b.Helper()
	now := time.Now().UnixMicro()
	execute(b, h.db, "INSERT INTO checks (check_id, reference, planned_at, overdue_at) VALUES ($1, $2, $3, $4)", id, id, now, now+hour)
}

func (h *handWritten) store(ctx context.Context, c *idverify.Callback) error {
	matched := 0
	if c.Match == idverify.VerdictYes {
		matched = 1
	}
	result, err := h.db.ExecContext(ctx, "UPDATE checks SET status = $1, is_match = $2, network_id = $3, error_code = $4, charge_amount = $5, charge_currency = $6, "+
		"ended_at = $7, due_at = $7, overdue_at = NULL WHERE check_id = $8 AND status IS NULL",
		string(c.Status), matched, c.NetworkID, c.ErrorCode, string(c.ChargeAmount), c.ChargeCurrency, time.Now().UnixMicro(), c.CheckID)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	var stored int
	return h.db.QueryRowContext(ctx, "SELECT 1 FROM checks WHERE check_id = $1", c.CheckID).Scan(&stored)
}

// serve passes a callback to a handler.
func serve(h http.Handler, r *http.Request) error {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent {
		return fmt.Errorf("status = %d, want 204", w.Code)
	}
	return nil
}

func execute(b testing.TB, db *sql.DB, query string, args ...any) {
	b.Helper()
	if _, err := db.ExecContext(b.Context(), query, args...); err != nil {
		b.Fatal(fmt.Errorf("%s: %w", statement{query: query}, err))
	}
}

// throughputInbox returns an Inbox on an empty database, with 16 connections.
func throughputInbox(b *testing.B, d database) (*inbox.Inbox, *sql.DB) {
	b.Helper()
	db := d.open(b)
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	return newInbox(b, db, d.dialect, nil), db
}

// plannedResults plans b.N checks in one transaction, and returns their results.
func plannedResults(b *testing.B, checks *inbox.Inbox, db *sql.DB) []inbox.Result {
	b.Helper()
	tx := must(db.BeginTx(b.Context(), nil))(b)
	defer tx.Rollback()
	results := make([]inbox.Result, b.N)
	for n := range results {
		results[n] = inbox.Result{
			Product: idverify.ProductPhoneCheck, CheckID: fmt.Sprintf("%s-%d", rand.Text(), n), ReferenceID: rand.Text(),
			Status: idverify.StatusCompleted, Match: idverify.VerdictYes,
		}
		noError(b, checks.Plan(b.Context(), tx, results[n].Product, results[n].ReferenceID))
	}
	noError(b, tx.Commit())
	for _, r := range results {
		noError(b, checks.Bind(b.Context(), r.ReferenceID, r.CheckID, 0))
	}
	return results
}
