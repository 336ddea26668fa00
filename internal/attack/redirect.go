package attack

import (
	"crypto"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// redirectTargetAttacks returns redirects with a changed method, path or query.
func redirectTargetAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: High, Reason: "The query is signed, so that nobody can exchange the check or the code that a device brings."},
			row{"different check", nil, editTarget("check_id={checkID}", "check_id={otherID}"), signature.ErrSignature},
			row{"different code", nil, editTarget("code={code}", "code={code}c"), signature.ErrSignature},
			row{"removed code", nil, editTarget("&code={code}", ""), signature.ErrSignature},
			row{"different query", editTarget("check_id=", "tenant=7&check_id="), editTarget("tenant=7&", "tenant=8&"), signature.ErrSignature},
		),
		// The receiver acts on the check of the session, which another customer's redirect brings.
		forwardedTargetAttacks(editTarget("check_id={checkID}", "check_id={otherID}"), editTarget("check_id={otherID}", "check_id={checkID}")),
		// Many programs use the first or the last value for everything, which is harmless. The rule
		// other-check of package receivertest observes on which check a receiver acts.
		group(Attack{Severity: High, Strict: true, Reason: "The receiver must act on the values that it verified, and its programs can select different ones if a value is repeated."},
			row{"prepended check_id", nil, editTarget("?", "?check_id={otherID}&"), signature.ErrMalformed},
			row{"appended check_id", nil, appendToTarget("&check_id={otherID}"), signature.ErrMalformed},
			row{"prepended code", nil, editTarget("?", "?code={code}c&"), signature.ErrSignature},
			row{"appended code", nil, appendToTarget("&code={code}c"), signature.ErrSignature},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "Parameters that the service did not sign must not reach the code behind the verifier."},
			row{"prepended parameter", nil, editTarget("?", "?x=1&"), signature.ErrSignature},
			row{"appended parameter", nil, appendToTarget("&x=1"), signature.ErrSignature},
			row{"empty segment", nil, appendToTarget("&"), signature.ErrSignature},
			row{"parameters reordered", nil, editTarget("check_id={checkID}&code={code}", "code={code}&check_id={checkID}"), signature.ErrSignature},
			row{"different escape", editTarget("&code=", "&state=%2B&code="), editTarget("state=%2B", "state=%2b"), signature.ErrSignature},
			row{"different path", nil, editPath(otherPath), signature.ErrSignature},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The service redirects devices with GET, to a URL with one check."},
			row{"POST", method("POST"), nil, signature.ErrMalformed},
			row{"HEAD", method("HEAD"), nil, signature.ErrMalformed},
			row{"two check_ids, both signed", editTarget("check_id={checkID}", "check_id={checkID}&check_id={otherID}"), nil, signature.ErrMalformed},
			row{"two check_ids, one escaped", editTarget("check_id={checkID}", "check_id={checkID}&check%5Fid={otherID}"), nil, signature.ErrMalformed},
			row{"no check_id", editTarget("check_id={checkID}&", ""), nil, signature.ErrMalformed},
			row{"no query", func(m *Message, _ Setup) { m.Target, _, _ = strings.Cut(m.Target, "?") }, nil, signature.ErrMalformed},
			row{"query above 64 KiB", appendToTarget("&a=" + strings.Repeat("a", 64<<10)), nil, signature.ErrMalformed},
		),
	)
}

// redirectParameterAttacks returns redirects whose authorization or date is missing, repeated or
// malformed.
func redirectParameterAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: Critical, Reason: "Without a signature, anyone can send a device to your page."},
			row{"no authorization", nil, editTarget("&authorization=", "&auth="), signature.ErrMalformed},
			row{"authorization without value", nil, emptyParameter("authorization"), signature.ErrMalformed},
		),
		group(Attack{Severity: High, Reason: "Without the signed date, a recorded redirect never expires."},
			row{"no date", nil, editTarget("&date=", "&day="), signature.ErrMalformed},
			row{"date without value", nil, emptyParameter("date"), signature.ErrMalformed},
			row{"date of two lines", nil, editDate(dateText("\nhost: {host}")), signature.ErrMalformed},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "If a parameter is repeated or has an unusual spelling, different programs use different values of it."},
			row{"two authorizations", nil, duplicateParameter("authorization", "authorization"), signature.ErrMalformed},
			row{"two authorizations, one escaped", nil, duplicateParameter("authorization", "%61uthorization"), signature.ErrMalformed},
			row{"two dates", nil, duplicateParameter("date", "date"), signature.ErrMalformed},
			row{"two dates, one escaped", nil, duplicateParameter("date", "dat%65"), signature.ErrMalformed},
			row{"two dates, one without value", nil, appendToTarget("&date"), signature.ErrMalformed},
			row{"parameters sent as headers", func(m *Message, _ Setup) { m.Redirect = false }, nil, signature.ErrMalformed},
			row{"authorization not base64", nil, editTarget("authorization=", "authorization=*"), signature.ErrMalformed},
			row{"authorization in base64url", nil, editTarget("authorization=", "authorization=-_-_"), signature.ErrMalformed},
			row{"authorization with invalid escape", nil, editTarget("authorization=", "authorization=%zz"), signature.ErrMalformed},
			row{"line break in base64", nil, editTarget("authorization=", "authorization=%0A"), signature.ErrMalformed},
			row{"date with NUL", nil, editDate(dateText("\x00")), signature.ErrMalformed},
		),
	)
}

// redirectDateAttacks returns redirects whose date is not the time at which they are sent.
func redirectDateAttacks() []Attack {
	return slices.Concat(
		skewAttacks("A recorded redirect must not be valid later, and the service specifies five seconds."),
		group(Attack{Severity: High, Reason: "Only the signed date shows when the service sent the device, so another one makes recorded redirects valid again."},
			row{"old date changed to now", dated(-time.Hour), editDate(dateText("")), signature.ErrSignature},
			row{"old date with new Date header", dated(-time.Hour), addDate("Date", 0), signature.ErrSkew},
		),
	)
}

// redirectSignatureAttacks returns redirects for other hosts, and ones with signatures that cover
// too little or that the service did not make.
func redirectSignatureAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: High, Reason: hostReason},
			row{"signed for another customer", toHost(otherHost), nil, signature.ErrHost},
			row{"signed for another customer, host changed", toHost(otherHost), toHost("{host}"), signature.ErrSignature},
			row{"our host as prefix", editHost(func(name, port string) string { return name + ".example.net" + port }), nil, signature.ErrHost},
			row{"our host as suffix", editHost(func(name, port string) string { return "evil" + name + port }), nil, signature.ErrHost},
			row{"our host only in X-Forwarded-Host", all(toHost(otherHost), add("X-Forwarded-Host", "{host}")), nil, signature.ErrHost},
		),
		forwardedHostAttacks(),
		group(Attack{Severity: Medium, Reason: "A part that the signature does not cover can be changed, so the receiver must require all of them."},
			row{"host not covered", covering("(request-target) date"), nil, signature.ErrCoverage},
			row{"request target not covered", covering("host date"), nil, signature.ErrCoverage},
			row{"date not covered", covering("(request-target) host"), nil, signature.ErrCoverage},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "Programs read an unusual list of signed fields differently."},
			row{"(expires)", covering("(request-target) host date (expires)"), nil, signature.ErrCoverage},
			row{"authorization covered", covering("(request-target) host date authorization"), nil, signature.ErrCoverage},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The service signs with one algorithm, and a message must not select another."},
			row{"hs2019", hashed("hs2019", crypto.SHA256), nil, signature.ErrAlgorithm},
		),
		forgedAlgorithmAttacks(), forgedKeyAttacks(), forgedSignatures(),
	)
}
