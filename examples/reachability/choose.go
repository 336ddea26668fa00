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

// method is a method to verify a customer's phone number.
type method string

const (
	silent     method = "silent"        // a PhoneCheck
	mobileData method = "turn off wifi" // suggest turning off Wi-Fi for a PhoneCheck, and offer sms too
	sms        method = "sms"           // a code in a text message
)

// timeout limits the reachability lookup. Sending a text message at once is better than a long wait
// for a silent check.
const timeout = 2 * time.Second

// chooser selects a verification method based on the address of the device.
type chooser struct {
	client *idverify.Client
	log    *slog.Logger
}

// choose returns the best method for a device at addr. If reachability is unknown, it returns sms,
// which works everywhere.
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
	c.log.WarnContext(ctx, "reachability unknown", "error", err)
	return sms
}

// ServeHTTP responds with the method for the calling device.
func (c *chooser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	addr, err := deviceAddr(r)
	if err != nil {
		http.Error(w, "invalid remote address", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // the phone may change networks
	json.NewEncoder(w).Encode(map[string]method{"method": c.choose(r.Context(), addr)})
}

// deviceAddr returns the remote address of the connection. Behind your own proxy, use a header that
// the proxy always overwrites. Do not trust X-Forwarded-For from a device.
func deviceAddr(r *http.Request) (netip.Addr, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(host)
	return addr.Unmap().WithZone(""), err
}
