package inbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

// fault is a failure of one step of an operation. A step is a statement, a begin or a commit.
type fault struct {
	name  string
	after bool  // the step takes effect, and its response is lost
	lost  bool  // the connection is lost
	down  bool  // the database is unavailable from then on
	err   error // of the step
}

// faults are the failures that each step is tested with. Only a step without effect may return
// driver.ErrBadConn: database/sql repeats it on another connection.
var faults = []fault{
	{name: "fails", err: errFault},
	{name: "fails after its effect", after: true, err: errFault},
	{name: "bad connection", lost: true, err: driver.ErrBadConn},
	{name: "lost connection", lost: true, err: io.ErrUnexpectedEOF},
	{name: "lost connection after its effect", after: true, lost: true, err: io.ErrUnexpectedEOF},
	{name: "database stops", lost: true, down: true, err: driver.ErrBadConn},
	{name: "database stops after its effect", after: true, lost: true, down: true, err: io.ErrUnexpectedEOF},
}

var errFault = errors.New("injected failure")

// statement is a statement with its arguments, or a begin or commit.
type statement struct {
	query string
	args  []driver.NamedValue
}

// faultyConnector opens connections of a real driver whose n-th step fails.
type faultyConnector struct {
	driver driver.Driver
	source string

	mu    sync.Mutex // guards the fields below
	fault *fault     // nil: no step fails
	nth   int
	steps []statement // since the last call of arm
	down  bool
}

// openFaulty opens a new database whose steps can fail.
func openFaulty(t testing.TB, d database) (*sql.DB, *faultyConnector) {
	t.Helper()
	source := d.source(t)
	f := &faultyConnector{driver: openDB(t, d.driver, source).Driver(), source: source}
	db := sql.OpenDB(f)
	t.Cleanup(func() { db.Close() })
	return db, f
}

// arm makes the n-th step from now on fail, counted from 1. With 0, no step fails.
func (f *faultyConnector) arm(n int, fails fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.nth, f.steps = &fails, n, nil
}

// disarm makes the database available again. It returns the steps since arm, and whether one
// failed.
func (f *faultyConnector) disarm() (steps []statement, failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed = f.fault != nil && f.nth > 0 && len(f.steps) >= f.nth
	f.fault, f.down = nil, false
	return f.steps, failed
}

// next returns the fault of the next step, or nil.
func (f *faultyConnector) next(step statement) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == nil {
		return nil
	}
	f.steps = append(f.steps, step)
	switch {
	case f.down:
		return &fault{lost: true, err: driver.ErrBadConn}
	case len(f.steps) == f.nth:
		f.down = f.fault.down
		return f.fault
	}
	return nil
}

// Connect implements driver.Connector.
func (f *faultyConnector) Connect(context.Context) (driver.Conn, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return nil, errFault
	}
	conn, err := f.driver.Open(f.source)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, connector: f}, nil
}

// Driver implements driver.Connector.
func (f *faultyConnector) Driver() driver.Driver { return f.driver }

// faultyConn forwards the interfaces that the drivers implement. database/sql uses a connection in
// one goroutine at a time.
type faultyConn struct {
	driver.Conn

	connector *faultyConnector
	tx        driver.Tx // nil unless a transaction is in progress
	lost      bool
}

// step performs a step, or fails. effect gets the fault of the step.
func (c *faultyConn) step(step statement, effect func(*fault) error) error {
	if c.lost {
		return driver.ErrBadConn
	}
	f := c.connector.next(step)
	if f == nil || f.after {
		if err := effect(f); err != nil || f == nil {
			return err
		}
	}
	if f.lost {
		c.lose()
	}
	return f.err
}

// lose closes the connection. The rollback makes sure that the server has released the locks of the
// transaction when lose returns.
func (c *faultyConn) lose() {
	if c.tx != nil {
		_ = c.tx.Rollback()
	}
	c.tx, c.lost = nil, true
	_ = c.Conn.Close()
}

// BeginTx implements driver.ConnBeginTx.
func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	err := c.step(statement{query: "begin"}, func(f *fault) (err error) {
		c.tx, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	if err != nil {
		if c.tx != nil { // a driver closes the connection if a begin with an effect fails
			c.lose()
		}
		return nil, err
	}
	return faultyTx{c}, nil
}

// ExecContext implements driver.ExecerContext.
func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	err = c.step(statement{query, args}, func(*fault) error {
		result, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// QueryContext implements driver.QueryerContext.
func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.step(statement{query, args}, func(f *fault) error {
		rows, err = c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
		if err != nil || f == nil {
			return err
		}
		return finish(rows) // the statement takes effect when its rows have been read
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// finish reads all rows and closes them.
func finish(rows driver.Rows) error {
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return rows.Close()
		case err != nil:
			return errors.Join(err, rows.Close())
		}
	}
}

// PrepareContext implements driver.ConnPrepareContext. Package inbox prepares no statements.
func (c *faultyConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, errors.New("prepared statements have no faults")
}

// Close implements driver.Conn.
func (c *faultyConn) Close() error {
	if c.lost {
		return nil
	}
	return c.Conn.Close()
}

// Ping implements driver.Pinger.
func (c *faultyConn) Ping(ctx context.Context) error {
	if c.lost {
		return driver.ErrBadConn
	}
	return c.Conn.(driver.Pinger).Ping(ctx)
}

// ResetSession implements driver.SessionResetter.
func (c *faultyConn) ResetSession(ctx context.Context) error {
	if c.lost {
		return driver.ErrBadConn
	}
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

// IsValid implements driver.Validator.
func (c *faultyConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !c.lost && (!ok || v.IsValid())
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// faultyTx is the transaction of a connection.
type faultyTx struct{ *faultyConn }

// Commit implements driver.Tx. A failed commit without an effect ends the transaction.
func (t faultyTx) Commit() error {
	tx := t.tx
	err := t.step(statement{query: "commit"}, func(*fault) error {
		t.tx = nil
		return tx.Commit()
	})
	if err != nil && t.tx != nil {
		t.tx = nil
		_ = tx.Rollback()
	}
	return err
}

// Rollback implements driver.Tx.
func (t faultyTx) Rollback() error {
	if t.lost {
		return driver.ErrBadConn
	}
	tx := t.tx
	t.tx = nil
	return tx.Rollback()
}

// String returns the first words of the statement.
func (s statement) String() string {
	words := strings.Fields(s.query)
	return strings.Join(words[:min(len(words), 4)], " ")
}
