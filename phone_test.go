package idverify_test

import (
	"errors"
	"strings"
	"testing"

	idverify "github.com/idverify/idverify-go"
)

func TestNormalizePhoneNumber_Formats(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"447700900000":              "447700900000",
		"+447700900000":             "447700900000",
		"+44 7700 900-000":          "447700900000",
		" +44 (7700) 900.000\t":     "447700900000",
		"+1 (212) 555-0100":         "12125550100",
		"+44\u00a07700\u202f900000": "447700900000",
		"44‑7700‑900‑000":           "447700900000",
		"1234567":                   "1234567",
		"123456789012345":           "123456789012345",
		"+49 (89) 000 00":           "498900000",
		"+1(202)5550100":            "12025550100",
		"(44)7700900000":            "447700900000",
		"44 (770) 0900000":          "447700900000",
	} {
		got, err := idverify.NormalizePhoneNumber(in)

		if got != want || err != nil {
			t.Errorf("NormalizePhoneNumber(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestNormalizePhoneNumber_Invalid(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"empty":                    "",
		"only separators":          " +-() ",
		"six digits":               "123456",
		"sixteen digits":           "1234567890123456",
		"one megabyte":             strings.Repeat("4", 1<<20),
		"national number":          "07700 900000",
		"international prefix 00":  "0044 7700 900000",
		"zero in brackets":         "+44 (0)7700 900000",
		"zero in spaced brackets":  "+44 ( 0 ) 7700 900000",
		"zero without spaces":      "+44(0)7700900012",
		"zero before a space":      "+44(0) 7700 900012",
		"zero between tabs":        "+44 (\t0\t) 7700900012",
		"zero after many spaces":   "+44 (          0) 7700900012",
		"zero in no-break spaces":  "+44 (\u00a00\u202f)7700900012",
		"leading zero in brackets": "(0)447700900012",
		"leading letter":           "x447700900012",
		"full-width plus":          "＋447700900012",
		"leading hash":             "#447700900012",
		"letter after the plus":    "+x447700900012",
		"letter in brackets":       "44(x)7700900012",
		"plus in the middle":       "44+7700900000",
		"two pluses":               "++447700900000",
		"letters":                  "+44 7700 CALLME",
		"extension":                "+44 7700 900000 x12",
		"two numbers":              "4477009/0000441",
		"list":                     "4477009, 4477008",
		"line break":               "447700\n900000",
		"NUL":                      "447700900000\x00",
		"Arabic-Indic digits":      "٤٤٧٧٠٠٩٠٠٠٠٠",
		"full-width digits":        "４４７７００９０００００",
		"invalid UTF-8":            "447700900000\xff",
		"exponent":                 "4.477e11",
	} {
		got, err := idverify.NormalizePhoneNumber(in)

		if got != "" || !errors.Is(err, idverify.ErrPhoneFormat) {
			t.Errorf("%s: NormalizePhoneNumber = %q, %v, want ErrPhoneFormat", name, got, err)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\x00") || strings.Contains(err.Error(), "900000") && !strings.Contains(err.Error(), "44 7700 900000")) {
			t.Errorf("%s: error = %q, want it without the number", name, err)
		}
	}
}

func TestPhoneCheckService_CreateNormalizesNumber(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(201, string(fixture(t, "phone_check_created.json"))))

	_, err := srv.client(t).PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "+44 (7700) 900-000"})

	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(srv.calls()[0].body), `{"phone_number":"447700900000"}`; got != want {
		t.Errorf("body = %s, want %s", got, want)
	}
}

func FuzzNormalizePhoneNumber(f *testing.F) {
	for _, s := range []string{"+44 7700 900-000", "0044", "(0)", "123456789012345", "4４", "\xff", "+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := idverify.NormalizePhoneNumber(s)
		if err != nil {
			if got != "" || !errors.Is(err, idverify.ErrPhoneFormat) {
				t.Fatalf("NormalizePhoneNumber = %q, %v, want no number with ErrPhoneFormat", got, err)
			}
			return
		}
		if len(got) < 7 || len(got) > 15 || got[0] == '0' || strings.Trim(got, "0123456789") != "" {
			t.Errorf("NormalizePhoneNumber(%q) = %q, want 7 to 15 digits without a leading 0", s, got)
		}
		digits := strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, s)
		if digits != got {
			t.Errorf("NormalizePhoneNumber(%q) = %q, want %q", s, got, digits)
		}
		if again, err := idverify.NormalizePhoneNumber(got); again != got || err != nil {
			t.Errorf("NormalizePhoneNumber(%q) = %q, %v, want it unchanged", got, again, err)
		}
	})
}
