package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

// A sign-up from Plan to its verdict. The service is a fake.
func Example() {
	ctx := context.Background()
	service, err := sandboxfake.Start(sandboxfake.WithInMemory())
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	client := service.Client()
	db, checks, closeDB := openExample(ctx) // sql.Open, Migrate and New
	defer closeDB()
	url := service.Handle("shop.sandbox.test", checks.Handler(service.Verifier([]string{"shop.sandbox.test"}, nil)))

	// 1. Store the reference before Create, together with your own rows.
	const reference = "sign-up-1" // use crypto/rand.Text
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if err := checks.Plan(ctx, tx, idverify.ProductPhoneCheck, reference); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}

	// 2. Create the check, once for each reference.
	check, err := checks.CreatePhoneCheck(ctx, client, idverify.PhoneCheckParams{PhoneNumber: "447700900012", ReferenceID: reference, CallbackURL: url + "/callbacks"})
	if err != nil {
		log.Fatal(err)
	}

	// 3. The phone opens the Check URL. The service sends the callback to Handler.
	if _, err := service.Device().Open(ctx, check.CheckURL); err != nil {
		log.Fatal(err)
	}

	// 4. Process the result.
	working, stop := context.WithCancel(ctx)
	err = checks.Work(working, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
		fmt.Printf("%s: matched: %s, from %s\n", e.Reference, e.Match, e.Source)
		stop() // a backend continues
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// sign-up-1: matched: yes, from callback
}

// A SIMCheck has no callback: CreateSIMCheck stores its result.
func ExampleInbox_CreateSIMCheck() {
	ctx := context.Background()
	service, err := sandboxfake.Start(sandboxfake.WithInMemory())
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	db, checks, closeDB := openExample(ctx)
	defer closeDB()
	const reference = "payout-1"
	if err := planCommitted(ctx, db, checks, idverify.ProductSIMCheck, reference); err != nil {
		log.Fatal(err)
	}

	sim, err := checks.CreateSIMCheck(ctx, service.Client(), idverify.SIMCheckParams{PhoneNumber: "447700900015", ReferenceID: reference})
	if err != nil {
		log.Fatal(err)
	}
	e, err := checks.Get(ctx, reference)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Printf("SIM unchanged: %s, stored: %s\n", sim.NoSIMChange, e.NoSIMChange)
	// Output:
	// SIM unchanged: no, stored: no
}

// planCommitted plans a check in its own transaction.
func planCommitted(ctx context.Context, db *sql.DB, checks *inbox.Inbox, product idverify.Product, reference string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := checks.Plan(ctx, tx, product, reference); err != nil {
		return err
	}
	return tx.Commit()
}

// openExample opens a new database in a temporary directory.
func openExample(ctx context.Context) (db *sql.DB, checks *inbox.Inbox, closeDB func()) {
	dir, err := os.MkdirTemp("", "inbox")
	if err != nil {
		log.Fatal(err)
	}
	db, err = sql.Open("sqlite", "file:"+filepath.Join(dir, "checks.db")+
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		log.Fatal(err)
	}
	if err := inbox.Migrate(ctx, db, inbox.SQLite); err != nil {
		log.Fatal(err)
	}
	checks, err = inbox.New(ctx, db, inbox.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	return db, checks, func() {
		db.Close()
		os.RemoveAll(dir)
	}
}
