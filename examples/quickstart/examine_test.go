package main

import (
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

func TestBackend_CallbacksExamined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, err := receivertest.NewKeys()
		if err != nil {
			t.Fatal(err)
		}
		keySet, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()})
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := signature.NewVerifier(keySet, []string{host}, nil)
		if err != nil {
			t.Fatal(err)
		}
		shop := &backend{callbacks: make(chan *idverify.Callback)}
		go func() {
			for range shop.callbacks {
			}
		}()

		receivertest.Run(t, receivertest.Receiver{
			Keys:    keys,
			URL:     "https://" + host + "/callbacks",
			Handler: idverify.CallbackHandler(verifier, shop.callback),
			Strict:  true,
		})
		close(shop.callbacks)
	})
}
