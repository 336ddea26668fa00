package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/inbox"
)

// inboxDatabase is the database of module inbox. The checks only read it.
type inboxDatabase struct {
	db      *sql.DB
	dialect inbox.Dialect
	inbox   *inbox.Inbox // nil until the settings were checked
	sqlite  *sqliteFile  // nil for PostgreSQL
}

// databaseChecks returns the checks of the database.
func (d *doctorRun) databaseChecks() []doctorCheck {
	if d.database == "" {
		return nil
	}
	connection := "database-connection"
	return []doctorCheck{
		{name: connection, run: d.checkDatabase},
		{name: "database-schema", needs: []string{connection}, run: d.onDatabase(d.checkSchema)},
		{name: "database-settings", needs: []string{connection, "database-schema"}, run: d.onDatabase(d.checkSettings)},
		{name: "database-privileges", needs: []string{connection, "database-schema"}, run: d.onDatabase(d.checkPrivileges)},
		{name: "database-entries", needs: []string{connection, "database-schema"}, run: d.onDatabase(d.checkEntries)},
	}
}

func (d *doctorRun) checkDatabase(ctx context.Context) diagnosis {
	if isPostgres(d.database) {
		return d.connectPostgres(ctx)
	}
	return d.openSQLite(ctx)
}

// isPostgres reports whether a data source is that of PostgreSQL, as a URL or as words.
func isPostgres(source string) bool {
	return strings.HasPrefix(source, "postgres://") || strings.HasPrefix(source, "postgresql://") ||
		!strings.HasPrefix(source, "file:") && (strings.Contains(source, "host=") || strings.Contains(source, "dbname="))
}

// onDatabase connects to the database before check, unless it is connected.
func (d *doctorRun) onDatabase(check func(context.Context) diagnosis) func(context.Context) diagnosis {
	return func(ctx context.Context) diagnosis {
		if d.stored == nil {
			if found := d.checkDatabase(ctx); d.stored == nil {
				return skipped("no connection to the database: "+found.format, found.args...)
			}
		}
		return check(ctx)
	}
}

// checkSchema compares the version of the schema with the last migration.
func (d *doctorRun) checkSchema(ctx context.Context) diagnosis {
	want, err := lastMigration()
	if err != nil {
		return skipped("%v", err)
	}
	var version sql.NullInt64
	err = d.stored.db.QueryRowContext(ctx, "SELECT max(version) FROM idverify_schema").Scan(&version)
	switch {
	case err != nil && ctx.Err() != nil:
		return sick("unreadable", "%s", databaseError(err))
	case err != nil && isDenied(err):
		return sick("unreadable", "%s", databaseError(err))
	case err != nil || !version.Valid:
		return sick("missing", "the database has no tables of module inbox")
	case version.Int64 < want:
		return sick("outdated", "version %d, and module inbox needs %d", version.Int64, want)
	case version.Int64 > want:
		return healthy("version %d, newer than the %d of this program", version.Int64, want)
	}
	return healthy("version %d", version.Int64)
}

// lastMigration returns the version of the schema of module inbox.
func lastMigration() (int64, error) {
	files, err := fs.Glob(inbox.Migrations(), "*.up.sql")
	if err != nil || len(files) == 0 {
		return 0, errors.New("module inbox contains no migrations")
	}
	number, _, _ := strings.Cut(path.Base(files[len(files)-1]), "_")
	return strconv.ParseInt(number, 10, 64)
}

// checkSettings checks what inbox.New checks, and the rest of the settings that the documentation
// recommends.
func (d *doctorRun) checkSettings(ctx context.Context) diagnosis {
	box, err := d.openInbox(ctx)
	switch {
	case errors.Is(err, inbox.ErrSettings):
		return sick("unsafe", "%s", strings.TrimPrefix(err.Error(), "inbox: new: "))
	case err != nil:
		return sick("unreadable", "%s", databaseError(err))
	}
	d.stored.inbox = box
	if d.stored.sqlite != nil {
		return d.stored.sqlite.checkSettings(ctx, d.stored.db)
	}
	return healthy("results survive a crash of the server")
}

// openInbox returns the Inbox, whose creation only reads the database.
func (d *doctorRun) openInbox(ctx context.Context) (*inbox.Inbox, error) {
	if d.stored.inbox != nil {
		return d.stored.inbox, nil
	}
	return inbox.New(ctx, d.stored.db, d.stored.dialect, nil)
}

func (d *doctorRun) checkPrivileges(ctx context.Context) diagnosis {
	if d.stored.sqlite != nil {
		return d.stored.sqlite.checkPrivileges()
	}
	return d.checkGrants(ctx)
}

// delayedResult is the age of a result that Work has not processed for too long, as in the alert
// IdverifyInboxDelayed.
const delayedResult = 5 * time.Minute

// checkEntries looks for entries that need the attention of an operator.
func (d *doctorRun) checkEntries(ctx context.Context) diagnosis {
	box, err := d.openInbox(ctx)
	if errors.Is(err, inbox.ErrSettings) {
		return skipped("because of unsafe settings")
	}
	if err != nil {
		return sick("unreadable", "%s", databaseError(err))
	}
	s, err := box.Stats(ctx)
	if err != nil {
		return sick("unreadable", "%s", databaseError(err))
	}
	detail := fmt.Sprintf("%d in progress, %d overdue, %d pending, %d stopped", s.InProgress, s.Overdue, s.Pending, s.Stopped)
	switch {
	case s.Stopped > 0:
		return sick("stopped", "%s", detail)
	case s.OldestAge > delayedResult:
		return sick("delayed", "%s; the oldest result waits for %s", detail, seconds(s.OldestAge.Round(time.Second)))
	case s.Overdue > 0:
		return sick("overdue", "%s", detail)
	}
	return healthy("%s", detail)
}
