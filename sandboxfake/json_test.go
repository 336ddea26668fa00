package sandboxfake

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObject_MatchesEncodingJSON(t *testing.T) {
	t.Parallel()
	texts := []string{"", "447700900012", "https://app.example.com/?a=1&b=2", "&&", "a&\n&b", "é&ß", "a\xffb", "\u2028\u2029\ufffd", strings.Repeat("long & ", 1000)}
	for c := range 256 {
		texts = append(texts, string(rune(c)), "a"+string([]byte{byte(c)})+"&b")
	}

	for _, text := range texts {
		o := openObject(nil)
		o.text("reference_id", text)
		got := string(o.end())

		want, err := json.Marshal(struct {
			ReferenceID string `json:"reference_id"`
		}{text})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("object with %q differs from encoding/json (-want +got):\n%s", text, diff)
		}
	}
}
