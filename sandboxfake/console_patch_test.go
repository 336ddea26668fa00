package sandboxfake_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The operations of a JSON Patch are applied together or not at all.
func TestServer_PatchProject(t *testing.T) {
	t.Parallel()
	const (
		before = `{"callback_url":"https://shop.test/","configuration":{"phone_check":{"callback_url":"https://p.test/"},"subscriber_check":{"redirect_url":"https://s.test/"}},"mode":"live","name":"Shop"}`
		empty  = `"phone_check":{},"subscriber_check":{}`
	)
	for _, row := range []struct{ name, patch, want string }{
		{"no operations", `[]`, before},
		{"name and mode", `[{"op":"replace","path":"/name","value":"Store"},{"op":"replace","path":"/mode","value":"sandbox"}]`, strings.Replace(strings.Replace(before, "Shop", "Store", 1), "live", "sandbox", 1)},
		{"add the name and mode", `[{"op":"add","path":"/name","value":"Store"},{"op":"add","path":"/mode","value":"sandbox"}]`, strings.Replace(strings.Replace(before, "Shop", "Store", 1), "live", "sandbox", 1)},
		{"add over a value", `[{"op":"add","path":"/callback_url","value":"https://b.test/"}]`, strings.Replace(before, "https://shop.test/", "https://b.test/", 1)},
		{"replace a value", `[{"op":"replace","path":"/configuration/phone_check/callback_url","value":"https://b.test/"}]`, strings.Replace(before, "https://p.test/", "https://b.test/", 1)},
		{"remove a value", `[{"op":"remove","path":"/configuration/phone_check/callback_url"}]`, strings.Replace(before, `"callback_url":"https://p.test/"`, ``, 1)},
		{"replace a product", `[{"op":"replace","path":"/configuration/phone_check","value":{}}]`, strings.Replace(before, `"callback_url":"https://p.test/"`, ``, 1)},
		{"remove a product", `[{"op":"remove","path":"/configuration/phone_check"}]`, strings.Replace(before, `"callback_url":"https://p.test/"`, ``, 1)},
		{"remove, then add to a product", `[{"op":"remove","path":"/configuration/phone_check"},{"op":"add","path":"/configuration/phone_check/callback_url","value":"https://b.test/"}]`, strings.Replace(before, "https://p.test/", "https://b.test/", 1)},
		{"replace the configuration", `[{"op":"replace","path":"/configuration","value":{"phone_check":{"callback_url":"https://b.test/"}}}]`, `{"callback_url":"https://shop.test/","configuration":{"phone_check":{"callback_url":"https://b.test/"},"subscriber_check":{}},"mode":"live","name":"Shop"}`},
		{"remove the configuration", `[{"op":"remove","path":"/configuration"}]`, `{"callback_url":"https://shop.test/","configuration":{` + empty + `},"mode":"live","name":"Shop"}`},
		{"unknown field in an operation", `[{"op":"remove","path":"/configuration/phone_check/callback_url","from":"/x"}]`, strings.Replace(before, `"callback_url":"https://p.test/"`, ``, 1)},

		{"valid, then invalid operation", `[{"op":"replace","path":"/name","value":"Store"},{"op":"replace","path":"/mode","value":"half"}]`, ""},
		{"invalid, then valid operation", `[{"op":"replace","path":"/mode","value":"half"},{"op":"replace","path":"/mode","value":"sandbox"}]`, ""},
		{"unknown path", `[{"op":"add","path":"/colour","value":"red"}]`, ""},
		{"read-only path", `[{"op":"replace","path":"/project_id","value":"mine"}]`, ""},
		{"product without URLs", `[{"op":"add","path":"/configuration/sim_check","value":{}}]`, ""},
		{"path below a value", `[{"op":"add","path":"/configuration/phone_check/callback_url/x","value":"https://b.test/"}]`, ""},
		{"whole document", `[{"op":"replace","path":"","value":{"name":"Store"}}]`, ""},
		{"path without slash", `[{"op":"replace","path":"name","value":"Store"}]`, ""},
		{"path in another case", `[{"op":"replace","path":"/Name","value":"Store"}]`, ""},
		{"remove the name", `[{"op":"remove","path":"/name"}]`, ""},
		{"add a number as the name", `[{"op":"add","path":"/name","value":7}]`, ""},
		{"add an unknown mode", `[{"op":"add","path":"/mode","value":"half"}]`, ""},
		{"remove the mode", `[{"op":"remove","path":"/mode"}]`, ""},
		{"remove a missing value", `[{"op":"remove","path":"/configuration/phone_check/redirect_url"}]`, ""},
		{"replace a missing value", `[{"op":"replace","path":"/configuration/phone_check/redirect_url","value":"https://b.test/"}]`, ""},
		{"remove twice", `[{"op":"remove","path":"/callback_url"},{"op":"remove","path":"/callback_url"}]`, ""},
		{"test", `[{"op":"test","path":"/name","value":"Shop"}]`, ""},
		{"copy", `[{"op":"copy","from":"/name","path":"/callback_url"}]`, ""},
		{"move", `[{"op":"move","from":"/callback_url","path":"/configuration/phone_check/callback_url","value":"x"}]`, ""},
		{"no op", `[{"path":"/name","value":"Store"}]`, ""},
		{"no path", `[{"op":"replace","value":"Store"}]`, ""},
		{"no value", `[{"op":"replace","path":"/name"}]`, ""},
		{"null", `[{"op":"add","path":"/callback_url","value":null}]`, ""},
		{"number", `[{"op":"replace","path":"/name","value":7}]`, ""},
		{"object for a URL", `[{"op":"add","path":"/callback_url","value":{}}]`, ""},
		{"URL for an object", `[{"op":"add","path":"/configuration/phone_check","value":"https://b.test/"}]`, ""},
		{"relative URL", `[{"op":"add","path":"/callback_url","value":"b.test"}]`, ""},
		{"redirect URL with a code", `[{"op":"add","path":"/configuration/phone_check/redirect_url","value":"https://b.test/?code=1"}]`, ""},
		{"invalid URL in an object", `[{"op":"add","path":"/configuration","value":{"phone_check":{"callback_url":"b.test"}}}]`, ""},
		{"member names in another case", `[{"OP":"replace","Path":"/name","VALUE":"Store"}]`, ""},
		{"op of the wrong type", `[{"op":1,"path":"/name","value":"Store"}]`, ""},
		{"null operation", `[null]`, ""},
		{"string operation", `["replace"]`, ""},
		{"not an array", `{"name":"Store"}`, ""},
		{"null patch", `null`, ""},
		{"truncated", `[{"op":"replace","path":"/name","value":"Sto`, ""},
		{"empty", ``, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := consoleServer(t)
			owner := newOwnerAPI(t, srv)
			id, _ := owner.newProject(before)
			if err := srv.Advance(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}

			r := owner.call(http.MethodPatch, projects+"/"+id, row.patch)

			want := row.want
			if want == "" {
				want = before
				r.wantProblem(t, 400, "bad_request")
			}
			stored := owner.get(projects + "/" + id)
			if r.status == 200 {
				if diff := cmp.Diff(stored.json, r.json); diff != "" {
					t.Errorf("response differs from the stored project (-stored +response):\n%s", diff)
				}
			}
			if changed := stored.text("created_at") != stored.text("updated_at"); changed != (row.want != "" && row.patch != `[]`) {
				t.Errorf("updated_at = %s, created_at = %s, want updated_at to change only with the project", stored.text("updated_at"), stored.text("created_at"))
			}
			shown := make(map[string]any)
			for _, name := range []string{"name", "mode", "callback_url", "configuration"} {
				if v, ok := stored.json[name]; ok {
					shown[name] = v
				}
			}
			got, err := json.Marshal(shown)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("project (-want +got):\n%s", diff)
			}
		})
	}
}
