package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// BillingService manages the company details of a workspace, and reads its balance. Before the
// first top-up, set the company details with Update and add a payment method. All methods except
// Balance require the credentials of the owner. It is available as [Console].Billing.
type BillingService struct{ workspace *boundWorkspace }

// BillingAccount contains the details of the company that pays for a workspace.
type BillingAccount struct {
	CompanyName  string
	ContactName  string
	ContactEmail string
	Address1     string
	Address2     string
	City         string
	Zip          string
	Country      string // two-letter code
}

// PaymentMethodParams are the parameters of [PaymentMethodService.Create]. All are required.
type PaymentMethodParams struct {
	CardNumber  Secret
	ExpiryMonth int      // 1 to 12
	ExpiryYear  int      // four digits
	Currencies  []string // for example "EUR"
}

// PaymentMethod is a card for top-ups.
type PaymentMethod struct {
	PaymentMethodID string
	LastFourDigits  string
	ExpiryMonth     int
	ExpiryYear      int
	Currencies      []string
}

// TopUpParams are the parameters of [TopUpService.Create]. All are required.
type TopUpParams struct {
	PaymentMethodID string
	Currency        string      // fixed by the first top-up; not "API"
	Amount          json.Number // decimal greater than 0, for example "25.50"
}

// TopUp is a payment that increases the balance.
type TopUp struct {
	TopUpID         string
	PaymentMethodID string
	Currency        string
	Amount          json.Number // decimal
	CreatedAt       time.Time
}

// Get returns the company details. If they are not set, the error is [ErrNotFound].
func (s *BillingService) Get(ctx context.Context) (*BillingAccount, error) {
	return sendIn[billingAccountJSON](ctx, s.workspace, wire.GetBillingAccount, nil)
}

// Update replaces the company details, including fields that are empty in a.
func (s *BillingService) Update(ctx context.Context, a BillingAccount) (*BillingAccount, error) {
	return sendIn[billingAccountJSON](ctx, s.workspace, wire.UpdateBillingAccount, billingAccountJSON(a))
}

// Balance returns the balance of the workspace. Every member may call it.
func (s *BillingService) Balance(ctx context.Context) (*Balance, error) {
	w, err := sendIn[workspaceJSON](ctx, s.workspace, wire.GetWorkspace, nil)
	if err != nil {
		return nil, err
	}
	return &w.Balance, nil
}

// PaymentMethodService manages the cards for top-ups. Its methods require the credentials of the
// owner. It is available as [Console].PaymentMethods.
type PaymentMethodService struct{ workspace *boundWorkspace }

// Create adds a card. The service stores only the last four digits of its number. The error is
// [ErrConflict] if the company details are not set, or if the card does not support the currency of
// the first top-up.
func (s *PaymentMethodService) Create(ctx context.Context, p PaymentMethodParams) (*PaymentMethod, error) {
	return sendIn[paymentMethodJSON](ctx, s.workspace, wire.AddPaymentMethod, newPaymentMethodJSON{
		CardNumber:  p.CardNumber.Reveal(),
		ExpiryMonth: p.ExpiryMonth,
		ExpiryYear:  p.ExpiryYear,
		Currencies:  p.Currencies,
	})
}

// Get returns a payment method.
func (s *PaymentMethodService) Get(ctx context.Context, paymentMethodID string) (*PaymentMethod, error) {
	return sendIn[paymentMethodJSON](ctx, s.workspace, wire.GetPaymentMethod, nil, paymentMethodID)
}

// List returns one page of the payment methods.
func (s *PaymentMethodService) List(ctx context.Context, o ListOptions) (*Page[PaymentMethod], error) {
	return listIn[paymentMethodJSON](ctx, s.workspace, wire.ListPaymentMethods, o, "payment_methods")
}

// All returns an iterator over the payment methods, starting with o.Page. It stops after the first
// error.
func (s *PaymentMethodService) All(ctx context.Context, o ListOptions) iter.Seq2[*PaymentMethod, error] {
	return all(ctx, o, s.List)
}

// Delete deletes a payment method.
func (s *PaymentMethodService) Delete(ctx context.Context, paymentMethodID string) error {
	return s.workspace.remove(ctx, wire.DeletePaymentMethod, s.workspace.ids(paymentMethodID)...)
}

// TopUpService makes payments that increase the balance. Its methods require the credentials of the
// owner. It is available as [Console].TopUps.
type TopUpService struct{ workspace *boundWorkspace }

// Create increases the balance. It retries only if the service cannot have accepted the payment:
// see [RetryPolicy]. The first top-up determines the currency of the workspace and discards the
// remaining "API" balance.
//
// The error is [ErrConflict] if there is no payment method, if the currency is not the currency of
// the workspace, or if the payment method does not support it. If the error matches
// [ErrOutcomeUnknown], look for the top-up in List before you repeat it.
func (s *TopUpService) Create(ctx context.Context, p TopUpParams) (*TopUp, error) {
	return sendIn[topUpJSON](ctx, s.workspace, wire.CreateTopUp, newTopUpJSON(p))
}

// List returns one page of the top-ups.
func (s *TopUpService) List(ctx context.Context, o ListOptions) (*Page[TopUp], error) {
	return listIn[topUpJSON](ctx, s.workspace, wire.ListTopUps, o, "top_ups")
}

// All returns an iterator over the top-ups, starting with o.Page. It stops after the first error.
func (s *TopUpService) All(ctx context.Context, o ListOptions) iter.Seq2[*TopUp, error] {
	return all(ctx, o, s.List)
}

type billingAccountJSON struct {
	CompanyName  string `json:"company_name"`
	ContactName  string `json:"contact_name"`
	ContactEmail string `json:"contact_email"`
	Address1     string `json:"address1"`
	Address2     string `json:"address2"`
	City         string `json:"city"`
	Zip          string `json:"zip"`
	Country      string `json:"country"`
}

func (j billingAccountJSON) value() (*BillingAccount, error) {
	if j == (billingAccountJSON{}) {
		return nil, errors.New("missing fields of a billing account")
	}
	return new(BillingAccount(j)), nil
}

type newPaymentMethodJSON struct {
	CardNumber  string   `json:"card_number"`
	ExpiryMonth int      `json:"expiry_month"`
	ExpiryYear  int      `json:"expiry_year"`
	Currencies  []string `json:"currencies"`
}

type paymentMethodJSON struct {
	PaymentMethodID string   `json:"payment_method_id"`
	LastFourDigits  string   `json:"last_four_digits"`
	ExpiryMonth     int      `json:"expiry_month"`
	ExpiryYear      int      `json:"expiry_year"`
	Currencies      []string `json:"currencies"`
}

func (j paymentMethodJSON) id() string { return j.PaymentMethodID }

func (j paymentMethodJSON) value() (*PaymentMethod, error) {
	if j.PaymentMethodID == "" {
		return nil, errors.New("missing payment_method_id")
	}
	return new(PaymentMethod(j)), nil
}

type newTopUpJSON struct {
	PaymentMethodID string      `json:"payment_method_id"`
	Currency        string      `json:"currency"`
	Amount          json.Number `json:"amount"`
}

type topUpJSON struct {
	TopUpID         string      `json:"top_up_id"`
	PaymentMethodID string      `json:"payment_method_id"`
	Currency        string      `json:"currency"`
	Amount          json.Number `json:"amount"`
	CreatedAt       timestamp   `json:"created_at"`
}

func (j topUpJSON) value() (*TopUp, error) {
	if j.TopUpID == "" {
		return nil, errors.New("missing top_up_id")
	}
	return &TopUp{TopUpID: j.TopUpID, PaymentMethodID: j.PaymentMethodID, Currency: j.Currency, Amount: j.Amount, CreatedAt: j.CreatedAt.Time}, nil
}

// UsageService reports the number and the cost of the checks that a workspace has created. Other
// calls do not count. It is available as [Console].Usage.
//
// Each method reads all pages. If there are more than a million rows, the error is a
// [*DecodeError]: query a shorter time range.
type UsageService struct{ workspace *boundWorkspace }

// UsageQuery selects and groups usage. From is required.
type UsageQuery struct {
	From    time.Time    // any time in the first period; periods are in UTC
	To      time.Time    // any time in the last period; the zero Time means now
	GroupBy []UsageGroup // empty: one row per period and currency
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
	Count     int         // checks
	Amount    json.Number // their cost, decimal
	Currency  string
}

// Hourly returns the usage of each hour with checks.
func (s *UsageService) Hourly(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return s.usage(ctx, "hourly", hourFormat, q)
}

// Daily returns the usage of each day with checks.
func (s *UsageService) Daily(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return s.usage(ctx, "daily", dayFormat, q)
}

// Monthly returns the usage of each month with checks.
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
	u := &Usage{Product: productOf(j.ProductID), ProjectID: j.ProjectID, Count: int(j.Counter), Amount: j.Amount, Currency: j.Currency}
	for _, format := range []string{hourFormat, dayFormat, monthFormat, wire.TimeFormat, time.RFC3339} {
		if at, err := time.Parse(format, j.Date); err == nil {
			u.Date = at.UTC()
			return u, nil
		}
	}
	return nil, errors.New("invalid date")
}
