package inbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Inbox stores checks and their results in a database. Create one with [New] and reuse it; it is
// safe for concurrent use. Several processes may share a PostgreSQL database. The checks of a
// database must belong to one project, because [Inbox.Reconcile] reads them with one client.
type Inbox struct {
	db      *sql.DB
	dialect Dialect
	opts    Options
	isolate bool          // statements without a transaction would not be read committed
	arrived chan struct{} // capacity 1: wakes Work when a result is stored
	// blocked contains the references of entries whose function must not be called, because its
	// transaction ended and the entry has not stopped yet. On SQLite, it also contains the entry whose
	// function is running: other calls can only look it up if the transaction has ended, because until
	// then it locks the database.
	blocked sync.Map
}

// Options configures [New]. The zero value of a field selects its default.
type Options struct {
	// OnResult processes a result in the transaction that stores it. If it returns an error or
	// panics, the transaction is rolled back: [Inbox.Handler] responds with 500 so that the service
	// sends the callback again, and Record and Reconcile return the error. After a serialization
	// failure or a deadlock, it is called again at once. It is called once for each check whose
	// transaction commits. It must use tx for its statements, return every error of tx, return within
	// seconds and when ctx ends, and neither commit nor roll back tx. Use it to insert a job into a
	// queue.
	//
	// If tx ends before OnResult returns, later statements may be committed. OnResult is then not
	// called again: the result is stored, the entry stops with Attempts 0, the handler responds with
	// 204, and Record and Reconcile return [ErrTransactionEnded].
	//
	// If OnResult is nil, results wait for [Inbox.Work]. OnResult is not called for results that were
	// stored without it: until [Stats].Pending is 0, also call Work of an Inbox without OnResult.
	OnResult func(ctx context.Context, tx *sql.Tx, e Entry) error

	// Retention is how long entries are kept after they were processed. [Inbox.Purge] deletes older
	// ones. The default is 30 days; a negative Retention keeps all entries. Entries that are not
	// processed, or whose processing has stopped, are always kept.
	Retention time.Duration

	// MaxAttempts is how often Work calls its function for an entry before the entry stops. The
	// default is 20, which takes about an hour and three quarters.
	MaxAttempts int

	// Observe receives an event for each verified callback, each result, each attempt of Work, and
	// each failed Record or read of Reconcile. It is called after the transaction has ended, may be
	// called concurrently and must not block. A panic in it is logged. For callbacks that are not
	// verified, see [signature.VerifierOptions].Observe.
	Observe func(context.Context, Event)

	// Logger receives a record at level error for each failure that no method returns, and at level
	// warn for callbacks of checks that are not stored, and for results of a clock that was ahead. It
	// contains neither phone numbers nor addresses, except in the errors of your functions, which are
	// logged unchanged. By default nothing is logged.
	Logger *slog.Logger

	// Now returns the current time. The default is [time.Now].
	Now func() time.Time
}

// Errors for errors.Is.
var (
	// ErrReferenceUsed means that the reference is already stored. References are unique for each
	// Create, not for each order or customer.
	ErrReferenceUsed = errors.New("reference already used")

	// ErrNotFound means that no entry has the reference or check ID.
	ErrNotFound = errors.New("entry not found")

	// ErrConflict means that the entry has another check ID or product, or has ended without a check
	// ID, or that the check ID belongs to another entry. For Discard and the create methods, it means
	// that the entry has a check ID, has ended, or was passed to a create method before.
	ErrConflict = errors.New("conflicting entry")

	// ErrTransactionEnded means that the transaction of the function ended before the function
	// returned. The result is stored, and the entry has stopped: the function is not called again.
	// Statements that the function ran after the transaction ended may be committed, so verify their
	// effects before [Inbox.Retry].
	ErrTransactionEnded = errors.New("the transaction ended before the function returned")

	// ErrSchema means that the table is missing or too old: see [Migrate].
	ErrSchema = errors.New("database schema missing or too old")

	// ErrSettings means that the settings of the database could lose results: see [New].
	ErrSettings = errors.New("unsafe database settings")
)

// New returns an Inbox that stores its entries in db. It verifies the version of the schema
// ([ErrSchema]) and the settings of the database ([ErrSettings]): on SQLite immediate transactions,
// a busy timeout of at least a second, synchronous=FULL and a journal on disk for every connection,
// on PostgreSQL that synchronous_commit is not off. With SetMaxOpenConns(1), SQLite's transactions
// need not be immediate. opts may be nil.
func New(ctx context.Context, db *sql.DB, d Dialect, opts *Options) (*Inbox, error) {
	i := &Inbox{db: db, dialect: d, arrived: make(chan struct{}, 1)}
	if opts != nil {
		i.opts = *opts
	}
	o := &i.opts
	o.Retention = cmp.Or(o.Retention, defaultRetention)
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = defaultMaxAttempts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := d.check(ctx, db); err != nil {
		return nil, fmt.Errorf("inbox: new: %w", err)
	}
	readCommitted, err := d.isReadCommitted(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("inbox: new: read the isolation level: %w", err)
	}
	i.isolate = !readCommitted
	return i, nil
}

// The defaults of Options.
const (
	defaultRetention   = 30 * 24 * time.Hour
	defaultMaxAttempts = 20
)

// now returns the current time as it is stored, in microseconds since 1970.
func (i *Inbox) now() int64 { return i.opts.Now().UnixMicro() }
