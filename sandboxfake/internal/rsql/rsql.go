// Package rsql parses search expressions in RSQL: comparisons such as status==COMPLETED, joined by
// ";" or "and", and by "," or "or". "and" binds more tightly. Expressions can be in parentheses and
// values in quotes.
package rsql

import (
	"errors"
	"slices"
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
	return p.join(",", "or", func() (func(T) bool, error) {
		return p.join(";", "and", func() (func(T) bool, error) { return p.term(depth) }, true)
	}, false)
}

// join parses operands that are separated by symbol, or by word between spaces. It joins them with
// "and" if and is true, and otherwise with "or".
func (p *parser[T]) join(symbol, word string, operand func() (func(T) bool, error), and bool) (func(T) bool, error) {
	var operands []func(T) bool
	for {
		o, err := operand()
		if err != nil {
			return nil, err
		}
		operands = append(operands, o)
		if !p.skip(symbol) && !p.skipWord(word) {
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

// skip consumes text and reports whether the rest began with it.
func (p *parser[T]) skip(text string) (found bool) {
	p.rest, found = strings.CutPrefix(p.rest, text)
	return found
}

// skipWord consumes word with the spaces around it and reports whether the rest began with them.
func (p *parser[T]) skipWord(word string) bool {
	trimmed := strings.TrimLeft(p.rest, " ")
	rest, found := strings.CutPrefix(trimmed, word+" ")
	if !found || trimmed == p.rest {
		return false
	}
	p.rest = strings.TrimLeft(rest, " ")
	return true
}

// term parses a comparison, or an expression in parentheses.
func (p *parser[T]) term(depth int) (func(T) bool, error) {
	if !p.skip("(") {
		return p.comparison()
	}
	if depth == MaxDepth {
		return nil, errors.New("parentheses are nested too deeply")
	}
	match, err := p.or(depth + 1)
	if err != nil {
		return nil, err
	}
	if !p.skip(")") {
		return nil, errors.New("unclosed parenthesis")
	}
	return match, nil
}

// operators are the comparison operators. Longer ones are first, because > is a prefix of >=.
var operators = []struct {
	text    string
	match   func(order int) bool // order of the item's value relative to a searched value
	negated bool                 // matches if no searched value does; an item without a value matches too
	list    bool                 // several values in parentheses
	pattern bool                 // values may contain wildcards
}{
	{text: "==", match: equal, pattern: true},
	{text: "!=", match: equal, pattern: true, negated: true},
	{text: "=in=", match: equal, list: true},
	{text: "=out=", match: equal, list: true, negated: true},
	{text: ">=", match: atLeast},
	{text: "=ge=", match: atLeast},
	{text: "<=", match: atMost},
	{text: "=le=", match: atMost},
	{text: ">", match: above},
	{text: "=gt=", match: above},
	{text: "<", match: below},
	{text: "=lt=", match: below},
}

func equal(order int) bool   { return order == 0 }
func atLeast(order int) bool { return order >= 0 }
func atMost(order int) bool  { return order <= 0 }
func above(order int) bool   { return order > 0 }
func below(order int) bool   { return order < 0 }

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
		if !p.skip(operator.text) {
			continue
		}
		values, err := p.values(operator.list)
		if err != nil {
			return nil, err
		}
		compare := make([]func(T) (int, bool), len(values))
		for i, value := range values {
			if !operator.pattern {
				value.parts = nil
			}
			if compare[i], err = field(value); err != nil {
				return nil, err
			}
		}
		return func(item T) bool {
			matches := func(c func(T) (int, bool)) bool {
				order, ok := c(item)
				return ok && operator.match(order)
			}
			return slices.ContainsFunc(compare, matches) != operator.negated
		}, nil
	}
	return nil, errors.New("missing or unknown operator: use ==, !=, >, >=, <, <=, =gt=, =ge=, =lt=, =le=, =in= or =out=")
}

// values parses one value or, if list is true, also several values in parentheses.
func (p *parser[T]) values(list bool) ([]Value, error) {
	grouped := list && p.skip("(")
	var values []Value
	for {
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		if !grouped {
			return values, nil
		}
		if !p.skip(",") {
			break
		}
	}
	if !p.skip(")") {
		return nil, errors.New("unclosed list of values: separate values with commas")
	}
	return values, nil
}

// value parses a value, which must be quoted if it contains reserved characters.
func (p *parser[T]) value() (Value, error) {
	if p.rest == "" {
		return Value{}, errors.New("missing value")
	}
	if quote := p.rest[0]; quote == '\'' || quote == '"' {
		return p.quoted(quote)
	}
	end := strings.IndexAny(p.rest, reserved)
	if end < 0 {
		end = len(p.rest)
	}
	text := p.rest[:end]
	p.rest = p.rest[end:]
	next := strings.TrimLeft(p.rest, " ")
	inOperator := next != p.rest && (strings.HasPrefix(next, "and ") || strings.HasPrefix(next, "or "))
	switch {
	case p.rest != "" && !strings.Contains(";,)", p.rest[:1]) && !inOperator:
		return Value{}, errors.New("value with reserved characters must be quoted")
	case text == "":
		return Value{}, errors.New("missing value")
	}
	return Value{text, strings.Split(text, "*")}, nil
}

// quoted parses a value in quotes. A backslash makes the character after it literal.
func (p *parser[T]) quoted(quote byte) (Value, error) {
	var text, part strings.Builder
	var parts []string
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		switch c {
		case quote:
			p.rest = p.rest[i+1:]
			return Value{text.String(), append(parts, part.String())}, nil
		case '*':
			parts = append(parts, part.String())
			part.Reset()
			text.WriteByte(c)
			continue
		case '\\':
			if i++; i == len(p.rest) {
				return Value{}, errors.New("unterminated quoted string")
			}
			c = p.rest[i]
		}
		text.WriteByte(c)
		part.WriteByte(c)
	}
	return Value{}, errors.New("unterminated quoted string")
}
