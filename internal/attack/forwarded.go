package attack

import "github.com/idverify/idverify-go/signature"

// forwardedHostAttacks returns messages for another host that are sent to ours, with the signed
// host in a header field of proxies. A receiver must verify the host that it compares.
func forwardedHostAttacks() []Attack {
	signedIn := func(name, value string) edit { return all(toHost("{host}"), add(name, value)) }
	return group(Attack{Severity: High, Reason: hostReason},
		row{"signed host only in X-Forwarded-Host", toHost(otherHost), signedIn("X-Forwarded-Host", otherHost), signature.ErrSignature},
		row{"signed host only in X-Original-Host", toHost(otherHost), signedIn("X-Original-Host", otherHost), signature.ErrSignature},
		row{"signed host only in Forwarded", toHost(otherHost), signedIn("Forwarded", "host="+otherHost), signature.ErrSignature},
	)
}

// forwardedTargetAttacks returns messages whose target is changed after they are signed, with the
// signed target in a header field of proxies. signed and sent change the target.
func forwardedTargetAttacks(signed, sent edit) []Attack {
	signedIn := func(name string) edit {
		return all(func(m *Message, _ Setup) { m.Add(name, m.Target) }, sent)
	}
	return group(Attack{Severity: High, Reason: "Anyone can send this header with a recorded message, so the receiver must verify the target on which it acts."},
		row{"signed target only in X-Original-URL", signed, signedIn("X-Original-URL"), signature.ErrSignature},
		row{"signed target only in X-Original-URI", signed, signedIn("X-Original-URI"), signature.ErrSignature},
		row{"signed target only in X-Forwarded-Uri", signed, signedIn("X-Forwarded-Uri"), signature.ErrSignature},
		row{"signed target only in X-Rewrite-URL", signed, signedIn("X-Rewrite-URL"), signature.ErrSignature},
	)
}
