package attack_test

import (
	"slices"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
)

// sample is an attack and its message, which takes time to sign.
type sample struct {
	attack.Attack
	message *attack.Message
}

// samplesOf returns the attacks that match selects, with messages for s.
func samplesOf(s attack.Setup, match func(attack.Attack) bool) (samples []sample) {
	for _, a := range slices.Concat(attack.Callbacks(), attack.Redirects()) {
		if match(a) {
			samples = append(samples, sample{a, a.Message(s)})
		}
	}
	return samples
}

// accepted returns the names of the accepted attacks.
func (l *lenient) accepted(samples []sample) (names []string) {
	for _, s := range samples {
		if l.accepts(s.message) {
			names = append(names, s.Name)
		}
	}
	return names
}

// TestAttack_LenientReceiver verifies that a receiver without a weakness gets no false alarm.
func TestAttack_LenientReceiver(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"https://api.example.com/callbacks/phone?tenant=7", "https://api.example.com", "http://[::1]:3000/é/x?q=%zz&&a=b;c"} {
		s := setups(t)[name]
		harmful := samplesOf(s, func(a attack.Attack) bool { return !a.Strict })
		strict := samplesOf(s, func(a attack.Attack) bool { return a.Strict })
		for mode, pick := range map[string]func([]string) string{"first": firstOf, "last": lastOf, "joined": joined} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				l := newLenient(s)
				l.signed, l.checked = pick, pick

				if names := l.accepted(harmful); len(names) > 0 {
					t.Errorf("accepted: %q, want all of them Strict: they are harmless", names)
				}
				if names := l.accepted(strict); len(names) < 80 {
					t.Errorf("accepted %d Strict messages, want at least 80: the receiver is not lenient", len(names))
				}
				if !l.accepts(signed(s.Callback())) || !l.accepts(signed(s.Redirect())) {
					t.Error("the valid message was rejected")
				}
				for _, v := range slices.Concat(attack.AcceptedCallbacks(), attack.AcceptedRedirects()) {
					if !v.Strict && !l.accepts(v.Message(s)) {
						t.Errorf("%s: rejected, want it Strict", v.Name)
					}
				}
			})
		}
	}
}

// TestAttack_FindsWeakness verifies that rows that are not Strict find each weakness.
func TestAttack_FindsWeakness(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		weaken func(*lenient)
		found  []string // names of rows
	}{
		{"no signature", func(l *lenient) { l.noSignature = true }, []string{"different query", "removed query", "body and digest changed", "empty signature", "zero signature", "different kind", "different check", "different code"}},
		{"no signature, no coverage", func(l *lenient) { l.noSignature, l.noCoverage = true, true }, []string{"no Authorization", "scheme Basic"}},
		{"no digest", func(l *lenient) { l.noDigest = true }, []string{"changed match", "empty body", "signed digest of another body"}},
		{"no host", func(l *lenient) { l.noHost = true }, []string{"signed for another customer"}},
		{"host prefix", func(l *lenient) { l.hostPrefix = true }, []string{"our host as prefix"}},
		{"host suffix", func(l *lenient) { l.hostSuffix = true }, []string{"our host as suffix"}},
		{"X-Forwarded-Host verified", func(l *lenient) { l.verifiedHost = "X-Forwarded-Host" }, []string{"signed host only in X-Forwarded-Host"}},
		{"X-Original-Host verified", func(l *lenient) { l.verifiedHost = "X-Original-Host" }, []string{"signed host only in X-Original-Host"}},
		{"Forwarded verified", func(l *lenient) { l.verifiedHost = "Forwarded" }, []string{"signed host only in Forwarded"}},
		{"X-Original-URL verified", func(l *lenient) { l.verifiedURL = "X-Original-URL" }, []string{"signed target only in X-Original-URL"}},
		{"X-Original-URI verified", func(l *lenient) { l.verifiedURL = "X-Original-URI" }, []string{"signed target only in X-Original-URI"}},
		{"X-Forwarded-Uri verified", func(l *lenient) { l.verifiedURL = "X-Forwarded-Uri" }, []string{"signed target only in X-Forwarded-Uri"}},
		{"X-Rewrite-URL verified", func(l *lenient) { l.verifiedURL = "X-Rewrite-URL" }, []string{"signed target only in X-Rewrite-URL"}},
		{"forwarded host", func(l *lenient) { l.forwardedHost = true }, []string{"our host only in X-Forwarded-Host", "our host only in Forwarded"}},
		{"no coverage", func(l *lenient) { l.noCoverage = true }, []string{"request target not covered", "host not covered", "date not covered", "digest not covered", "only date covered"}},
		{"no coverage, no digest", func(l *lenient) { l.noCoverage, l.noDigest = true, true }, []string{"no digest\x2c not covered", "signature of a redirect"}},
		{"clock skew of 300 s", func(l *lenient) { l.skew = 300 * time.Second }, []string{"date 60 s old", "date 60 s ahead"}},
		{"clock skew of 83 minutes", func(l *lenient) { l.skew = 5000 * time.Second }, []string{"date 60 s old", "date 5000 s old", "date 5000 s ahead"}},
		{"no date", func(l *lenient) { l.skew = time.Hour * 1e5 }, []string{"date 5000 s old"}},
		{"X-Date", func(l *lenient) { l.xDate = true }, []string{"old date with new X-Date"}},
		{"Date header of a redirect", func(l *lenient) { l.dateHeader = true }, []string{"old date with new Date header"}},
		{"first value signed, last checked", func(l *lenient) { l.checked = lastOf }, []string{"old date and a second date", "changed body and a second digest"}},
		{"last value signed, first checked", func(l *lenient) { l.signed = lastOf }, []string{"old date after a second date", "changed body and a second digest before the signed one"}},
		{"HMAC with the public key", func(l *lenient) { l.hmac = true }, []string{"public key as HMAC secret\x2c PEM"}},
		{"none", func(l *lenient) { l.none = true }, []string{"none with empty signature", "forged signature labeled none"}},
		{"unknown algorithm not verified", func(l *lenient) { l.algorithm = true }, []string{"forged signature labeled none", "forged signature labeled NONE in upper case", "forged signature labeled hs2019", "forged signature labeled ecdsa-sha256", "forged signature labeled ed25519", "forged signature with unknown algorithm", "forged signature without algorithm"}},
		{"key in the message", func(l *lenient) { l.messageKey = true }, []string{"own public key as key ID", "own public key in a parameter", "own public key in a header"}},
		{"any key", func(l *lenient) { l.anyKey = true }, []string{"unpublished key", "unpublished key with published ID", "URL as key ID"}},
		{"no limit of the body", func(l *lenient) { l.maxBody = 1 << 30 }, []string{"body of 10 MiB"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLenient(setups(t)["https://api.example.com/callbacks/phone?tenant=7"])
			tt.weaken(l)

			found := l.accepted(samplesOf(l.setup, func(a attack.Attack) bool { return !a.Strict && slices.Contains(tt.found, a.Name) }))

			for _, name := range tt.found {
				if !slices.Contains(found, name) {
					t.Errorf("%q was rejected, want it to find the weakness", name)
				}
			}
		})
	}
}
