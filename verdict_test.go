package idverify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// TestVerdict_ByStatusAndValue decodes each status with each pair of fields, as a check and as a
// callback.
func TestVerdict_ByStatusAndValue(t *testing.T) {
	t.Parallel()
	values := []*bool{nil, new(false), new(true)}
	var body string
	c := newService(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }).client(t)
	for _, status := range []string{"COMPLETED", "ACCEPTED", "PENDING", "EXPIRED", "ERROR", "REVIEWED", "completed"} {
		for _, match := range values {
			for _, noSIMChange := range values {
				body = checkBody(t, status, match, noSIMChange)
				phone := must(c.PhoneChecks.Get(t.Context(), phoneCheckID))(t)
				sim := must(c.SIMChecks.Get(t.Context(), phoneCheckID))(t)
				subscriber := must(c.SubscriberChecks.Get(t.Context(), phoneCheckID))(t)
				callback := parseVerdicts(t, "subscriber_check", body)

				wantMatch, wantSIM := wantVerdict(status, match), wantVerdict(status, noSIMChange)
				wantSame := wantSIM
				if wantMatch != "yes" {
					wantSame = "unknown" // of another person's SIM
				}
				want := []string{wantMatch, wantSIM, wantMatch + " " + wantSame, wantMatch + " " + wantSame}
				got := []string{phone.Match.String(), sim.NoSIMChange.String(), fmt.Sprint(subscriber.Match, " ", subscriber.NoSIMChange), callback}
				if !cmp.Equal(got, want) {
					t.Errorf("%s: PhoneCheck, SIMCheck, SubscriberCheck, callback = %q, want %q", body, got, want)
				}
			}
		}
	}
}

// TestVerdict_CallbackProduct checks that a callback has no verdict that its product cannot have.
func TestVerdict_CallbackProduct(t *testing.T) {
	t.Parallel()
	for product, want := range map[string]string{
		"subscriber_check": "yes yes",
		"phone_check":      "yes unknown",
		"sim_check":        "unknown unknown",
		"invoice":          "unknown unknown",
		"":                 "unknown unknown",
	} {
		got := parseVerdicts(t, product, checkBody(t, "COMPLETED", new(true), new(true)))

		if got != want {
			t.Errorf("product %q: verdicts = %s, want %s", product, got, want)
		}
	}
}

// parseVerdicts returns the verdicts of a callback.
func parseVerdicts(t *testing.T, kind, body string) string {
	t.Helper()
	c := must(idverify.ParseCallback(&signature.Message{Product: kind, Body: []byte(body)}))(t)
	return fmt.Sprint(c.Match, " ", c.NoSIMChange)
}

// checkBody returns the JSON of a check.
func checkBody(t *testing.T, status string, match, noSIMChange *bool) string {
	t.Helper()
	b := must(json.Marshal(map[string]any{"check_id": phoneCheckID, "status": status, "match": match, "no_sim_change": noSIMChange}))(t)
	return string(b)
}

// wantVerdict returns the word of the expected verdict.
func wantVerdict(status string, value *bool) string {
	if status != "COMPLETED" || value == nil {
		return "unknown"
	}
	return map[bool]string{true: "yes", false: "no"}[*value]
}

func TestVerdict_Text(t *testing.T) {
	t.Parallel()
	verdicts := []idverify.Verdict{idverify.VerdictUnknown, idverify.VerdictYes, idverify.VerdictNo}
	var log bytes.Buffer

	printed := fmt.Sprint(verdicts, idverify.Verdict(-1), idverify.Verdict(3))
	encoded := must(json.Marshal(verdicts))(t)
	var decoded []idverify.Verdict
	decodeErr := json.Unmarshal(encoded, &decoded)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("a", "verdict", idverify.VerdictNo)
	slog.New(slog.NewTextHandler(&log, nil)).Info("a", "verdict", idverify.VerdictNo)

	if want := "[unknown yes no] unknown unknown"; printed != want {
		t.Errorf("printed = %s, want %s", printed, want)
	}
	if want := `["unknown","yes","no"]`; string(encoded) != want {
		t.Errorf("JSON = %s, want %s", encoded, want)
	}
	if decodeErr != nil || !cmp.Equal(decoded, verdicts) {
		t.Errorf("decoded = %v, error = %v, want %v", decoded, decodeErr, verdicts)
	}
	wantContains(t, "log", log.String(), `"verdict":"no"`, `verdict=no`)
}

func TestVerdict_UnmarshalInvalid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`""`, `"Yes"`, `"true"`, `" yes"`, `1`, `true`} {
		v := idverify.VerdictNo

		err := json.Unmarshal([]byte(text), &v)

		if err == nil || v != idverify.VerdictNo {
			t.Errorf("%s: error = %v and verdict %s, want an error and the verdict unchanged", text, err, v)
		}
	}
}

func TestVerdict_Database(t *testing.T) {
	t.Parallel()
	for value, want := range map[any]idverify.Verdict{nil: idverify.VerdictUnknown, "unknown": idverify.VerdictUnknown, "yes": idverify.VerdictYes, "no": idverify.VerdictNo} {
		v := idverify.VerdictNo
		if err := v.Scan(value); err != nil || v != want {
			t.Errorf("Scan(%v) = %s, %v, want %s", value, v, err, want)
		}
		stored, err := want.Value()
		if err != nil || stored != want.String() {
			t.Errorf("Value of %s = %v, %v, want its text", want, stored, err)
		}
	}
	var v idverify.Verdict
	if err := v.Scan([]byte("yes")); err != nil || v != idverify.VerdictYes {
		t.Errorf("Scan of bytes = %s, %v, want yes", v, err)
	}
	for _, value := range []any{int64(0), int64(1), 1.0, true, false, "", "true", "Yes", []byte("1"), time.Time{}} {
		v := idverify.VerdictNo
		if err := v.Scan(value); err == nil || v != idverify.VerdictNo {
			t.Errorf("Scan(%T %v) = %s, %v, want an error and the verdict unchanged", value, value, v, err)
		}
	}
}

func TestVerdict_SandboxOutcomes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		endings    string
		phone      string // Match
		sim        string // NoSIMChange
		subscriber string // both
	}{
		{"99", "unknown", "unknown", "unknown unknown"},
		{"00", "unknown", "yes", "unknown unknown"},
		{"55", "unknown", "no", "unknown unknown"},
		{"10 12 14", "yes", "yes", "yes yes"},
		{"16 18", "yes", "no", "yes no"},
		{"11 13", "no", "yes", "no unknown"},
		{"15 17 19", "no", "no", "no unknown"},
	} {
		for ending := range strings.FieldsSeq(tt.endings) {
			t.Run(ending, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { // a busy machine must not exceed the time limit of a callback
					s, number := newVerdictShop(t), "4477009001"+ending

					sim := must(s.client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: number}))(t)
					phone := s.openPhoneCheck(t, number)
					subscriber := s.openSubscriberCheck(t, number)

					if got := sim.NoSIMChange.String(); got != tt.sim {
						t.Errorf("SIMCheck %s: NoSIMChange = %s, want %s", sim.Status, got, tt.sim)
					}
					if got := fmt.Sprint(phone.Match, " ", phone.NoSIMChange); got != tt.phone+" unknown" {
						t.Errorf("PhoneCheck %s: verdicts = %s, want %s unknown", phone.Status, got, tt.phone)
					}
					if got := fmt.Sprint(subscriber.Match, " ", subscriber.NoSIMChange); got != tt.subscriber {
						t.Errorf("SubscriberCheck %s: verdicts = %s, want %s", subscriber.Status, got, tt.subscriber)
					}
					s.compareRead(t, phone, subscriber)
				})
			})
		}
	}
}

func TestVerdict_Expired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVerdictShop(t)
		for _, number := range []string{"447700900112", "447700900113"} {
			check := must(s.client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: s.callbackURL}))(t)
			if got := check.Match; got != idverify.VerdictUnknown {
				t.Errorf("ACCEPTED check of %s: Match = %s, want unknown", number, got)
			}

			noError(t, s.srv.Advance(t.Context(), 3*time.Minute))
			c := s.next(t)

			if c.Status != idverify.StatusExpired || c.Match != idverify.VerdictUnknown || c.NoSIMChange != idverify.VerdictUnknown {
				t.Errorf("callback %s: verdicts = %s and %s, want EXPIRED with unknown", c.Status, c.Match, c.NoSIMChange)
			}
		}
	})
}

// verdictShop is a backend that receives callbacks of a fake.
type verdictShop struct {
	srv         *sandboxfake.Server
	client      *idverify.Client
	callbackURL string
	callbacks   chan *idverify.Callback
}

func newVerdictShop(t *testing.T) *verdictShop {
	t.Helper()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	s := &verdictShop{srv: srv, client: srv.Client(), callbacks: make(chan *idverify.Callback, 1)}
	s.callbackURL = srv.Handle("shop.sandbox.test", idverify.CallbackHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(_ context.Context, c *idverify.Callback) error {
		s.callbacks <- c
		return nil
	})) + "/callbacks"
	return s
}

// next returns the next callback.
func (s *verdictShop) next(t *testing.T) *idverify.Callback {
	t.Helper()
	noError(t, s.srv.WaitIdle(t.Context()))
	select {
	case c := <-s.callbacks:
		return c
	default:
		t.Fatalf("no callback arrived: %+v", s.srv.Deliveries())
		return nil
	}
}

func (s *verdictShop) openPhoneCheck(t *testing.T, number string) *idverify.Callback {
	t.Helper()
	check := must(s.client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: "r", CallbackURL: s.callbackURL}))(t)
	must(s.srv.Device().Open(t.Context(), check.CheckURL))(t)
	c := s.next(t)
	if c.CheckID != check.CheckID || c.Product != idverify.ProductPhoneCheck || c.ReferenceID != "r" || !c.CreatedAt.Equal(check.CreatedAt) {
		t.Errorf("callback = %+v, want that of check %+v", c, check)
	}
	return c
}

func (s *verdictShop) openSubscriberCheck(t *testing.T, number string) *idverify.Callback {
	t.Helper()
	check := must(s.client.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: number, CallbackURL: s.callbackURL}))(t)
	must(s.srv.Device().Open(t.Context(), check.CheckURL))(t)
	return s.next(t)
}

// compareRead checks that COMPLETED checks have the same results when they are read as in their
// callbacks.
func (s *verdictShop) compareRead(t *testing.T, phone, subscriber *idverify.Callback) {
	t.Helper()
	p, err := s.client.PhoneChecks.Get(t.Context(), phone.CheckID)
	if phone.Status == idverify.StatusError {
		if !errors.Is(err, idverify.ErrNotFound) {
			t.Errorf("PhoneCheck in ERROR = %+v, error = %v, want ErrNotFound", p, err)
		}
		return
	}
	if err != nil || p.Status != phone.Status || p.Match != phone.Match || p.NetworkID != phone.NetworkID {
		t.Errorf("PhoneCheck = %+v, error = %v, want the result of the callback %+v", p, err, phone)
	}
	c, err := s.client.SubscriberChecks.Get(t.Context(), subscriber.CheckID)
	if err != nil || c.Match != subscriber.Match || c.NoSIMChange != subscriber.NoSIMChange {
		t.Errorf("SubscriberCheck: verdicts = %s and %s, error = %v, want %s and %s as in the callback",
			c.Match, c.NoSIMChange, err, subscriber.Match, subscriber.NoSIMChange)
	}
}

// The exported constants have literal values, so that their documentation shows them.
func TestConstants_EqualWire(t *testing.T) {
	t.Parallel()
	for _, row := range [][2]string{
		{string(idverify.ScopePhoneCheck), wire.ScopePhoneCheck},
		{string(idverify.ScopeSIMCheck), wire.ScopeSIMCheck},
		{string(idverify.ScopeSubscriberCheck), wire.ScopeSubscriberCheck},
		{string(idverify.ScopeReachability), wire.ScopeCoverage},
		{string(idverify.ScopeProjects), wire.ScopeProjects},
		{string(idverify.ScopeWorkspaces), wire.ScopeWorkspaces},
		{string(idverify.ScopeConsole), wire.ScopeConsole},
		{idverify.CodeCheckNotFound, wire.CheckNotFound},
		{idverify.CodeProjectNameTaken, wire.ProjectNameTaken},
		{idverify.CodeCredentialsLimitReached, wire.CredentialsLimitReached},
		{idverify.CodeCompanyDetailsRequired, wire.CompanyDetailsRequired},
		{idverify.CodePaymentDetailsRequired, wire.PaymentDetailsRequired},
		{idverify.CodeCurrencyFixed, wire.CurrencyFixed},
		{idverify.CodeCurrencyNotSupported, wire.CurrencyNotSupported},
		{idverify.CodeInvalidClient, wire.InvalidClient},
		{string(idverify.StatusAccepted), wire.StatusAccepted},
		{string(idverify.StatusPending), wire.StatusPending},
		{string(idverify.StatusCompleted), wire.StatusCompleted},
		{string(idverify.StatusExpired), wire.StatusExpired},
		{string(idverify.StatusError), wire.StatusError},
		{string(idverify.ProductPhoneCheck), wire.PhoneCheck},
		{string(idverify.ProductSIMCheck), wire.SIMCheck},
		{string(idverify.ProductSubscriberCheck), wire.SubscriberCheck},
	} {
		if row[0] != row[1] {
			t.Errorf("exported constant = %q, want %q as in package wire", row[0], row[1])
		}
	}
}
