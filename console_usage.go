package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// UsageService reports the number and the cost of the checks that a workspace has created. Other
// calls do not count. It is available as [Console].Usage.
//
// Each method reads all pages. If there are more than a million rows, the error is a
// [*DecodeError]: query a shorter time range.
//
// Protocol: docs/protocol.md, section 10.
type UsageService struct{ workspace *boundWorkspace }

// UsageQuery selects and groups usage. From is required.
type UsageQuery struct {
	From    time.Time    // any time in the first period; periods are in UTC
	To      time.Time    // any time in the last period; the zero Time means now
	GroupBy []UsageGroup // empty: one row per period for all checks
}

// UsageGroup is a field by which usage is grouped.
type UsageGroup string

// Fields for UsageQuery.GroupBy.
const (
	UsageByProduct UsageGroup = "product_id"
	UsageByProject UsageGroup = "project_id"
)

// Usage is the number and cost of the checks that were created in one period.
type Usage struct {
	Date      time.Time   // start of the period, in UTC
	Product   Product     // empty unless grouped by product
	ProjectID string      // empty unless grouped by project
	Counter   int         // checks
	Amount    json.Number // their cost, decimal
	Currency  string
}

// Hourly returns the usage of each hour with checks.
//
// Protocol: docs/protocol.md, section 10.
func (s *UsageService) Hourly(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return s.usage(ctx, "hourly", hourFormat, q)
}

// Daily returns the usage of each day with checks.
//
// Protocol: docs/protocol.md, section 10.
func (s *UsageService) Daily(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return s.usage(ctx, "daily", dayFormat, q)
}

// Monthly returns the usage of each month with checks.
//
// Protocol: docs/protocol.md, section 10.
func (s *UsageService) Monthly(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return s.usage(ctx, "monthly", monthFormat, q)
}

// maxUsage is the maximum number of rows. It allows many years of hourly usage for several
// projects.
const maxUsage = 1_000_000

// Date formats of hourly, daily and monthly usage.
const (
	hourFormat  = "2006-01-02T15"
	dayFormat   = "2006-01-02"
	monthFormat = "2006-01"
)

// usage returns the usage that q selects, from all pages.
func (s *UsageService) usage(ctx context.Context, period, format string, q UsageQuery) ([]Usage, error) {
	if q.From.IsZero() {
		return nil, invalidArgument(wire.GetUsage, "missing From")
	}
	search := "date>=" + q.From.UTC().Format(format)
	if !q.To.IsZero() {
		search += ";date<=" + q.To.UTC().Format(format)
	}
	groups := make([]string, len(q.GroupBy))
	for i, g := range q.GroupBy {
		groups[i] = string(g)
	}

	pages := func(ctx context.Context, o ListOptions) (*Page[Usage], error) {
		r := listOf(wire.GetUsage, o, s.workspace.ids(period)...)
		if len(groups) > 0 {
			r.query.Set("group_by", strings.Join(groups, ","))
		}
		return list[usageJSON](ctx, s.workspace.api, r, "usage")
	}
	return collect(wire.GetUsage, maxUsage, all(ctx, ListOptions{Size: 100, Search: search}, pages))
}

type usageJSON struct {
	Date      string      `json:"date"`
	ProductID string      `json:"product_id"`
	ProjectID string      `json:"project_id"`
	Counter   number      `json:"counter"`
	Amount    json.Number `json:"amount"`
	Currency  string      `json:"currency"`
}

func (j usageJSON) value() (*Usage, error) {
	u := &Usage{Product: productOf(j.ProductID), ProjectID: j.ProjectID, Counter: int(j.Counter), Amount: j.Amount, Currency: j.Currency}
	for _, format := range []string{hourFormat, dayFormat, monthFormat, wire.TimeFormat, time.RFC3339} {
		if at, err := time.Parse(format, j.Date); err == nil {
			u.Date = at.UTC()
			return u, nil
		}
	}
	return nil, errors.New("invalid date")
}
