package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/idverify/idverify-go/checkflow"
)

// Flows returns a store of the flows of package checkflow, in the table idverify_flows of the
// database. All processes that serve the same pages or the same app can share it. It is full when
// it contains max flows, or a few more if several processes add flows at the same time. If max is
// zero or negative, it is 10,000.
//
// A flow contains a phone number. The next start, and [Inbox.Purge], delete it ten minutes after it
// has expired.
//
// In PostgreSQL, a failover to an asynchronous replica can lose the revocation of a flow. Then the
// person who started the check can sign in although another browser opened its link: make the
// replicas that can become primary synchronous.
func (i *Inbox) Flows(max int) checkflow.Store {
	if max <= 0 {
		max = defaultMaxFlows
	}
	return &flows{i, max}
}

// defaultMaxFlows is enough for 50 starts per second.
const defaultMaxFlows = 10_000

// flows is a [checkflow.Store]. Each statement that changes a flow is atomic, so no transaction is
// needed.
type flows struct {
	inbox *Inbox
	max   int
}

// Available implements [checkflow.Store]. It deletes expired flows, because the check is not yet
// charged if this takes too long.
func (s *flows) Available(ctx context.Context) error {
	_, _ = s.inbox.purgeFlowBatch(ctx) // the store has room for new flows without it
	_, full, err := s.find(ctx, "")
	switch {
	case err != nil:
		return fmt.Errorf("inbox: check flow store: %w", err)
	case full:
		return fmt.Errorf("inbox: check flow store: %w", checkflow.ErrFull)
	}
	return nil
}

// Add implements [checkflow.Store].
func (s *flows) Add(ctx context.Context, f checkflow.Flow, ttl time.Duration) error {
	if err := s.add(ctx, f, ttl); err != nil {
		return fmt.Errorf("inbox: add flow: %w", err)
	}
	return nil
}

func (s *flows) add(ctx context.Context, f checkflow.Flow, ttl time.Duration) error {
	switch exists, full, err := s.find(ctx, f.CheckID); {
	case err != nil:
		return err
	case exists:
		return checkflow.ErrExists
	case full:
		return checkflow.ErrFull
	}
	now := s.inbox.now()
	result, err := s.inbox.exec(ctx, "INSERT INTO idverify_flows (check_id, owner, state, phone_number, account, data, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7) "+
		"ON CONFLICT (check_id) DO UPDATE SET owner = excluded.owner, state = excluded.state, phone_number = excluded.phone_number, "+
		"account = excluded.account, data = excluded.data, expires_at = excluded.expires_at WHERE idverify_flows.expires_at <= $8",
		f.CheckID, f.Owner[:], string(f.State), f.PhoneNumber, []byte(f.Account), []byte(f.Data), now+max(ttl.Microseconds(), 1), now)
	if err != nil {
		return err
	}
	return expectRow(result, checkflow.ErrExists)
}

// find reports whether there is a flow of checkID, and whether the store is full.
func (s *flows) find(ctx context.Context, checkID string) (exists, full bool, err error) {
	var found, live int
	err = s.inbox.queryRow(ctx, "SELECT (SELECT count(*) FROM idverify_flows WHERE check_id = $1 AND expires_at > $2), "+
		"(SELECT count(*) FROM (SELECT 1 FROM idverify_flows WHERE expires_at > $2 LIMIT $3) AS live)",
		checkID, s.inbox.now(), s.max).Scan(&found, &live)
	return found > 0, live >= s.max, err
}

// Claim implements [checkflow.Store].
func (s *flows) Claim(ctx context.Context, checkID string, owner [32]byte, revoke bool) (checkflow.Flow, checkflow.Reason, error) {
	f, reason, err := changeFlow(ctx, s.inbox, checkID, func(f *checkflow.Flow) checkflow.Reason { return f.Claim(owner, revoke) })
	switch {
	case err != nil:
		return checkflow.Flow{}, "", fmt.Errorf("inbox: claim flow: %w", err)
	case reason != "":
		return checkflow.Flow{}, reason, nil
	}
	return f, "", nil
}

// Finish implements [checkflow.Store].
func (s *flows) Finish(ctx context.Context, checkID string) (bool, error) {
	_, finished, err := changeFlow(ctx, s.inbox, checkID, (*checkflow.Flow).Finish)
	if err != nil {
		return false, fmt.Errorf("inbox: finish flow: %w", err)
	}
	return finished, nil
}

// changeFlow applies a change to the flow of checkID, and returns the flow and the result of the
// change. If another call changes the flow in the meantime, it applies the change again. A flow has
// at most three changes.
func changeFlow[T any](ctx context.Context, i *Inbox, checkID string, apply func(*checkflow.Flow) T) (f checkflow.Flow, result T, err error) {
	for {
		var expires int64
		f, expires, err = i.readFlow(ctx, checkID)
		if err != nil {
			return f, result, err
		}
		before := f.State
		result = apply(&f)
		if f.State == before {
			return f, result, nil
		}
		changed, err := i.exec(ctx, "UPDATE idverify_flows SET state = $1 WHERE check_id = $2 AND state = $3 AND expires_at = $4",
			string(f.State), checkID, string(before), expires)
		if err == nil {
			err = expectRow(changed, errChanged)
		}
		if !errors.Is(err, errChanged) {
			return f, result, err
		}
	}
}

// errChanged means that another call has changed the flow.
var errChanged = errors.New("flow changed")

// readFlow returns the flow of checkID and when it expires, or a zero Flow if there is none.
func (i *Inbox) readFlow(ctx context.Context, checkID string) (f checkflow.Flow, expires int64, err error) {
	var owner, account, data []byte
	err = i.queryRow(ctx, "SELECT check_id, owner, state, phone_number, account, data, expires_at FROM idverify_flows WHERE check_id = $1 AND expires_at > $2",
		checkID, i.now()).Scan(&f.CheckID, &owner, &f.State, &f.PhoneNumber, &account, &data, &expires)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return checkflow.Flow{}, 0, nil
	case err != nil:
		return checkflow.Flow{}, 0, err
	}
	copy(f.Owner[:], owner)
	f.Account, f.Data = string(account), string(data)
	return f, expires, nil
}

// purgeSlack keeps expired flows, because they may be alive for a process whose clock is behind.
const purgeSlack = 10 * time.Minute

// purgeFlowBatch deletes one batch of the expired flows.
func (i *Inbox) purgeFlowBatch(ctx context.Context) (deleted int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	result, err := i.exec(ctx, "WITH old AS MATERIALIZED (SELECT check_id FROM idverify_flows WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2"+i.dialect.skipLocked()+") "+
		"DELETE FROM idverify_flows WHERE check_id IN (SELECT check_id FROM old)", i.now()-purgeSlack.Microseconds(), purgeBatch)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
