// Package inbox stores checks and their results in your database, so that no callback is lost and
// each result is processed once.
//
// One table, idverify_checks, is both the record of your checks and the inbox for their results.
// Package inbox uses database/sql with PostgreSQL 15 or newer, or SQLite. It contains no driver:
// import github.com/jackc/pgx/v5/stdlib or modernc.org/sqlite.
//
// # Life of a check
//
//  1. [Inbox.Plan] stores a unique reference in your transaction, before Create. A crash after
//     Create therefore loses nothing. Without a ReferenceID, step 2 plans a random one.
//  2. [Inbox.CreatePhoneCheck], [Inbox.CreateSubscriberCheck] or [Inbox.CreateSIMCheck] creates the
//     check with this reference as its ReferenceID, once, and adds its CheckID.
//  3. [Inbox.Handler] verifies the callback, stores the result once and acknowledges it.
//     [Inbox.Record] stores results that you learn in another way: from Complete or Wait.
//  4. [Inbox.Reconcile] finds checks whose Create did not return, and reads checks whose callback
//     is overdue. A check that can no longer be found ends with [StatusLost].
//  5. The result is processed once: by [Options].OnResult in the transaction that stores it, or
//     later by [Inbox.Work].
//
// At the start of the program:
//
//	db, err := sql.Open("sqlite", source) // for source see SQLite below
//	err = inbox.Migrate(ctx, db, inbox.SQLite)
//	checks, err := inbox.New(ctx, db, inbox.SQLite, &inbox.Options{Logger: logger})
//	mux.Handle("POST /callbacks", checks.Handler(verifier)) // a signature.Verifier
//	stop := checks.Start(context.WithoutCancel(ctx), client, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
//		// … write e.Match to your own row with tx …
//	}) // calls Work, Reconcile and Purge
//	defer stop() // before db is closed
//
// For each check that belongs to a row of yours:
//
//	tx, err := db.BeginTx(ctx, nil)
//	// … insert your own row, for example a sign-up with this reference …
//	err = checks.Plan(ctx, tx, idverify.ProductPhoneCheck, reference)
//	err = tx.Commit()
//	check, err := checks.CreatePhoneCheck(ctx, client, idverify.PhoneCheckParams{
//		PhoneNumber: number,
//		ReferenceID: reference,
//		CallbackURL: "https://shop.example.com/callbacks",
//	})
//	// … send check.CheckURL to the app …
//
// # Process results
//
// In one process, [Inbox.Work] calls your function with a transaction. What the function writes
// with it is committed together with the mark that the result is processed, so in the database each
// result takes effect once. Effects outside of the database happen at least once: use the
// Reference as their idempotency key. The CheckID can be empty, see [StatusLost]. The function
// must return every error of the transaction, see [Inbox.Work].
//
// On many machines, use a job queue with workers, such as River on PostgreSQL. OnResult inserts the
// job in the transaction that stores the result. See docs/replicas.md.
//
// # Sign-in sessions
//
// [Inbox.Flows] stores the flows of package checkflow in the same database, in the table
// idverify_flows:
//
//	web, err := checkflow.NewWeb(checkflow.Config{Store: checks.Flows(0), Create: checks.CreatePhoneCheck, CallbackURL: url, …})
//
// With this Create, the Inbox plans and records each check of a sign-in, and processes its result.
// If you need only the record, pass [Inbox.Start] a function that returns nil.
//
// # SQLite
//
// SQLite has one writer at a time. Open the database with immediate transactions, a busy timeout
// and full synchronization, for example with modernc.org/sqlite:
//
//	file:checks.db?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// [New] verifies these settings. Functions of Work and OnResult hold the lock of the database: keep
// them short, and do not wait for the network.
//
// # Personal data
//
// The table idverify_checks contains no phone numbers and no addresses. Do not use a phone number
// as a reference. The table idverify_flows contains the phone number of a check until the flow is
// deleted: see [Inbox.Flows].
//
// Protocol: docs/protocol.md, section 14.
package inbox
