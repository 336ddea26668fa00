package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// BillingService pays for a workspace. Only its owner may use it, but for Balance, and in this order: set the account, add a payment method, top up (specification, section 1). Get it from [Console].Billing.
type BillingService struct{ workspace *boundWorkspace }

// BillingAccount is the company that pays.
type BillingAccount struct {
	CompanyName  string `json:"company_name"`
	ContactName  string `json:"contact_name"`
	ContactEmail string `json:"contact_email"`
	Address1     string `json:"address1"`
	Address2     string `json:"address2"`
	City         string `json:"city"`
	Zip          string `json:"zip"`
	Country      string `json:"country"` // two letters
}

// PaymentMethodParams are the arguments of [BillingService.AddPaymentMethod]. All are needed.
type PaymentMethodParams struct {
	CardNumber  Secret
	ExpiryMonth int      // 1 to 12
	ExpiryYear  int      // four digits
	Currencies  []string // for example "EUR"
}

// PaymentMethod is a card to top up with.
type PaymentMethod struct {
	PaymentMethodID string
	LastFourDigits  string
	ExpiryMonth     int
	ExpiryYear      int
	Currencies      []string
}

// TopUpParams are the arguments of [BillingService.TopUp]. All are needed.
type TopUpParams struct {
	PaymentMethodID string
	Currency        string      // the first top-up chooses it for good; not "API"
	Amount          json.Number // decimal, above 0, for example "25.50"
}

// TopUp is a payment into the account.
type TopUp struct {
	TopUpID         string
	PaymentMethodID string
	Currency        string
	Amount          json.Number // decimal
	CreatedAt       time.Time
}

// Account reads the company details. Before they are set it is [ErrNotFound].
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/billing_account.
func (s *BillingService) Account(ctx context.Context) (*BillingAccount, error) {
	return sendIn[billingAccountJSON](ctx, s.workspace, wire.GetBillingAccount, nil)
}

// UpdateAccount sets the company details: all of them, an empty field too.
//
// Contract: PUT /console/{version}/workspaces/{workspace_id}/billing_account.
func (s *BillingService) UpdateAccount(ctx context.Context, a BillingAccount) (*BillingAccount, error) {
	return sendIn[billingAccountJSON](ctx, s.workspace, wire.UpdateBillingAccount, a)
}

// PaymentMethods returns one page of the payment methods.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/payment_methods.
func (s *BillingService) PaymentMethods(ctx context.Context, o ListOptions) (*Page[PaymentMethod], error) {
	return listIn[paymentMethodJSON](ctx, s.workspace, wire.ListPaymentMethods, o, "payment_methods")
}

// PaymentMethod reads one payment method.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/payment_methods/{payment_method_id}.
func (s *BillingService) PaymentMethod(ctx context.Context, paymentMethodID string) (*PaymentMethod, error) {
	return sendIn[paymentMethodJSON](ctx, s.workspace, wire.GetPaymentMethod, nil, paymentMethodID)
}

// AddPaymentMethod adds a card, of whose number the service keeps the last four digits. It is [ErrConflict] before the company details are set, and when the card does not support the currency that the first top-up chose.
//
// Contract: POST /console/{version}/workspaces/{workspace_id}/payment_methods.
func (s *BillingService) AddPaymentMethod(ctx context.Context, p PaymentMethodParams) (*PaymentMethod, error) {
	return sendIn[paymentMethodJSON](ctx, s.workspace, wire.AddPaymentMethod, newPaymentMethodJSON{
		CardNumber:  p.CardNumber.Reveal(),
		ExpiryMonth: p.ExpiryMonth,
		ExpiryYear:  p.ExpiryYear,
		Currencies:  p.Currencies,
	})
}

// DeletePaymentMethod removes a payment method.
//
// Contract: DELETE /console/{version}/workspaces/{workspace_id}/payment_methods/{payment_method_id}.
func (s *BillingService) DeletePaymentMethod(ctx context.Context, paymentMethodID string) error {
	return s.workspace.remove(ctx, wire.DeletePaymentMethod, s.workspace.ids(paymentMethodID)...)
}

// TopUp pays into the account. It is sent again only when it cannot have been accepted (see [RetryPolicy]).
// On the first one the account takes on its currency, and unused "API" balance is lost. It is [ErrConflict] without a payment method, in another currency later, and in one that the payment method does not support.
//
// Contract: POST /console/{version}/workspaces/{workspace_id}/topups.
func (s *BillingService) TopUp(ctx context.Context, p TopUpParams) (*TopUp, error) {
	return sendIn[topUpJSON](ctx, s.workspace, wire.CreateTopUp, newTopUpJSON(p))
}

// TopUps returns one page of the top-ups.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/topups.
func (s *BillingService) TopUps(ctx context.Context, o ListOptions) (*Page[TopUp], error) {
	return listIn[topUpJSON](ctx, s.workspace, wire.ListTopUps, o, "top_ups")
}

// Balance reads what is left on the account. Every member may.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}.
func (s *BillingService) Balance(ctx context.Context) (*Balance, error) {
	w, err := sendIn[workspaceJSON](ctx, s.workspace, wire.GetWorkspace, nil)
	if err != nil {
		return nil, err
	}
	return &w.Balance, nil
}

type billingAccountJSON BillingAccount

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
