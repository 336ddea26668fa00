package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// certificate returns the certificate of -tls-cert and -tls-key. ok reports whether the flags are
// set. If the certificate is not valid now, it prints a warning.
func (f *flags) certificate(now time.Time, warnings io.Writer) (certificate tls.Certificate, ok bool, err error) {
	switch {
	case f.tlsCert == "" && f.tlsKey == "":
		return certificate, false, nil
	case f.tlsKey == "":
		return certificate, false, errors.New("sandboxfake: -tls-cert requires -tls-key, the file with the private key")
	case f.tlsCert == "":
		return certificate, false, errors.New("sandboxfake: -tls-key requires -tls-cert, the file with the certificate")
	}
	certificates, err := os.ReadFile(f.tlsCert)
	if err != nil {
		return certificate, false, fmt.Errorf("sandboxfake: -tls-cert: %w", err)
	}
	key, err := os.ReadFile(f.tlsKey)
	if err != nil {
		return certificate, false, fmt.Errorf("sandboxfake: -tls-key: %w", err)
	}
	if certificate, err = tls.X509KeyPair(certificates, key); err != nil {
		return certificate, false, keyPairError(certificates, key, err)
	}
	switch leaf := certificate.Leaf; {
	case now.After(leaf.NotAfter):
		fmt.Fprintf(warnings, "sandboxfake: warning: the certificate of -tls-cert expired at %s\n", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		fmt.Fprintf(warnings, "sandboxfake: warning: the certificate of -tls-cert is not valid before %s\n", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return certificate, true, nil
}

// presents reports whether the server presents the certificate of -tls-cert to clients of its URL.
// If the certificate is valid for the URL but not presented, it prints a warning.
func (f *flags) presents(ctx context.Context, server *sandboxfake.Server, warnings io.Writer) (bool, error) {
	base, err := url.Parse(server.URL())
	if err != nil || f.ownCertificate == nil || f.ownCertificate.VerifyHostname(base.Hostname()) != nil {
		return false, err
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // only the certificate is read
	conn, err := dialer.DialContext(ctx, "tcp", base.Host)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Equal(f.ownCertificate) {
		return true, nil
	}
	fmt.Fprintf(warnings, "sandboxfake: warning: the certificate of -tls-cert is not used on loopback: its root certificate is unknown (append it to the file)\n")
	return false, nil
}

// keyPairError returns the error for files that tls.X509KeyPair rejects with err. It names the flag
// of the file to replace.
func keyPairError(certificates, key []byte, err error) error {
	leaf, keyBlock := findBlock(certificates, "CERTIFICATE"), findBlock(key, "PRIVATE KEY")
	switch {
	case leaf == nil:
		return errors.New("sandboxfake: -tls-cert: the file contains no certificate in PEM")
	case !isCertificate(leaf.Bytes):
		return errors.New("sandboxfake: -tls-cert: the certificate is malformed")
	case keyBlock == nil:
		return errors.New("sandboxfake: -tls-key: the file contains no private key in PEM")
	case keyBlock.Type == "ENCRYPTED PRIVATE KEY" || keyBlock.Headers["DEK-Info"] != "":
		return errors.New("sandboxfake: -tls-key: the private key is encrypted (decrypt it first)")
	case strings.Contains(err.Error(), "does not match"):
		return errors.New("sandboxfake: -tls-key: the private key does not match the first certificate of -tls-cert")
	}
	return fmt.Errorf("sandboxfake: -tls-key: the private key is unusable: %w", err)
}

// findBlock returns the first PEM block whose type ends with suffix, or nil.
func findBlock(text []byte, suffix string) *pem.Block {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, suffix) {
			return block
		}
	}
	return nil
}

func isCertificate(der []byte) bool {
	_, err := x509.ParseCertificate(der)
	return err == nil
}
