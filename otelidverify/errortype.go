package otelidverify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/idverify/idverify-go"
)

// Values of the attribute error.type for attempts without a usable response.
const (
	unusableResponse = "unusable_response"
	certificate      = "certificate"
	canceled         = "canceled"
	timeout          = "timeout"
	noResponse       = "no_response"
)

// knownErrors lists the problem codes and the token error codes that are values of the attribute
// error.type, in the order of docs/errors.md. A server can respond with any other text, which would
// make the number of time series unlimited.
var knownErrors = []string{
	"bad_request", "phone_format_invalid", "mno_not_supported", "unauthorized", "insufficient_balance",
	"forbidden", "not_found", "check_not_found", "trace_not_found", "workspace_not_found", "method_not_allowed",
	"project_name_taken", "credentials_limit_reached", "company_details_required", "payment_details_required",
	"currency_fixed", "currency_not_supported", "ip_msisdn_mismatch", "trace_gone", "not_mobile_ip",
	"payload_too_large", "unsupported_media_type", "too_many_requests", "mno_redirect_unsupported",

	"invalid_client", "invalid_scope", "invalid_request", "unsupported_grant_type",
}

// errorType returns the value of the attribute error.type for the error of an attempt.
func errorType(err error) string {
	if e, ok := errors.AsType[*idverify.TokenError](err); ok {
		return known(e.Code, e.Status)
	}
	if e, ok := errors.AsType[*idverify.Error](err); ok {
		return known(e.Code(), e.Status)
	}
	if _, ok := errors.AsType[*idverify.DecodeError](err); ok {
		return unusableResponse
	}
	if isCertificateError(err) {
		return certificate
	}
	if errors.Is(err, context.Canceled) {
		return canceled
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() { // also context.DeadlineExceeded
		return timeout
	}
	return noResponse
}

// isCertificateError reports whether err is a certificate that the client does not accept. With a
// custom TLS dialer, package tls may not have wrapped the error of package x509.
func isCertificateError(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return verification || authority || host || invalid
}

// known returns name if it is a known error, and otherwise the HTTP status.
func known(name string, status int) string {
	if slices.Contains(knownErrors, name) {
		return name
	}
	return strconv.Itoa(status)
}
