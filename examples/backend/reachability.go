package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/idverify/idverify-go"
)

// verificationMethod responds with the method for the calling device: a silent check, or a code in
// a text message. If reachability is unknown, it is the text message, which works everywhere.
func (s *shop) verificationMethod(w http.ResponseWriter, r *http.Request) {
	method := "sms"
	addr, err := clientAddr(r)
	var network *idverify.DeviceReachability
	if err == nil {
		// Sending a text message at once is better than a long wait.
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		network, err = s.client.Reachability.Lookup(ctx, addr)
	}
	switch {
	case err == nil && network.Supports(idverify.ProductPhoneCheck):
		method = "phone_check"
	case err == nil, errors.Is(err, idverify.ErrNetworkNotSupported), errors.Is(err, idverify.ErrNotMobileIP):
	default:
		s.log.WarnContext(r.Context(), "reachability unknown", "error", err)
	}
	w.Header().Set("Cache-Control", "no-store") // the phone may change networks
	respond(w, http.StatusOK, map[string]string{"method": method})
}
