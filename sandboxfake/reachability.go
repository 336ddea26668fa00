package sandboxfake

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
)

// coverageNetwork is the JSON form of a network.
type coverageNetwork struct {
	NetworkID   string  `json:"network_id"`
	NetworkName string  `json:"network_name"`
	Prices      []price `json:"prices,omitempty"`
}

type price struct {
	Currency string      `json:"currency"`
	Amount   json.Number `json:"amount"`
}

// sandboxNetwork is the operator of all sandbox numbers and addresses. 001-01 is reserved for
// tests.
var sandboxNetwork = coverageNetwork{NetworkID: "00101", NetworkName: "Sandbox Mobile"}

// sandboxCountry is the country of all sandbox addresses.
const sandboxCountry = "GB"

// coverageProducts are the IDs and names of the products in coverage and usage. In the products of
// a reachability lookup, IDs are in upper case, and names are titles.
var coverageProducts = []struct{ product, id, name, title string }{
	{wire.PhoneCheck, "pck", "PhoneCheck", "Phone Check"},
	{wire.SIMCheck, "sck", "SIMCheck", "Sim Check"},
	{wire.SubscriberCheck, "suk", "SubscriberCheck", "Subscriber Check"},
}

// countries are the countries that the sandbox covers.
var countries = []struct {
	code        string
	dialingCode int
	coverage    string // of every product
}{
	{"GB", 44, "FULL"},
	{"US", 1, "FULL"},
	{"CA", 1, "PARTIAL"},
	{"DE", 49, "FULL"},
	{"FR", 33, "PARTIAL"},
	{"ES", 34, "PARTIAL"},
	{"IT", 39, "PARTIAL"},
	{"NL", 31, "FULL"},
	{"IN", 91, "PARTIAL"},
	{"JP", 81, "COMING_SOON"},
}

// reachabilityView is the response to a reachability lookup.
type reachabilityView struct {
	NetworkID         string        `json:"network_id"`
	NetworkName       string        `json:"network_name"`
	CountryCode       string        `json:"country_code"`
	SupportedProducts []string      `json:"supported_products"`
	Products          []productView `json:"products"`
}

type productView struct {
	ProductID   string            `json:"product_id"`
	ProductName string            `json:"product_name"`
	Coverage    string            `json:"coverage,omitempty"`
	Networks    []coverageNetwork `json:"networks,omitempty"`
}

// deviceIP handles GET /coverage/{version}/device_ips/{ip} and GET
// /coverage/{version}/device_ip?ip=…. Without ip, the latter looks up the caller's own address.
func (s *service) deviceIP(c *call) (any, error) {
	text, ok := c.ids["ip"]
	if !ok {
		query, err := c.query()
		if err != nil {
			return nil, err
		}
		if !query.Has("ip") {
			return s.callerIP(c)
		}
		text = query.Get("ip")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return nil, newProblem(wire.BadRequest, "ip must be an IP address")
	}
	return reachability(addr)
}

// callerIP handles GET /public/coverage/{version}/device_ip. It needs no token, and looks up
// only the caller's own address.
func (s *service) callerIP(c *call) (any, error) {
	addr := c.remoteIP()
	switch local := addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast(); {
	case local && s.opts.callerIP.IsValid():
		addr = s.opts.callerIP
	case !addr.IsValid():
		return nil, newProblem(wire.BadRequest, "the caller's IP address is unknown")
	}
	return reachability(addr)
}

// remoteIP returns the address that the call came from, or the zero netip.Addr.
func (c *call) remoteIP() netip.Addr {
	addr, _ := netip.ParseAddrPort(c.r.RemoteAddr)
	return addr.Addr().Unmap().WithZone("")
}

// reachability returns the response to a lookup of addr.
func reachability(addr netip.Addr) (any, error) {
	if status, code := ReachabilityOutcome(addr); status != http.StatusOK {
		return nil, newProblem(code, "")
	}
	v := reachabilityView{NetworkID: sandboxNetwork.NetworkID, NetworkName: sandboxNetwork.NetworkName, CountryCode: sandboxCountry}
	for _, p := range coverageProducts {
		v.SupportedProducts = append(v.SupportedProducts, p.name)
		v.Products = append(v.Products, productView{ProductID: strings.ToUpper(p.id), ProductName: p.title})
	}
	return v, nil
}

// countryView is the response to a country lookup.
type countryView struct {
	CountryCode string        `json:"country_code"`
	DialingCode int           `json:"dialing_code"`
	Products    []productView `json:"products"`
}

// country handles GET /coverage/{version}/countries/{code}, for an ISO code or a dialing code. If
// several countries share a dialing code, it returns the first in countries.
func (s *service) country(c *call) (any, error) {
	code := c.ids["code"]
	for _, country := range countries {
		if strings.EqualFold(code, country.code) || code == strconv.Itoa(country.dialingCode) {
			v := countryView{CountryCode: country.code, DialingCode: country.dialingCode}
			for _, p := range coverageProducts {
				network := sandboxNetwork
				network.Prices = []price{{c.credential.workspace.currency, s.opts.price(p.product).number()}}
				v.Products = append(v.Products, productView{ProductID: p.id, ProductName: p.name, Coverage: country.coverage, Networks: []coverageNetwork{network}})
			}
			return v, nil
		}
	}
	return nil, newProblem(wire.NotFound, "No Reach")
}
