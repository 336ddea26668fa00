package inbox_test

import (
	"context"
	"crypto/rsa"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/pgtest"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func TestInbox_StoresCallback(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)

		check := b.start(t, "447700900012", "sign-up 1")
		b.open(t, check)

		e := b.get(t, "sign-up 1")
		if e.Match != idverify.VerdictYes || e.Source != inbox.SourceCallback || e.CheckID != check.CheckID {
			t.Errorf("entry = %+v, want the result of the callback", e)
		}
	})
}

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

// The service signs these callbacks. Anyone can make it send some of them.
func TestHandler_HostileValues(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const completed = `"status":"COMPLETED","match":true`
		i := newIntake(t, d, addEffect)
		i.planned(t, "r", "check")
		i.plan(t, idverify.ProductPhoneCheck, "no check ID")
		url := i.signedURL(t, nil)
		now := i.service.Now()
		old := now.Add(-time.Hour)

		for _, test := range []struct {
			name, kind, body string
			status           int
			outcome, level   string
		}{
			{"unknown product", "age_check", signedBody(i.backend, completed), 204, "ignored", "WARN"},
			{"unknown product without JSON", "age_check", "text", 204, "ignored", "WARN"},
			{"SIMCheck", "sim_check", signedBody(i.backend, completed), 204, "ignored", "WARN"},
			{"other product", "subscriber_check", signedBody(i.backend, completed), 204, "ignored", "WARN"},
			{"not final", "phone_check", signedBody(i.backend, `"status":"PENDING","match":true`), 204, "ignored", "WARN"},
			{"unknown status", "phone_check", signedBody(i.backend, `"status":"REVOKED","match":true`), 204, "ignored", "WARN"},
			{"our own status", "phone_check", signedBody(i.backend, `"status":"LOST","match":true`), 204, "ignored", "WARN"},
			{"status in lower case", "phone_check", signedBody(i.backend, `"status":"completed","match":true`), 204, "ignored", "WARN"},
			{"check ID with NUL", "phone_check", bodyOf(`check\u0000`, now, completed), 204, "ignored", "WARN"},
			{"check ID too long", "phone_check", bodyOf(strings.Repeat("x", 100_000), now, completed), 204, "ignored", "WARN"},
			{"check ID with invalid UTF-8", "phone_check", bodyOf("check\xff", old, completed), 204, "ignored", "WARN"},
			{"check ID with a statement", "phone_check", bodyOf(`'; DROP TABLE idverify_checks; --`, old, completed), 204, "ignored", "WARN"},
			{"unknown young check", "phone_check", bodyOf("other", now.Add(-59*time.Second), completed), 503, "early", "WARN"},
			{"unknown old check", "phone_check", bodyOf("other", now.Add(-time.Minute), completed), 204, "ignored", "WARN"},
			{"unknown check of the future", "phone_check", bodyOf("other", now.Add(time.Hour), completed), 503, "early", "WARN"},
			{"unknown check without a time", "phone_check", `{"check_id":"other",` + completed + `}`, 503, "early", "WARN"},
			{"reference with NUL", "phone_check", bodyOf("other", old, `"reference_id":"a\u0000b",`+completed), 204, "ignored", "WARN"},
			{"reference too long", "phone_check", bodyOf("other", old, `"reference_id":"`+strings.Repeat("x", 100_000)+`",`+completed), 204, "ignored", "WARN"},
			{"reference with a check ID", "phone_check", bodyOf("other", old, `"reference_id":"r",`+completed), 204, "ignored", "WARN"},
			{"reference without check ID", "phone_check", bodyOf("other", old, `"reference_id":"no check ID",`+completed), 503, "early", "WARN"},
			{"reference of another product", "subscriber_check", bodyOf("other", old, `"reference_id":"no check ID",`+completed), 204, "ignored", "WARN"},
			{"not JSON", "phone_check", "text", 500, "failed", "ERROR"},
			{"no check ID", "phone_check", `{` + completed + `}`, 500, "failed", "ERROR"},
			{"null", "phone_check", "null", 500, "failed", "ERROR"},
			{"empty", "phone_check", "", 500, "failed", "ERROR"},
		} {
			status, err := i.send(t.Context(), t, url, test.kind, test.body)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}

			outcome, level := i.outcomes("callback"), i.levels(t)
			if status != test.status || outcome != test.outcome || level != test.level {
				t.Errorf("%s: response, outcome, level = %d, %s, %s; want %d, %s, %s", test.name, status, outcome, level, test.status, test.outcome, test.level)
			}
		}

		if n := i.number(t, "SELECT count(*) FROM idverify_checks WHERE status IS NOT NULL"); n != 0 || i.effects(t) != 0 {
			t.Errorf("%d results and %d effects, want none", n, i.effects(t))
		}
	})
}

func TestHandler_HostileFields(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		i.planned(t, "r", "check")
		long := `a\u0000b` + strings.Repeat("ü", 100_000)
		fields := `"status":"COMPLETED","match":null,"no_sim_change":true,"network_id":"` + long + `","error_code":"` + long + `","charge_amount":` + strings.Repeat("9", 1000)

		status, err := i.send(t.Context(), t, i.signedURL(t, nil), "phone_check", signedBody(i.backend, fields))
		if err != nil {
			t.Fatal(err)
		}

		e := i.get(t, "r")
		if status != 204 || e.Status != "COMPLETED" || i.effects(t) != 1 {
			t.Errorf("response = %d, entry = %+v; want the result in spite of its other fields", status, e)
		}
		if e.Match != idverify.VerdictUnknown || e.NoSIMChange != idverify.VerdictUnknown {
			t.Errorf("matched, SIM unchanged = %s, %s; want unknown without a match", e.Match, e.NoSIMChange)
		}
		for name, text := range map[string]string{"network": e.NetworkID, "error code": e.ErrorCode, "charge": e.ChargeAmount.String()} {
			if len(text) > 256 || len(text) < 200 || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				t.Errorf("%s has %d bytes, want at most 256 bytes of UTF-8 without NUL", name, len(text))
			}
		}
	})
}

// The service does not retry after a timeout of ten seconds.
func TestHandler_RespondsInTime(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		d.source(t) // starts the server outside of the bubble
		synctest.Test(t, func(t *testing.T) {
			i := newIntake(t, d, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				if err := addEffect(ctx, tx, e); err != nil {
					return err
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			i.planned(t, "r", "check")
			key, err := testKey()
			if err != nil {
				t.Fatal(err)
			}
			keys := signature.StaticKeys{"test key": &key.PublicKey}

			for _, test := range []struct{ verification, want time.Duration }{
				{0, 5 * time.Second},
				{2 * time.Second, 7 * time.Second},
				{6 * time.Second, 8 * time.Second},
				{9 * time.Second, 9 * time.Second},
			} {
				url := i.signedURL(t, slowKeys{keys, test.verification})
				begin := time.Now()
				status, err := i.send(t.Context(), t, url, "phone_check", signedBody(i.backend, `"status":"COMPLETED","match":true`))
				if err != nil {
					t.Fatal(err)
				}

				if got := time.Since(begin); got != test.want || status != http.StatusInternalServerError {
					t.Errorf("verification of %v: response = %d after %v, want 500 after %v", test.verification, status, got, test.want)
				}
			}
			if e := i.get(t, "r"); e.Status != "" || i.effects(t) != 0 {
				t.Errorf("entry = %+v with %d effects, want a rollback", e, i.effects(t))
			}
			i.service.Close()
			i.db.Close()
		})
	})
}

// slowKeys is a KeySource that needs some time.
type slowKeys struct {
	signature.KeySource

	delay time.Duration
}

func (k slowKeys) PublicKey(ctx context.Context, keyID string) (*rsa.PublicKey, error) {
	time.Sleep(k.delay) // in a bubble
	return k.KeySource.PublicKey(ctx, keyID)
}

// Another transaction keeps the lock that storing needs. The test takes the five seconds of the
// handler, because no bubble can contain the locks of a database.
func TestHandler_LockedDatabase(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		i.planned(t, "r", "check")
		url := i.signedURL(t, nil)
		tx, err := i.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(t.Context(), "UPDATE idverify_checks SET attempts = 0"); err != nil {
			t.Fatal(err)
		}
		body := signedBody(i.backend, `"status":"COMPLETED","match":true`)

		locked, err := i.send(t.Context(), t, url, "phone_check", body)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		unlocked, err := i.send(t.Context(), t, url, "phone_check", body)
		if err != nil {
			t.Fatal(err)
		}

		if locked != 500 || unlocked != 204 || i.effects(t) != 1 {
			t.Errorf("responses = %d and %d with %d effects, want 500 while locked, then 204 with 1", locked, unlocked, i.effects(t))
		}
	})
}

func TestHandler_DatabaseClosed(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		source := d.source(t)
		other := openDB(t, d.driver, source)
		if err := inbox.Migrate(t.Context(), other, d.dialect); err != nil {
			t.Fatal(err)
		}
		down, err := inbox.New(t.Context(), other, d.dialect, nil)
		if err != nil {
			t.Fatal(err)
		}
		other.Close()
		v := i.service.Verifier([]string{host}, nil)
		i.serveWith(down.Handler(v))

		i.open(t, i.start(t, "447700900012", "r"))
		i.serveWith(i.inbox.Handler(v))
		advance(t, i.service, 10*time.Second)

		if got := i.responses(); got != "500 204" {
			t.Errorf("responses = %s, want 500 and then 204", got)
		}
		if i.get(t, "r").Match != idverify.VerdictYes || i.effects(t) != 1 {
			t.Error("the redelivered callback is not stored")
		}
	})
}

func TestHandler_DatabaseDown(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	d := database{"PostgreSQL", inbox.Postgres, "pgx", func(testing.TB) string { return server.Source("postgres") }}
	i := newIntake(t, d, addEffect)
	check := i.start(t, "447700900012", "r")
	admin := openDB(t, "pgx", server.Source("template1"))
	allow := func(allowed bool) {
		if _, err := admin.ExecContext(t.Context(), fmt.Sprintf("ALTER DATABASE postgres ALLOW_CONNECTIONS %t", allowed)); err != nil {
			t.Fatal(err)
		}
	}

	allow(false)
	if _, err := admin.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'"); err != nil {
		t.Fatal(err)
	}
	i.open(t, check)
	advance(t, i.service, 10*time.Second)
	allow(true)
	advance(t, i.service, 20*time.Second)
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	i.redeliver(t)

	if got := i.responses(); got != "500 500 204 204" {
		t.Errorf("responses = %s, want 500 while the database is down, then 204, and 204 after its crash", got)
	}
	if i.get(t, "r").Match != idverify.VerdictYes || i.effects(t) != 1 {
		t.Error("the redelivered callback is not stored")
	}
	if got := i.levels(t); got != "ERROR ERROR DEBUG DEBUG" {
		t.Errorf("levels = %s, want ERROR while the database is down", got)
	}
}

func TestHandler_ServiceDisconnects(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		storing, disconnected, stored := make(chan struct{}), make(chan struct{}), make(chan struct{})
		i := newIntake(t, d, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			close(storing)
			<-disconnected
			return addEffect(ctx, tx, e)
		})
		i.planned(t, "r", "check")
		url := i.signedURL(t, nil)
		handler := i.inbox.Handler(i.verifier(t, nil))
		i.service.Handle("signed.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(stored)
			go func() {
				<-r.Context().Done() // the server has noticed the end of the connection
				close(disconnected)
			}()
			handler.ServeHTTP(w, r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-storing
			cancel()
		}()

		_, err := i.send(ctx, t, url, "phone_check", signedBody(i.backend, `"status":"COMPLETED","match":true`))
		<-stored

		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want that of the closed connection", err)
		}
		if i.get(t, "r").Match != idverify.VerdictYes || i.effects(t) != 1 {
			t.Error("the result is not stored: the service does not send it again")
		}
	})
}

// The inbox must be a correct receiver on each database, also while another transaction keeps the
// lock that storing needs. It has no replay store: it stores one result per check.
func TestHandler_Examined(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, addEffect)
		keys, err := receivertest.NewKeys()
		if err != nil {
			t.Fatal(err)
		}
		keySet, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client(), MinRefetch: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		v, err := signature.NewVerifier(keySet, []string{host}, &signature.VerifierOptions{Now: i.service.Now})
		if err != nil {
			t.Fatal(err)
		}

		receivertest.Run(t, receivertest.Receiver{
			Keys:    keys,
			URL:     i.callbackURL,
			Handler: i.inbox.Handler(v),
			Strict:  true,
			Now:     i.service.Now,
			Probe:   i.probe(),
		})
	})
}

// probe returns a probe that plans checks and counts the effects of OnResult.
func (i *intake) probe() receivertest.Probe {
	var lock *sql.Tx
	return receivertest.Probe{
		Created: func(ctx context.Context, c receivertest.Check) error {
			tx, err := i.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := i.inbox.Plan(ctx, tx, idverify.Product(c.Product), c.CheckID); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			return i.inbox.Bind(ctx, c.CheckID, c.CheckID, 0)
		},
		Effects: func(ctx context.Context, checkID string) (n int, err error) {
			err = i.db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE check_id = $1", checkID).Scan(&n)
			return n, err
		},
		SlowStore: func(ctx context.Context, slow bool) (err error) {
			if !slow {
				return lock.Rollback()
			}
			if lock, err = i.db.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
				return err
			}
			_, err = lock.ExecContext(ctx, "UPDATE idverify_checks SET attempts = 0")
			return err
		},
	}
}
