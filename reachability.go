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

// ReachabilityService reports which products work in the network of a device or in a country. It is
// available as [Client].Reachability.
type ReachabilityService struct{ api *api }

// DeviceReachability describes the mobile network of an IP address.
type DeviceReachability struct {
	NetworkID         string
	NetworkName       string
	CountryCode       string    // two letters
	SupportedProducts []Product // in the order of the response
}

// Supports reports whether the network supports p.
func (r *DeviceReachability) Supports(p Product) bool { return slices.Contains(r.SupportedProducts, p) }

// CountryReachability describes the products that the service offers in a country.
type CountryReachability struct {
	CountryCode string // two letters
	DialingCode int
	Products    []ProductReachability
}

// ProductReachability describes the networks of a country in which a product works.
type ProductReachability struct {
	Product  Product
	Name     string // display name, for example "PhoneCheck"
	Coverage string // the extent: "FULL", "PARTIAL" or "COMING_SOON"
	Networks []NetworkReachability
}

// NetworkReachability describes a network in which a product works.
type NetworkReachability struct {
	NetworkID   string
	NetworkName string
	Prices      []Price
}

// Price is the price of a product in one currency.
type Price struct {
	Currency string      // for example "EUR"
	Amount   json.Number // decimal
}

// Lookup returns the products that the network of the device at ip supports. Use it to select a
// verification method before you create a check. It is free.
//
// The error is [ErrNotMobileIP] if the device is not using its mobile data connection, and
// [ErrNetworkNotSupported] if its network is not supported. In both cases verify in another way,
// such as by text message.
func (s *ReachabilityService) Lookup(ctx context.Context, ip netip.Addr) (*DeviceReachability, error) {
	switch {
	case !ip.IsValid():
		return nil, invalidArgument(wire.LookupDeviceIP, "IP address is the zero netip.Addr")
	case ip.Zone() != "":
		return nil, invalidArgument(wire.LookupDeviceIP, "IP address must not have a zone")
	}
	return send[reachabilityJSON](ctx, s.api, wire.LookupDeviceIP, nil, ip.Unmap().String())
}

// LookupCountry returns the products that the service offers in a country. Parameter code is the
// ISO code ("GB") or the dialing code ("44" or "+44"). If the service does not cover the country,
// the error is [ErrNotFound].
func (s *ReachabilityService) LookupCountry(ctx context.Context, code string) (*CountryReachability, error) {
	return send[countryJSON](ctx, s.api, wire.GetCountry, nil, strings.TrimPrefix(strings.TrimSpace(code), "+"))
}

// reachabilityJSON is the JSON of a DeviceReachability. It contains the products by name in
// SupportedProducts, or by ID and name in Products.
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
			r.SupportedProducts = append(r.SupportedProducts, productOf(p.ID, p.Name))
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

func (j countryJSON) value() (*CountryReachability, error) {
	if j.CountryCode == "" {
		return nil, errors.New("missing country_code")
	}
	c := &CountryReachability{CountryCode: j.CountryCode, DialingCode: int(j.DialingCode)}
	for _, p := range j.Products {
		product := ProductReachability{Product: productOf(p.ID), Name: p.Name, Coverage: p.Coverage}
		for _, n := range p.Networks {
			network := NetworkReachability{NetworkID: n.ID, NetworkName: n.Name}
			for _, price := range n.Prices {
				network.Prices = append(network.Prices, Price{Currency: price.Currency, Amount: price.Amount})
			}
			product.Networks = append(product.Networks, network)
		}
		c.Products = append(c.Products, product)
	}
	return c, nil
}
