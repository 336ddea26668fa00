package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

// Handler returns the handler for your callback URL. It verifies each callback with v, stores its
// result once and acknowledges it. It responds as follows:
//
//	204  the result is stored, or was stored before
//	204  the result is stored, and its entry has stopped, see Options.OnResult
//	204  the callback is not about a planned check: ignored, logged at level warn
//	400  the callback is invalid; the service does not retry
//	503  the callback cannot be verified now, or its check is not stored yet; the service retries
//	500  the database or OnResult failed, or the body of a verified callback is not a check; the
//	     service retries, up to six attempts in all
//
// If the check ID is not stored, the response is 503 while the check is less than a minute old, or
// while its ReferenceID is planned and has no check ID: Bind is in progress, or Reconcile stores
// the check ID. Otherwise it is 204. Another customer of the service can cause such callbacks, but
// not results: only a check ID that Bind, Record or Reconcile has stored gets one. Callbacks with
// another product than the planned one, or with a status that is not final, are ignored too.
//
// The handler responds within eight seconds, or at once if verification has taken longer, and
// spends at most five of them on the database: the service does not retry after a timeout of ten.
// If OnResult uses all five seconds, ending the transaction may take another second. Transactions
// that fail because of a serialization failure or a deadlock are repeated within the five seconds.
// After verification the handler continues if the service closes the connection. It may be called
// concurrently.
func (i *Inbox) Handler(v *signature.Verifier) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := time.Now().Add(responseTime) // not Options.Now, which a test may freeze
		v.RequireCallback(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i.handle(w, r, deadline)
		})).ServeHTTP(w, r)
	})
}

// The time limits of Handler. The verifier may wait six seconds for the key set.
const (
	responseTime = 8 * time.Second
	storeTimeout = 5 * time.Second
)

// handle stores a verified callback and responds.
func (i *Inbox) handle(w http.ResponseWriter, r *http.Request, deadline time.Time) {
	begin := i.opts.Now()
	// If the service has closed the connection, it does not send the callback again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), min(storeTimeout, time.Until(deadline)))
	defer cancel()
	message, _ := signature.MessageFromContext(r.Context())
	callback, err := idverify.ParseCallback(message)
	outcome := OutcomeFailed
	if err == nil {
		outcome, err = i.receive(ctx, callback, message.Date)
	}
	event := Event{Operation: "callback", Outcome: outcome, Duration: i.opts.Now().Sub(begin), Err: err}
	level, checkID := slog.LevelDebug, ""
	if callback != nil {
		checkID = text(callback.CheckID)
		if hasCallback(callback.Product) {
			event.Product = callback.Product
		}
	}
	status := http.StatusNoContent
	switch outcome {
	case OutcomeFailed:
		level, status = slog.LevelError, http.StatusInternalServerError
	case OutcomeStopped:
		level = slog.LevelError // the result is stored, so the service need not send it again
	case OutcomeEarly:
		level, status = slog.LevelWarn, http.StatusServiceUnavailable
	case OutcomeIgnored:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("outcome", string(outcome)), slog.String("product", message.Product), slog.String("check_id", checkID)}
	if ended, ok := errors.AsType[*endedError](err); ok {
		// Not that of the callback, which the creator of the check has chosen.
		attrs = append(attrs, slog.String("reference", ended.reference))
	}
	i.log(ctx, level, "inbox: callback", err, attrs...)
	i.observe(ctx, event)
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	http.Error(w, http.StatusText(status), status)
}

// receive stores the result of a verified callback.
func (i *Inbox) receive(ctx context.Context, c *idverify.Callback, signed time.Time) (Outcome, error) {
	if !hasCallback(c.Product) || !c.Status.Final() || !validID(c.CheckID) {
		return OutcomeIgnored, nil
	}
	result := Result{Product: c.Product, Status: c.Status, Match: c.Match, NoSIMChange: c.NoSIMChange,
		NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ChargeAmount: c.ChargeAmount, ChargeCurrency: c.ChargeCurrency}
	update := func(ctx context.Context, q querier, column string) (*Entry, error) {
		return i.update(ctx, q, byCheckID, c.CheckID, result, SourceCallback, column)
	}
	var stored bool
	var err error
	if i.opts.OnResult == nil {
		err = i.run(ctx, func(q querier) error {
			e, err := update(ctx, q, "due_at")
			stored = e != nil
			return err
		})
		i.wake()
	} else {
		stored, err = i.store(ctx, update)
	}
	switch {
	case err != nil:
		return outcomeOf(false, err), fmt.Errorf("store the result: %w", err)
	case stored:
		return OutcomeStored, nil
	}
	outcome, err := i.notStored(ctx, c, signed)
	if err != nil {
		return OutcomeFailed, fmt.Errorf("find the check: %w", err)
	}
	return outcome, nil
}

// notStored returns the outcome of a callback whose result was not stored.
func (i *Inbox) notStored(ctx context.Context, c *idverify.Callback, signed time.Time) (Outcome, error) {
	var product string
	var status sql.NullString
	err := i.queryRow(ctx, "SELECT product, status FROM idverify_checks WHERE check_id = $1", c.CheckID).Scan(&product, &status)
	switch {
	case err == nil && product != string(c.Product):
		return OutcomeIgnored, nil
	case err == nil && !status.Valid:
		return OutcomeEarly, nil // Bind has stored the check ID in the meantime
	case err == nil:
		return OutcomeDuplicate, nil
	case !errors.Is(err, sql.ErrNoRows):
		return OutcomeFailed, err
	}
	// Both times come from the service, so our clock does not matter.
	if c.CreatedAt.IsZero() || signed.Sub(c.CreatedAt) < youngCheck {
		return OutcomeEarly, nil
	}
	if !validID(c.ReferenceID) {
		return OutcomeIgnored, nil
	}
	// The creator of the check chose the reference, and may be another customer. It decides only
	// whether the service sends the callback again.
	var planned int
	err = i.queryRow(ctx, "SELECT count(*) FROM idverify_checks WHERE reference = $1 AND product = $2 AND check_id IS NULL AND status IS NULL",
		c.ReferenceID, string(c.Product)).Scan(&planned)
	switch {
	case err != nil:
		return OutcomeFailed, err
	case planned > 0:
		return OutcomeEarly, nil
	}
	return OutcomeIgnored, nil
}

// youngCheck is longer than a backend needs to store the ID of a check that the service has
// created.
const youngCheck = time.Minute
