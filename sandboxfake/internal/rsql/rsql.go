// Package rsql parses search expressions in a subset of RSQL: comparisons such as
// status==COMPLETED, joined by ";" (and) and "," (or), where "and" binds more tightly, with
// parentheses and quoted values.
package rsql

import (
	"errors"
	"strings"
)

// Parse parses an expression and returns a function that reports whether an item matches it. fields
// are the fields that an expression can compare, by name. Errors never repeat the expression, which
// may contain personal data.
func Parse[T any](expression string, fields map[string]Field[T]) (func(T) bool, error) {
	p := &parser[T]{rest: expression, fields: fields}
	match, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if p.rest != "" {
		return nil, errors.New("unexpected input after the expression")
	}
	return match, nil
}

// MaxDepth is the maximum nesting of parentheses.
const MaxDepth = 32

// parser is a recursive descent parser. Each method consumes its part of rest.
type parser[T any] struct {
	rest   string
	fields map[string]Field[T]
}

func (p *parser[T]) or(depth int) (func(T) bool, error) {
	return p.join(",", func() (func(T) bool, error) {
		return p.join(";", func() (func(T) bool, error) { return p.term(depth) }, true)
	}, false)
}

// join parses operands that are separated by separator. It joins them with "and" if and is true,
// and otherwise with "or".
func (p *parser[T]) join(separator string, operand func() (func(T) bool, error), and bool) (func(T) bool, error) {
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

// term parses a comparison, or an expression in parentheses.
func (p *parser[T]) term(depth int) (func(T) bool, error) {
	inner, isGroup := strings.CutPrefix(p.rest, "(")
	if !isGroup {
		return p.comparison()
	}
	if depth == MaxDepth {
		return nil, errors.New("parentheses are nested too deeply")
	}
	p.rest = inner
	match, err := p.or(depth + 1)
	if err != nil {
		return nil, err
	}
	var closed bool
	if p.rest, closed = strings.CutPrefix(p.rest, ")"); !closed {
		return nil, errors.New("unclosed parenthesis")
	}
	return match, nil
}

// operators are the comparison operators. Longer ones are first, because > is a prefix of >=.
var operators = []struct {
	text  string
	match func(order int) bool // order of the item's value relative to the searched value
}{
	{"==", func(order int) bool { return order == 0 }},
	{"!=", func(order int) bool { return order != 0 }},
	{">=", func(order int) bool { return order >= 0 }},
	{"<=", func(order int) bool { return order <= 0 }},
	{">", func(order int) bool { return order > 0 }},
	{"<", func(order int) bool { return order < 0 }},
}

// reserved contains the characters that are invalid in field names and unquoted values.
const reserved = "\"'();,=!~<> "

func (p *parser[T]) comparison() (func(T) bool, error) {
	end := strings.IndexAny(p.rest, reserved)
	if end < 0 {
		end = len(p.rest)
	}
	field, known := p.fields[p.rest[:end]]
	if !known {
		return nil, errors.New("missing or unknown field")
	}
	p.rest = p.rest[end:]
	for _, operator := range operators {
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
			order, ok := compare(item)
			// A missing value differs from every value.
			return ok && operator.match(order) || !ok && operator.text == "!="
		}, nil
	}
	return nil, errors.New("missing or unknown operator: use ==, !=, >, >=, < or <=")
}

// value parses a value, which must be quoted if it contains reserved characters.
func (p *parser[T]) value() (string, error) {
	if p.rest == "" {
		return "", errors.New("missing value")
	}
	if quote := p.rest[0]; quote == '\'' || quote == '"' {
		return p.quoted(quote)
	}
	end := strings.IndexAny(p.rest, reserved)
	if end < 0 {
		end = len(p.rest)
	}
	value := p.rest[:end]
	p.rest = p.rest[end:]
	switch {
	case p.rest != "" && !strings.Contains(";,)", p.rest[:1]):
		return "", errors.New("value with reserved characters must be quoted")
	case value == "":
		return "", errors.New("missing value")
	}
	return value, nil
}

// quoted parses a value in quotes. A backslash escapes the character after it.
func (p *parser[T]) quoted(quote byte) (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case quote:
			p.rest = p.rest[i+1:]
			return b.String(), nil
		case '\\':
			if i++; i == len(p.rest) {
				return "", errors.New("unterminated quoted string")
			}
		}
		b.WriteByte(p.rest[i])
	}
	return "", errors.New("unterminated quoted string")
}
