package sandboxfake

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// usage is the number of accepted checks and the sum of their charges.
type usage struct {
	counter int
	amount  money
}

// usageKey identifies the checks that a usage includes. A grouped row has no product or project
// unless it is grouped by them.
type usageKey struct {
	date                       time.Time // start of the hour, or of the requested period
	product, project, currency string
}

// usageRow is a usage with its key.
type usageRow struct {
	usageKey
	usage
}

// countUsage adds an accepted check to the usage of its hour.
func (w *workspace) countUsage(ck *check) {
	key := usageKey{date: ck.created.Truncate(time.Hour), product: ck.product.name, project: ck.project.id, currency: ck.currency}
	u := w.usage[key]
	if u == nil {
		u = new(usage)
		w.usage[key] = u
	}
	u.counter++
	u.amount += ck.charge
}

// usagePeriods maps each period in a path to the layout of its dates.
var usagePeriods = map[string]string{
	"hourly":  "2006-01-02T15",
	"daily":   "2006-01-02",
	"monthly": "2006-01",
}

// usageView is the JSON form of a row of usage.
//
// Protocol: docs/protocol.md, section 10.
type usageView struct {
	Date      string      `json:"date"`
	ProductID string      `json:"product_id,omitempty"`
	ProjectID string      `json:"project_id,omitempty"`
	Counter   int         `json:"counter"`
	Amount    json.Number `json:"amount"`
	Currency  string      `json:"currency"`
}

// usageProductID returns the ID of a product in usage, or an empty string for no product.
func usageProductID(product string) string {
	for _, p := range coverageProducts {
		if p.product == product {
			return p.id
		}
	}
	return ""
}

// getUsage handles GET …/workspaces/{workspace_id}/usage/{period}. It returns the usage of each
// period with at least one check, oldest first by default.
func (s *service) getUsage(c *call, m *member) (any, error) {
	layout, known := usagePeriods[c.ids["period"]]
	if !known {
		return nil, newProblem(wire.NotFound, "period must be hourly, daily or monthly")
	}
	query, err := c.query()
	if err != nil {
		return nil, err
	}
	dated := false
	l := usageListing(layout, &dated)
	// Filter before grouping, because grouped rows do not have all fields.
	counted, err := l.filter(query, m.workspace.usageIn(layout))
	if err != nil {
		return nil, err
	}
	if !dated {
		return nil, newProblem(wire.BadRequest, "search must compare date, for example date>=2026-01-02T03")
	}
	byProduct, byProject, err := usageGroups(query["group_by"])
	if err != nil {
		return nil, err
	}
	return l.page(s, c, query, sumUsage(counted, byProduct, byProject))
}

// usageListing describes lists of usage with dates in the given layout. A search by date sets
// dated.
func usageListing(layout string, dated *bool) listing[usageRow] {
	date := rsql.Time(func(r usageRow) time.Time { return r.date })
	return listing[usageRow]{
		embedded: "usage",
		created:  func(r usageRow) time.Time { return r.date },
		oldFirst: true,
		fields: map[string]rsql.Field[usageRow]{
			"date": func(searched rsql.Value) (func(usageRow) (int, bool), error) {
				*dated = true
				return date(searched)
			},
			"product_id": rsql.Text(func(r usageRow) string { return usageProductID(r.product) }),
			"project_id": rsql.Text(func(r usageRow) string { return r.project }),
		},
		view: func(_ *service, r usageRow) any {
			return usageView{Date: r.date.Format(layout), ProductID: usageProductID(r.product), ProjectID: r.project, Counter: r.counter, Amount: r.amount.number(), Currency: r.currency}
		},
	}
}

// usageIn returns all usage, by hour, with each date truncated to its period.
func (w *workspace) usageIn(layout string) []usageRow {
	rows := make([]usageRow, 0, len(w.usage))
	for key, u := range w.usage {
		// The layout has no fields smaller than the period.
		key.date, _ = time.Parse(layout, key.date.Format(layout))
		rows = append(rows, usageRow{key, *u})
	}
	return rows
}

// usageGroups parses the values of group_by: product_id, project_id or both, separated by a comma
// or in repeated parameters.
func usageGroups(values []string) (byProduct, byProject bool, err error) {
	if len(values) == 0 {
		return false, false, nil
	}
	for name := range strings.SplitSeq(strings.Join(values, ","), ",") {
		switch {
		case name == "product_id" && !byProduct:
			byProduct = true
		case name == "project_id" && !byProject:
			byProject = true
		default:
			return false, false, newProblem(wire.BadRequest, "group_by must be product_id, project_id or both, each at most once")
		}
	}
	return byProduct, byProject, nil
}

// sumUsage adds up the usage of each group, and sorts the groups by date.
func sumUsage(counted []usageRow, byProduct, byProject bool) []usageRow {
	sums := make(map[usageKey]usage)
	for _, r := range counted {
		key := r.usageKey
		if !byProduct {
			key.product = ""
		}
		if !byProject {
			key.project = ""
		}
		sum := sums[key]
		sum.counter += r.counter
		sum.amount += r.amount
		sums[key] = sum
	}
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b usageKey) int {
		return cmp.Or(a.date.Compare(b.date), cmp.Compare(a.product, b.product), cmp.Compare(a.project, b.project), cmp.Compare(a.currency, b.currency))
	})
	rows := make([]usageRow, len(keys))
	for i, key := range keys {
		rows[i] = usageRow{key, sums[key]}
	}
	return rows
}
