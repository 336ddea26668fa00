package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func TestHandler_StoresOnce(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		check := i.start(t, "447700900012", "r")

		i.open(t, check)
		first := i.get(t, "r")
		advance(t, i.service, time.Minute)
		i.redeliver(t)

		if got := i.responses(); got != "204 204" {
			t.Errorf("responses = %s, want 204 for the callback and its duplicate", got)
		}
		if got := i.outcomes("callback"); got != "stored duplicate" {
			t.Errorf("outcomes = %s, want stored duplicate", got)
		}
		if n := i.effects(t); n != 1 {
			t.Errorf("%d effects, want 1: the customer would be verified twice", n)
		}
		if got := i.levels(t); got != "DEBUG DEBUG" {
			t.Errorf("levels = %s, want DEBUG", got)
		}
		second := i.get(t, "r")
		if !second.EndedAt.Equal(first.EndedAt) || second.DoneAt.IsZero() || second.Match != idverify.VerdictYes {
			t.Errorf("entry = %+v, want that of the first callback, %+v", second, first)
		}
	})
}

func TestHandler_StoresFields(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductSubscriberCheck, "changed SIM")
		check, err := b.client.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: "447700900018", ReferenceID: "changed SIM", CallbackURL: b.callbackURL})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.inbox.Bind(t.Context(), "changed SIM", check.CheckID, check.TTL); err != nil {
			t.Fatal(err)
		}
		failing := b.start(t, "447700900055", "ends as ERROR")
		expiring := b.start(t, "447700900012", "expires")

		if _, err := b.service.Device().Open(t.Context(), check.CheckURL); err != nil {
			t.Fatal(err)
		}
		b.open(t, failing)
		b.service.Expire(expiring.CheckID)
		if err := b.service.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}

		e := b.get(t, "changed SIM")
		if e.Match != idverify.VerdictYes || e.NoSIMChange != idverify.VerdictNo || e.NetworkID == "" || e.ChargeAmount == "" || e.ChargeCurrency == "" {
			t.Errorf("entry = %+v, want a match with a changed SIM, a network and a charge", e)
		}
		if !e.EndedAt.Equal(b.service.Now()) || !e.DoneAt.IsZero() || e.Source != inbox.SourceCallback {
			t.Errorf("entry = %+v, want one that ended now and waits for Work", e)
		}
		if e := b.get(t, "ends as ERROR"); e.Status != inbox.StatusError || e.ErrorCode == "" || e.Match != idverify.VerdictUnknown {
			t.Errorf("entry = %+v, want ERROR with its code", e)
		}
		if e := b.get(t, "expires"); e.Status != inbox.StatusExpired || e.Match != idverify.VerdictUnknown {
			t.Errorf("entry = %+v, want EXPIRED", e)
		}
	})
}

func TestHandler_EarlyCallback(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		i.plan(t, idverify.ProductPhoneCheck, "r")
		check := i.create(t, "447700900012", "r")

		i.open(t, check)
		early := i.get(t, "r")
		if err := i.inbox.Bind(t.Context(), "r", check.CheckID, check.TTL); err != nil {
			t.Fatal(err)
		}
		advance(t, i.service, 10*time.Second)

		if early.Status != "" {
			t.Errorf("entry = %+v before Bind, want no result: anyone can choose the reference", early)
		}
		if got := i.responses(); got != "503 204" {
			t.Errorf("responses = %s, want 503 204", got)
		}
		if got := i.levels(t); got != "WARN DEBUG" {
			t.Errorf("levels = %s, want WARN DEBUG", got)
		}
		if e := i.get(t, "r"); e.Match != idverify.VerdictYes || i.effects(t) != 1 {
			t.Errorf("entry = %+v with %d effects, want the result and 1", e, i.effects(t))
		}
	})
}

func TestHandler_OtherCustomer(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		other := i.otherCustomer()
		check := other.create(t, "447700900012", "not planned")

		other.open(t, check)
		advance(t, i.service, 3*time.Minute)

		responses := i.responses()
		if !strings.HasPrefix(responses, "503 ") || !strings.HasSuffix(responses, " 204") {
			t.Errorf("responses = %s, want 503 while the check is young, then 204", responses)
		}
		if got := i.outcomes("callback"); !strings.HasPrefix(got, "early ") || !strings.HasSuffix(got, " ignored") {
			t.Errorf("outcomes = %s, want early, then ignored", got)
		}
		if got := i.levels(t); strings.Trim(got, "WARN ") != "" {
			t.Errorf("levels = %s, want WARN: another customer must not raise an alert", got)
		}
		if n := i.number(t, "SELECT count(*) FROM idverify_checks"); n != 0 || i.effects(t) != 0 {
			t.Errorf("%d entries and %d effects, want none", n, i.effects(t))
		}
	})
}

func TestHandler_OtherCustomerWithReference(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		i.plan(t, idverify.ProductPhoneCheck, "guessed")
		other := i.otherCustomer()

		other.open(t, other.create(t, "447700900012", "guessed"))
		advance(t, i.service, 3*time.Minute)
		attacked := i.get(t, "guessed")
		responses := i.responses()
		check := i.create(t, "447700900013", "guessed") // no match
		if err := i.inbox.Bind(t.Context(), "guessed", check.CheckID, check.TTL); err != nil {
			t.Fatal(err)
		}
		i.open(t, check)

		if responses != "503 503 503 503 503 503" {
			t.Errorf("responses = %s, want six 503: Bind may be in progress", responses)
		}
		if attacked.Status != "" || attacked.CheckID != "" {
			t.Errorf("entry = %+v, want neither result nor check ID from another customer", attacked)
		}
		if e := i.get(t, "guessed"); e.Match != idverify.VerdictNo || e.CheckID != check.CheckID || i.effects(t) != 1 {
			t.Errorf("entry = %+v, want the result of our check", e)
		}
	})
}

func TestHandler_OtherProduct(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		i.plan(t, idverify.ProductSubscriberCheck, "r")
		check := i.create(t, "447700900012", "other")
		if err := i.inbox.Bind(t.Context(), "r", check.CheckID, 0); err != nil {
			t.Fatal(err)
		}

		i.open(t, check)

		if got := i.responses(); got != "204" || i.outcomes("callback") != "ignored" {
			t.Errorf("responses = %s, want one 204 that ignores the callback", got)
		}
		if e := i.get(t, "r"); e.Status != "" || i.effects(t) != 0 {
			t.Errorf("entry = %+v, want no result of another product", e)
		}
		if got := i.levels(t); got != "WARN" {
			t.Errorf("levels = %s, want WARN", got)
		}
	})
}

func TestHandler_Forged(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		check := i.start(t, "447700900012", "r")
		i.service.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})

		i.open(t, check)
		forged := i.get(t, "r")
		events := i.outcomes("callback")
		i.redeliver(t)

		if forged.Status != "" || events != "" {
			t.Errorf("entry = %+v, want no result from a forged callback", forged)
		}
		if got := i.responses(); got != "400 204" || i.get(t, "r").Match != idverify.VerdictYes {
			t.Errorf("responses = %s, want 400 and then 204", got)
		}
	})
}

func TestHandler_KeySetUnavailable(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		keys, err := i.client.NewJWKS(&signature.JWKSOptions{MinRefetch: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		v, err := signature.NewVerifier(keys, []string{host}, &signature.VerifierOptions{Now: i.service.Now})
		if err != nil {
			t.Fatal(err)
		}
		i.serveWith(i.inbox.Handler(v))
		i.service.Inject(sandboxfake.Match{Operation: "jwks.get"}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

		i.open(t, i.start(t, "447700900012", "r"))
		unavailable := i.get(t, "r")
		advance(t, i.service, 10*time.Second)

		if got := i.responses(); got != "503 204" || unavailable.Status != "" {
			t.Errorf("responses = %s, want 503 and then 204", got)
		}
		if i.get(t, "r").Match != idverify.VerdictYes || i.effects(t) != 1 {
			t.Error("the redelivered callback is not stored")
		}
	})
}

func TestHandler_OnResultFails(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		calls := 0
		i := newIntake(t, d, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if err := addEffect(ctx, tx, e); err != nil {
				return err
			}
			switch calls++; calls {
			case 1:
				return errors.New("queue is full")
			case 2:
				panic("447700900012")
			case 3:
				panic(errors.ErrUnsupported)
			case 4:
				return tx.Rollback()
			}
			return nil
		})
		check := i.start(t, "447700900012", "r")

		i.open(t, check)
		first := i.get(t, "r")
		failed := i.effects(t)
		advance(t, i.service, 3*time.Minute)

		if got := i.responses(); got != "500 500 500 500 204" {
			t.Errorf("responses = %s, want 500 for each failure, then 204", got)
		}
		if first.Status != "" || failed != 0 {
			t.Errorf("entry = %+v with %d effects after a failure, want a rollback", first, failed)
		}
		if n := i.effects(t); n != 1 || i.get(t, "r").Match != idverify.VerdictYes {
			t.Errorf("%d effects, want 1", n)
		}
		log := i.log.String()
		if !strings.Contains(log, "OnResult: queue is full") || !strings.Contains(log, "panic: a value of type string") || !strings.Contains(log, "handler_test.go") {
			t.Errorf("the log does not contain the error, or the panic with its stack:\n%s", log)
		}
		if strings.Contains(log, "7700900012") {
			t.Error("the log contains the value of the panic")
		}
		if got := i.levels(t); got != "ERROR ERROR ERROR ERROR DEBUG" {
			t.Errorf("levels = %s, want ERROR for each failure", got)
		}
	})
}

func TestHandler_ObserverPanics(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{
			Observe:  func(context.Context, inbox.Event) { panic("observer") },
			OnResult: func(context.Context, *sql.Tx, inbox.Entry) error { return errors.New("failed") },
		})

		b.open(t, b.start(t, "447700900012", "r"))

		if got := b.responses(); got != "500" {
			t.Errorf("responses = %s, want 500: the service does not retry after a closed connection", got)
		}
	})
}

func TestHandler_ConcurrentDuplicates(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const callbacks, failures = 60, 3
		var calls atomic.Int64
		i := newIntake(t, d, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if err := addEffect(ctx, tx, e); err != nil || calls.Add(1) > failures {
				return err
			}
			return errors.New("failed")
		})
		i.db.SetMaxOpenConns(20)
		i.planned(t, "r", "check")
		url := i.signedURL(t, nil)
		var stored, failed atomic.Int64

		var all sync.WaitGroup
		for range callbacks {
			all.Go(func() {
				status, err := i.send(t.Context(), t, url, "phone_check", signedBody(i.backend, `"status":"COMPLETED","match":true`))
				switch {
				case err != nil:
					t.Error(err)
				case status == http.StatusNoContent:
					stored.Add(1)
				case status == http.StatusInternalServerError:
					failed.Add(1)
				default:
					t.Errorf("response = %d, want 204 or 500", status)
				}
			})
		}
		all.Wait()

		if n := i.effects(t); n != 1 || calls.Load() != failures+1 {
			t.Errorf("%d effects after %d calls, want 1 after %d", n, calls.Load(), failures+1)
		}
		if stored.Load() != callbacks-failures || failed.Load() != failures {
			t.Errorf("responses: %d times 204 and %d times 500, want %d and %d", stored.Load(), failed.Load(), callbacks-failures, failures)
		}
	})
}
