package inbox

import (
	"context"
	"database/sql"
)

// WorkOnce processes the entry that is due first, as Work does, and reports whether there was one.
func (i *Inbox) WorkOnce(ctx context.Context, do func(context.Context, *sql.Tx, Entry) error) (bool, error) {
	return i.workOnce(ctx, do)
}
