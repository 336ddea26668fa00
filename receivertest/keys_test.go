package receivertest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
)

func TestKeys_ServeHTTP(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	srv := httptest.NewServer(keys)
	t.Cleanup(srv.Close)
	tests := []struct {
		method, path string
		status       int
	}{
		{"GET", receivertest.KeySetPath, 200},
		{"HEAD", receivertest.KeySetPath, 200},
		{"POST", receivertest.KeySetPath, 405},
		{"GET", "/", 404},
	}
	for _, test := range tests {
		req := must(http.NewRequestWithContext(t.Context(), test.method, srv.URL+test.path, nil))(t)
		resp := must(srv.Client().Do(req))(t)
		body := must(io.ReadAll(resp.Body))(t)
		resp.Body.Close()

		if resp.StatusCode != test.status {
			t.Errorf("%s %s: status %d, want %d", test.method, test.path, resp.StatusCode, test.status)
		}
		var set struct{ Keys []map[string]string }
		if test.method == "GET" && test.status == 200 {
			if err := json.Unmarshal(body, &set); err != nil || len(set.Keys) != 1 || set.Keys[0]["alg"] != "RS256" || set.Keys[0]["d"] != "" {
				t.Errorf("key set = %s, want one public key", body)
			}
		}
	}
}

func TestKeys_Client(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)

	_, err := keys.Client().Get("https://api.example.com/")
	resp, keysErr := keys.Client().Get(keys.URL())

	if err == nil || !strings.Contains(err.Error(), "only reaches Keys.URL") {
		t.Errorf("error for another URL = %v", err)
	}
	if keysErr != nil {
		t.Fatal(keysErr)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status = %d, want 200", resp.StatusCode)
	}
}

// TestKeys_Differ compares the key IDs of two examiners. A receiver that still has the keys of the
// first must not use them for the second.
func TestKeys_Differ(t *testing.T) {
	t.Parallel()
	var ids []string
	for range 2 {
		keys := must(receivertest.NewKeys())(t)
		ids = append(ids, publishedIDs(t, keys)...)
	}

	if len(ids) != 2 || ids[0] == ids[1] || ids[0] == "" {
		t.Errorf("key IDs = %q, want different ones", ids)
	}
}

// publishedIDs returns the IDs of the keys in the key set.
func publishedIDs(t *testing.T, keys *receivertest.Keys) (ids []string) {
	t.Helper()
	w := httptest.NewRecorder()
	keys.ServeHTTP(w, httptest.NewRequest("GET", receivertest.KeySetPath, nil))
	var set struct{ Keys []struct{ Kid string } }
	noError(t, json.Unmarshal(w.Body.Bytes(), &set))
	for _, k := range set.Keys {
		ids = append(ids, k.Kid)
	}
	return ids
}

// TestKeys_ExaminedAgain examines one receiver twice with the same Keys. Its key set is still that
// of the first examination.
func TestKeys_ExaminedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := newKeys(t)
		r := receivertest.Receiver{
			Keys: keys, URL: callbackURL, Only: []string{"callback/key-rotation", "callback/unpublished-key"},
			Handler: newVerifier(t, keys, "api.example.com", nil).RequireCallback(respond(http.StatusNoContent)),
		}

		for range 2 {
			wantAllPassed(t, examine(t, r), 3)
		}

		if ids := publishedIDs(t, keys); len(ids) != 1 {
			t.Errorf("%d keys after the examinations, want 1", len(ids))
		}
	})
}
