package inbox_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/idverify/idverify-go"
)

// signedBody returns the body of a callback of the check "check" that was created now, with more
// fields.
func signedBody(b *backend, fields string) string {
	return bodyOf("check", b.service.Now(), fields)
}

// bodyOf returns the body of a callback. checkID is the content of a JSON string.
func bodyOf(checkID string, created time.Time, fields string) string {
	return `{"check_id":"` + checkID + `","charge_amount":1,"charge_currency":"API","created_at":"` + created.Format("2006-01-02T15:04:05-0700") + `",` + fields + `}`
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
