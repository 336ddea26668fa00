package signature

import (
	"context"
	"crypto/sha256"
	"slices"
)

// Limits of the search for the form of a message that was signed. A usual message has less than 500
// bytes of signed text.
const (
	maxForms     = 4096    // forms of a message
	maxFormBytes = 2 << 20 // signed text of all forms, in bytes
	maxOptions   = 192     // values of one part
)

// optionsPerPart limits the values of each part if several parts are changed, by their number.
var optionsPerPart = [...]int{maxOptions, maxOptions, 40, 8}

// budget counts what Explain has used.
type budget struct {
	keys, forms, bytes int
	bodyForms          int
	bodyBytes          int
}

// Names of the parts of the request target. They are not tokens, unlike the names of headers.
const (
	methodPart = "(method)"
	pathPart   = "(path)"
	queryPart  = "(query)"
)

// dimension is a part of a message with the values that it may have had when it was signed.
type dimension struct {
	name    string   // covered header in lower case, or one of the parts of the request target
	options []option // most likely first
	chosen  int
}

// option is a possible value of a part.
type option struct {
	value   string
	cause   string // line of the explanation; empty if this is the received value
	general bool   // a later option with the same value has a more precise cause
}

// add appends an option, unless the value is already one.
func (d *dimension) add(value, cause string) {
	i := slices.IndexFunc(d.options, func(o option) bool { return o.value == value })
	switch {
	case i >= 0 && d.options[i].general:
		d.options[i] = option{value: value, cause: cause}
	case i < 0 && len(d.options) < maxOptions:
		d.options = append(d.options, option{value: value, cause: cause})
	}
}

// addGeneral is like add, for a cause that applies to any value.
func (d *dimension) addGeneral(value, cause string) {
	n := len(d.options)
	d.add(value, cause)
	if len(d.options) > n {
		d.options[n].general = true
	}
}

// value returns the chosen value of a part, or "" if the signature does not cover it.
func (e *explanation) value(name string) string {
	for i := range e.covered {
		if d := &e.covered[i]; d.name == name && len(d.options) > 0 {
			return d.options[d.chosen].value
		}
	}
	return ""
}

// search looks for the form of the message that was signed: first with one changed part, then with
// two and three.
func (e *explanation) search(ctx context.Context) (found bool, err error) {
	for _, d := range e.covered {
		if len(d.options) == 0 {
			return false, nil
		}
	}
	for changed := range optionsPerPart {
		if found, err = e.combine(ctx, 0, changed, optionsPerPart[changed]); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// combine examines all forms in which the given number of parts, from the given one on, have
// another value than their first.
func (e *explanation) combine(ctx context.Context, from, changed, limit int) (found bool, err error) {
	if changed == 0 {
		return e.examine(), ctx.Err()
	}
	for i := from; i <= len(e.covered)-changed; i++ {
		d := &e.covered[i]
		for d.chosen = 1; d.chosen < min(len(d.options), limit); d.chosen++ {
			if found, err = e.combine(ctx, i+1, changed-1, limit); found || err != nil || e.budget.spent() {
				return found, err
			}
		}
		d.chosen = 0
	}
	return false, nil
}

// examine reports whether the chosen values are those that were signed.
func (e *explanation) examine() bool {
	if e.budget.spent() {
		return false
	}
	text := make([]byte, 0, usualText)
	for i, name := range e.authorization.covered.slice() {
		if i > 0 {
			text = append(text, '\n')
		}
		text = append(text, name+": "...)
		if name == "(request-target)" {
			text = append(text, e.value(methodPart)+" "...)
			text = append(text, e.value(pathPart)...)
			text = append(text, e.value(queryPart)...)
		} else {
			text = append(text, e.value(name)...)
		}
	}
	e.budget.forms++
	e.budget.bytes += len(text)
	return sha256.Sum256(text) == e.key.hash
}

func (b *budget) spent() bool { return b.forms >= maxForms || b.bytes >= maxFormBytes }
