package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/idverify/idverify-go/internal/atomicfile"
)

// keyServer serves the key set of an examination to the receiver.
type keyServer struct {
	base   string // URL without a path
	caFile string // path of the CA certificate, empty with plain HTTP

	server *http.Server
	log    *handshakeLog
	served chan struct{} // closed when Serve has returned
	remove func()        // removes a temporary caFile
}

// keyServerConfig configures serveKeys.
type keyServerConfig struct {
	addr   string   // host:port to listen on
	names  []string // other names by which the receiver reaches this machine; the first is in the URL
	plain  bool     // HTTP without TLS
	caFile string   // empty for a temporary file
	now    time.Time
}

// serveKeys listens and serves h until close is called.
func serveKeys(c keyServerConfig, h http.Handler) (*keyServer, error) {
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return nil, fmt.Errorf("serve the key set: %w (choose another address with -keys, and configure the receiver with it)", err)
	}
	s := &keyServer{base: "http://" + c.host(listener), served: make(chan struct{}), remove: func() {}, log: &handshakeLog{pending: make(map[net.Conn]bool)}}
	s.server = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(s.log, "", 0),
		ConnState:         s.log.connState,
	}
	if !c.plain {
		s.base = "https://" + c.host(listener)
		if err := s.secure(c); err != nil {
			listener.Close()
			return nil, fmt.Errorf("write the CA file: %w (set -ca-file to a file in a writable directory)", err)
		}
		listener = tls.NewListener(listener, s.server.TLSConfig)
	}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

// handshakeLog is the error log of a key server. It counts the TLS handshakes that a client ended
// because it does not trust the certificate.
type handshakeLog struct {
	mu        sync.Mutex // guards the fields below
	untrusted int
	pending   map[net.Conn]bool // connections whose handshake has not ended
}

// connState records the state of a connection.
func (l *handshakeLog) connState(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == http.StateNew {
		l.pending[conn] = true
	} else {
		delete(l.pending, conn)
	}
}

func (l *handshakeLog) Write(p []byte) (int, error) {
	// Most clients send an alert. Some close the connection.
	if text := string(p); strings.Contains(text, "TLS handshake error") &&
		(strings.Contains(text, "remote error: tls: ") || strings.HasSuffix(strings.TrimSpace(text), "EOF")) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.untrusted++
	}
	return len(p), nil
}

// handshakePatience is how long an examination waits at its end for TLS handshakes: a client may
// report its error before its alert has arrived at the key server.
const handshakePatience = time.Second

// untrusted returns the number of clients that did not trust the certificate. It waits for
// handshakes that have not ended, until ctx is done.
func (s *keyServer) untrusted(ctx context.Context) int {
	for {
		s.log.mu.Lock()
		untrusted, pending := s.log.untrusted, len(s.log.pending)
		s.log.mu.Unlock()
		if pending == 0 || ctx.Err() != nil {
			return untrusted
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// close ends the connections and removes the temporary file.
func (s *keyServer) close() {
	s.server.Close()
	<-s.served
	s.remove()
}

// secure sets a new certificate, and writes the CA file with which clients verify it.
func (s *keyServer) secure(c keyServerConfig) (err error) {
	certificate, caPEM, err := newCertificate(c.hosts(), c.now)
	if err != nil {
		return err
	}
	s.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}
	if c.caFile == "" {
		dir, err := os.MkdirTemp("", "idverify-")
		if err != nil {
			return err
		}
		s.remove = func() { os.RemoveAll(dir) }
		c.caFile = filepath.Join(dir, "ca.pem")
	}
	if s.caFile, err = filepath.Abs(c.caFile); err == nil {
		err = atomicfile.Replace(s.caFile, caPEM, 0o644)
	}
	if err != nil {
		s.remove()
	}
	return err
}

// host returns the host and port of the key set's URL.
func (c keyServerConfig) host(listener net.Listener) string {
	host, _, _ := net.SplitHostPort(c.addr)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	switch ip, err := netip.ParseAddr(host); {
	case len(c.names) > 0:
		host = c.names[0]
	case host == "", err == nil && ip.IsUnspecified():
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// hosts returns the names and addresses of the certificate.
func (c keyServerConfig) hosts() []string {
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, c.names...)
	if host, _, _ := net.SplitHostPort(c.addr); host != "" {
		hosts = append(hosts, host)
	}
	return hosts
}

// certificateLifetime is the time for which the certificate of the key server is valid.
const certificateLifetime = 24 * time.Hour

// newCertificate returns a certificate for hosts, and the certificate of the authority that signed
// it, in PEM. The private key of the authority is not kept, so it signs nothing else.
func newCertificate(hosts []string, now time.Time) (certificate tls.Certificate, caPEM []byte, err error) {
	template := func(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
		key, keyErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		serial, serialErr := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
		return &x509.Certificate{
			SerialNumber: serial,
			Subject:      pkix.Name{CommonName: name},
			NotBefore:    now.Add(-time.Hour), // for a receiver whose clock is behind
			NotAfter:     now.Add(certificateLifetime),
		}, key, errors.Join(keyErr, serialErr)
	}
	ca, caKey, err := template("idverify examine CA")
	if err != nil {
		return certificate, nil, err
	}
	ca.IsCA, ca.BasicConstraintsValid, ca.MaxPathLenZero = true, true, true
	ca.KeyUsage = x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return certificate, nil, err
	}
	// Parse it for the key identifier, which some clients require in both certificates.
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return certificate, nil, err
	}
	leaf, key, err := template("idverify examine")
	if err != nil {
		return certificate, nil, err
	}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), err
}
