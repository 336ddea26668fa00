package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// mapping is a value of -map. Callbacks for host go to target.
type mapping struct {
	host   string   // a DNS name in lower case
	target *url.URL // http or https, without a path
}

// parseMapping parses host=target.
func parseMapping(text string) (mapping, error) {
	host, target, ok := strings.Cut(text, "=")
	if !ok {
		return mapping{}, errors.New("must be host=address, such as shop.example.com=127.0.0.1:3000")
	}
	host = strings.ToLower(host)
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return mapping{}, errors.New("the host must be a DNS name, not an IP address")
	}
	if strings.Contains(host, ":") {
		return mapping{}, errors.New("the host must have no port: all ports are mapped")
	}
	if !isHostName(host) {
		return mapping{}, errors.New("the host must be a DNS name, in ASCII, such as shop.example.com")
	}
	if host == "localhost" || host == memoryHost {
		return mapping{}, fmt.Errorf("%s cannot be mapped", host)
	}
	u, err := parseTarget(target)
	return mapping{host, u}, err
}

// memoryHost is the host of a server of package sandboxfake without a socket, which
// [sandboxfake.Server.Handle] rejects.
const memoryHost = "idverify.sandbox.test"

// isHostName reports whether name is a DNS name in lower case. Names may contain underscores.
func isHostName(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(name) <= 253
}

// parseTarget parses host:port, http://host or https://host.
func parseTarget(text string) (*url.URL, error) {
	errTarget := errors.New("the address must be host:port, http://host:port or https://host:port, without a path")
	if !strings.Contains(text, "://") {
		text = "http://" + text
		if u, err := url.Parse(text); err != nil || u.Port() == "" {
			return nil, errTarget
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || strings.ContainsAny(text, "?#") {
		return nil, errTarget
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return nil, errors.New("the port of the address must be a number from 1 to 65535")
	}
	return u, nil
}

// addMapping is the flag function of -map.
func (f *flags) addMapping(text string) error {
	added, err := parseMapping(text)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(f.mappings, func(m mapping) bool { return m.host == added.host }) {
		return errors.New("the host is already mapped")
	}
	f.mappings = append(f.mappings, added)
	return nil
}

// checkMappings returns an error if a host of -map is the service's own.
func (f *flags) checkMappings() error {
	var own []string
	if host, _, err := net.SplitHostPort(f.addr); err == nil {
		own = append(own, strings.ToLower(host))
	}
	if u, err := url.Parse(f.publicURL); err == nil {
		own = append(own, strings.ToLower(u.Hostname()))
	}
	for _, m := range f.mappings {
		if slices.Contains(own, m.host) {
			return fmt.Errorf("sandboxfake: -map: %s is the service itself (use the host of your receiver)", m.host)
		}
	}
	return nil
}

// forward makes the requests of server for the hosts of -map go to their targets. It prints failed
// requests to failures.
func (f *flags) forward(server *sandboxfake.Server, failures io.Writer) {
	if len(f.mappings) == 0 {
		return
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(f.receiverCAs)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		// A receiver may close an idle connection while a callback is sent on it.
		DisableKeepAlives: true,
	}
	for _, m := range f.mappings {
		server.Handle(m.host, m.handler(transport, failures))
	}
}

// forwardTimeout limits a request to a receiver. It is longer than the timeout of a callback, which
// ends the request earlier if the service disconnects.
const forwardTimeout = 30 * time.Second

// handler returns a handler that forwards requests to the target. A receiver sees the request that
// the service sent, with the headers that a proxy in front of it adds. If the receiver is down or
// drops the connection, so does the handler.
func (m mapping) handler(transport *http.Transport, failures io.Writer) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = m.target.Scheme, m.target.Host
			// The signature covers the Host, which stays, and the query, which ReverseProxy
			// normalizes.
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.SetXForwarded()
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				fmt.Fprintf(failures, "%s sandboxfake: -map: no response from the receiver of %s: %s\n", time.Now().Format("15:04:05.000"), m.host, rootCause(err))
			}
			panic(http.ErrAbortHandler)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
		defer cancel()
		proxy.ServeHTTP(promptWriter{w}, r.WithContext(ctx))
	})
}

// promptWriter sends the header of a response before the body is known. If the receiver drops the
// connection after the header, the delivery has the status of the header, as without the proxy.
type promptWriter struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w promptWriter) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if status >= 200 {
		http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w promptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// rootCause returns the text of the innermost error. The outer errors contain addresses.
func rootCause(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "host lookup failed: " + dns.Err
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another host"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
