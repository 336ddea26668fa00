package receivertest_test

import (
	"context"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

func TestExamine_CorrectCallbackReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, err := receivertest.NewKeys()
		if err != nil {
			t.Fatal(err)
		}
		jwks, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()})
		if err != nil {
			t.Fatal(err)
		}
		v, err := signature.NewVerifier(jwks, []string{"api.example.com"}, &signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)})
		if err != nil {
			t.Fatal(err)
		}
		handler := idverify.CallbackHandler(v, func(context.Context, *idverify.Callback) error { return nil })

		receivertest.Run(t, receivertest.Receiver{Keys: keys, URL: "https://api.example.com/callbacks?tenant=7", Handler: handler, Strict: true})
	})
}
