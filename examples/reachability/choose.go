package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/idverify/idverify-go"
)

// method is how a customer's phone number is verified.
type method string

const (
	silent     method = "silent"        // a PhoneCheck: the customer does nothing
	mobileData method = "turn off wifi" // a PhoneCheck could work if the phone used its mobile data connection: offer that, and a text message beside it
	sms        method = "sms"           // a code by text message
)

// patience is how long the choice may take. A text message sent at once is better than a silent check after a long wait.
const timeout = 2 * time.Second

// chooser chooses a method by the address that a device comes from.
type chooser struct {
	client *idverify.Client
	log    *slog.Logger
}

// choose asks the service whether a PhoneCheck can work for a device at addr. It always has an answer: when nothing is known, a text message works for everybody.
func (c *chooser) choose(ctx context.Context, addr netip.Addr) method {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	network, err := c.client.Reachability.Lookup(ctx, addr)
	switch {
	case err == nil && network.Supports(idverify.ProductPhoneCheck):
		return silent
	case err == nil, errors.Is(err, idverify.ErrNetworkNotSupported):
		return sms
	case errors.Is(err, idverify.ErrNotMobileIP):
		return mobileData
	}
	c.log.WarnContext(ctx, "reachability not known", "error", err)
	return sms
}

// ServeHTTP answers the app that asks how to verify its user.
func (c *chooser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	addr, err := deviceAddr(r)
	if err != nil {
		http.Error(w, "no address", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // the phone may be on Wi-Fi a minute later
	json.NewEncoder(w).Encode(map[string]method{"method": c.choose(r.Context(), addr)})
}

// deviceAddr is the address that the device comes from, as the connection tells it.
// Behind your own proxy take it from the header that this proxy always sets, and from no other: a device can write X-Forwarded-For itself.
func deviceAddr(r *http.Request) (netip.Addr, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(host)
	return addr.Unmap().WithZone(""), err
}
