package attack

import (
	"bytes"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"

	"github.com/idverify/idverify-go/signature"
)

// forgedAlgorithmAttacks returns messages that anyone can make, for receivers that let a message
// select the algorithm.
func forgedAlgorithmAttacks() []Attack {
	return slices.Concat(
		group(Attack{Severity: Critical, Reason: "The public key is not a secret, so anyone could use it as one and send a result."},
			row{"public key as HMAC secret, PEM", keyedWith(publicPEM), nil, signature.ErrAlgorithm},
			row{"public key as HMAC secret, PEM without final newline", keyedWith(func(k *rsa.PublicKey) []byte { return bytes.TrimSpace(publicPEM(k)) }), nil, signature.ErrAlgorithm},
			row{"public key as HMAC secret, RSA PEM", keyedWith(rsaPEM), nil, signature.ErrAlgorithm},
			row{"public key as HMAC secret, DER", keyedWith(publicDER), nil, signature.ErrAlgorithm},
			row{"empty HMAC secret", keyedWith(func(*rsa.PublicKey) []byte { return nil }), nil, signature.ErrAlgorithm},
		),
		group(Attack{Severity: Critical, Reason: "A message must not declare that it needs no signature, because then anyone can send a result."},
			row{"none with empty signature", forged("none", func(*Message, Setup, string) []byte { return nil }), nil, signature.ErrMalformed},
		),
		group(Attack{Severity: Critical, Reason: "A receiver that does not verify a signature with an algorithm that it does not know accepts a result from anyone."},
			row{"forged signature labeled none", labeled("none"), nil, signature.ErrAlgorithm},
			row{"forged signature labeled NONE in upper case", labeled("NONE"), nil, signature.ErrAlgorithm},
			row{"forged signature labeled hs2019", labeled("hs2019"), nil, signature.ErrAlgorithm},
			row{"forged signature labeled ecdsa-sha256", labeled("ecdsa-sha256"), nil, signature.ErrAlgorithm},
			row{"forged signature labeled ed25519", labeled("ed25519"), nil, signature.ErrAlgorithm},
			row{"forged signature with unknown algorithm", labeled("x-unknown"), nil, signature.ErrAlgorithm},
			row{"forged signature without algorithm", labeled(""), nil, signature.ErrMalformed},
		),
	)
}

// labeled signs with the attacker's key and the published ID, and labels the signature with an
// algorithm. An empty algorithm means no label.
func labeled(algorithm string) edit {
	return all(unpublished("{keyID}"), func(m *Message, _ Setup) { m.Algorithm = algorithm })
}

// forgedKeyAttacks returns messages that are signed with a key that the service did not publish.
func forgedKeyAttacks() []Attack {
	return group(Attack{Severity: Critical, Reason: "Only keys that the service publishes prove that a message is from the service."},
		row{"unpublished key", unpublished("mine"), nil, signature.ErrUnknownKey},
		row{"unpublished key with published ID", unpublished("{keyID}"), nil, signature.ErrSignature},
		row{"path as key ID", unpublished("../../etc/passwd"), nil, signature.ErrUnknownKey},
		row{"URL as key ID", unpublished("https://attacker.invalid/jwks.json"), nil, signature.ErrUnknownKey},
		row{"own public key as key ID", func(m *Message, s Setup) { m.KeyID, m.Key = s.attackerKey(), s.Unpublished }, nil, signature.ErrMalformed},
	)
}

// forgedSignatures returns messages with bytes that are not a signature.
func forgedSignatures() []Attack {
	return group(Attack{Severity: Critical, Reason: "Anyone can send these bytes, which are not a signature of the service."},
		row{"zero signature", forged("rsa-sha256", func(*Message, Setup, string) []byte { return make([]byte, 256) }), nil, signature.ErrSignature},
		row{"short signature", forged("rsa-sha256", func(*Message, Setup, string) []byte { return []byte{1} }), nil, signature.ErrSignature},
		row{"signature longer than key", forged("rsa-sha256", func(*Message, Setup, string) []byte { return make([]byte, 512) }), nil, signature.ErrSignature},
		row{"hash as signature", forged("rsa-sha256", func(_ *Message, _ Setup, text string) []byte {
			sum := sha256.Sum256([]byte(text))
			return sum[:]
		}), nil, signature.ErrSignature},
	)
}

// forged replaces the signature by the result of sign, which gets the signing string.
func forged(algorithm string, sign func(m *Message, s Setup, text string) []byte) edit {
	return func(m *Message, s Setup) {
		m.Algorithm = algorithm
		m.forge = func(text string) []byte { return sign(m, s, text) }
	}
}

// keyedWith signs with HMAC and a secret that anyone can derive from the published key.
func keyedWith(secret func(*rsa.PublicKey) []byte) edit {
	return forged("hmac-sha256", func(_ *Message, s Setup, text string) []byte {
		mac := hmac.New(sha256.New, secret(s.Key.Public().(*rsa.PublicKey)))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	})
}

// attackerKey returns the attacker's public key in base64.
func (s Setup) attackerKey() string {
	return base64.StdEncoding.EncodeToString(publicDER(s.Unpublished.Public().(*rsa.PublicKey)))
}

func publicDER(key *rsa.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic("attack: encode public key: " + err.Error()) // an RSA key never fails
	}
	return der
}

func publicPEM(key *rsa.PublicKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER(key)})
}

func rsaPEM(key *rsa.PublicKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(key)})
}
