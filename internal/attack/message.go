package attack

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/fips140"
	_ "crypto/sha1" // attacks sign with other hashes
	"crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Message is a raw HTTP/1.1 message, so that it can also be an invalid one. Its signing code shares
// nothing with package signature.
type Message struct {
	Method, Target, Host string
	Fields               []Field // header fields except Host
	Body                 string  // as sent: with the framing if Transfer-Encoding is chunked

	// Input of Sign.
	Redirect  bool // Sign appends to the query instead of setting the Authorization header
	KeyID     string
	Key       crypto.Signer // an RSA key
	Algorithm string        // without it, the Authorization has no parameter algorithm
	Hash      crypto.Hash
	Covered   string // names of the covered fields, separated by spaces
	SignedAs  string // request target in the signing string; default Method and Target

	forge func(text string) []byte // replaces the signature; nil means Key signs
}

// Field is a header field of a Message.
type Field struct{ Name, Value string }

// Bytes returns the message as it is sent.
func (m *Message) Bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", m.Method, m.Target, m.Host)
	for _, f := range m.Fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	b.WriteString("\r\n" + m.Body)
	return b.Bytes()
}

// Request returns the message as net/http's server parses it.
func (m *Message) Request() (*http.Request, error) {
	return http.ReadRequest(bufio.NewReader(bytes.NewReader(m.Bytes())))
}

// Clone returns a copy that can be changed independently.
func (m *Message) Clone() *Message {
	c := *m
	c.Fields = slices.Clone(m.Fields)
	return &c
}

// Get returns the first value of a header field, or "".
func (m *Message) Get(name string) string {
	for _, f := range m.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Set replaces all header fields of this name by one at the end.
func (m *Message) Set(name, value string) { m.Drop(name); m.Add(name, value) }

// Add appends a header field.
func (m *Message) Add(name, value string) { m.Fields = append(m.Fields, Field{name, value}) }

// Drop removes all header fields of this name.
func (m *Message) Drop(name string) {
	m.Fields = slices.DeleteFunc(m.Fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

// Edit replaces all occurrences of old in a header field.
func (m *Message) Edit(name, old, new string) {
	m.Set(name, strings.ReplaceAll(m.Get(name), old, new))
}

// SetBody replaces the body and its Content-Length, and leaves the digest unchanged.
func (m *Message) SetBody(body string) {
	m.Body = body
	m.Set("Content-Length", fmt.Sprint(len(body)))
}

// SetSignature replaces the signature in the Authorization header.
func (m *Message) SetSignature(signature []byte) {
	head, _, _ := strings.Cut(m.Get("Authorization"), `signature="`)
	m.Set("Authorization", head+`signature="`+base64.StdEncoding.EncodeToString(signature)+`"`)
}

// Digest returns the value of the Digest header field for body, in hexadecimal.
func Digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "SHA-256=" + hex.EncodeToString(sum[:])
}

// Base64Digest returns the value of the Digest header field for body, in base64.
func Base64Digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
}

// Sign signs the message. It sets the Authorization header field of a callback. For a redirect, it
// appends authorization and date to the query, and removes the Date header field. Sign panics if
// Key cannot sign with Hash.
func (m *Message) Sign() {
	authorization := m.Authorization()
	if !m.Redirect {
		m.Set("Authorization", authorization)
		return
	}
	join := "?"
	if strings.Contains(m.Target, "?") {
		join = "&"
	}
	m.Target += join + "authorization=" + Parameter(authorization) + "&date=" + Parameter(m.Get("Date"))
	m.Drop("Date")
}

// Authorization returns the value that Sign adds to the message.
func (m *Message) Authorization() string {
	text := m.SigningString()
	var signature []byte
	var err error
	// Attackers also sign with SHA-1 and short keys, which GODEBUG=fips140=only forbids.
	fips140.WithoutEnforcement(func() {
		if m.forge != nil {
			signature = m.forge(text)
			return
		}
		h := m.Hash.New()
		h.Write([]byte(text))
		signature, err = m.Key.Sign(nil, h.Sum(nil), m.Hash)
	})
	if err != nil {
		panic("attack: sign: " + err.Error())
	}
	return m.authorization(signature)
}

// authorization returns an Authorization with the given signature.
func (m *Message) authorization(signature []byte) string {
	algorithm := ""
	if m.Algorithm != "" {
		algorithm = `,algorithm="` + m.Algorithm + `"`
	}
	return fmt.Sprintf(`Signature keyId="%s"%s,headers="%s",signature="%s"`,
		m.KeyID, algorithm, m.Covered, base64.StdEncoding.EncodeToString(signature))
}

// SigningString returns the text that Sign signs. A covered field that is missing has an empty
// value.
func (m *Message) SigningString() string {
	var lines []string
	for name := range strings.SplitSeq(m.Covered, " ") {
		value := m.Get(name)
		switch name {
		case "(request-target)":
			value = strings.ToLower(m.Method) + " " + m.Target
			if m.SignedAs != "" {
				value = m.SignedAs
			}
		case "host":
			value = m.Host
		}
		lines = append(lines, name+": "+value)
	}
	return strings.Join(lines, "\n")
}

// Parameter encodes a value of authorization or date in the query of a redirect.
func Parameter(s string) string {
	return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s)))
}
