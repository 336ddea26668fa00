package sandboxfake

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/signature"
)

// checkView is the JSON form of a check. It refers to the check, so the caller of appendJSON holds
// the mutex.
//
// Protocol: docs/protocol.md, section 4.
type checkView struct {
	*check
	url     string // the Check URL
	balance *money // of the workspace, in the response to the create request
}

func (s *service) checkView(ck *check) *checkView { return &checkView{check: ck, url: s.checkURL(ck)} }

// checkURL returns the Check URL of a check, whether or not it can be opened.
func (s *service) checkURL(ck *check) string {
	return s.url + "/" + ck.product.name + "/" + ck.version + "/checks/" + ck.id + redirectSuffix
}

// redirectSuffix follows the URL of a check in its Check URL.
const redirectSuffix = "/redirect"

// checkSize is about the length of a check in JSON.
const checkSize = 512

func (v *checkView) appendJSON(b []byte) []byte {
	o := openObject(slices.Grow(b, checkSize))
	o.text("check_id", v.id)
	o.text("phone_number", v.phone)
	o.optional("callback_url", v.callbackURL)
	o.optional("reference_id", v.referenceID)
	o.result(v.check)
	if v.product.period {
		o.integer("no_sim_change_period", int(v.period))
		if within := simChangeWithin(v.check); within != 0 {
			o.integer("sim_change_within", within)
		}
	}
	o.charge(v.check)
	if !v.product.onCreation {
		o.integer("ttl", int(checkTTL.Seconds()))
	}
	if v.balance != nil {
		o.amount("snapshot_balance", *v.balance)
	}
	o.cause(v.check)
	o.open("_links")
	if v.status == wire.StatusAccepted {
		o.link("check_url", v.url)
	}
	o.link("self", strings.TrimSuffix(v.url, redirectSuffix))
	o.close()
	return o.end()
}

// checkJSON is the members that checkView.appendJSON writes, for [OpenAPI].
type checkJSON struct {
	CheckID     string `json:"check_id"`
	PhoneNumber string `json:"phone_number"`
	CallbackURL string `json:"callback_url,omitempty"`
	resultJSON
	NoSIMChangePeriod int         `json:"no_sim_change_period,omitempty"`
	SIMChangeWithin   int         `json:"sim_change_within,omitempty"`
	TTL               int         `json:"ttl,omitempty"`
	SnapshotBalance   json.Number `json:"snapshot_balance,omitempty"`
	Links             struct {
		CheckURL *link `json:"check_url,omitempty"`
		Self     link  `json:"self"`
	} `json:"_links"`
}

// callbackJSON is the members that callbackBody writes, for [OpenAPI].
type callbackJSON struct {
	CheckID string `json:"check_id"`
	resultJSON
}

// resultJSON is the members of both.
type resultJSON struct {
	ReferenceID    string      `json:"reference_id,omitempty"`
	Status         string      `json:"status"`
	Match          *bool       `json:"match,omitempty"`
	NoSIMChange    *bool       `json:"no_sim_change,omitempty"`
	ChargeAmount   json.Number `json:"charge_amount"`
	ChargeCurrency string      `json:"charge_currency"`
	CreatedAt      string      `json:"created_at"`
	UpdatedAt      string      `json:"updated_at"`
	NetworkID      string      `json:"network_id,omitempty"`
	ErrorCode      string      `json:"error_code,omitempty"`
}

// result adds the status and the result of a check.
func (o *object) result(ck *check) {
	o.text("status", ck.status)
	o.verdict("match", ck.match)
	o.verdict("no_sim_change", ck.noSIMChange)
}

// charge adds the charge and the times of a check.
func (o *object) charge(ck *check) {
	o.amount("charge_amount", ck.charge)
	o.text("charge_currency", ck.currency)
	o.time("created_at", ck.created)
	o.time("updated_at", ck.updated)
}

// cause adds the operator or the error that determined the result of a check.
func (o *object) cause(ck *check) {
	if ck.status == wire.StatusCompleted {
		o.text("network_id", sandboxNetwork.NetworkID)
	}
	o.optional("error_code", ck.errorCode)
}

// simChangeBuckets are the possible values of sim_change_within, in minutes. The last value means
// more than a year.
var simChangeBuckets = []int{60, 360, 720, 1440, 2880, 4320, 10080, 43200, 129600, 259200, 525600, 525601}

// simChangeWithin returns the bucket for a check. If the SIM was changed, it is the largest bucket
// within the check's period. If not, it is the last bucket. Without a result, it is 0.
func simChangeWithin(ck *check) int {
	last := len(simChangeBuckets) - 1
	switch ck.noSIMChange {
	case yes:
		return simChangeBuckets[last]
	case no:
		i := 0
		for i+1 < last && simChangeBuckets[i+1] <= int(ck.period) {
			i++
		}
		return simChangeBuckets[i]
	}
	return 0
}

// callbackBody returns the body of a check's callback. The body is not part of a web page, so
// escaping HTML would only make it longer.
//
// Protocol: docs/protocol.md, section 6.
func callbackBody(ck *check) []byte {
	o := openObject(make([]byte, 0, checkSize))
	o.rawHTML = true
	o.text("check_id", ck.id)
	o.optional("reference_id", ck.referenceID)
	o.result(ck)
	o.charge(ck)
	o.cause(ck)
	return o.end()
}

// openedView is the response to a device that opens a Check URL, as JSON or as query parameters of
// a redirect.
type openedView struct {
	CheckID          string `json:"check_id"`
	ReferenceID      string `json:"reference_id,omitempty"` // not in a redirect
	Code             string `json:"code,omitempty"`
	Error            string `json:"error,omitempty"`
	ErrorDescription string `json:"error_description,omitempty"`
}

// redirect adds the fields of v to the query of target and returns the signed URL.
func (v openedView) redirect(target string, signer *signature.Signer) (string, error) {
	u := browserURL(target)
	if u == nil {
		return "", errors.New("invalid redirect URL")
	}
	params := []string{u.RawQuery}
	if u.RawQuery == "" {
		params = nil
	}
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+"="+strings.ReplaceAll(url.QueryEscape(value), "+", "%20"))
		}
	}
	add("check_id", v.CheckID)
	add("code", v.Code)
	add("error", v.Error)
	add("error_description", v.ErrorDescription)
	u.RawQuery = strings.Join(params, "&")
	if err := signer.SignRedirect(u); err != nil {
		return "", err
	}
	return u.String(), nil
}
