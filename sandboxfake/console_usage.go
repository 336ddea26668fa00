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

// usage is what is counted of the checks of one hour, project, product and currency.
type usage struct {
	counter int
	amount  money
}

// usageKey is of what; as a group, what it is not grouped by is empty.
type usageKey struct {
	date                       time.Time // when the period begins
	product, project, currency string
}

// usageRow is a line of the account.
type usageRow struct {
	usageKey
	usage
}

// countUsage notes that a check was accepted.
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

// usagePeriods are the periods of the path, and how each is dated.
var usagePeriods = map[string]string{
	"hourly":  "2006-01-02T15",
	"daily":   "2006-01-02",
	"monthly": "2006-01",
}

// usageView is a row of usage in a response.
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

// getUsage is GET …/workspaces/{workspace_id}/usage/{period}: the checks that were accepted, in each period that had any, the oldest first.
func (s *service) getUsage(c *call, m *member) (any, error) {
	layout, known := usagePeriods[c.ids["period"]]
	if !known {
		return nil, newProblem(wire.NotFound, "Usage is told hourly, daily or monthly")
	}
	query, err := c.query()
	if err != nil {
		return nil, err
	}
	dated := false
	date := rsql.Time(func(r usageRow) time.Time { return r.date })
	l := listing[usageRow]{
		embedded: "usage",
		created:  func(r usageRow) time.Time { return r.date },
		oldFirst: true,
		fields: map[string]rsql.Field[usageRow]{
			"date":       func(text string) (func(usageRow) (int, bool), error) { dated = true; return date(text) },
			"product_id": rsql.Text(func(r usageRow) string { return usageProductID(r.product) }),
			"project_id": rsql.Text(func(r usageRow) string { return r.project }),
		},
		view: func(_ *service, r usageRow) any {
			return usageView{Date: r.date.Format(layout), ProductID: usageProductID(r.product), ProjectID: r.project, Counter: r.counter, Amount: r.amount.number(), Currency: r.currency}
		},
	}
	// What is searched is what was counted, before it is summed up.
	counted, err := l.filter(query, m.workspace.usageIn(layout))
	if err != nil {
		return nil, err
	}
	if !dated {
		return nil, newProblem(wire.BadRequest, "search must say which dates, such as date>=2026-01-02T03")
	}
	byProduct, byProject, err := usageGroups(query["group_by"])
	if err != nil {
		return nil, err
	}
	return l.page(s, c, query, sumUsage(counted, byProduct, byProject))
}

// usageIn is all that was counted, dated by its period.
func (w *workspace) usageIn(layout string) []usageRow {
	rows := make([]usageRow, 0, len(w.usage))
	for key, u := range w.usage {
		// A period begins at what is left of a time when it is written in the period's form.
		key.date, _ = time.Parse(layout, key.date.Format(layout))
		rows = append(rows, usageRow{key, *u})
	}
	return rows
}

// usageGroups reads the values of group_by: product_id, project_id, or both, separated by a comma
// or in a parameter each.
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
			return false, false, newProblem(wire.BadRequest, "group_by must be product_id, project_id or both, each named once")
		}
	}
	return byProduct, byProject, nil
}

// sumUsage adds up what stands in one group, and sorts the groups by date.
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
