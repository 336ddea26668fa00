package sandboxfake

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/signature"
)

// checkView is the JSON form of a check.
//
// Protocol: docs/protocol.md, section 4.
type checkView struct {
	CheckID           string      `json:"check_id"`
	PhoneNumber       string      `json:"phone_number"`
	CallbackURL       string      `json:"callback_url,omitempty"`
	ReferenceID       string      `json:"reference_id,omitempty"`
	Status            string      `json:"status"`
	Match             *bool       `json:"match,omitempty"`
	NoSIMChange       *bool       `json:"no_sim_change,omitempty"`
	NoSIMChangePeriod int         `json:"no_sim_change_period,omitempty"`
	SIMChangeWithin   int         `json:"sim_change_within,omitempty"`
	ChargeAmount      json.Number `json:"charge_amount"`
	ChargeCurrency    string      `json:"charge_currency"`
	CreatedAt         string      `json:"created_at"`
	UpdatedAt         string      `json:"updated_at"`
	TTL               int         `json:"ttl,omitempty"`
	SnapshotBalance   json.Number `json:"snapshot_balance,omitempty"`
	NetworkID         string      `json:"network_id,omitempty"`
	ErrorCode         string      `json:"error_code,omitempty"`
	Links             checkLinks  `json:"_links"`
}

// checkLinks are the links of a check.
type checkLinks struct {
	CheckURL *link `json:"check_url,omitempty"` // until it is opened
	Self     link  `json:"self"`
}

// link is a HAL link.
type link struct {
	Href string `json:"href"`
}

func (s *service) checkView(ck *check) *checkView {
	self := s.url + "/" + ck.product.name + "/" + ck.version + "/checks/" + ck.id
	v := &checkView{
		CheckID:        ck.id,
		PhoneNumber:    ck.phone,
		CallbackURL:    ck.callbackURL,
		ReferenceID:    ck.referenceID,
		Status:         ck.status,
		Match:          ck.match.bool(),
		NoSIMChange:    ck.noSIMChange.bool(),
		ChargeAmount:   ck.charge.number(),
		ChargeCurrency: ck.currency,
		CreatedAt:      formatTime(ck.created),
		UpdatedAt:      formatTime(ck.updated),
		ErrorCode:      ck.errorCode,
		Links:          checkLinks{Self: link{self}},
	}
	if !ck.product.onCreation {
		v.TTL = int(checkTTL.Seconds())
	}
	if ck.product.period {
		v.NoSIMChangePeriod = int(ck.period)
		v.SIMChangeWithin = simChangeWithin(ck)
	}
	if ck.status == wire.StatusAccepted {
		v.Links.CheckURL = &link{self + "/redirect"}
	}
	if ck.status == wire.StatusCompleted {
		v.NetworkID = sandboxNetwork.NetworkID
	}
	return v
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

// callbackView is the body of a callback.
//
// Protocol: docs/protocol.md, section 6.
type callbackView struct {
	CheckID        string      `json:"check_id"`
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

// callbackBody returns the body of a check's callback.
func (s *service) callbackBody(ck *check) []byte {
	v := s.checkView(ck)
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	// The body is not part of a web page, so escaping would only make it longer.
	encoder.SetEscapeHTML(false)
	// The view contains only values that JSON can represent.
	_ = encoder.Encode(callbackView{
		CheckID: v.CheckID, ReferenceID: v.ReferenceID, Status: v.Status, Match: v.Match, NoSIMChange: v.NoSIMChange,
		ChargeAmount: v.ChargeAmount, ChargeCurrency: v.ChargeCurrency, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		NetworkID: v.NetworkID, ErrorCode: v.ErrorCode,
	})
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// openedView is the response to a device that opens a Check URL, as JSON or as query parameters of
// a redirect.
type openedView struct {
	CheckID          string `json:"check_id"`
	Code             string `json:"code,omitempty"`
	Error            string `json:"error,omitempty"`
	ErrorDescription string `json:"error_description,omitempty"`
}

// redirect adds the fields of v to the query of target and returns the signed URL.
func (v openedView) redirect(target string, signer *signature.Signer) (string, error) {
	u, err := url.Parse(target)
	if err != nil {
		return "", err
	}
	u.Host = browserHost(u)
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
