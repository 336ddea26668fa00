package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
)

// ReachabilityService tells which products work for a device's network, and in a country. Get it from [Client].Reachability.
type ReachabilityService struct{ api *api }

// DeviceReachability is the mobile network behind an IP address (specification, section 2).
type DeviceReachability struct {
	NetworkID         string
	NetworkName       string
	CountryCode       string    // two letters
	SupportedProducts []Product // in the service's order
}

// Supports reports whether the network supports p.
func (r *DeviceReachability) Supports(p Product) bool { return slices.Contains(r.SupportedProducts, p) }

// CountryCoverage is what the service offers in a country.
type CountryCoverage struct {
	CountryCode string // two letters
	DialingCode int
	Products    []ProductCoverage
}

// ProductCoverage is one product in a country.
type ProductCoverage struct {
	Product  Product
	Name     string // as the service writes it, for example "PhoneCheck"
	Coverage string // "FULL", "PARTIAL" or "COMING_SOON"
	Networks []NetworkCoverage
}

// NetworkCoverage is one network that a product works with.
type NetworkCoverage struct {
	NetworkID   string
	NetworkName string
	Prices      []Price
}

// Price is an amount of money.
type Price struct {
	Currency string      // for example "EUR"
	Amount   json.Number // decimal
}

// Lookup tells which products the network of the device at ip supports. It decides how to verify before a check is created, and costs nothing.
//
// Errors that are answers: [ErrNotMobileIP], the device is not on its mobile data connection; [ErrNetworkNotSupported], its network is not reached: fall back to another way, such as a text message.
//
// Specification: section 3, "Device reachability".
func (s *ReachabilityService) Lookup(ctx context.Context, ip netip.Addr) (*DeviceReachability, error) {
	switch {
	case !ip.IsValid():
		return nil, invalidArgument(wire.LookupDeviceIP, "the address is the zero netip.Addr")
	case ip.Zone() != "":
		return nil, invalidArgument(wire.LookupDeviceIP, "the address must not have a zone")
	}
	return send[reachabilityJSON](ctx, s.api, wire.LookupDeviceIP, nil, ip.Unmap().String())
}

// Country tells what the service offers in a country, by its ISO code ("GB") or its dialling code ("44", "+44"). One that is not covered is [ErrNotFound].
//
// Contract: GET /coverage/{version}/countries/{code}.
func (s *ReachabilityService) Country(ctx context.Context, code string) (*CountryCoverage, error) {
	return send[countryJSON](ctx, s.api, wire.GetCountry, nil, strings.TrimPrefix(strings.TrimSpace(code), "+"))
}

// reachabilityJSON lists the products by name or, in the other shape of the same answer, by id.
type reachabilityJSON struct {
	NetworkID         string   `json:"network_id"`
	NetworkName       string   `json:"network_name"`
	CountryCode       string   `json:"country_code"`
	SupportedProducts []string `json:"supported_products"`
	Products          []struct {
		ID   string `json:"product_id"`
		Name string `json:"product_name"`
	} `json:"products"`
}

func (j reachabilityJSON) value() (*DeviceReachability, error) {
	if j.NetworkID == "" {
		return nil, errors.New("missing network_id")
	}
	r := &DeviceReachability{NetworkID: j.NetworkID, NetworkName: j.NetworkName, CountryCode: j.CountryCode}
	for _, name := range j.SupportedProducts {
		r.SupportedProducts = append(r.SupportedProducts, productOf(name))
	}
	if j.SupportedProducts == nil {
		for _, p := range j.Products {
			r.SupportedProducts = append(r.SupportedProducts, productOf(p.ID))
		}
	}
	return r, nil
}

type countryJSON struct {
	CountryCode string `json:"country_code"`
	DialingCode number `json:"dialing_code"`
	Products    []struct {
		ID       string `json:"product_id"`
		Name     string `json:"product_name"`
		Coverage string `json:"coverage"`
		Networks []struct {
			ID     string `json:"network_id"`
			Name   string `json:"network_name"`
			Prices []struct {
				Currency string      `json:"currency"`
				Amount   json.Number `json:"amount"`
			} `json:"prices"`
		} `json:"networks"`
	} `json:"products"`
}

func (j countryJSON) value() (*CountryCoverage, error) {
	if j.CountryCode == "" {
		return nil, errors.New("missing country_code")
	}
	c := &CountryCoverage{CountryCode: j.CountryCode, DialingCode: int(j.DialingCode)}
	for _, p := range j.Products {
		product := ProductCoverage{Product: productOf(p.ID), Name: p.Name, Coverage: p.Coverage}
		for _, n := range p.Networks {
			network := NetworkCoverage{NetworkID: n.ID, NetworkName: n.Name}
			for _, price := range n.Prices {
				network.Prices = append(network.Prices, Price{Currency: price.Currency, Amount: price.Amount})
			}
			product.Networks = append(product.Networks, network)
		}
		c.Products = append(c.Products, product)
	}
	return c, nil
}
