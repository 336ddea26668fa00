package idverify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/idverify/idverify-go/internal/wire"
)

// ListOptions selects a page of a list. Zero fields are not sent, so the defaults of the service
// apply.
//
// All lists can be sorted by created_at, checks and projects also by updated_at, and projects also
// by name. Checks can be searched by check_id, phone_number, reference_id, status, match,
// no_sim_change, charge_amount, charge_currency, created_at and updated_at. For the fields of other
// lists, see docs/protocol.md, section 3. For any other field the error is [ErrBadRequest].
//
// Search is an RSQL expression, in which ";" means and, and "," means or:
//
//	reference_id=="order-1"
//	status==COMPLETED;created_at>=2026-01-02T00:00:00+0000
//
// Quote a value that contains a space or one of the characters "'();,=!~<> with double or single
// quotes. Within quotes, a backslash makes the next character literal: write \" for a quote and \\
// for a backslash. Always quote values from users or other systems. To search for a reference ID,
// use FindByReferenceID, which quotes it.
type ListOptions struct {
	Page   int    // 1 (the default) or higher
	Size   int    // items per page, 1 to 100; 10 by default
	Sort   string // a sort property and asc or desc; "created_at,desc" by default
	Search string // an RSQL expression
}

// maxPageSize is the maximum of ListOptions.Size.
const maxPageSize = 100

// Page is one page of a list.
type Page[T any] struct {
	Items         []*T
	Number        int // of this page; the first page is 1
	Size          int // maximum number of items per page
	TotalPages    int // 0 if there are no items
	TotalElements int
}

// query returns o as query parameters.
func (o ListOptions) query() url.Values {
	q := make(url.Values)
	for _, n := range []struct {
		name  string
		value int
	}{{"page", o.Page}, {"size", o.Size}} {
		if n.value != 0 {
			q.Set(n.name, strconv.Itoa(n.value))
		}
	}
	if o.Sort != "" {
		q.Set("sort", o.Sort)
	}
	if o.Search != "" {
		q.Set("search", o.Search)
	}
	return q
}

// pageJSON is the member "page" of a page of a list.
type pageJSON struct {
	Size          int `json:"size"`
	Number        int `json:"number"`
	TotalPages    int `json:"total_pages"`
	TotalElements int `json:"total_elements"`
}

// list performs r and returns the page. Parameter name is the name of the list in the response.
func list[J resourceJSON[T], T any](ctx context.Context, a *api, r request, name string) (*Page[T], error) {
	page, _, err := readPage[J](ctx, a, r, name)
	return page, err
}

// readPage is like list. It also returns the response.
func readPage[J resourceJSON[T], T any](ctx context.Context, a *api, r request, name string) (page *Page[T], resp response, err error) {
	err = a.do(ctx, r, func(r response) (err error) {
		resp = r
		page, err = decodePage[J](r, name)
		return err
	})
	return page, resp, err
}

// decodePage returns the page in resp. The Decoder reports errors by token; Unmarshal reports
// invalid JSON, or a body that is not an object, first.
func decodePage[J resourceJSON[T], T any](resp response, name string) (*Page[T], error) {
	d := pageDecoder[J, T]{json: json.NewDecoder(bytes.NewReader(resp.body)), name: name, items: make([]*T, 0, maxPageSize)}
	err := d.decode()
	if err == nil && d.page == nil {
		err = errors.New("missing page")
	}
	if err != nil {
		if invalid := json.Unmarshal(resp.body, new(struct{})); invalid != nil {
			err = invalid
		}
		return nil, resp.unusable(err)
	}
	return &Page[T]{
		Items:         d.items,
		Number:        d.page.Number,
		Size:          d.page.Size,
		TotalPages:    d.page.TotalPages,
		TotalElements: d.page.TotalElements,
	}, nil
}

// pageDecoder decodes a page in one pass, one item after the other. The name of the list is not
// known at compile time, so json.Unmarshal would need another pass to find the items.
type pageDecoder[J resourceJSON[T], T any] struct {
	json  *json.Decoder
	name  string    // of the list
	page  *pageJSON // nil if it is missing
	items []*T
}

// decode decodes the page. For a body that is not JSON, it may return any error.
func (d *pageDecoder[J, T]) decode() error {
	err := d.decodeObject("", func(name string) error {
		switch {
		case strings.EqualFold(name, "page"):
			err := d.json.Decode(&d.page)
			if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				e.Field = strings.TrimSuffix("page."+e.Field, ".")
			}
			return err
		case strings.EqualFold(name, "_embedded"):
			return d.decodeObject("_embedded", d.decodeList)
		}
		return d.skip()
	})
	if err != nil {
		return err
	}
	if _, err := d.json.Token(); err != io.EOF {
		return errors.New("unexpected input after the page")
	}
	return nil
}

// decodeObject calls member for each member of the next value, which is an object or null. The
// function member decodes the value of the member. Parameter field is the name of the object, or
// empty for the page.
func (d *pageDecoder[J, T]) decodeObject(field string, member func(name string) error) error {
	token, err := d.json.Token()
	switch {
	case err != nil:
		return err
	case token == nil: // null, which also replaces an earlier object
		d.items = d.items[:0]
		return nil
	case token != json.Delim('{'):
		return &json.UnmarshalTypeError{Field: field, Type: reflect.TypeFor[struct{}]()}
	}
	for d.json.More() {
		token, err := d.json.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if err := member(name); err != nil {
			return err
		}
	}
	_, err = d.json.Token()
	return err
}

// decodeList decodes the items if name is the name of the list. Its value is an array or null.
func (d *pageDecoder[J, T]) decodeList(name string) error {
	if name != d.name {
		return d.skip()
	}
	d.items = d.items[:0] // of several lists with this name, the last one counts
	token, err := d.json.Token()
	switch {
	case err != nil || token == nil:
		return err
	case token != json.Delim('['):
		return errors.New("invalid value of a field")
	}
	var item, empty J
	for d.json.More() {
		item = empty
		if err := d.json.Decode(&item); err != nil {
			return err
		}
		v, err := item.value()
		if err != nil {
			return err
		}
		d.items = append(d.items, v)
	}
	_, err = d.json.Token()
	return err
}

// skip reads the next value.
func (d *pageDecoder[J, T]) skip() error { return d.json.Decode(new(json.RawMessage)) }

var errEmptyPages = errors.New("idverify: list: too many consecutive empty pages")

// maxEmptyPages is the maximum number of consecutive empty pages while the service reports more
// pages. The iteration fails at the next one.
const maxEmptyPages = 10

// all returns an iterator over the items of the pages from o.Page. An empty page does not end it
// unless it is the last, because items may be removed during the iteration.
func all[T any](ctx context.Context, o ListOptions, list func(context.Context, ListOptions) (*Page[T], error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		o := o // each iteration starts at the first page
		o.Page = max(o.Page, 1)
		for empty := 0; ; o.Page++ {
			page, err := list(ctx, o)
			if empty++; err == nil && len(page.Items) > 0 {
				empty = 0
			}
			if err == nil && empty > maxEmptyPages && o.Page < page.TotalPages {
				err = errEmptyPages
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if o.Page >= page.TotalPages {
				return
			}
		}
	}
}

// collect returns the items, or an error if there are more than limit.
func collect[T any](op wire.Operation, limit int, items iter.Seq2[*T, error]) ([]T, error) {
	var found []T
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		if len(found) == limit {
			return nil, &DecodeError{Operation: op.Name, Status: op.Success, Reason: fmt.Sprintf("more than %d items", limit)}
		}
		found = append(found, *item)
	}
	return slices.Clip(found), nil
}

// listOf returns a request for the page that o selects.
func listOf(op wire.Operation, o ListOptions, ids ...string) request {
	return request{op: op, ids: ids, query: o.query()}
}

// findByReferenceID reads the pages of op, the list of checks with the given reference ID. Function
// values returns the check ID, the reference ID and the charge amount of a check.
func findByReferenceID[J resourceJSON[T], T any](ctx context.Context, a *api, op wire.Operation, referenceID string, values func(*T) (checkID, referenceID string, charge json.Number)) ([]*T, error) {
	switch {
	case referenceID == "":
		return nil, invalidArgument(op, "referenceID is empty")
	case !utf8.ValidString(referenceID):
		return nil, invalidArgument(op, "referenceID is not valid UTF-8") // JSON cannot contain it
	}
	tooMany := func(limit string) error {
		return &DecodeError{Operation: op.Name, Status: op.Success, Reason: "more than " + limit}
	}
	read := 0 // bytes
	var last response
	list := func(ctx context.Context, o ListOptions) (page *Page[T], err error) {
		page, last, err = readPage[J](ctx, a, listOf(op, o), "checks")
		if read += len(last.body); err == nil && read > maxReadByReference {
			return nil, tooMany("64 MiB of checks")
		}
		return page, err
	}
	var found []*T
	listed, seen := 0, make(map[string]bool)
	// In ascending order, checks that are created in the meantime do not move others to later pages.
	for check, err := range all(ctx, ListOptions{Size: 100, Sort: "created_at,asc", Search: "reference_id==" + quoteRSQL(referenceID)}, list) {
		if err != nil {
			return nil, err
		}
		if listed++; listed > maxListedByReference {
			return nil, tooMany("10,000 checks")
		}
		// The service may compare in another way, for example without case or with wildcards.
		checkID, reference, charge := values(check)
		if reference != referenceID || seen[checkID] {
			continue
		}
		// The search completes a Create whose response was lost.
		if a.liveOnly && isZero(charge) {
			return nil, a.rejectSandbox(ctx, last, checkID)
		}
		seen[checkID] = true
		found = append(found, check)
	}
	return found, nil
}

// Limits of a search by reference ID: the number of checks on its pages, and the size of the pages
// in bytes. One page has at most maxBody bytes.
const (
	maxListedByReference = 10_000
	maxReadByReference   = 64 << 20
)

// quoteRSQL returns s as a quoted value of an RSQL expression.
func quoteRSQL(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
