package sandboxfake

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// A search is RSQL: comparisons such as status==COMPLETED, joined by ";" (and) and "," (or), where
// "and" binds more tightly, with parentheses and quoted values. Our decision; docs/assumptions.md,
// section 3.

// maxSearchDepth bounds parentheses in parentheses.
const maxSearchDepth = 32

// parseSearch reads a search over items with the given fields.
func parseSearch[T any](text string, fields map[string]searchField[T]) (func(T) bool, error) {
	p := &searchParser[T]{rest: text, fields: fields}
	keep, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if p.rest != "" {
		return nil, errors.New("unexpected input after the expression")
	}
	return keep, nil
}

type searchParser[T any] struct {
	rest   string
	fields map[string]searchField[T]
}

func (p *searchParser[T]) or(depth int) (func(T) bool, error) {
	return p.join(",", func() (func(T) bool, error) {
		return p.join(";", func() (func(T) bool, error) { return p.term(depth) }, true)
	}, false)
}

// join reads operands between separators. The operand that equals decisive decides the whole: false for "and", true for "or".
func (p *searchParser[T]) join(separator string, operand func() (func(T) bool, error), and bool) (func(T) bool, error) {
	var operands []func(T) bool
	for {
		o, err := operand()
		if err != nil {
			return nil, err
		}
		operands = append(operands, o)
		var more bool
		if p.rest, more = strings.CutPrefix(p.rest, separator); !more {
			break
		}
	}
	return func(item T) bool {
		for _, o := range operands {
			if o(item) != and {
				return !and
			}
		}
		return and
	}, nil
}

// term reads a comparison, or an expression in parentheses.
func (p *searchParser[T]) term(depth int) (func(T) bool, error) {
	inner, isGroup := strings.CutPrefix(p.rest, "(")
	if !isGroup {
		return p.comparison()
	}
	if depth == maxSearchDepth {
		return nil, errors.New("there are too many parentheses")
	}
	p.rest = inner
	keep, err := p.or(depth + 1)
	if err != nil {
		return nil, err
	}
	var closed bool
	if p.rest, closed = strings.CutPrefix(p.rest, ")"); !closed {
		return nil, errors.New("a parenthesis is not closed")
	}
	return keep, nil
}

// searchOperators are the comparisons, the longer before those that they begin with.
var searchOperators = []struct {
	text string
	fits func(order int) bool // of the field's value to the searched one
}{
	{"==", func(order int) bool { return order == 0 }},
	{"!=", func(order int) bool { return order != 0 }},
	{">=", func(order int) bool { return order >= 0 }},
	{"<=", func(order int) bool { return order <= 0 }},
	{">", func(order int) bool { return order > 0 }},
	{"<", func(order int) bool { return order < 0 }},
}

// searchReserved are the characters that a field's name and an unquoted value cannot contain.
const searchReserved = "\"'();,=!~<> "

func (p *searchParser[T]) comparison() (func(T) bool, error) {
	end := strings.IndexAny(p.rest, searchReserved)
	if end < 0 {
		end = len(p.rest)
	}
	field, known := p.fields[p.rest[:end]]
	if !known {
		return nil, errors.New("a field is missing, or these cannot be searched by it")
	}
	p.rest = p.rest[end:]
	for _, operator := range searchOperators {
		rest, found := strings.CutPrefix(p.rest, operator.text)
		if !found {
			continue
		}
		p.rest = rest
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		compare, err := field(value)
		if err != nil {
			return nil, err
		}
		return func(item T) bool {
			order, applicable := compare(item)
			// What has no value differs from every value.
			return applicable && operator.fits(order) || !applicable && operator.text == "!="
		}, nil
	}
	return nil, errors.New("a comparison must be one of ==, !=, >, >=, <, <=")
}

// value reads a value: quoted, or unquoted and without reserved characters.
func (p *searchParser[T]) value() (string, error) {
	if p.rest == "" {
		return "", errors.New("a value is missing")
	}
	if quote := p.rest[0]; quote == '\'' || quote == '"' {
		return p.quoted(quote)
	}
	end := strings.IndexAny(p.rest, searchReserved)
	if end < 0 {
		end = len(p.rest)
	}
	value := p.rest[:end]
	p.rest = p.rest[end:]
	switch {
	case p.rest != "" && !strings.Contains(";,)", p.rest[:1]):
		return "", errors.New("a value with reserved characters must be quoted")
	case value == "":
		return "", errors.New("a value is missing")
	}
	return value, nil
}

// quoted reads a value in quotes, where a backslash takes the next character as it is.
func (p *searchParser[T]) quoted(quote byte) (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case quote:
			p.rest = p.rest[i+1:]
			return b.String(), nil
		case '\\':
			if i++; i == len(p.rest) {
				return "", errors.New("a quote is not closed")
			}
		}
		b.WriteByte(p.rest[i])
	}
	return "", errors.New("a quote is not closed")
}

// searchField reads a searched value as the field's type, and returns how an item's value compares with it; not applicable means that the item has none.
type searchField[T any] func(text string) (compare func(T) (order int, applicable bool), err error)

func textField[T any](value func(T) string) searchField[T] {
	return func(text string) (func(T) (int, bool), error) {
		return func(item T) (int, bool) { return strings.Compare(value(item), text), true }, nil
	}
}

func verdictField[T any](value func(T) verdict) searchField[T] {
	return func(text string) (func(T) (int, bool), error) {
		if text != "true" && text != "false" {
			return nil, errors.New("a value must be true or false")
		}
		searched := verdictOf(new(text == "true"))
		// false is less than true, and no more than yes.
		return func(item T) (int, bool) { return cmp.Compare(searched, value(item)), value(item) != notApplicable }, nil
	}
}

func moneyField[T any](value func(T) money) searchField[T] {
	return func(text string) (func(T) (int, bool), error) {
		searched, err := parseMoney(text)
		return func(item T) (int, bool) { return cmp.Compare(value(item), searched), true }, err
	}
}

// searchTimes are the forms of a time in a search, to the second or shorter.
var searchTimes = []string{wire.TimeFormat, time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15", "2006-01-02", "2006-01", "2006"}

func timeField[T any](value func(T) time.Time) searchField[T] {
	return func(text string) (func(T) (int, bool), error) {
		for _, layout := range searchTimes {
			if searched, err := time.Parse(layout, text); err == nil {
				return func(item T) (int, bool) { return value(item).Compare(searched), true }, nil
			}
		}
		return nil, errors.New("a time cannot be read")
	}
}
