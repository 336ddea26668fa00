package inbox_test

import (
	"context"
	"crypto/rsa"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/pgtest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func TestHandler_StoresOnce(t *testing.T) {
	inBubbles(t, func(t *testing.T, d database) {
		var passed inbox.Entry
		b := newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			passed = e
			return insertEffect(ctx, tx, e)
		}})
		check := b.start(t, matching, "r")

		b.open(t, check)
		if passed.CheckID != check.CheckID || passed.Match != idverify.VerdictYes {
			t.Errorf("OnResult got %+v, want the result of check %s", passed, check.CheckID)
		}
		first := b.get(t, "r")
		b.advance(t, time.Minute)
		b.redeliver(t)

		wantEqual(t, "204 204", b.responses(), "responses to the callback and its duplicate")
		wantEqual(t, "stored duplicate", b.outcomesOf("callback"), "outcomes")
		b.wantEffects(t, "r") // once: the customer would be verified twice
		log := b.logged()
		for _, want := range []string{"stored", "duplicate"} {
			want = "level=DEBUG msg=\"inbox: callback\" outcome=" + want + " product=phone_check check_id=" + check.CheckID + "\n"
			if strings.Count(log, want) != 1 {
				t.Errorf("log = %s, want one record %s", log, want)
			}
		}
		second := b.get(t, "r")
		if !second.EndedAt.Equal(first.EndedAt) || second.DoneAt.IsZero() || second.Match != idverify.VerdictYes {
			t.Errorf("entry = %+v, want that of the first callback, %+v", second, first)
		}
	})
}

func TestHandler_StoresFields(t *testing.T) {
	inBubbles(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductSubscriberCheck, "changed SIM")
		check := must(b.client.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: "447700900018", ReferenceID: "changed SIM", CallbackURL: b.callbackURL}))(t)
		noError(t, b.inbox.Bind(t.Context(), "changed SIM", check.CheckID, check.TTL))
		failing := b.start(t, noResult, "ends as ERROR")
		expiring := b.start(t, matching, "expires")

		must(b.service.Device().Open(t.Context(), check.CheckURL))(t)
		b.open(t, failing)
		b.service.Expire(expiring.CheckID)
		noError(t, b.service.WaitIdle(t.Context()))

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

func TestHandler_OtherCustomerWithReference(t *testing.T) {
	inBubbles(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		b.plan(t, idverify.ProductPhoneCheck, "guessed")
		other := b.otherCustomer()

		other.open(t, other.create(t, matching, "guessed"))
		b.advance(t, 3*time.Minute)
		attacked := b.get(t, "guessed")
		responses := b.responses()
		check := b.create(t, "447700900013", "guessed") // no match
		b.bind(t, "guessed", check)
		b.open(t, check)

		wantEqual(t, "503 503 503 503 503 503", responses, "responses while Bind may be in progress")
		if attacked.Status != "" || attacked.CheckID != "" {
			t.Errorf("entry = %+v, want neither result nor check ID from another customer", attacked)
		}
		if e := b.get(t, "guessed"); e.Match != idverify.VerdictNo || e.CheckID != check.CheckID || b.effects(t) != 1 {
			t.Errorf("entry = %+v, want the result of our check", e)
		}
	})
}

func TestHandler_Forged(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		check := b.start(t, matching, "r")
		b.service.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})

		b.open(t, check)
		forged := b.get(t, "r")
		events := b.outcomesOf("callback")
		b.redeliver(t)

		if forged.Status != "" || events != "" {
			t.Errorf("entry = %+v, want no result from a forged callback", forged)
		}
		if got := b.responses(); got != "400 204" || b.get(t, "r").Match != idverify.VerdictYes {
			t.Errorf("responses = %s, want 400 and then 204", got)
		}
	})
}

func TestHandler_OnResultFails(t *testing.T) {
	inBubbles(t, func(t *testing.T, d database) {
		calls := 0
		b := newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if err := insertEffect(ctx, tx, e); err != nil {
				return err
			}
			switch calls++; calls {
			case 1:
				return errors.New("queue is full")
			case 2:
				panic(matching)
			case 3:
				panic(errors.ErrUnsupported)
			case 4:
				return tx.Rollback()
			}
			return nil
		}})
		check := b.start(t, matching, "r")

		b.open(t, check)
		first := b.get(t, "r")
		failed := b.effects(t)
		b.advance(t, 3*time.Minute)

		wantEqual(t, "500 500 500 500 204", b.responses(), "responses to each failure and the success")
		if first.Status != "" || failed != 0 {
			t.Errorf("entry = %+v with %d effects after a failure, want a rollback", first, failed)
		}
		if n := b.effects(t); n != 1 || b.get(t, "r").Match != idverify.VerdictYes {
			t.Errorf("%d effects, want 1", n)
		}
		log := b.logged()
		if !strings.Contains(log, "OnResult: queue is full") || !strings.Contains(log, "panic: a value of type string") || !strings.Contains(log, "handler_test.go") {
			t.Errorf("the log does not contain the error, or the panic with its stack:\n%s", log)
		}
		if strings.Contains(log, "7700900012") {
			t.Error("the log contains the value of the panic")
		}
		if n := strings.Count(log, `level=ERROR msg="inbox: callback"`); n != 4 {
			t.Errorf("%d records of level ERROR, want one for each failure:\n%s", n, log)
		}
	})
}

func TestHandler_ConcurrentDuplicates(t *testing.T) {
	inBubbles(t, func(t *testing.T, d database) {
		const callbacks, failures = 60, 3
		var calls atomic.Int64
		b := newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if err := insertEffect(ctx, tx, e); err != nil || calls.Add(1) > failures {
				return err
			}
			return errors.New("failed")
		}})
		b.db.SetMaxOpenConns(20)
		b.planned(t, "r", "check")
		url := b.signedURL(t, nil)
		var stored, failed atomic.Int64

		concurrently(callbacks, func(int) {
			status, err := b.send(t.Context(), t, url, "phone_check", signedBody(b, `"status":"COMPLETED","match":true`))
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

		if n := b.effects(t); n != 1 || calls.Load() != failures+1 {
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
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		b.planned(t, "r", "check")
		b.plan(t, idverify.ProductPhoneCheck, "no check ID")
		url := b.signedURL(t, nil)
		now := b.service.Now()
		old := now.Add(-time.Hour)

		for _, test := range []struct {
			name, kind, body string
			status           int
			outcome          inbox.Outcome
			level            string
		}{
			{"unknown product", "age_check", signedBody(b, completed), 204, "ignored", "WARN"},
			{"unknown product without JSON", "age_check", "text", 204, "ignored", "WARN"},
			{"SIMCheck", "sim_check", signedBody(b, completed), 204, "ignored", "WARN"},
			{"other product", "subscriber_check", signedBody(b, completed), 204, "ignored", "WARN"},
			{"not final", "phone_check", signedBody(b, `"status":"PENDING","match":true`), 204, "ignored", "WARN"},
			{"unknown status", "phone_check", signedBody(b, `"status":"REVOKED","match":true`), 204, "ignored", "WARN"},
			{"our own status", "phone_check", signedBody(b, `"status":"LOST","match":true`), 204, "ignored", "WARN"},
			{"status in lower case", "phone_check", signedBody(b, `"status":"completed","match":true`), 204, "ignored", "WARN"},
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
			status, err := b.send(t.Context(), t, url, test.kind, test.body)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}

			events, level := b.eventsOf("callback"), b.levels()
			if status != test.status || level != test.level {
				t.Errorf("%s: response, level = %d, %s; want %d, %s", test.name, status, level, test.status, test.level)
			}
			want := inbox.Event{Operation: "callback", Outcome: test.outcome}
			if test.outcome == inbox.OutcomeFailed {
				want.Err = cmpopts.AnyError
			} else if test.kind == "phone_check" || test.kind == "subscriber_check" {
				want.Product = idverify.Product(test.kind)
			}
			if diff := cmp.Diff([]inbox.Event{want}, events, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", test.name, diff)
			}
		}

		if n := b.number(t, "SELECT count(*) FROM idverify_checks WHERE status IS NOT NULL"); n != 0 || b.effects(t) != 0 {
			t.Errorf("%d results and %d effects, want none", n, b.effects(t))
		}
		if n := b.number(t, "SELECT count(*) FROM idverify_checks"); n != 2 {
			t.Errorf("%d entries, want the two that were planned", n)
		}
	})
}

func TestHandler_HostileFields(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		var b *backend
		b = newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			b.advance(t, 2*time.Second)
			return insertEffect(ctx, tx, e)
		}})
		b.planned(t, "r", "check")
		long := `a\u0000b` + strings.Repeat("ü", 100_000)
		fields := `"status":"COMPLETED","match":null,"no_sim_change":true,"network_id":"` + long + `","error_code":"` + long + `","charge_amount":` + strings.Repeat("9", 1000)

		status := must(b.send(t.Context(), t, b.signedURL(t, nil), "phone_check", signedBody(b, fields)))(t)

		e := b.get(t, "r")
		if status != 204 || e.Status != "COMPLETED" || b.effects(t) != 1 {
			t.Errorf("response = %d, entry = %+v; want the result in spite of its other fields", status, e)
		}
		want := []inbox.Event{{Operation: "callback", Outcome: inbox.OutcomeStored, Product: idverify.ProductPhoneCheck, Duration: 2 * time.Second}}
		wantEqual(t, want, b.eventsOf("callback"), "events")
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
	inBubbles(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if err := insertEffect(ctx, tx, e); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		b.planned(t, "r", "check")
		key := must(testKey())(t)
		keys := signature.StaticKeys{"test key": &key.PublicKey}

		for _, test := range []struct{ verification, want time.Duration }{
			{0, 5 * time.Second},
			{2 * time.Second, 7 * time.Second},
			{6 * time.Second, 8 * time.Second},
			{9 * time.Second, 9 * time.Second},
		} {
			url := b.signedURL(t, slowKeys{keys, test.verification})
			begin := time.Now()
			status := must(b.send(t.Context(), t, url, "phone_check", signedBody(b, `"status":"COMPLETED","match":true`)))(t)

			if got := time.Since(begin); got != test.want || status != http.StatusInternalServerError {
				t.Errorf("verification of %v: response = %d after %v, want 500 after %v", test.verification, status, got, test.want)
			}
		}
		if e := b.get(t, "r"); e.Status != "" || b.effects(t) != 0 {
			t.Errorf("entry = %+v with %d effects, want a rollback", e, b.effects(t))
		}
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

func TestHandler_DatabaseDown(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	d := database{"PostgreSQL", inbox.Postgres, "pgx", func(testing.TB) string { return server.Source("postgres") }}
	b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
	check := b.start(t, matching, "r")
	admin := openDB(t, "pgx", server.Source("template1"))
	allow := func(allowed bool) {
		must(admin.ExecContext(t.Context(), fmt.Sprintf("ALTER DATABASE postgres ALLOW_CONNECTIONS %t", allowed)))(t)
	}

	allow(false)
	must(admin.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'"))(t)
	b.open(t, check)
	b.advance(t, 10*time.Second)
	allow(true)
	b.advance(t, 20*time.Second)
	noError(t, server.Crash())
	b.redeliver(t)

	wantEqual(t, "500 500 204 204", b.responses(), "responses, two while the database is down and one after its crash")
	if b.get(t, "r").Match != idverify.VerdictYes || b.effects(t) != 1 {
		t.Error("the redelivered callback is not stored")
	}
	wantEqual(t, "ERROR ERROR DEBUG DEBUG", b.levels(), "levels, two while the database is down")
}

func TestHandler_ServiceDisconnects(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		storing, disconnected, stored := make(chan struct{}), make(chan struct{}), make(chan struct{})
		b := newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			close(storing)
			<-disconnected
			return insertEffect(ctx, tx, e)
		}})
		b.planned(t, "r", "check")
		url := b.signedURL(t, nil)
		handler := b.inbox.Handler(b.verifier(t, nil))
		b.service.Handle("signed.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

		_, err := b.send(ctx, t, url, "phone_check", signedBody(b, `"status":"COMPLETED","match":true`))
		<-stored

		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want that of the closed connection", err)
		}
		if b.get(t, "r").Match != idverify.VerdictYes || b.effects(t) != 1 {
			t.Error("the result is not stored: the service does not send it again")
		}
	})
}

// The inbox must be a correct receiver on each database, also while another transaction keeps the
// lock that storing needs. It has no replay store: it stores one result per check.
func TestHandler_Examined(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		keys := must(receivertest.NewKeys())(t)
		keySet := must(signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client(), MinRefetch: time.Nanosecond}))(t)
		v := must(signature.NewVerifier(keySet, []string{host}, &signature.VerifierOptions{Now: b.service.Now}))(t)

		receivertest.Run(t, receivertest.Receiver{
			Keys:    keys,
			URL:     b.callbackURL,
			Handler: b.inbox.Handler(v),
			Strict:  true,
			Now:     b.service.Now,
			Probe:   b.probe(),
		})
	})
}

// probe returns a probe that plans checks and counts the effects of OnResult.
func (b *backend) probe() receivertest.Probe {
	var lock *sql.Tx
	return receivertest.Probe{
		Created: func(ctx context.Context, c receivertest.Check) error {
			if err := planCommitted(ctx, b.db, b.inbox, idverify.Product(c.Product), c.CheckID); err != nil {
				return err
			}
			return b.inbox.Bind(ctx, c.CheckID, c.CheckID, 0)
		},
		Effects: func(ctx context.Context, checkID string) (n int, err error) {
			err = b.db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE reference = $1", checkID).Scan(&n)
			return n, err
		},
		SlowStore: func(ctx context.Context, slow bool) (err error) {
			if !slow {
				return lock.Rollback()
			}
			if lock, err = b.db.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
				return err
			}
			_, err = lock.ExecContext(ctx, "UPDATE idverify_checks SET attempts = 0")
			return err
		},
	}
}
