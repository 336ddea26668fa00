package attack

import (
	"crypto"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// edit is a change of a message. The texts of edits may contain the placeholders of Setup.expand.
type edit = func(*Message, Setup)

// expand replaces placeholders by values of the Setup.
func (s Setup) expand(text string) string {
	return strings.NewReplacer(
		"{host}", s.host(), "{target}", s.target(), "{keyID}", s.KeyID,
		"{kind}", s.header(), "{covered}", s.covered(""),
		"{checkID}", s.checkID(), "{otherID}", s.otherID(), "{code}", s.code(),
	).Replace(text)
}

// all combines edits.
func all(edits ...edit) edit {
	return func(m *Message, s Setup) {
		for _, e := range edits {
			e(m, s)
		}
	}
}

func set(name, value string) edit {
	return func(m *Message, s Setup) { m.Set(s.expand(name), s.expand(value)) }
}

func add(name, value string) edit {
	return func(m *Message, s Setup) { m.Add(s.expand(name), s.expand(value)) }
}

func drop(name string) edit { return func(m *Message, s Setup) { m.Drop(s.expand(name)) } }

func method(name string) edit { return func(m *Message, _ Setup) { m.Method = name } }

func toHost(host string) edit { return func(m *Message, s Setup) { m.Host = s.expand(host) } }

func toTarget(target string) edit { return func(m *Message, s Setup) { m.Target = s.expand(target) } }

// auth replaces all occurrences of old in the Authorization.
func auth(old, new string) edit {
	return func(m *Message, s Setup) { m.Edit("Authorization", s.expand(old), s.expand(new)) }
}

func covering(names string) edit { return func(m *Message, s Setup) { m.Covered = s.expand(names) } }

func hashed(algorithm string, hash crypto.Hash) edit {
	return func(m *Message, _ Setup) { m.Algorithm, m.Hash = algorithm, hash }
}

// unpublished signs with the attacker's key under the given ID.
func unpublished(keyID string) edit {
	return func(m *Message, s Setup) { m.KeyID, m.Key = s.expand(keyID), s.Unpublished }
}

// dated sets the date to d after Setup.Now.
func dated(d time.Duration) edit { return func(m *Message, s Setup) { m.Set("Date", s.date(d)) } }

// datedAs sets the date to Setup.Now in another layout.
func datedAs(layout string) edit {
	return func(m *Message, s Setup) { m.Set("Date", s.Now.UTC().Format(layout)) }
}

// addDate adds a header field with the date d after Setup.Now.
func addDate(name string, d time.Duration) edit {
	return func(m *Message, s Setup) { m.Add(name, s.date(d)) }
}

// first moves the last header field to the beginning.
func first(m *Message, _ Setup) {
	last := len(m.Fields) - 1
	m.Fields = append([]Field{m.Fields[last]}, m.Fields[:last]...)
}

// withQuery appends a parameter to the target of a callback. A receiver that compares the signature
// with its own URL, and not with the target that it received, rejects the message.
func withQuery(m *Message, _ Setup) {
	path, query, _ := strings.Cut(m.Target, "?")
	if query != "" {
		query += "&"
	}
	m.Target = path + "?" + query + "a=7"
}

// editTarget replaces the first occurrence of old in the target.
func editTarget(old, new string) edit {
	return func(m *Message, s Setup) { m.Target = strings.Replace(m.Target, s.expand(old), s.expand(new), 1) }
}

func appendToTarget(text string) edit {
	return func(m *Message, s Setup) { m.Target += s.expand(text) }
}

// editPath changes the path and leaves the query unchanged.
func editPath(change func(path string) string) edit {
	return func(m *Message, _ Setup) {
		path, query, found := strings.Cut(m.Target, "?")
		m.Target = change(path)
		if found {
			m.Target += "?" + query
		}
	}
}

// editBody replaces the body and leaves its digest unchanged.
func editBody(change func(body string) string) edit {
	return func(m *Message, _ Setup) { m.SetBody(change(m.Body)) }
}

// digested sets the digest to that of the body.
func digested(m *Message, s Setup) { m.Set("Digest", s.digest(m.Body)) }

// changedResult returns the body with another result.
func changedResult(body string) string {
	if changed := strings.Replace(body, `"match":true`, `"match":null`, 1); changed != body {
		return changed
	}
	head, tail, _ := strings.Cut(body, `"status":"`)
	_, rest, _ := strings.Cut(tail, `"`)
	return head + `"match":true,"status":"COMPLETED"` + rest
}

// padded returns a change that enlarges a body to size bytes. It remains valid JSON.
func padded(size int) func(body string) string {
	return func(body string) string {
		head := strings.TrimSuffix(body, "}") + `,"pad":"`
		return head + strings.Repeat("a", size-len(head)-len(`"}`)) + `"}`
	}
}

// withSuffix appends text to the Authorization.
func withSuffix(text string) edit {
	return func(m *Message, _ Setup) { m.Set("Authorization", m.Get("Authorization")+text) }
}

// signature64 changes the base64 of the signature in the Authorization.
func signature64(change func(string) string) edit {
	return func(m *Message, _ Setup) {
		head, value, _ := strings.Cut(m.Get("Authorization"), `signature="`)
		m.Set("Authorization", head+`signature="`+change(strings.TrimSuffix(value, `"`))+`"`)
	}
}

// trailingBits sets an unused bit of the last character of base64, which is another encoding of the
// same bytes.
func trailingBits(s string) string {
	i := strings.Index(s, "=") - 1
	return s[:i] + string(s[i]+1) + s[i+1:]
}

// dateText is the date in a redirect.
func dateText(suffix string) func(Setup) string {
	return func(s Setup) string { return s.Now.UTC().Format(http.TimeFormat) + s.expand(suffix) }
}

// editDate replaces the date of a redirect, the last parameter of its query.
func editDate(date func(Setup) string) edit {
	return func(m *Message, s Setup) {
		head, _, _ := strings.Cut(m.Target, "&date=")
		m.Target = head + "&date=" + Parameter(date(s))
	}
}

// emptyParameter removes the value of a parameter in the query of a redirect.
func emptyParameter(name string) edit {
	return func(m *Message, _ Setup) {
		head, tail, _ := strings.Cut(m.Target, "&"+name+"=")
		_, rest, more := strings.Cut(tail, "&")
		m.Target = fmt.Sprintf("%s&%s=", head, name)
		if more {
			m.Target += "&" + rest
		}
	}
}

// duplicateParameter appends a copy of a parameter to the query of a redirect. again is the name of
// the copy.
func duplicateParameter(name, again string) edit {
	return func(m *Message, _ Setup) {
		_, tail, _ := strings.Cut(m.Target, "&"+name+"=")
		value, _, _ := strings.Cut(tail, "&")
		m.Target += "&" + again + "=" + value
	}
}
