package sandboxfake

import (
	"slices"

	"github.com/idverify/idverify-go/internal/wire"
)

// product contains the rules of one product.
type product struct {
	name       string
	rules      []rule
	onCreation bool // the result is determined on creation, without a Check URL
	callbacks  bool
	period     bool // detects SIM changes within a period
}

// products are the products with checks.
//
// Protocol: docs/protocol.md, section 4.
var products = []product{
	{name: wire.PhoneCheck, rules: phoneCheckRules, callbacks: true},
	{name: wire.SIMCheck, rules: simCheckRules, onCreation: true, period: true},
	{name: wire.SubscriberCheck, rules: subscriberCheckRules, callbacks: true, period: true},
}

// product returns the product of the call's path.
func (c *call) product() *product { return productNamed(c.op.Product()) }

// productNamed returns the product with the given name, or nil.
func productNamed(name string) *product {
	i := slices.IndexFunc(products, func(p product) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &products[i]
}
