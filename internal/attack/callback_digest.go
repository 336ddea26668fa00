package attack

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/signature"
)

// digestAttacks returns callbacks whose digest is not that of the body, or not in the form of the
// service.
func digestAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: Critical, Reason: "Without a check of the digest, anyone who sees one callback can send it with any result."},
			row{"digest of another body", nil, set("Digest", Digest("other")), signature.ErrSignature},
			row{"signed digest of another body", set("Digest", Digest("other")), nil, signature.ErrDigest},
			row{"signed digest of the empty body", func(m *Message, s Setup) { m.Set("Digest", s.digest("")) }, nil, signature.ErrDigest},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The service writes one digest in one of two forms, and a digest in another form may not be compared at all."},
			row{"MD5 digest", set("Digest", "MD5=1B2M2Y8AsgTpgAmY7PhCfg=="), nil, signature.ErrDigest},
			row{"SHA-512 digest", set("Digest", "SHA-512="+strings.Repeat("a", 128)), nil, signature.ErrDigest},
			row{"digest of 63 digits", set("Digest", "SHA-256="+strings.Repeat("a", 63)), nil, signature.ErrDigest},
			row{"digest not hexadecimal", set("Digest", "SHA-256="+strings.Repeat("g", 64)), nil, signature.ErrDigest},
			row{"base64 digest of 33 bytes", set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(make([]byte, 33))), nil, signature.ErrDigest},
			row{"base64 digest of 31 bytes", set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(make([]byte, 31))), nil, signature.ErrDigest},
			row{"base64 digest with trailing bits", set("Digest", "SHA-256="+strings.Repeat("A", 42)+"B="), nil, signature.ErrDigest},
			row{"two hashes in digest", func(m *Message, _ Setup) { m.Set("Digest", m.Get("Digest")+","+Digest("other")) }, nil, signature.ErrDigest},
			row{"digest without algorithm", set("Digest", strings.Repeat("a", 64)), nil, signature.ErrDigest},
			row{"empty digest", set("Digest", ""), nil, signature.ErrDigest},
		),
	)
}

// kindAttacks returns callbacks with another kind than the signed one, or without a kind.
func kindAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: High, Reason: "The kind selects how the body is read, so a result of one product must not become one of another."},
			row{"different kind", nil, func(m *Message, s Setup) { m.Set(s.header(), s.otherProduct()) }, signature.ErrSignature},
		),
		group(Attack{Severity: Medium, Strict: true, Reason: "The service names the product of each callback."},
			row{"empty kind", set("{kind}", ""), nil, signature.ErrMalformed},
		),
	)
}

// keyAttacks returns callbacks that anyone can sign.
func keyAttacks() []Attack {
	return slices.Concat(forgedKeyAttacks(), forgedSignatures(),
		group(Attack{Severity: Critical, Reason: "A message must not bring the key that verifies it, because then anyone can send a result."},
			row{"own public key in a parameter", unpublished("{keyID}"), func(m *Message, s Setup) {
				m.Edit("Authorization", "Signature ", `Signature publicKey="`+s.attackerKey()+`",`)
			}, signature.ErrSignature},
			row{"own public key in a header", unpublished("{keyID}"), func(m *Message, s Setup) {
				m.Add("X-Public-Key", s.attackerKey())
			}, signature.ErrSignature},
		),
	)
}
