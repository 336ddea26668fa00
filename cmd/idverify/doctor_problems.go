package main

import "strings"

// doctorProblem is a problem that a check can find, with what to do about it.
type doctorProblem struct {
	check, name string // the checks of redirect URLs have the problems of those of callback URLs, too
	result      doctorResult
	remedy      string
}

// problemOf returns the row of doctorProblems.
func problemOf(check, name string) doctorProblem {
	callback := strings.Replace(check, "redirect-", "callback-", 1)
	for _, candidate := range []string{check, callback} {
		for _, p := range doctorProblems {
			if p.check == candidate && p.name == name {
				return p
			}
		}
	}
	return doctorProblem{check, name, resultFailed, ""} // unreachable: a test compares the names with the code
}

// doctorProblems are all problems, in the order of docs/tools.md.
var doctorProblems = [...]doctorProblem{
	{"config-base-url", "missing", resultFailed, "Set IDVERIFY_BASE_URL to the base URL of the service."},
	{"config-base-url", "invalid", resultFailed, "Set IDVERIFY_BASE_URL to https:// and the host, with its port unless that is 443, and nothing else."},
	{"config-credentials", "missing", resultFailed, "Set IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET, or IDVERIFY_CREDENTIALS_FILE."},
	{"config-credentials", "ambiguous", resultFailed, "Unset the variables that your service does not use."},
	{"config-credentials", "invalid", resultFailed, "Copy the credentials again, without white space or a newline at the end."},
	{"config-credentials", "readable", resultWarning, "Let only the user of your service read the file: chmod 600."},
	{"config-ca-file", "invalid", resultFailed, "Set IDVERIFY_CA_FILE to a PEM file with the root certificate, or unset it."},

	{"base-url-proxy", "invalid", resultFailed, "Set HTTPS_PROXY to a URL such as http://proxy.example.com:3128, or unset it."},
	{"base-url-proxy", "unreachable", resultFailed, "Check HTTPS_PROXY, or add the host of the service to NO_PROXY."},
	{"base-url-proxy", "rejected", resultFailed, "Let the proxy permit CONNECT to the host of the service, and check the user and password in HTTPS_PROXY."},
	{"base-url-proxy", "timeout", resultFailed, "Repeat later, and check that the proxy of HTTPS_PROXY is not overloaded and speaks HTTP on this port."},
	{"base-url-connection", "unresolved", resultFailed, "Check the host of IDVERIFY_BASE_URL and the DNS server of this machine."},
	{"base-url-connection", "closed-port", resultFailed, "Check the port of IDVERIFY_BASE_URL, and that the server runs: nothing listens on this port."},
	{"base-url-connection", "unreachable", resultFailed, "Permit outgoing connections to the service in your firewall, or set HTTPS_PROXY."},
	{"base-url-tls", "untrusted", resultFailed, "Set IDVERIFY_CA_FILE to this root certificate if you trust it. If a proxy replaces certificates, it is that of the proxy."},
	{"base-url-tls", "other-ca", resultFailed, "Set IDVERIFY_CA_FILE to the root certificate of this server, or of a proxy that replaces certificates, if you trust it. Each run of sandboxfake has another one, unless -fixed-keys is set."},
	{"base-url-tls", "expired", resultFailed, "Check the clock of this machine. If it is right, the operator of the server must renew the certificate."},
	{"base-url-tls", "wrong-host", resultFailed, "Check IDVERIFY_BASE_URL, DNS and any proxy: another server responds."},
	{"base-url-tls", "handshake", resultFailed, "Check the port of IDVERIFY_BASE_URL and any proxy: the server does not speak TLS, or ends the connection."},
	{"base-url-tls", "timeout", resultFailed, "Repeat later. If it lasts, check that a firewall or proxy does not block TLS, and the status page of the service."},
	{"base-url-tls", "expires-soon", resultWarning, "Check that the certificate is renewed in time."},
	{"base-url-response", "none", resultFailed, "Repeat later. If it lasts, check any proxy and the status page of the service."},
	{"base-url-response", "redirect", resultFailed, "Set IDVERIFY_BASE_URL to the host that the service documents. The client follows no redirects."},
	{"clock", "wrong", resultFailed, "Run NTP on this machine. The verifier rejects all callbacks and redirects (ErrSkew)."},
	{"clock", "skewed", resultWarning, "Run NTP on this machine. At 5 s, the verifier rejects all callbacks and redirects (ErrSkew)."},
	{"clock", "unknown", resultWarning, "Check that a proxy does not remove the header Date, and that NTP runs on this machine."},

	{"credentials-token", "rejected", resultFailed, "Copy the credentials again, or create new ones: secrets cannot be reset, and credentials can have been deleted."},
	{"credentials-token", "unavailable", resultFailed, "Look up the error in docs/errors.md, and repeat later if the service is unavailable."},
	{"credentials-scopes", "none", resultFailed, "Use the credentials of a project. Those of a workspace cannot use products."},
	{"credentials-scopes", "missing", resultWarning, "If your service uses these products, use the credentials of a project that has them."},
	{"credentials-scopes", "unavailable", resultFailed, "Look up the error in docs/errors.md, and repeat later if the service is unavailable."},
	{"credentials-mode", "free", resultWarning, "In production, use the credentials of a live project: a sandbox project approves invented numbers. Ignore this if your live price is 0."},
	{"credentials-mode", "unavailable", resultFailed, "Look up the error in docs/errors.md, and repeat later if the service is unavailable."},

	{"key-set", "unavailable", resultFailed, "Repeat later. Without a key set, your verifier responds to callbacks with 503. See docs/security.md, Key-set outage."},
	{"key-set", "unusable", resultFailed, "Check IDVERIFY_BASE_URL and any proxy: the response is not the key set of the service."},
	{"key-set", "ignored", resultWarning, "Inform the operator of the service: messages that are signed with these keys are rejected."},
	{"key-set", "cached", resultWarning, "Do not let your proxy cache the key set: a revoked key is accepted for longer, and a new one is unknown."},

	{"callback-address", "invalid", resultFailed, "Pass the URL that is registered with the service."},
	{"callback-address", "unresolved", resultFailed, "Check the host of the URL and its DNS records."},
	{"callback-address", "closed-port", resultFailed, "Start the receiver, and check the port of the URL: nothing listens on it. If only the service can reach the receiver, skip these checks."},
	{"callback-address", "unreachable", resultFailed, "Start the receiver, and check its port and firewall. If only the service can reach it, skip these checks."},
	{"callback-address", "private", resultWarning, "Register a URL that is public. The service cannot reach this one, but a sandboxfake in your network can."},
	{"callback-tls", "unencrypted", resultWarning, "Use https, at least in production."},
	{"callback-tls", "untrusted", resultFailed, "Use a certificate of a public authority, and let the server send its intermediate certificates."},
	{"callback-tls", "private-ca", resultWarning, "Use a certificate of a public authority: the service does not know your CA file."},
	{"callback-tls", "expired", resultFailed, "Renew the certificate: the service cannot connect."},
	{"callback-tls", "wrong-host", resultFailed, "Use a certificate for the host of the URL: the service cannot connect."},
	{"callback-tls", "handshake", resultFailed, "Check the port: the server does not speak TLS, or ends the connection."},
	{"callback-tls", "timeout", resultFailed, "Check the load of the server, and that a firewall does not block TLS."},
	{"callback-tls", "expires-soon", resultWarning, "Renew the certificate."},
	{"callback-unsigned", "accepted", resultFailed, "CRITICAL: the receiver does not verify signatures, so anyone can forge results. Use signature.Verifier."},
	{"callback-unsigned", "redirect", resultFailed, "Register the final URL: the service does not follow redirects. Exclude it from any login page."},
	{"callback-unsigned", "not-found", resultFailed, "Check the path, and that your router accepts the method (POST for callbacks, GET for redirects)."},
	{"callback-unsigned", "error", resultFailed, "Look at the log of the receiver. It must reject an invalid message with 400: the service repeats a message after 5XX."},
	{"callback-unsigned", "none", resultFailed, "Look at the log of the receiver and its proxy. The service waits 10 s for a response."},
	{"callback-unsigned", "slow", resultWarning, "Verify before any other work. The service waits 10 s for a response."},
	{"callback-unsigned", "login", resultFailed, "Respond to an invalid message with 400, and exclude the URL from authentication and firewalls for web applications: the service cannot log in."},
	{"callback-unsigned", "other", resultWarning, "The receiver must reject it with 400. Exclude the URL from authentication, rate limits and firewalls for web applications."},
	{"redirect-unsigned", "accepted", resultWarning, "Make sure that the page does nothing, or respond with 400. To be certain, run idverify examine."},
	{"redirect-unsigned", "redirect", resultWarning, "Make sure that the target does nothing, or respond with 400. To be certain, run idverify examine."},
	{"redirect-unsigned", "login", resultWarning, "Respond to an invalid message with 400. Make sure that a customer reaches the URL without a new login."},
	{"callback-forged", "accepted", resultFailed, "CRITICAL: the receiver does not verify signatures, so anyone can forge results. Use signature.Verifier."},
	{"callback-forged", "unavailable", resultFailed, "The receiver cannot fetch the key set: check its base URL, CA file and proxy. See docs/security.md, Key-set outage."},
	{"callback-forged", "redirect", resultFailed, "Register the final URL: the service does not follow redirects. Exclude it from any login page."},
	{"callback-forged", "not-found", resultFailed, "Check the path, and that your router accepts the method (POST for callbacks, GET for redirects)."},
	{"callback-forged", "error", resultFailed, "Look at the log of the receiver. It must reject an invalid message with 400: the service repeats a message after 5XX."},
	{"callback-forged", "none", resultFailed, "Look at the log of the receiver and its proxy. The service waits 10 s for a response."},
	{"callback-forged", "slow", resultWarning, "Let the verifier reuse the key set. The service waits 10 s for a response."},
	{"callback-forged", "login", resultFailed, "Respond to an invalid message with 400, and exclude the URL from authentication and firewalls for web applications: the service cannot log in."},
	{"callback-forged", "other", resultWarning, "The receiver must reject it with 400. Exclude the URL from authentication, rate limits and firewalls for web applications."},
	{"redirect-forged", "accepted", resultWarning, "Make sure that the page does nothing, or respond with 400. To be certain, run idverify examine."},
	{"redirect-forged", "redirect", resultWarning, "Make sure that the target does nothing, or respond with 400. To be certain, run idverify examine."},
	{"redirect-forged", "login", resultWarning, "Respond to an invalid message with 400. Make sure that a customer reaches the URL without a new login."},
	{"callback-get", "accepted", resultWarning, "Accept only POST, so that a link that is opened by chance has no effect."},
	{"callback-get", "none", resultWarning, "Look at the log of the receiver: it ends the connection of a GET request."},
}
