package receivertest_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

// This receiver forgets to verify the callback.
func ExampleExamine() {
	receiver := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	keys, err := receivertest.NewKeys()
	if err != nil {
		log.Fatal(err)
	}

	report, err := receivertest.Examine(context.Background(), receivertest.Receiver{
		Keys:    keys,
		URL:     "https://api.example.com/callbacks",
		Handler: receiver,
		Only:    []string{"callback/changed-match", "callback/signed-for-another-customer"},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range report.Failed() {
		fmt.Printf("%s (%s): %s\n", f.Rule, f.Severity, f.Detail)
	}
	// Output:
	// callback/changed-match (critical): accepted an invalid message (changed match): response 204 No Content
	// callback/signed-for-another-customer (high): accepted an invalid message (signed for another customer): response 204 No Content
}

// In a bubble of testing/synctest, the waits of the examination take no time. The handler uses the
// keys of the examination, instead of those of the service.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestCallbacks(t *testing.T)
		keys, err := receivertest.NewKeys()
		if err != nil {
			t.Fatal(err)
		}
		keySet, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()})
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := signature.NewVerifier(keySet, []string{"api.example.com"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		handle := func(ctx context.Context, c *idverify.Callback) error {
			return nil // your code
		}

		receivertest.Run(t, receivertest.Receiver{
			Keys:    keys,
			URL:     "https://api.example.com/callbacks",
			Handler: idverify.CallbackHandler(verifier, handle),
			Strict:  true,
		})
	}
}
