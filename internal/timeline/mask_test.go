package timeline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/timeline"
)

const uuid = "6f1c8a20-0000-8000-8000-123456789012"

// testMask compares the result of mask for each key of a table with the value.
func testMask(t *testing.T, mask func(string) string, table map[string]string) {
	t.Helper()
	for text, want := range table {
		if got := mask(text); got != want {
			t.Errorf("mask of %.200q = %.300q, want %q", text, got, want)
		}
	}
}

func TestMaskText(t *testing.T) {
	t.Parallel()
	testMask(t, timeline.MaskText, map[string]string{
		"dial [::ffff:203.0.113.77]:443: i/o timeout": "dial [REDACTED]: i/o timeout",
		"call 415-555-1234":                           "call [REDACTED]",
		"header Bearer abcdef0123456789":              "header [REDACTED]",
		"get https://shop.example.com/?token=secret":  "get [REDACTED]",
		"a\x1b[2J\u202eb":                             "a [2J b",
		"got secret=abc token: eyJhbGciOi.J9 then":    "got secret=[REDACTED] token: [REDACTED] then",
		`{"client_secret": "a b", "code":"x"} end`:    `{"client_secret": [REDACTED], "code":[REDACTED]} end`,
		"authorization: Bearer abc, PASSWORD=a;b":     "authorization: [REDACTED], PASSWORD=[REDACTED];b",
		`Signature signature="a+b/c=", algorithm`:     `Signature signature=[REDACTED], algorithm`,
		"signature: digest does not match":            "signature: digest does not match",
		"jwt eyJhbGciOi.J9.x_y, key KxqWvTzRbLmP":     "jwt [REDACTED], key [REDACTED]",
		"key KXQWVTZ2BLMP of the SubscriberCheck":     "key [REDACTED] of the SubscriberCheck",
		"REFUSED_STREAM by Content-Type, unexpected":  "REFUSED_STREAM by Content-Type, unexpected",
		strings.Repeat("x", 1<<20):                    strings.Repeat("x", 200) + "…",
	})
}

func TestMaskTarget(t *testing.T) {
	t.Parallel()
	testMask(t, timeline.MaskTarget, map[string]string{
		"/phone_check/v0.1/checks/" + uuid + "/redirect": "/phone_check/v0.1/checks/" + uuid + "/redirect",
		"/.well-known/jwks.json":                         "/.well-known/jwks.json",
		"/oauth2/v1/workspace_credentials":               "/oauth2/v1/workspace_credentials",
		"/phoneCheck/COMPLETED/shop-callback-receivers":  "/phoneCheck/COMPLETED/shop-callback-receivers",
		"/phoneCheckAbc/KXQWVTZRBLMP/KxqWv2":             "/[REDACTED]/[REDACTED]/[REDACTED]",
		"/kxqwvtzrblmpnysdqwertyabc/v123":                "/[REDACTED]/[REDACTED]",
		"/device_ip/203.0.113.77":                        "/device_ip/[REDACTED]",
		"/checks?search=phone_number==447700900012&page": "/checks?search=[REDACTED]&page=[REDACTED]",
		"/checks?447700900012&=x":                        "/checks?[REDACTED]=[REDACTED]&[REDACTED]=[REDACTED]",
		"/%1b[2J/<script>":                               "/[REDACTED]/[REDACTED]",
		"":                                               "",
	})
}

func TestMaskURL(t *testing.T) {
	t.Parallel()
	testMask(t, timeline.MaskURL, map[string]string{
		"https://shop.sandbox.test/callbacks":                                               "https://shop.sandbox.test/callbacks",
		"https://shop.sandbox.test/hooks/KxqWvTzRbLmPnYsDqWeRtY/c?KxqWvTzRbLmPnYs=1&kxqwv=": "https://shop.sandbox.test/hooks/[REDACTED]/c?[REDACTED]=[REDACTED]&[REDACTED]=[REDACTED]",
		"https://ada:secret@shop.sandbox.test/c?token=secret#x":                             "https://shop.sandbox.test/c?token=[REDACTED]",
		"http://127.0.0.1:34567/447700900012":                                               "http://127.0.0.1:34567/[REDACTED]",
		"http://[::1]:80/":                                                                  "http://[::1]:80/",
		"https://203.0.113.77/c":                                                            "https://[REDACTED]/c",
		"https://[2001:db8::1]/c":                                                           "https://[REDACTED]/c",
		"https://447700900012.sandbox.test/":                                                "https://[REDACTED]/",
		"javascript:alert(1)":                                                               "[REDACTED]",
		"not a URL":                                                                         "[REDACTED]",
		"https://shop.sandbox.test/back?check_id=" + uuid + "&code=":                        "https://shop.sandbox.test/back?check_id=[REDACTED]&code=[REDACTED]",
	})
}

func TestMaskNumber(t *testing.T) {
	t.Parallel()
	testMask(t, timeline.MaskNumber, map[string]string{
		"447700900012": "…12", "1234567": "…67", "123456": "[REDACTED]", "": "[REDACTED]", "+447700900012": "[REDACTED]",
	})
}

func TestMaskBody(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, body, want string }{
		{"callback", `{"check_id":"` + uuid + `","status":"COMPLETED","match":true,"charge_amount":0.05,"reference_id":"order","created_at":"2026-01-02T03:04:05+0000","<b>":1}`, `{
  "[REDACTED]": "[REDACTED]",
  "charge_amount": 0.05,
  "check_id": "` + uuid + `",
  "created_at": "2026-01-02T03:04:05+0000",
  "match": true,
  "reference_id": "[REDACTED]",
  "status": "COMPLETED"
}`},
		{"create", `{"phone_number":"447700900012","callback_url":"https://shop.sandbox.test/c?token=s","phone_ip":"203.0.113.77","reference_id":""}`, `{
  "callback_url": "https://shop.sandbox.test/c?token=[REDACTED]",
  "phone_ip": "[REDACTED]",
  "phone_number": "…12",
  "reference_id": ""
}`},
		{"nested", `[{"op":"add","path":"/code","value":"secret"},{"status":["447700900012",447700900012,7]},null]`, `[
  {
    "op": "add",
    "path": "/code",
    "value": "[REDACTED]"
  },
  {
    "status": [
      "[REDACTED]",
      "[REDACTED]",
      7
    ]
  },
  null
]`},
		{"secrets", `{"error":"KxqWvTzRbLmPnYs","KxqWvTzRbLmPnYs":1,"last_sim_change_at":"x","error_code":"mno_server_error"}`, `{
  "[REDACTED]": "[REDACTED]",
  "error": "[REDACTED]",
  "error_code": "mno_server_error",
  "last_sim_change_at": "[REDACTED]"
}`},
		{"text", `"secret"`, `"[REDACTED]"`},
		{"form", "grant_type=client_credentials&client_secret=x", "45 bytes"},
		{"two values", "1 2", "3 bytes"},
		{"truncated", `{"phone_number":"4477`, "21 bytes"},
		{"large", strings.Repeat(" ", 64<<10) + "1", "65537 bytes"},
		{"empty", "", ""},
	} {
		if diff := cmp.Diff(row.want, timeline.MaskBody([]byte(row.body))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}
