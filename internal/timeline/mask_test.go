package timeline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/timeline"
)

const uuid = "6f1c8a20-0000-8000-8000-123456789012"

func TestMaskText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial [::ffff:203.0.113.77]:443: i/o timeout": "dial [redacted]: i/o timeout",
		"call 415-555-1234":                           "call [redacted]",
		"header Bearer abcdef0123456789":              "header [redacted]",
		"get https://shop.example.com/?token=secret":  "get [redacted]",
		"a\x1b[2J\u202eb":                             "a [2J b",
		"got secret=abc token: eyJhbGciOi.J9 then":    "got secret=[redacted] token: [redacted] then",
		`{"client_secret": "a b", "code":"x"} end`:    `{"client_secret": [redacted], "code":[redacted]} end`,
		"authorization: Bearer abc, PASSWORD=a;b":     "authorization: [redacted], PASSWORD=[redacted];b",
		`Signature signature="a+b/c=", algorithm`:     `Signature signature=[redacted], algorithm`,
		"signature: digest does not match":            "signature: digest does not match",
		"jwt eyJhbGciOi.J9.x_y, key KxqWvTzRbLmP":     "jwt [redacted], key [redacted]",
		"key KXQWVTZ2BLMP of the SubscriberCheck":     "key [redacted] of the SubscriberCheck",
		"REFUSED_STREAM by Content-Type, unexpected":  "REFUSED_STREAM by Content-Type, unexpected",
		strings.Repeat("x", 1<<20):                    strings.Repeat("x", 200) + "…",
	} {
		if got := timeline.MaskText(text); got != want {
			t.Errorf("MaskText(%.60q) = %.300q, want %q", text, got, want)
		}
	}
}

func TestMaskTarget(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/phone_check/v0.1/checks/" + uuid + "/redirect": "/phone_check/v0.1/checks/" + uuid + "/redirect",
		"/.well-known/jwks.json":                         "/.well-known/jwks.json",
		"/oauth2/v1/workspace_credentials":               "/oauth2/v1/workspace_credentials",
		"/phoneCheck/COMPLETED/shop-callback-receivers":  "/phoneCheck/COMPLETED/shop-callback-receivers",
		"/phoneCheckAbc/KXQWVTZRBLMP/KxqWv2":             "/[redacted]/[redacted]/[redacted]",
		"/kxqwvtzrblmpnysdqwertyabc/v123":                "/[redacted]/[redacted]",
		"/device_ip/203.0.113.77":                        "/device_ip/[redacted]",
		"/checks?search=phone_number==447700900012&page": "/checks?search=[redacted]&page=[redacted]",
		"/checks?447700900012&=x":                        "/checks?[redacted]=[redacted]&[redacted]=[redacted]",
		"/%1b[2J/<script>":                               "/[redacted]/[redacted]",
		"":                                               "",
	} {
		if got := timeline.MaskTarget(target); got != want {
			t.Errorf("MaskTarget(%q) = %q, want %q", target, got, want)
		}
	}
}

func TestMaskURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://shop.sandbox.test/callbacks":                                               "https://shop.sandbox.test/callbacks",
		"https://shop.sandbox.test/hooks/KxqWvTzRbLmPnYsDqWeRtY/c?KxqWvTzRbLmPnYs=1&kxqwv=": "https://shop.sandbox.test/hooks/[redacted]/c?[redacted]=[redacted]&[redacted]=[redacted]",
		"https://ada:secret@shop.sandbox.test/c?token=secret#x":                             "https://shop.sandbox.test/c?token=[redacted]",
		"http://127.0.0.1:34567/447700900012":                                               "http://127.0.0.1:34567/[redacted]",
		"http://[::1]:80/":                                                                  "http://[::1]:80/",
		"https://203.0.113.77/c":                                                            "https://[redacted]/c",
		"https://[2001:db8::1]/c":                                                           "https://[redacted]/c",
		"https://447700900012.sandbox.test/":                                                "https://[redacted]/",
		"javascript:alert(1)":                                                               "[redacted]",
		"not a URL":                                                                         "[redacted]",
		"https://shop.sandbox.test/back?check_id=" + uuid + "&code=":                        "https://shop.sandbox.test/back?check_id=[redacted]&code=[redacted]",
	} {
		if got := timeline.MaskURL(text); got != want {
			t.Errorf("MaskURL(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestMaskNumber(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{"447700900012": "…12", "1234567": "…67", "123456": "[redacted]", "": "[redacted]", "+447700900012": "[redacted]"} {
		if got := timeline.MaskNumber(number); got != want {
			t.Errorf("MaskNumber(%q) = %q, want %q", number, got, want)
		}
	}
}

func TestMaskBody(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, body, want string }{
		{"callback", `{"check_id":"` + uuid + `","status":"COMPLETED","match":true,"charge_amount":0.05,"reference_id":"order","created_at":"2026-01-02T03:04:05+0000","<b>":1}`, `{
  "[redacted]": "[redacted]",
  "charge_amount": 0.05,
  "check_id": "` + uuid + `",
  "created_at": "2026-01-02T03:04:05+0000",
  "match": true,
  "reference_id": "[redacted]",
  "status": "COMPLETED"
}`},
		{"create", `{"phone_number":"447700900012","callback_url":"https://shop.sandbox.test/c?token=s","phone_ip":"203.0.113.77","reference_id":""}`, `{
  "callback_url": "https://shop.sandbox.test/c?token=[redacted]",
  "phone_ip": "[redacted]",
  "phone_number": "…12",
  "reference_id": ""
}`},
		{"nested", `[{"op":"add","path":"/code","value":"secret"},{"status":["447700900012",447700900012,7]},null]`, `[
  {
    "op": "add",
    "path": "/code",
    "value": "[redacted]"
  },
  {
    "status": [
      "[redacted]",
      "[redacted]",
      7
    ]
  },
  null
]`},
		{"secrets", `{"error":"KxqWvTzRbLmPnYs","KxqWvTzRbLmPnYs":1,"last_sim_change_at":"x","error_code":"mno_server_error"}`, `{
  "[redacted]": "[redacted]",
  "error": "[redacted]",
  "error_code": "mno_server_error",
  "last_sim_change_at": "[redacted]"
}`},
		{"text", `"secret"`, `"[redacted]"`},
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
