package inbox_test

import (
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

func TestOptions_LoggerOmitsAddress(t *testing.T) {
	t.Parallel()
	address := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 5432}
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: syscall.ECONNREFUSED}
	for _, test := range []struct {
		err  error
		want string
	}{
		{dial, "connection refused"},
		{&connectError{"10.0.0.7:5432 (db.internal)", dial}, "error=\"claim an entry: dial: connection refused\""},
		{&connectError{"user=shop", errors.Join(&connectError{"10.0.0.7:5432", dial}, &connectError{"[fd00::7]:5432", dial})}, "error=\"claim an entry: dial: connection refused\""},
		{&connectError{"10.0.0.7:5432 (db.internal)", errors.New("server without TLS")}, "server without TLS"},
		{&connectError{"hostname resolving error", &net.DNSError{Err: "no such host", Name: "db.internal", Server: "10.0.0.53:53"}}, "no such host"},
		{&connectError{"tls error", x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"other.internal"}}, Host: "db.internal"}}, "certificate is for another host"},
		{&connectError{"db.internal", &net.AddrError{Err: "missing port in address", Addr: "db.internal"}}, "missing port in address"},
		{&connectError{"db.internal", serverError(`no pg_hba.conf entry for host "10.0.0.7", no encryption`)}, "no pg_hba.conf entry"},
		{serverError(`no pg_hba.conf entry for host "fd00::7", no encryption`), "no encryption"},
		{fmt.Errorf("10.0.0.7: %w", io.ErrUnexpectedEOF), "unexpected EOF"},
		{errors.New("read 10.0.0.7:5432->10.0.0.8:4711: reset"), "reset"},
	} {
		db, connector := openFaulty(t, databases[0])
		ctx, cancel := context.WithCancel(t.Context())
		var log strings.Builder
		checks := newInbox(t, db, inbox.SQLite, &inbox.Options{Logger: slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			cancel()
			return log.Write(p)
		}), nil))})
		connector.arm(1, fault{err: test.err})

		noError(t, checks.Work(ctx, insertEffect))

		if !strings.Contains(log.String(), test.want) {
			t.Errorf("log = %s, want %q", &log, test.want)
		}
		for _, secret := range []string{"10.0.0", "fd00", "internal", "5432", "shop"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("log = %s, want it without %q", &log, secret)
			}
		}
		connector.arm(1, fault{err: test.err})
		_, err := checks.Get(t.Context(), "r")
		if !errors.Is(err, test.err) {
			t.Errorf("error of Get = %v, want it to match %v", err, test.err)
		}
		for ; err != nil; err = errors.Unwrap(err) { // a tool may log all of them
			if strings.Contains(fmt.Sprintf("%+v", err), "10.0.0") || strings.Contains(err.Error(), "internal") {
				t.Errorf("error of Get = %+v, want it without the address", err)
			}
		}
	}
}

// connectError is an error of a driver, which adds the address to an error below it.
type connectError struct {
	text string
	err  error
}

func (e *connectError) Error() string { return e.text + ": " + e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// serverError is an error that a PostgreSQL server returned.
type serverError string

func (e serverError) Error() string  { return string(e) }
func (serverError) SQLState() string { return "28000" }

// The database is reached by TCP until its connections are closed.
func TestOptions_LoggerOmitsPostgresAddress(t *testing.T) {
	t.Parallel()
	source := postgres.Database(t)
	socket := strings.TrimPrefix(strings.Fields(source)[0], "host=")
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var mu sync.Mutex
	connections := []io.Closer{listener}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", path.Join(socket, ".s.PGSQL.5432"))
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			connections = append(connections, client, server)
			mu.Unlock()
			go io.Copy(client, server)
			go io.Copy(server, client)
		}
	}()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	d := database{"PostgreSQL", inbox.Postgres, "pgx", func(testing.TB) string {
		return strings.Replace(source, "host="+socket, "host=localhost port="+port+" sslmode=disable", 1)
	}}
	records := make(logRecords, 100)
	b := newBackend(t, d, &inbox.Options{Logger: slog.New(slog.NewTextHandler(records, nil))})
	check := b.start(t, matching, "r")

	mu.Lock()
	for _, c := range connections {
		c.Close()
	}
	mu.Unlock()
	for _, test := range []struct {
		message string
		run     func(context.Context)
	}{
		{"inbox: callback", func(context.Context) { b.open(t, check) }},
		{"inbox: work", func(ctx context.Context) { _ = b.inbox.Work(ctx, insertEffect) }},
		{"inbox: reconcile", func(ctx context.Context) { defer b.inbox.Start(ctx, b.client, nil)(); <-ctx.Done() }},
		{"inbox: purge", func(ctx context.Context) { defer b.inbox.Start(ctx, b.client, nil)(); <-ctx.Done() }},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { test.run(ctx) })
		for found := false; !found; {
			record := <-records
			found = strings.Contains(record, "level=ERROR msg="+strconv.Quote(test.message))
			if !strings.Contains(record, "connection refused") && !strings.Contains(record, "reset") && !strings.Contains(record, "EOF") {
				t.Errorf("record = %s, want the cause", record)
			}
			for _, secret := range []string{"127.0.0.1", "localhost", port, "user=", "::1"} {
				if strings.Contains(record, secret) {
					t.Errorf("record = %s, want it without %q", record, secret)
				}
			}
		}
		cancel()
		all.Wait()
	}
}

// The test searches all outputs for the phone numbers of the checks.
func TestInbox_NoPhoneNumbers(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if e.Reference == "failing" && e.Status != inbox.StatusLost {
				return errors.New("failed")
			}
			return insertEffect(ctx, tx, e)
		}})
		const number = "447700900012"
		for _, reference := range []string{"stored", "failing"} {
			b.open(t, b.start(t, number, reference))
		}
		other := b.otherCustomer()
		other.open(t, other.create(t, number, "other"))
		b.plan(t, idverify.ProductSIMCheck, "SIM")
		sim := must(b.client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: "SIM"}))(t)
		must(b.inbox.Record(t.Context(), inbox.ResultOf(sim)))(t)
		b.plan(t, idverify.ProductPhoneCheck, "unbound")
		b.create(t, number, "unbound")
		b.advance(t, 31*time.Second)
		texts := []string{fmt.Sprint(b.inbox.Reconcile(t.Context(), b.client)), fmt.Sprint(b.inbox.Bind(t.Context(), "unbound", "conflict", 0))}
		b.advance(t, time.Hour)
		texts = append(texts, fmt.Sprint(b.inbox.Reconcile(t.Context(), b.client)))

		log := b.logged()
		texts = append(texts, log, fmt.Sprintf("%+v", b.events))
		rows := dump(t, b.db, "idverify_checks")
		texts = append(texts, rows)

		for _, text := range texts {
			if strings.Contains(text, number[2:]) {
				t.Errorf("text contains the phone number:\n%s", text)
			}
		}
		for _, want := range []string{"stored", "failing", "SIM", "unbound", "COMPLETED", sim.CheckID} {
			if !strings.Contains(rows, want) {
				t.Errorf("table does not contain %q, want the test to search it:\n%s", want, rows)
			}
		}
		if !strings.Contains(log, "outcome=failed") || !strings.Contains(log, "outcome=early") {
			t.Errorf("log = %s, want failed and early callbacks", log)
		}
	})
}
