package main

import (
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

func TestBackend_CallbacksExamined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := tooltest.Must(receivertest.NewKeys())(t)
		keySet := tooltest.Must(signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()}))(t)
		verifier := tooltest.Must(signature.NewVerifier(keySet, []string{host}, nil))(t)
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
