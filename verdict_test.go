package idverify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestVerdict_ByStatusAndValue(t *testing.T) {
	t.Parallel()
	const completed = idverify.StatusCompleted
	type method func(status idverify.CheckStatus, match, noSIMChange *bool) idverify.Verdict
	matched := map[string]method{
		"PhoneCheck": func(s idverify.CheckStatus, match, _ *bool) idverify.Verdict {
			return (&idverify.PhoneCheck{Status: s, Match: match}).Matched()
		},
		"SubscriberCheck": func(s idverify.CheckStatus, match, noSIMChange *bool) idverify.Verdict {
			return (&idverify.SubscriberCheck{Status: s, Match: match, NoSIMChange: noSIMChange}).Matched()
		},
		"Callback": func(s idverify.CheckStatus, match, noSIMChange *bool) idverify.Verdict {
			return (&idverify.Callback{Product: "subscriber_check", Status: s, Match: match, NoSIMChange: noSIMChange}).Matched()
		},
		"PhoneCheck callback": func(s idverify.CheckStatus, match, noSIMChange *bool) idverify.Verdict {
			return (&idverify.Callback{Product: "phone_check", Status: s, Match: match, NoSIMChange: noSIMChange}).Matched()
		},
	}
	unchanged := map[string]method{
		"SIMCheck": func(s idverify.CheckStatus, _, noSIMChange *bool) idverify.Verdict {
			return (&idverify.SIMCheck{Status: s, NoSIMChange: noSIMChange}).SIMUnchanged()
		},
		"SubscriberCheck": func(s idverify.CheckStatus, match, noSIMChange *bool) idverify.Verdict {
			return (&idverify.SubscriberCheck{Status: s, Match: match, NoSIMChange: noSIMChange}).SIMUnchanged()
		},
		"Callback": func(s idverify.CheckStatus, match, noSIMChange *bool) idverify.Verdict {
			return (&idverify.Callback{Product: "subscriber_check", Status: s, Match: match, NoSIMChange: noSIMChange}).SIMUnchanged()
		},
	}
	values := []*bool{nil, new(false), new(true)}

	for _, status := range []idverify.CheckStatus{completed, "ACCEPTED", "PENDING", "EXPIRED", "ERROR", "REVIEWED", "completed", ""} {
		for _, match := range values {
			for _, noSIMChange := range values {
				for name, verdict := range matched {
					if got, want := verdict(status, match, noSIMChange).String(), wantVerdict(status, match); got != want {
						t.Errorf("%s in status %q with %s: Matched = %s, want %s", name, status, fields(match, noSIMChange), got, want)
					}
				}
				for name, verdict := range unchanged {
					want := wantVerdict(status, noSIMChange)
					if name != "SIMCheck" && wantVerdict(status, match) != "yes" {
						want = "unknown" // of another person's SIM
					}
					if got := verdict(status, match, noSIMChange).String(); got != want {
						t.Errorf("%s in status %q with %s: SIMUnchanged = %s, want %s", name, status, fields(match, noSIMChange), got, want)
					}
				}
			}
		}
	}
}

// TestVerdict_CallbackProduct checks that a callback has no verdict that its product cannot have.
func TestVerdict_CallbackProduct(t *testing.T) {
	t.Parallel()
	for product, want := range map[idverify.Product]string{
		idverify.ProductSubscriberCheck: "yes yes",
		idverify.ProductPhoneCheck:      "yes unknown",
		idverify.ProductSIMCheck:        "unknown unknown",
		"invoice":                       "unknown unknown",
		"":                              "unknown unknown",
	} {
		c := &idverify.Callback{Product: product, Status: idverify.StatusCompleted, Match: new(true), NoSIMChange: new(true)}

		got := fmt.Sprint(c.Matched(), " ", c.SIMUnchanged())

		if got != want {
			t.Errorf("product %q: verdicts = %s, want %s", product, got, want)
		}
	}
}

// wantVerdict returns the word of the expected verdict.
func wantVerdict(status idverify.CheckStatus, value *bool) string {
	if status != "COMPLETED" || value == nil {
		return "unknown"
	}
	return map[bool]string{true: "yes", false: "no"}[*value]
}

// fields prints the fields of a check for a failure message.
func fields(match, noSIMChange *bool) string {
	b, err := json.Marshal(map[string]*bool{"match": match, "no_sim_change": noSIMChange})
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestVerdict_NilReceiver(t *testing.T) {
	t.Parallel()
	var (
		phone      *idverify.PhoneCheck
		sim        *idverify.SIMCheck
		subscriber *idverify.SubscriberCheck
		callback   *idverify.Callback
	)

	got := []idverify.Verdict{
		phone.Matched(), sim.SIMUnchanged(), subscriber.Matched(), subscriber.SIMUnchanged(), callback.Matched(), callback.SIMUnchanged(),
	}

	if want := make([]idverify.Verdict, len(got)); !cmp.Equal(got, want) {
		t.Errorf("verdicts = %v, want %v", got, want)
	}
}

func TestVerdict_Text(t *testing.T) {
	t.Parallel()
	verdicts := []idverify.Verdict{idverify.VerdictUnknown, idverify.VerdictYes, idverify.VerdictNo}
	var log bytes.Buffer

	printed := fmt.Sprint(verdicts, idverify.Verdict(-1), idverify.Verdict(3))
	encoded, err := json.Marshal(verdicts)
	if err != nil {
		t.Fatal(err)
	}
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
	for _, want := range []string{`"verdict":"no"`, `verdict=no`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log = %s, want it to contain %s", log.String(), want)
		}
	}
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

func TestVerdict_SandboxOutcomes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		endings    string
		phone      string // Matched
		sim        string // SIMUnchanged
		subscriber string // Matched and SIMUnchanged
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
				s, number := newVerdictShop(t), "4477009001"+ending

				sim, err := s.client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: number})
				if err != nil {
					t.Fatal(err)
				}
				phone := s.openPhoneCheck(t, number)
				subscriber := s.openSubscriberCheck(t, number)

				if got := sim.SIMUnchanged().String(); got != tt.sim {
					t.Errorf("SIMCheck %s: SIMUnchanged = %s, want %s", sim.Status, got, tt.sim)
				}
				if got := fmt.Sprint(phone.Matched(), " ", phone.SIMUnchanged()); got != tt.phone+" unknown" {
					t.Errorf("PhoneCheck %s: verdicts = %s, want %s unknown", phone.Status, got, tt.phone)
				}
				if got := fmt.Sprint(subscriber.Matched(), " ", subscriber.SIMUnchanged()); got != tt.subscriber {
					t.Errorf("SubscriberCheck %s: verdicts = %s, want %s", subscriber.Status, got, tt.subscriber)
				}
				s.compareRead(t, phone, subscriber)
			})
		}
	}
}

func TestVerdict_Expired(t *testing.T) {
	t.Parallel()
	s := newVerdictShop(t)
	for _, number := range []string{"447700900112", "447700900113"} {
		check, err := s.client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: s.callbackURL})
		if err != nil {
			t.Fatal(err)
		}
		if got := check.Matched(); got != idverify.VerdictUnknown {
			t.Errorf("ACCEPTED check of %s: Matched = %s, want unknown", number, got)
		}

		if err := s.srv.Advance(t.Context(), 3*time.Minute); err != nil {
			t.Fatal(err)
		}
		c := s.next(t)

		if c.Status != idverify.StatusExpired || c.Matched() != idverify.VerdictUnknown || c.SIMUnchanged() != idverify.VerdictUnknown {
			t.Errorf("callback %s: verdicts = %s and %s, want EXPIRED with unknown", c.Status, c.Matched(), c.SIMUnchanged())
		}
	}
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
	if err := s.srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	check, err := s.client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: s.callbackURL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	return s.next(t)
}

func (s *verdictShop) openSubscriberCheck(t *testing.T, number string) *idverify.Callback {
	t.Helper()
	check, err := s.client.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: number, CallbackURL: s.callbackURL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	return s.next(t)
}

// compareRead checks that COMPLETED checks have the same verdicts when they are read as in their
// callbacks.
func (s *verdictShop) compareRead(t *testing.T, phone, subscriber *idverify.Callback) {
	t.Helper()
	if phone.Status != idverify.StatusCompleted {
		return // neither check is stored
	}
	p, err := s.client.PhoneChecks.Get(t.Context(), phone.CheckID)
	if err != nil || p.Matched() != phone.Matched() {
		t.Errorf("PhoneCheck: Matched = %s, error = %v, want %s as in the callback", p.Matched(), err, phone.Matched())
	}
	c, err := s.client.SubscriberChecks.Get(t.Context(), subscriber.CheckID)
	if err != nil || c.Matched() != subscriber.Matched() || c.SIMUnchanged() != subscriber.SIMUnchanged() {
		t.Errorf("SubscriberCheck: verdicts = %s and %s, error = %v, want %s and %s as in the callback",
			c.Matched(), c.SIMUnchanged(), err, subscriber.Matched(), subscriber.SIMUnchanged())
	}
}
