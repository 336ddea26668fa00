package redact

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"reflect"
	"strings"
	"syscall"
)

// Error returns an error with the text ErrorText(err, secrets...). It matches the same errors as
// err by errors.Is and errors.As, but wraps none of them: a tool that follows errors.Unwrap and
// prints what it finds must not print the original texts.
//
// The errors of packages net, net/url, tls and x509 that errors.As finds are copies without host
// names, addresses and URLs, except those in certificates: UnverifiedCertificates is needed to find
// out which CA is missing. Other types are found unchanged. An interface is found only if these
// copies or an error with the redacted text implement it, such as net.Error.
func Error(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	// The error of an http.Client adds only the URL, and hides a timeout of an error that is wrapped
	// twice.
	if e, ok := err.(*url.Error); ok && e.Err != nil {
		err = e.Err
	}
	e := &redactedError{
		text:     ErrorText(err, secrets...),
		original: func() ([]string, error) { return secrets, err },
	}
	if n, ok := err.(net.Error); ok {
		//nolint:staticcheck // net.Error has the method
		return &redactedNetError{e, n.Timeout(), n.Temporary()}
	}
	return e
}

// ErrorText returns the redacted text of err, without the host names and addresses in errors of
// packages net and x509.
func ErrorText(err error, secrets ...string) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if err == nil {
		return errNoCause.Error()
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return "host lookup failed: " + Text(e.Err, secrets...)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		if e.Err == nil || e.Err == errNoCause {
			return Text(e.Op, secrets...)
		}
		// The error of a proxyconnect wraps that of the dial.
		return Text(e.Op, secrets...) + ": " + ErrorText(e.Err, secrets...)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "certificate is for another host"
	}
	text := err.Error()
	// Package http repeats a relative Location, which contains no host, but maybe secrets.
	if strings.HasPrefix(text, "failed to parse Location header") {
		return "redirect has an invalid Location"
	}
	visit(err, func(e error) bool {
		if c := withoutAddress(e, nil); c != nil {
			text = strings.ReplaceAll(text, e.Error(), c.Error())
		}
		return false
	})
	return Text(text, secrets...)
}

// errNoCause takes the place of a missing cause. The methods Error of packages net and net/url
// panic without one.
var errNoCause = errors.New("unknown cause")

// redactedError is an error whose original cannot be printed. The original is in a closure, because
// fmt and packages that use reflection print the fields of a struct, but not the variables of a
// function.
type redactedError struct {
	text     string
	original func() (secrets []string, err error)
}

// Error implements error.
func (e *redactedError) Error() string { return e.text }

// Is is errors.Is for the original.
func (e *redactedError) Is(target error) bool {
	_, original := e.original()
	return errors.Is(original, target)
}

// As is errors.As for the original, except that it finds copies: see Error.
func (e *redactedError) As(target any) bool {
	secrets, original := e.original()
	found := reflect.ValueOf(target).Elem()
	set := func(err error) bool {
		if err == nil || !reflect.TypeOf(err).AssignableTo(found.Type()) {
			return false
		}
		found.Set(reflect.ValueOf(err))
		return true
	}
	return visit(original, func(err error) bool {
		switch c := withoutAddress(err, secrets); {
		case !reflect.TypeOf(err).AssignableTo(found.Type()):
			x, ok := err.(interface{ As(target any) bool })
			if !ok || !x.As(target) {
				return false
			}
			if found.Kind() == reflect.Interface {
				e, _ := found.Interface().(error)
				found.SetZero()
				return set(Error(e, secrets...))
			}
			return true
		case c != nil:
			return set(c)
		case found.Kind() == reflect.Interface:
			return set(Error(err, secrets...)) // not err: its methods may return secrets
		}
		return set(err)
	})
}

// redactedNetError is the redactedError of a net.Error.
type redactedNetError struct {
	*redactedError
	timeout, temporary bool
}

func (e *redactedNetError) Timeout() bool   { return e.timeout }
func (e *redactedNetError) Temporary() bool { return e.temporary }

// visit calls f for err and all errors that it wraps until f returns true, and reports whether f
// returned true.
func visit(err error, f func(error) bool) bool {
	if err == nil {
		return false
	}
	if f(err) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return visit(e.Unwrap(), f)
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			if visit(wrapped, f) {
				return true
			}
		}
	}
	return false
}

// withoutAddress returns a copy of err without the host names, addresses and URLs that its type
// contains, or nil for all other types.
func withoutAddress(err error, secrets []string) error {
	// field returns the redacted error for a field of the copy. It keeps the types that methods such
	// as net.OpError.Timeout examine.
	field := func(err error) error {
		if err == nil {
			return errNoCause
		}
		if c := withoutAddress(err, secrets); c != nil {
			return c
		}
		return Error(err, secrets...)
	}
	switch e := err.(type) {
	case *url.Error:
		return &url.Error{Op: Text(e.Op, secrets...), URL: Placeholder, Err: field(e.Err)}
	case *net.OpError:
		return &net.OpError{Op: Text(e.Op, secrets...), Net: Text(e.Net, secrets...), Err: field(e.Err)}
	case *net.DNSError:
		c := *e
		c.Err, c.Name, c.Server = Text(e.Err, secrets...), Placeholder, ""
		if e.UnwrapErr != nil {
			c.UnwrapErr = field(e.UnwrapErr)
		}
		return &c
	case *net.AddrError:
		return &net.AddrError{Err: Text(e.Err, secrets...), Addr: Placeholder}
	case *net.ParseError:
		return &net.ParseError{Type: Text(e.Type, secrets...), Text: Placeholder}
	case *os.SyscallError:
		return &os.SyscallError{Syscall: e.Syscall, Err: field(e.Err)}
	case syscall.Errno:
		return e
	case *tls.CertificateVerificationError:
		return &tls.CertificateVerificationError{UnverifiedCertificates: e.UnverifiedCertificates, Err: field(e.Err)}
	case tls.RecordHeaderError:
		e.Conn = nil
		return e
	case x509.HostnameError:
		return x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{Placeholder}}, Host: Placeholder}
	case x509.CertificateInvalidError:
		if e.Reason != x509.Expired && e.Detail != "" { // the times, or names
			e.Detail = Placeholder
		}
		return e
	}
	return nil
}
