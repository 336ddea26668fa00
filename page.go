package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"

	"github.com/idverify/idverify-go/internal/wire"
)

// ListOptions selects a page of a collection. Zero fields are not sent, so the service's defaults
// apply.
//
// Search is an RSQL expression, for example
//
//	reference_id=="order-1"
//	status==COMPLETED;created_at>=2026-01-02T00:00:00+0000
//
// Quote a value that contains a space or one of "'();,=!~<>, with double or single quotes. Within
// quotes, a backslash makes the next character literal: write \" for a quote and \\ for a backslash.
// Quote a value that comes from a user or another system in any case.
type ListOptions struct {
	Page   int    // from 1, the default
	Size   int    // items on a page, 1 to 100; 10 by default
	Sort   string // "created_at,desc" (the default) or "created_at,asc", likewise updated_at, and name for projects
	Search string // an RSQL expression, see above
}

// Page is one page of a collection.
type Page[T any] struct {
	Items         []*T
	Number        int // of this page, from 1
	Size          int // items that fit on a page
	TotalPages    int // 0 when there are no items
	TotalElements int
}

// query is o as query parameters, Search and Sort verbatim.
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

// pageJSON is a collection: its items stand in _embedded under the collection's own name.
type pageJSON struct {
	Page *struct {
		Size          int `json:"size"`
		Number        int `json:"number"`
		TotalPages    int `json:"total_pages"`
		TotalElements int `json:"total_elements"`
	} `json:"page"`
	Embedded map[string]json.RawMessage `json:"_embedded"`
}

// list returns the page of r whose items are called name.
func list[J resourceJSON[T], T any](ctx context.Context, a *api, r request, name string) (*Page[T], error) {
	resp, err := a.do(ctx, r)
	if err != nil {
		return nil, err
	}
	var p pageJSON
	if err := json.Unmarshal(resp.body, &p); err != nil {
		return nil, resp.unusable(err)
	}
	if p.Page == nil {
		return nil, resp.unusable(errors.New("missing page"))
	}
	var items []J
	if raw, ok := p.Embedded[name]; ok {
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, resp.unusable(err)
		}
	}
	page := &Page[T]{
		Items:         make([]*T, len(items)),
		Number:        p.Page.Number,
		Size:          p.Page.Size,
		TotalPages:    p.Page.TotalPages,
		TotalElements: p.Page.TotalElements,
	}
	for i, item := range items {
		if page.Items[i], err = item.value(); err != nil {
			return nil, resp.unusable(err)
		}
	}
	return page, nil
}

var errEmptyPages = errors.New("idverify: list: too many empty pages")

// maxEmptyPages is how many pages in a row may be empty before a service that promises more is not believed any longer.
const maxEmptyPages = 10

// all yields the items of the pages from o.Page on. An empty page ends it only when the service says that it is the last: items may go while pages are read.
func all[T any](ctx context.Context, o ListOptions, list func(context.Context, ListOptions) (*Page[T], error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
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

// collect gathers items. A service without end is no reason to collect without end: more than most are an error.
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

// listOf is the request for a page of op's collection.
func listOf(op wire.Operation, o ListOptions, ids ...string) request {
	return request{op: op, ids: ids, query: o.query()}
}
