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

// Billing requires company details first, then a payment method, then a top-up. A request out of
// this order is a conflict.

// billingAccount is the JSON form of the company details, in requests and responses.
type billingAccount struct {
	CompanyName  string `json:"company_name"`
	ContactName  string `json:"contact_name"`
	ContactEmail string `json:"contact_email"`
	Address1     string `json:"address1"`
	Address2     string `json:"address2"`
	City         string `json:"city"`
	Zip          string `json:"zip"`
	Country      string `json:"country"`
}

// getBillingAccount handles GET …/workspaces/{workspace_id}/billing_account.
func (s *service) getBillingAccount(_ *call, m *member) (any, error) {
	if m.workspace.billing == nil {
		return nil, newProblem(wire.NotFound, "no company details have been added")
	}
	return m.workspace.billing, nil
}

// updateBillingAccount handles PUT …/workspaces/{workspace_id}/billing_account. It replaces all
// fields.
func (s *service) updateBillingAccount(c *call, m *member) (any, error) {
	var account billingAccount
	if err := c.decode(&account); err != nil {
		return nil, err
	}
	if strings.TrimSpace(account.CompanyName) == "" {
		return nil, newProblem(wire.BadRequest, "company_name is missing")
	}
	m.workspace.billing = &account
	return account, nil
}

// currencies are the currencies of top-ups. Before the first top-up, a workspace has
// initialCurrency.
var currencies = []string{"USD", "GBP", "EUR"}

// paymentMethod is a card. Only the last four digits of its number are stored.
type paymentMethod struct {
	id, lastFour string
	expiryMonth  int
	expiryYear   int
	currencies   []string
	created      time.Time
}

// paymentMethodView is the JSON form of a card.
type paymentMethodView struct {
	ID              string   `json:"id"`
	PaymentMethodID string   `json:"payment_method_id"` // the same as ID
	LastFourDigits  string   `json:"last_four_digits"`
	ExpiryMonth     int      `json:"expiry_month"`
	ExpiryYear      int      `json:"expiry_year"`
	Currencies      []string `json:"currencies"`
}

func (p *paymentMethod) view() paymentMethodView {
	return paymentMethodView{p.id, p.id, p.lastFour, p.expiryMonth, p.expiryYear, p.currencies}
}

// paymentMethodParams is the body of a request to add a card.
type paymentMethodParams struct {
	CardNumber  string   `json:"card_number"`
	ExpiryMonth int      `json:"expiry_month"`
	ExpiryYear  int      `json:"expiry_year"`
	Currencies  []string `json:"currencies"`
}

// check validates the parameters. It accepts an expired card, so that tests do not depend on the
// date.
func (p *paymentMethodParams) check() error {
	bad := ""
	switch {
	case len(p.CardNumber) < 12 || len(p.CardNumber) > 19 || strings.Trim(p.CardNumber, "0123456789") != "":
		bad = "card_number must be 12 to 19 digits"
	case p.ExpiryMonth < 1 || p.ExpiryMonth > 12:
		bad = "expiry_month must be 1 to 12"
	case p.ExpiryYear < 1000 || p.ExpiryYear > 9999:
		bad = "expiry_year must have four digits"
	case len(p.Currencies) == 0:
		bad = "currencies is missing"
	}
	for i, currency := range p.Currencies {
		if !slices.Contains(currencies, currency) || slices.Contains(p.Currencies[:i], currency) {
			bad = badCurrency
		}
	}
	if bad != "" {
		return newProblem(wire.BadRequest, bad)
	}
	return nil
}

var badCurrency = "unsupported or duplicate currency (supported: " + strings.Join(currencies, ", ") + ")"

// addPaymentMethod handles POST …/workspaces/{workspace_id}/payment_methods.
func (s *service) addPaymentMethod(c *call, m *member) (any, error) {
	var params paymentMethodParams
	if err := c.decode(&params); err != nil {
		return nil, err
	}
	if err := params.check(); err != nil {
		return nil, err
	}
	w := m.workspace
	switch {
	case w.billing == nil:
		return nil, newProblem(wire.CompanyDetailsRequired, "")
	case w.currencyFixed() && !slices.Contains(params.Currencies, w.currency):
		return nil, newProblem(wire.CurrencyNotSupported, "the payment method must support the account's currency, "+w.currency)
	}
	p := &paymentMethod{
		id:          s.ids.uuid("payment_method", w.id, &w.counter),
		lastFour:    params.CardNumber[len(params.CardNumber)-4:],
		expiryMonth: params.ExpiryMonth,
		expiryYear:  params.ExpiryYear,
		currencies:  params.Currencies,
		created:     wireTime(s.clock.Now()),
	}
	w.paymentMethods = append(w.paymentMethods, p)
	return p.view(), nil
}

// currencyFixed reports whether a top-up has determined the currency of w.
func (w *workspace) currencyFixed() bool { return len(w.topUps) > 0 }

// paymentMethodListing describes lists of cards.
var paymentMethodListing = listing[*paymentMethod]{
	embedded: "payment_methods",
	created:  func(p *paymentMethod) time.Time { return p.created },
	fields: map[string]rsql.Field[*paymentMethod]{
		"payment_method_id": rsql.Text(func(p *paymentMethod) string { return p.id }),
		"last_four_digits":  rsql.Text(func(p *paymentMethod) string { return p.lastFour }),
	},
	view: func(_ *service, p *paymentMethod) any { return p.view() },
}

// listPaymentMethods handles GET …/workspaces/{workspace_id}/payment_methods.
func (s *service) listPaymentMethods(c *call, m *member) (any, error) {
	return listPage(s, c, paymentMethodListing, m.workspace.paymentMethods)
}

// paymentMethod returns the card of w with the given ID, or nil.
func (w *workspace) paymentMethod(id string) *paymentMethod {
	i := slices.IndexFunc(w.paymentMethods, func(p *paymentMethod) bool { return p.id == id })
	if i < 0 {
		return nil
	}
	return w.paymentMethods[i]
}

// getPaymentMethod handles GET …/payment_methods/{payment_method_id}.
func (s *service) getPaymentMethod(c *call, m *member) (any, error) {
	p := m.workspace.paymentMethod(c.ids["payment_method_id"])
	if p == nil {
		return nil, newProblem(wire.NotFound, "payment method not found")
	}
	return p.view(), nil
}

// deletePaymentMethod handles DELETE …/payment_methods/{payment_method_id}.
func (s *service) deletePaymentMethod(c *call, m *member) (any, error) {
	p := m.workspace.paymentMethod(c.ids["payment_method_id"])
	if p == nil {
		return nil, newProblem(wire.NotFound, "payment method not found")
	}
	m.workspace.paymentMethods = without(m.workspace.paymentMethods, p)
	return &response{status: c.op.Success}, nil
}

// topUp is a payment into the balance of a workspace.
type topUp struct {
	id, methodID, currency string
	amount                 money
	created                time.Time
}

// topUpView is the JSON form of a top-up.
type topUpView struct {
	TopUpID         string      `json:"top_up_id"`
	PaymentMethodID string      `json:"payment_method_id"`
	Currency        string      `json:"currency"`
	Amount          json.Number `json:"amount"`
	CreatedAt       string      `json:"created_at"`
}

func (t *topUp) view() topUpView {
	return topUpView{t.id, t.methodID, t.currency, t.amount.number(), formatTime(t.created)}
}

// maxPaidIn is the maximum total of a workspace's top-ups. It prevents an overflow of money.
const maxPaidIn = 1_000_000_000_000 * moneyUnit

// topUpParams is the body of a request to top up.
type topUpParams struct {
	PaymentMethodID string      `json:"payment_method_id"`
	Currency        string      `json:"currency"`
	Amount          json.Number `json:"amount"` // also accepts a number in quotes
}

// createTopUp handles POST …/workspaces/{workspace_id}/topups.
func (s *service) createTopUp(c *call, m *member) (any, error) {
	var params topUpParams
	if err := c.decode(&params); err != nil {
		return nil, err
	}
	w := m.workspace
	amount, err := parseMoney(params.Amount.String())
	switch {
	case err != nil:
		return nil, newProblem(wire.BadRequest, err.Error())
	case amount <= 0 || amount > maxPaidIn-w.paidIn:
		return nil, newProblem(wire.BadRequest, "amount must be greater than 0, and all top-ups together must not exceed 1000000000000")
	case !slices.Contains(currencies, params.Currency):
		return nil, newProblem(wire.BadRequest, badCurrency)
	}
	method := w.paymentMethod(params.PaymentMethodID)
	switch {
	case w.billing == nil:
		return nil, newProblem(wire.CompanyDetailsRequired, "")
	case len(w.paymentMethods) == 0:
		return nil, newProblem(wire.PaymentDetailsRequired, "")
	case method == nil:
		return nil, newProblem(wire.BadRequest, "payment_method_id must be the ID of a payment method in the workspace")
	case w.currencyFixed() && params.Currency != w.currency:
		return nil, newProblem(wire.CurrencyFixed, "the first top-up fixed the account's currency: "+w.currency)
	case !slices.Contains(method.currencies, params.Currency):
		return nil, newProblem(wire.CurrencyNotSupported, "")
	}
	if !w.currencyFixed() {
		// The remaining balance in API is discarded.
		w.currency, w.balance = params.Currency, 0
	}
	w.balance += amount
	w.paidIn += amount
	t := &topUp{
		id:       s.ids.uuid("top_up", w.id, &w.counter),
		methodID: method.id,
		currency: w.currency,
		amount:   amount,
		created:  wireTime(s.clock.Now()),
	}
	w.topUps = append(w.topUps, t)
	return t.view(), nil
}

// topUpListing describes lists of top-ups.
var topUpListing = listing[*topUp]{
	embedded: "top_ups",
	created:  func(t *topUp) time.Time { return t.created },
	fields: map[string]rsql.Field[*topUp]{
		"top_up_id":         rsql.Text(func(t *topUp) string { return t.id }),
		"payment_method_id": rsql.Text(func(t *topUp) string { return t.methodID }),
		"currency":          rsql.Text(func(t *topUp) string { return t.currency }),
		"amount":            moneyField(func(t *topUp) money { return t.amount }),
		"created_at":        rsql.Time(func(t *topUp) time.Time { return t.created }),
	},
	view: func(_ *service, t *topUp) any { return t.view() },
}

// listTopUps handles GET …/workspaces/{workspace_id}/topups.
func (s *service) listTopUps(c *call, m *member) (any, error) {
	return listPage(s, c, topUpListing, m.workspace.topUps)
}

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
