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

// ListOptions selects a page of a list. Zero fields are not sent, so the defaults of the service
// apply.
//
// Search is an RSQL expression over the search fields of the list, for example
//
//	reference_id=="order-1"
//	status==COMPLETED;created_at>=2026-01-02T00:00:00+0000
//
// Quote a value that contains a space or one of the characters "'();,=!~<> with double or single
// quotes. Within quotes, a backslash makes the next character literal: write \" for a quote and \\
// for a backslash. Always quote values from users or other systems. To search for a reference ID,
// use FindByReferenceID, which quotes it.
//
// Protocol: docs/protocol.md, section 3, which contains the search fields and sort properties.
type ListOptions struct {
	Page   int    // 1 (the default) or higher
	Size   int    // items per page, 1 to 100; 10 by default
	Sort   string // a sort property and asc or desc; "created_at,desc" by default
	Search string // an RSQL expression
}

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

// pageJSON is a page of a list. Embedded contains the items under the name of the list.
type pageJSON struct {
	Page *struct {
		Size          int `json:"size"`
		Number        int `json:"number"`
		TotalPages    int `json:"total_pages"`
		TotalElements int `json:"total_elements"`
	} `json:"page"`
	Embedded map[string]json.RawMessage `json:"_embedded"`
}

// list performs r and returns the page. Parameter name is the name of the list in the response.
func list[J resourceJSON[T], T any](ctx context.Context, a *api, r request, name string) (*Page[T], error) {
	page, _, err := sizedList[J](ctx, a, r, name)
	return page, err
}

// sizedList is like list. It also returns the size of the response body in bytes.
func sizedList[J resourceJSON[T], T any](ctx context.Context, a *api, r request, name string) (page *Page[T], size int, err error) {
	err = a.do(ctx, r, func(resp response) (err error) {
		size = len(resp.body)
		page, err = decodePage[J](resp, name)
		return err
	})
	return page, size, err
}

// decodePage returns the page in resp.
func decodePage[J resourceJSON[T], T any](resp response, name string) (*Page[T], error) {
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
		v, err := item.value()
		if err != nil {
			return nil, resp.unusable(err)
		}
		page.Items[i] = v
	}
	return page, nil
}

var errEmptyPages = errors.New("idverify: list: too many consecutive empty pages")

// maxEmptyPages is the maximum number of consecutive empty pages while the service reports more
// pages. The iteration fails at the next one.
const maxEmptyPages = 10

// all returns an iterator over the items of the pages from o.Page. An empty page does not end it
// unless it is the last, because items may be removed during the iteration.
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
