package attack

import (
	"crypto"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/signature"
)

// authorizationAttacks returns the attacks on the grammar of the Authorization.
func authorizationAttacks() []Attack {
	return slices.Concat(unsignedAttacks(), grammarAttacks())
}

// unsignedAttacks returns messages without a signature.
func unsignedAttacks() []Attack {
	return group(Attack{Severity: Critical, Reason: "Without a signature, anyone can send a result."},
		row{"no Authorization", nil, drop("Authorization"), signature.ErrMalformed},
		row{"empty Authorization", nil, set("Authorization", ""), signature.ErrMalformed},
		row{"scheme Basic", nil, set("Authorization", "Basic Og=="), signature.ErrMalformed},
		row{"scheme without parameters", nil, set("Authorization", "Signature"), signature.ErrMalformed},
		row{"no signature parameter", nil, auth(`,signature="`, `,sig="`), signature.ErrMalformed},
		row{"empty signature", nil, signature64(func(string) string { return "" }), signature.ErrMalformed},
	)
}

// grammarAttacks returns messages with a valid signature in a malformed Authorization.
func grammarAttacks() []Attack {
	return group(Attack{Severity: Medium, Strict: true, Reason: "Software in front of the receiver can read another Authorization from an unusual spelling."},
		row{"two Authorizations", nil, add("Authorization", "Basic Og=="), signature.ErrMalformed},
		row{"unknown scheme", nil, auth("Signature keyId", "Signatures keyId"), signature.ErrMalformed},
		row{"no space after scheme", nil, auth("Signature keyId", "SignaturekeyId"), signature.ErrMalformed},
		row{"no keyId parameter", nil, auth(`keyId="{keyID}",`, ""), signature.ErrMalformed},
		row{"no algorithm parameter", nil, auth(`algorithm="rsa-sha256",`, ""), signature.ErrMalformed},
		row{"no headers parameter", nil, auth(`headers="{covered}",`, ""), signature.ErrMalformed},
		row{"duplicate keyId", nil, auth(`keyId=`, `keyId="{keyID}",keyId=`), signature.ErrMalformed},
		row{"duplicate keyId in different case", nil, auth(`keyId=`, `KEYID="other",keyId=`), signature.ErrMalformed},
		row{"duplicate signature", nil, auth(`,signature=`, `,signature="AAAA",signature=`), signature.ErrMalformed},
		row{"duplicate unknown parameter", nil, auth(`keyId=`, `a="1",a="2",keyId=`), signature.ErrMalformed},
		row{"empty keyId", nil, auth(`keyId="{keyID}"`, `keyId=""`), signature.ErrMalformed},
		row{"keyId above 256 bytes", nil, auth(`"{keyID}"`, `"`+strings.Repeat("k", 257)+`"`), signature.ErrMalformed},
		row{"escaped quote in keyId", nil, auth(`"{keyID}"`, `"{keyID}\"1"`), signature.ErrMalformed},
		row{"backslash in keyId", nil, auth(`"{keyID}"`, `"{keyID}\\1"`), signature.ErrMalformed},
		row{"non-ASCII keyId", nil, auth(`"{keyID}"`, `"{keyID}é"`), signature.ErrMalformed},
		row{"tab in keyId", nil, auth(`"{keyID}"`, "\"{keyID}\t\""), signature.ErrMalformed},
		row{"unterminated quote", nil, auth(`",algorithm`, `,algorithm`), signature.ErrMalformed},
		row{"text after a quote", nil, auth(`"{keyID}"`, `"{keyID}"x`), signature.ErrMalformed},
		row{"text after the last quote", nil, withSuffix("x"), signature.ErrMalformed},
		row{"backslash in unknown parameter", nil, auth("Signature ", `Signature x="\",`), signature.ErrMalformed},
		row{"leading comma", nil, auth("Signature ", "Signature ,"), signature.ErrMalformed},
		row{"two commas", nil, auth(`",algorithm`, `",,algorithm`), signature.ErrMalformed},
		row{"trailing comma", nil, withSuffix(","), signature.ErrMalformed},
		row{"semicolon instead of comma", nil, auth(`",algorithm`, `";algorithm`), signature.ErrMalformed},
		row{"space before equals sign", nil, auth("keyId=", "keyId ="), signature.ErrMalformed},
		row{"parameter without value", nil, auth("Signature ", "Signature a,"), signature.ErrMalformed},
		row{"parameter without name", nil, auth("Signature ", `Signature ="a",`), signature.ErrMalformed},
		row{"17 parameters", nil, auth("Signature ", "Signature a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,"), signature.ErrMalformed},
		row{"Authorization above 8 KiB", nil, auth("Signature ", `Signature pad="`+strings.Repeat("a", 8<<10)+`",`), signature.ErrMalformed},
		row{"signature not base64", nil, auth(`signature="`, `signature="*`), signature.ErrMalformed},
		row{"signature without padding", nil, signature64(func(s string) string { return strings.TrimRight(s, "=") }), signature.ErrMalformed},
		row{"signature with trailing bits", nil, signature64(trailingBits), signature.ErrMalformed},
	)
}

// algorithmAttacks returns messages that are labeled with an algorithm other than rsa-sha256, or
// signed with one.
func algorithmAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: Medium, Strict: true, Reason: "The service signs with one algorithm, and a message must not select another."},
			row{"hs2019", hashed("hs2019", crypto.SHA256), nil, signature.ErrAlgorithm},
			row{"rsa-sha1", hashed("rsa-sha1", crypto.SHA1), nil, signature.ErrAlgorithm},
			row{"rsa-sha512", hashed("rsa-sha512", crypto.SHA512), nil, signature.ErrAlgorithm},
			row{"rsa-sha512 labeled rsa-sha256", hashed("rsa-sha256", crypto.SHA512), nil, signature.ErrSignature},
			row{"hmac-sha256", nil, auth("rsa-sha256", "hmac-sha256"), signature.ErrAlgorithm},
			row{"ecdsa-sha256", nil, auth("rsa-sha256", "ecdsa-sha256"), signature.ErrAlgorithm},
			row{"none", nil, auth("rsa-sha256", "none"), signature.ErrAlgorithm},
			row{"upper-case RSA-SHA256", nil, auth("rsa-sha256", "RSA-SHA256"), signature.ErrAlgorithm},
			row{"empty algorithm", nil, auth(`"rsa-sha256"`, `""`), signature.ErrMalformed},
		),
		forgedAlgorithmAttacks(),
	)
}
