package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// UsageService tells what a workspace's calls were and what they cost. Get it from [Console].Usage.
//
// Each method reads all pages. More than a million rows are a [*DecodeError]: ask for less time at once.
type UsageService struct{ workspace *boundWorkspace }

// UsageQuery chooses what usage is told. From is needed.
type UsageQuery struct {
	From    time.Time    // the period it lies in is the first one; periods begin in UTC
	To      time.Time    // the period it lies in is the last one; the zero Time: until now
	GroupBy []UsageGroup // none: all calls together
}

// UsageGroup is by what usage is told apart.
type UsageGroup string

// The groups of usage.
const (
	UsageByProduct UsageGroup = "product_id"
	UsageByProject UsageGroup = "project_id"
)

// Usage is how often products were called in a period.
type Usage struct {
	Date      time.Time   // when the period begins, in UTC
	Product   Product     // empty unless grouped by product
	ProjectID string      // empty unless grouped by project
	Counter   int         // calls
	Amount    json.Number // what they cost, decimal
	Currency  string
}

// Hourly returns the usage of each hour with calls.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/usage/hourly.
func (s *UsageService) Hourly(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return s.usage(ctx, "hourly", hourFormat, q)
}

// Daily returns the usage of each day with calls.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/usage/daily.
func (s *UsageService) Daily(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return s.usage(ctx, "daily", dayFormat, q)
}

// Monthly returns the usage of each month with calls.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/usage/monthly.
func (s *UsageService) Monthly(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return s.usage(ctx, "monthly", monthFormat, q)
}

// maxUsage is years of hours, of many projects.
const maxUsage = 1_000_000

// The date of a period, by its length.
const (
	hourFormat  = "2006-01-02T15"
	dayFormat   = "2006-01-02"
	monthFormat = "2006-01"
)

// usage reads all pages.
func (s *UsageService) usage(ctx context.Context, period, format string, q UsageQuery) ([]Usage, error) {
	if q.From.IsZero() {
		return nil, invalidArgument(wire.GetUsage, "From is not set")
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
