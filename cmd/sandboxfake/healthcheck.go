package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// healthTimeout limits the duration of a health check.
const healthTimeout = 3 * time.Second

// checkHealth returns nil if the server that listens on addr is ready. addr is the server's -addr:
// it must be an address of this machine, and its port must not be 0. An empty or unspecified host
// means this machine, as for a listener.
func checkHealth(ctx context.Context, addr string) error {
	if err := checkHealthAddr(addr); err != nil {
		return fmt.Errorf("sandboxfake: health check: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	err := requestHealth(ctx, addr)
	// Remove the URL, whose host is only a placeholder.
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("sandboxfake: health check: no response within %v", healthTimeout)
	case err != nil:
		return fmt.Errorf("sandboxfake: health check: %w", err)
	}
	return nil
}

// checkHealthAddr returns an error unless addr has a port other than 0.
func checkHealthAddr(addr string) error {
	_, service, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	port, err := net.LookupPort("tcp", service)
	if err == nil && port == 0 {
		err = errors.New("the port of the server is unknown (use the same -addr as the server, or " + envName("addr") + ", with a port other than 0)")
	}
	return err
}

// requestHealth requests the status of the server that listens on addr.
func requestHealth(ctx context.Context, addr string) error {
	client := &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) { return dialLocal(ctx, network, addr) },
			// This process does not have the CA certificate, which each run generates. Any
			// certificate is safe: the request contains no secret, and dialLocal ensures that it
			// does not leave this machine.
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost/_sandbox/health", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var health struct {
		Status string `json:"status"`
	}
	err = json.NewDecoder(io.LimitReader(response.Body, 1<<10)).Decode(&health)
	if response.StatusCode != http.StatusOK || err != nil || health.Status != "ok" {
		return fmt.Errorf("status %d: this is not the response of a sandboxfake that is ready", response.StatusCode)
	}
	return nil
}

// dialLocal connects to a server on this machine.
func dialLocal(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if !isLocal(conn) {
		conn.Close()
		return nil, errors.New("the address belongs to another machine")
	}
	return conn, nil
}

// isLocal reports whether both ends of a connection are on this machine: the peer has a loopback
// address or the address of this end.
func isLocal(conn net.Conn) bool {
	local, peer := ip(conn.LocalAddr()), ip(conn.RemoteAddr())
	return peer.IsLoopback() || peer.IsValid() && peer == local
}

// ip returns the IP address of a TCP address, or the zero value for other addresses.
func ip(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}
