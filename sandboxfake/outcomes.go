package sandboxfake

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// Outcome is the result of a check for a phone number, as the service reports it. Match and
// NoSIMChange are VerdictUnknown if the check has no such result. A check with status ERROR can
// have a Match; the client ignores it.
type Outcome struct {
	Status      idverify.CheckStatus // COMPLETED or ERROR
	Match       idverify.Verdict
	NoSIMChange idverify.Verdict
	ErrorCode   string // only for ERROR
}

// PhoneCheckOutcome returns the sandbox result of a PhoneCheck of number. Numbers that end in 00,
// 55 or 99 give ERROR. For other numbers, Match is VerdictYes if the last digit is even, otherwise
// VerdictNo.
func PhoneCheckOutcome(number string) Outcome { return decide(phoneCheckRules, number).outcome() }

// SIMCheckOutcome returns the sandbox result of a SIMCheck of number. Numbers that end in 99 give
// ERROR. For other numbers, NoSIMChange is VerdictYes if the last digit is 0 to 4, otherwise
// VerdictNo.
func SIMCheckOutcome(number string) Outcome { return decide(simCheckRules, number).outcome() }

// SubscriberCheckOutcome returns the sandbox result of a SubscriberCheck of number. Numbers that
// end in 00, 55 or 99 give ERROR. For other numbers, Match is VerdictYes if the last digit is even,
// otherwise VerdictNo. NoSIMChange is VerdictYes for 0, 2 and 4, VerdictNo for 6 and 8, and
// VerdictUnknown without a match.
func SubscriberCheckOutcome(number string) Outcome {
	return decide(subscriberCheckRules, number).outcome()
}

// ReachabilityOutcome returns the HTTP status of a sandbox reachability lookup of addr, and the
// code of the problem if the status is not 200.
//
// The status is 400 mno_not_supported for an address that ends in 99. For other addresses, the last
// digit determines it: 200 if the digit is even, or a, c or e; 412 not_mobile_ip if it is odd, or
// b, d or f. IPv6 addresses are evaluated in expanded form. For the zero Addr, the status is 400
// bad_request.
func ReachabilityOutcome(addr netip.Addr) (status int, code string) {
	addr = addr.Unmap().WithZone("")
	text := addr.StringExpanded()
	for _, rule := range reachabilityRules {
		for suffix := range strings.FieldsSeq(rule.suffixes) {
			if strings.HasSuffix(text, suffix) {
				return rule.status, rule.code
			}
		}
	}
	return http.StatusBadRequest, wire.BadRequest
}

// rule is a row of a sandbox table. It applies to numbers that end in one of the suffixes.
type rule struct {
	suffixes           string
	status             string
	match, noSIMChange idverify.Verdict
	errorCode          string
}

const (
	yes = idverify.VerdictYes
	no  = idverify.VerdictNo
)

// Sandbox results by suffix. The first row with a matching suffix applies, so rows with two digits
// come first.
var (
	phoneCheckRules = []rule{
		{suffixes: "00 55 99", status: wire.StatusError, match: no, errorCode: idverify.ErrorCodeMNOServerError},
		{suffixes: "0 2 4 6 8", status: wire.StatusCompleted, match: yes},
		{suffixes: "1 3 5 7 9", status: wire.StatusCompleted, match: no},
	}
	simCheckRules = []rule{
		{suffixes: "99", status: wire.StatusError, errorCode: idverify.ErrorCodeMNOServerError},
		{suffixes: "0 1 2 3 4", status: wire.StatusCompleted, noSIMChange: yes},
		{suffixes: "5 6 7 8 9", status: wire.StatusCompleted, noSIMChange: no},
	}
	subscriberCheckRules = []rule{
		{suffixes: "00 55 99", status: wire.StatusError, match: no, errorCode: idverify.ErrorCodeMNOServerError},
		{suffixes: "0 2 4", status: wire.StatusCompleted, match: yes, noSIMChange: yes},
		{suffixes: "6 8", status: wire.StatusCompleted, match: yes, noSIMChange: no},
		{suffixes: "1 3 5 7 9", status: wire.StatusCompleted, match: no},
	}
	reachabilityRules = []struct {
		suffixes string
		status   int
		code     string
	}{
		{"99", http.StatusBadRequest, wire.MNONotSupported},
		{"0 2 4 6 8 a c e", http.StatusOK, ""},
		{"1 3 5 7 9 b d f", http.StatusPreconditionFailed, wire.NotMobileIP},
	}
)

// Values of `as`, the choice of a phone that opens a Check URL. The others are error codes.
const (
	asPhone    = "phone"     // the number's phone
	asOtherSIM = "other_sim" // a phone with another SIM
	asOffline  = "offline"   // a phone without a connection, which cannot open the Check URL
)

// choice is a result that a phone can choose in place of that of the number.
type choice struct {
	as, title   string
	description string // of an error, also the error_description of a redirect
	result      rule
}

// choices contains each result of a PhoneCheck, and each error code.
var choices = []choice{
	{asPhone, "This is the phone", "The mobile network confirms the number.", rule{status: wire.StatusCompleted, match: yes}},
	{asOtherSIM, "Another SIM", "The SIM in use has another number.", rule{status: wire.StatusCompleted, match: no}},
	{asOffline, "Network down", "The phone cannot open the check. It expires now.", rule{status: wire.StatusExpired}},
	failure(idverify.ErrorCodeNotMobileIP, "On Wi-Fi", "The device is not connected to a mobile network."),
	failure(idverify.ErrorCodeMNONotSupported, "Unsupported network", "The mobile network is not supported."),
	failure(idverify.ErrorCodeMNOTimeout, "Network timeout", "The mobile network did not respond in time."),
	failure(idverify.ErrorCodeMNOUserNotFound, "Unknown subscriber", "The mobile network does not know the subscriber."),
	failure(idverify.ErrorCodeMNOResponseError, "Invalid response", "The mobile network returned an invalid response."),
	failure(idverify.ErrorCodeMNOServerError, "Network failure", "The mobile network failed."),
	failure(idverify.ErrorCodeMNONoDataAvailable, "No data", "The mobile network has no data about the number."),
	failure(idverify.ErrorCodeIPMismatch, "Another address", "The Check URL was opened from another address than that of phone_ip."),
	failure(idverify.ErrorCodeIPMSISDNMismatch, "Address of another number", "The address does not belong to the number."),
}

// failure returns a choice with status ERROR.
func failure(code, title, description string) choice {
	return choice{code, title, description, rule{status: wire.StatusError, match: no, errorCode: code}}
}

// choiceNamed returns the choice with the given name, or nil.
func choiceNamed(as string) *choice {
	i := slices.IndexFunc(choices, func(c choice) bool { return c.as == as })
	if i < 0 {
		return nil
	}
	return &choices[i]
}

// chosenResult returns the result of a check whose Check URL is opened with a choice. NoSIMChange
// still comes from the number if the number matches.
func chosenResult(ck *check, as string) *rule {
	chosen := choiceNamed(as).result
	if ck.product.period && chosen.match == yes {
		chosen.noSIMChange = yes
		if row := decide(ck.product.rules, ck.phone); row.match == yes {
			chosen.noSIMChange = row.noSIMChange
		}
	}
	return &chosen
}

// errorDescription returns the error_description of a redirect with an error code.
func errorDescription(code string) string {
	if c := choiceNamed(code); c != nil {
		return c.description
	}
	return "The mobile network returned no result."
}

// decide returns the first rule that matches a number.
func decide(rules []rule, number string) rule {
	for _, rule := range rules {
		for suffix := range strings.FieldsSeq(rule.suffixes) {
			if strings.HasSuffix(number, suffix) {
				return rule
			}
		}
	}
	return rule{status: wire.StatusError, errorCode: idverify.ErrorCodeMNOServerError}
}

func (r rule) outcome() Outcome {
	return Outcome{Status: idverify.CheckStatus(r.status), Match: r.match, NoSIMChange: r.noSIMChange, ErrorCode: r.errorCode}
}

// rule returns the rule with this outcome.
func (o Outcome) rule() rule {
	return rule{status: string(o.Status), match: o.Match, noSIMChange: o.NoSIMChange, errorCode: o.ErrorCode}
}

// verdictField returns v as a field in JSON: nil for VerdictUnknown.
func verdictField(v idverify.Verdict) *bool {
	if v == idverify.VerdictUnknown {
		return nil
	}
	return new(v == yes)
}

// product contains the rules of one product.
type product struct {
	name       string
	rules      []rule
	onCreation bool // the result is determined on creation, without a Check URL
	callbacks  bool
	period     bool // detects SIM changes within a period
}

// products are the products with checks.
var products = []product{
	{name: wire.PhoneCheck, rules: phoneCheckRules, callbacks: true},
	{name: wire.SIMCheck, rules: simCheckRules, onCreation: true, period: true},
	{name: wire.SubscriberCheck, rules: subscriberCheckRules, callbacks: true, period: true},
}

// productNames returns the names of the products for an error: "a, b or c".
func productNames() string {
	names := make([]string, len(products))
	for i, p := range products {
		names[i] = p.name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
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
