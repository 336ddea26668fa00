package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strings"

	"github.com/idverify/idverify-go"
)

// newReachabilityCommand defines the flags of "reachability".
func newReachabilityCommand(p *program) (c *connection, flags *flag.FlagSet, country *string) {
	flags = newFlags("reachability", "[ADDRESS]\n\n"+
		"ADDRESS is the public IP address of a device as a backend sees it.\n")
	c = newConnection(p, flags, defaultTimeout)
	country = flags.String("country", "", "print the products in this country, instead of those of a device: a `code` such as GB or 44")
	return c, flags, country
}

// reachability prints the products that work for a device or in a country. It is free.
func reachability(ctx context.Context, p *program, args []string) int {
	c, flags, country := newReachabilityCommand(p)
	arguments, code, ok := p.parseArguments(flags, args, 0, 1)
	if !ok {
		return code
	}
	if (len(arguments) == 1) == (*country != "") {
		return c.misused("reachability", errors.New("set either an address or -country"))
	}
	var address netip.Addr
	if len(arguments) == 1 {
		var err error
		if address, err = netip.ParseAddr(arguments[0]); err != nil {
			return c.misused("reachability", errors.New("the argument is not an IP address"))
		}
	}
	if code, ok := c.open(ctx); !ok {
		return code
	}
	defer c.close()
	ctx, cancel := c.limit(ctx)
	defer cancel()
	if *country != "" {
		return c.country(ctx, *country)
	}
	return c.device(ctx, address)
}

// device prints the products that the network of a device supports.
func (c *connection) device(ctx context.Context, address netip.Addr) int {
	got, err := c.client.Reachability.Lookup(ctx, address)
	if err != nil {
		return c.fail(err)
	}
	if c.json {
		return c.printJSON(struct {
			NetworkID   string             `json:"network_id"`
			NetworkName string             `json:"network_name"`
			CountryCode string             `json:"country_code"`
			Products    []idverify.Product `json:"products"`
		}{got.NetworkID, got.NetworkName, got.CountryCode, append([]idverify.Product{}, got.SupportedProducts...)})
	}
	rows := []row{{"Network", got.NetworkName + " (" + got.NetworkID + ")"}, {"Country", got.CountryCode}}
	for _, product := range products() {
		supported := "not supported"
		if got.Supports(product) {
			supported = "supported"
		}
		rows = append(rows, row{string(product), supported})
	}
	c.printRows(rows)
	return exitOK
}

// countryProduct is a product in the JSON of a country, which is documented in docs/tools.md.
type countryProduct struct {
	Product  idverify.Product `json:"product"`
	Coverage string           `json:"coverage"`
	Networks []countryNetwork `json:"networks"`
}

type countryNetwork struct {
	NetworkID   string  `json:"network_id"`
	NetworkName string  `json:"network_name"`
	Prices      []price `json:"prices"`
}

type price struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

func productsOf(country *idverify.CountryReachability) []countryProduct {
	products := make([]countryProduct, len(country.Products))
	for i, p := range country.Products {
		networks := make([]countryNetwork, len(p.Networks))
		for j, n := range p.Networks {
			networks[j] = countryNetwork{n.NetworkID, n.NetworkName, make([]price, len(n.Prices))}
			for k, amount := range n.Prices {
				networks[j].Prices[k] = price{amount.Amount.String(), amount.Currency}
			}
		}
		products[i] = countryProduct{p.Product, p.Coverage, networks}
	}
	return products
}

// country prints the products in a country.
func (c *connection) country(ctx context.Context, code string) int {
	got, err := c.client.Reachability.LookupCountry(ctx, code)
	if err != nil {
		return c.fail(err)
	}
	products := productsOf(got)
	if c.json {
		return c.printJSON(struct {
			CountryCode string           `json:"country_code"`
			DialingCode int              `json:"dialing_code"`
			Products    []countryProduct `json:"products"`
		}{got.CountryCode, got.DialingCode, products})
	}
	fmt.Fprintf(c.stdout, "%s, dialing code %d\n", clean(got.CountryCode, cellLength), got.DialingCode)
	t := newTable(c.stdout)
	t.values("PRODUCT", "COVERAGE", "NETWORK", "PRICE")
	for _, p := range products {
		if len(p.Networks) == 0 {
			t.values(string(p.Product), p.Coverage, "", "")
		}
		for _, n := range p.Networks {
			var prices []string
			for _, amount := range n.Prices {
				prices = append(prices, amount.Amount+" "+amount.Currency)
			}
			t.values(string(p.Product), p.Coverage, n.NetworkName+" ("+n.NetworkID+")", strings.Join(prices, ", "))
		}
	}
	t.flush()
	return exitOK
}
