package sandboxfake

import (
	"cmp"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// listing describes how a kind of item is listed: order, search fields and JSON form.
type listing[T any] struct {
	embedded string // name below _embedded
	created  func(T) time.Time
	updated  func(T) time.Time        // nil if not sortable by it
	name     func(T) string           // nil if not sortable by it
	oldFirst bool                     // default order
	fields   map[string]rsql.Field[T] // searchable fields
	view     func(*service, T) any
}

// pageView is a page, which is encoded as JSON.
type pageView struct {
	pageNumbers
	embedded string // name below _embedded
	items    []any
	links    []pageLink
}

type pageNumbers struct {
	size, number, totalPages, totalElements int
}

// pageLink is a link of a page to itself or to another page.
type pageLink struct{ name, href string }

func (v *pageView) appendJSON(b []byte) []byte {
	o := openObject(slices.Grow(b, (1+len(v.items))*checkSize))
	o.open("page")
	o.integer("size", v.size)
	o.integer("number", v.number)
	o.integer("total_pages", v.totalPages)
	o.integer("total_elements", v.totalElements)
	o.close()
	o.open("_embedded")
	o.list(v.embedded, v.items)
	o.close()
	o.open("_links")
	for _, l := range v.links {
		o.link(l.name, l.href)
	}
	o.close()
	return o.end()
}

// pageJSON and pageLinksJSON are the members that pageView.appendJSON writes, for [OpenAPI].
type pageJSON struct {
	Size          int `json:"size"`
	Number        int `json:"number"`
	TotalPages    int `json:"total_pages"`
	TotalElements int `json:"total_elements"`
}

type pageLinksJSON struct {
	First link  `json:"first"`
	Last  link  `json:"last"`
	Next  *link `json:"next,omitempty"`
	Prev  *link `json:"prev,omitempty"`
	Self  link  `json:"self"`
}

// Default and maximum page size.
const (
	defaultPageSize = 10
	maxPageSize     = 100
)

// listPage returns the page of items that the call requests. items must be in order of creation.
func listPage[T any](s *service, c *call, l listing[T], items []T) (any, error) {
	query, err := c.query()
	if err != nil {
		return nil, err
	}
	items, err = l.filter(query, items)
	if err != nil {
		return nil, err
	}
	return l.page(s, c, query, items)
}

// filter returns the items that match the search parameter, or all items if it is missing.
func (l listing[T]) filter(query url.Values, items []T) ([]T, error) {
	if !query.Has("search") {
		return items, nil
	}
	keep, err := rsql.Parse(query.Get("search"), l.fields)
	if err != nil {
		return nil, newProblem(wire.BadRequest, "search: "+err.Error())
	}
	return slices.DeleteFunc(slices.Clone(items), func(item T) bool { return !keep(item) }), nil
}

// page returns the page of items that the query requests.
func (l listing[T]) page(s *service, c *call, query url.Values, items []T) (any, error) {
	number, err := queryInt(query, "page", 1, 1<<31-1, 1)
	if err != nil {
		return nil, err
	}
	size, err := queryInt(query, "size", 1, maxPageSize, defaultPageSize)
	if err != nil {
		return nil, err
	}
	at, err := l.order(query, items)
	if err != nil {
		return nil, err
	}
	page := pageNumbers{size: size, number: number, totalElements: len(items), totalPages: (len(items) + size - 1) / size}
	v := &pageView{pageNumbers: page, embedded: l.embedded, links: page.links(s.url+c.r.URL.EscapedPath(), query)}
	if number <= page.totalPages {
		v.items = make([]any, 0, size)
		for i := (number - 1) * size; i < min(number*size, len(items)); i++ {
			v.items = append(v.items, l.view(s, at(i)))
		}
	}
	return v, nil
}

// order returns a function that returns the i-th item in the requested order. Ties are in order of
// creation.
func (l listing[T]) order(query url.Values, items []T) (func(i int) T, error) {
	property, direction := "created_at", "desc"
	if l.oldFirst {
		direction = "asc"
	}
	if query.Has("sort") {
		var hasDirection bool
		if property, direction, hasDirection = strings.Cut(query.Get("sort"), ","); !hasDirection {
			direction = "desc"
		}
	}
	if direction != "asc" && direction != "desc" {
		return nil, newProblem(wire.BadRequest, "sort: the direction must be asc or desc")
	}
	var compare func(a, b T) int
	switch {
	case property == "created_at" && direction == "asc":
		return func(i int) T { return items[i] }, nil
	case property == "created_at":
		return func(i int) T { return items[newestFirst(items, l.created, i)] }, nil
	case property == "updated_at" && l.updated != nil:
		compare = func(a, b T) int { return l.updated(a).Compare(l.updated(b)) }
	case property == "name" && l.name != nil:
		compare = func(a, b T) int { return cmp.Compare(l.name(a), l.name(b)) }
	default:
		return nil, newProblem(wire.BadRequest, "sort: unknown property")
	}
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b T) int {
		if direction == "desc" {
			return compare(b, a)
		}
		return compare(a, b)
	})
	return func(i int) T { return sorted[i] }, nil
}

// newestFirst returns the index in items of the i-th item, counted from the newest. Items with the
// same time stay in order of creation. A binary search finds them, so that the cost of a page
// hardly depends on the number of items.
func newestFirst[T any](items []T, created func(T) time.Time, i int) int {
	mirror := len(items) - 1 - i
	t := created(items[mirror])
	low := sort.Search(mirror, func(k int) bool { return !created(items[k]).Before(t) })
	high := mirror + sort.Search(len(items)-mirror, func(k int) bool { return created(items[mirror+k]).After(t) })
	return low + i - (len(items) - high)
}

// linkedParams are the query parameters that the links of a page include.
var linkedParams = []string{"name", "search", "sort", "group_by"}

// links returns the links of a page to itself and to other pages, in order of name.
func (p pageNumbers) links(path string, query url.Values) []pageLink {
	var rest strings.Builder
	rest.WriteString("&size=" + strconv.Itoa(p.size))
	for _, name := range linkedParams {
		for _, value := range query[name] {
			rest.WriteString("&" + name + "=" + url.QueryEscape(value))
		}
	}
	links := make([]pageLink, 0, 5)
	add := func(name string, number int) {
		links = append(links, pageLink{name, path + "?page=" + strconv.Itoa(number) + rest.String()})
	}
	last := max(1, p.totalPages)
	add("first", 1)
	add("last", last)
	if p.number < p.totalPages {
		add("next", p.number+1)
	}
	if p.number > 1 {
		add("prev", min(p.number-1, last))
	}
	add("self", p.number)
	return links
}

// query parses the call's query. Unlike url.ParseQuery, it accepts semicolons, which mean "and" in
// a search. Only group_by can be repeated.
func (c *call) query() (url.Values, error) {
	query := make(url.Values)
	for pair := range strings.SplitSeq(c.r.URL.RawQuery, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return nil, newProblem(wire.BadRequest, "the query is malformed")
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return nil, newProblem(wire.BadRequest, "the query is malformed")
		}
		if query.Has(name) && name != "group_by" {
			return nil, newProblem(wire.BadRequest, "duplicate query parameter")
		}
		query.Add(name, value)
	}
	return query, nil
}

// queryInt returns the value of an integer parameter from low to high, or absent if it is missing.
func queryInt(query url.Values, name string, low, high, absent int) (int, error) {
	if !query.Has(name) {
		return absent, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < low || n > high {
		return 0, newProblem(wire.BadRequest, name+" must be an integer from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return n, nil
}
