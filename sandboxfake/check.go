package sandboxfake

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
	"github.com/idverify/idverify-go/sandboxfake/internal/vclock"
	"github.com/idverify/idverify-go/signature"
)

// check is the state of a PhoneCheck, SIMCheck or SubscriberCheck. Keep it small, because a server
// may contain a million checks.
type check struct {
	id                                           string
	seq                                          uint64 // order of creation in the project
	product                                      *product
	project                                      *project
	version                                      string // API version of the create request; determines the flow
	phone, callbackURL, redirectURL, referenceID string
	status, errorCode                            string
	period                                       int32 // in minutes
	match, noSIMChange                           idverify.Verdict
	live                                         bool // the project was live when the check was created
	charge                                       money
	currency                                     string
	created, opened, updated                     time.Time
	expiry                                       *vclock.Event // nil once the check has ended
	code                                         string        // empty unless PENDING
	phoneIP                                      *netip.Addr   // nil without phone_ip or WithPhoneIPCheck
	chosen                                       *rule         // result that the control plane chose, or nil
}

// checkTTL is the time after which an incomplete check expires.
const checkTTL = 120 * time.Second

// checkParams is the body of a create request.
type checkParams struct {
	PhoneNumber *string `json:"phone_number"`
	CallbackURL string  `json:"callback_url"`
	RedirectURL string  `json:"redirect_url"`
	ReferenceID string  `json:"reference_id"`
	PhoneIP     *string `json:"phone_ip"`
	Period      *int    `json:"period"`
}

// maxReferenceID is the maximum length of a reference ID, in bytes. It bounds the size of the
// delivery journal.
const maxReferenceID = 1024

// createCheck handles POST /{product}/{version}/checks.
func (s *service) createCheck(c *call) (any, error) {
	var params checkParams
	if err := c.decode(&params); err != nil {
		return nil, err
	}
	product := c.product()
	ck, err := params.check(product, c.version)
	if err != nil {
		return nil, err
	}
	project := c.credential.project
	if err := s.charge(ck, project); err != nil {
		return nil, err
	}
	now := s.clock.Now()
	project.checkSeq++
	if !s.opts.phoneIPCheck {
		ck.phoneIP = nil
	}
	ck.id, ck.seq, ck.project = s.ids.uuid(product.name, project.id, &project.counter), project.checkSeq, project
	ck.status, ck.created, ck.updated = wire.StatusAccepted, wireTime(now), wireTime(now)
	project.workspace.countUsage(ck)
	s.addHistory(ck)
	c.made, c.noted = ck, s.note(ck, eventCreated, now)
	if product.onCreation {
		s.decideCheck(ck)
	} else {
		ck.expiry = s.clock.Schedule(now.Add(checkTTL), func() { s.finish(ck, rule{status: wire.StatusExpired}) })
	}
	if ck.persists() {
		s.checks[ck.id] = ck
		project.checks[product.name] = append(project.checks[product.name], ck)
	}
	view := s.checkView(ck)
	view.balance = &project.workspace.balance
	return view, nil
}

// check validates the parameters and returns a check.
func (p *checkParams) check(product *product, version string) (*check, error) {
	ck := &check{product: product, version: version, callbackURL: p.CallbackURL, referenceID: p.ReferenceID}
	if p.PhoneNumber == nil {
		return nil, newProblem(wire.BadRequest, "phone_number is missing")
	}
	if ck.phone = strings.TrimPrefix(*p.PhoneNumber, "+"); !validPhoneNumber(ck.phone) {
		return nil, newProblem(wire.PhoneFormatInvalid, "")
	}
	if len(ck.referenceID) > maxReferenceID {
		return nil, newProblem(wire.BadRequest, "reference_id must have at most 1024 bytes")
	}
	if version == wire.V02 {
		ck.redirectURL = p.RedirectURL
	}
	if err := validateURLs(ck.callbackURL, ck.redirectURL); err != nil {
		return nil, err
	}
	if p.PhoneIP != nil {
		addr, err := netip.ParseAddr(*p.PhoneIP)
		if err != nil || addr.Zone() != "" {
			return nil, newProblem(wire.BadRequest, "phone_ip must be an IP address")
		}
		addr = addr.Unmap()
		ck.phoneIP = &addr
	}
	if product.period {
		period := defaultPeriod
		if p.Period != nil {
			period = *p.Period
		}
		if period < minPeriod || period > maxPeriod {
			return nil, newProblem(wire.BadRequest, "period must be from 60 to 540000 minutes")
		}
		ck.period = int32(period)
	}
	return ck, nil
}

// Minimum, maximum and default length, in minutes, of the period in which SIM changes are detected.
const (
	minPeriod     = 60
	maxPeriod     = 540000
	defaultPeriod = 10080
)

// validPhoneNumber reports whether a number has 7 to 15 digits, the first of which is not 0.
func validPhoneNumber(s string) bool {
	return len(s) >= 7 && len(s) <= 15 && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}

// getCheck handles GET /{product}/{version}/checks/{check_id}.
func (s *service) getCheck(c *call) (any, error) {
	ck, err := s.ownCheck(c)
	if err != nil {
		return nil, err
	}
	return s.checkView(ck), nil
}

// checkListing describes lists of checks.
var checkListing = listing[*check]{
	embedded: "checks",
	created:  func(ck *check) time.Time { return ck.created },
	updated:  func(ck *check) time.Time { return ck.updated },
	fields: map[string]rsql.Field[*check]{
		"check_id":        rsql.Text(func(ck *check) string { return ck.id }),
		"phone_number":    rsql.Text(func(ck *check) string { return ck.phone }),
		"reference_id":    rsql.Text(func(ck *check) string { return ck.referenceID }),
		"status":          rsql.Text(func(ck *check) string { return ck.status }),
		"match":           rsql.Bool(func(ck *check) (bool, bool) { return ck.match == yes, ck.match != idverify.VerdictUnknown }),
		"no_sim_change":   rsql.Bool(func(ck *check) (bool, bool) { return ck.noSIMChange == yes, ck.noSIMChange != idverify.VerdictUnknown }),
		"charge_amount":   moneyField(func(ck *check) money { return ck.charge }),
		"charge_currency": rsql.Text(func(ck *check) string { return ck.currency }),
		"created_at":      rsql.Time(func(ck *check) time.Time { return ck.created }),
		"updated_at":      rsql.Time(func(ck *check) time.Time { return ck.updated }),
	},
	view: func(s *service, ck *check) any { return s.checkView(ck) },
}

// listChecks handles GET /{product}/{version}/checks.
func (s *service) listChecks(c *call) (any, error) {
	return listPage(s, c, checkListing, c.credential.project.checks[c.op.Product()])
}

// ownCheck returns the check of the path. Another project's check is also reported as not found, so
// that its existence does not leak.
func (s *service) ownCheck(c *call) (*check, error) {
	ck := s.checks[c.ids["check_id"]]
	if ck == nil || ck.project != c.credential.project || ck.product.name != c.op.Product() {
		return nil, newProblem(wire.CheckNotFound, "")
	}
	return ck, nil
}

// openCheck handles GET /{product}/{version}/checks/{check_id}/redirect, the Check URL. A device
// can open it once.
func (s *service) openCheck(c *call) (any, error) {
	ck := s.checks[c.ids["check_id"]]
	if ck == nil || ck.product.name != c.op.Product() || ck.status != wire.StatusAccepted {
		return nil, newProblem(wire.CheckNotFound, "")
	}
	ck.opened = s.clock.Now()
	switch {
	case c.as != "":
		ck.chosen = chosenResult(ck, c.as)
	case ck.phoneIP != nil && *ck.phoneIP != c.remoteIP():
		ck.chosen = chosenResult(ck, idverify.ErrorCodeIPMismatch)
	}
	if c.noted = s.note(ck, eventOpened, ck.opened); c.noted != nil {
		c.noted.as = c.as
	}
	view := openedView{CheckID: ck.id, ReferenceID: ck.referenceID}
	switch outcome := s.outcome(ck); {
	case ck.version == wire.V01:
		s.finish(ck, outcome)
	case outcome.status == wire.StatusError:
		// A check that has ended has no code.
		s.finish(ck, outcome)
		view.Error, view.ErrorDescription = ck.errorCode, errorDescription(ck.errorCode)
	default:
		ck.code = s.ids.secret("code", ck.project.id, &ck.project.counter)
		ck.status, ck.updated = wire.StatusPending, wireTime(ck.opened)
		view.Code = ck.code
	}
	target := s.redirectURL(ck)
	if target == "" && ck.errorCode == idverify.ErrorCodeNotMobileIP {
		return nil, newProblem(wire.NotMobileIP, "")
	}
	if target == "" {
		return &response{status: http.StatusOK, media: wire.MediaJSON, body: view}, nil
	}
	key, err := s.keys.signingUnder(c.fault)
	if err != nil {
		return nil, err
	}
	return &response{status: http.StatusFound, location: func() (string, error) { return s.signedRedirect(c.r.Context(), ck, view, target, key) }}, nil
}

// redirectURL returns the URL that the device of a check is redirected to, or "" for none.
func (s *service) redirectURL(ck *check) string {
	switch {
	case ck.version == wire.V01:
		return ""
	case ck.redirectURL != "":
		return ck.redirectURL
	}
	return ck.project.products[ck.product.name].redirectURL
}

// completeCheck handles PATCH /{product}/v0.2/checks/{check_id}, which exchanges the code for
// the result.
func (s *service) completeCheck(c *call) (any, error) {
	ck, err := s.ownCheck(c)
	if err != nil {
		return nil, err
	}
	patch, err := c.decodePatch()
	if err != nil {
		return nil, err
	}
	var code string
	if len(patch) != 1 || patch[0].verb != "add" || patch[0].path != "/code" || json.Unmarshal(patch[0].value, &code) != nil {
		return nil, newProblem(wire.BadRequest, `the patch must be [{"op":"add","path":"/code","value":"…"}]`)
	}
	if ck.status != wire.StatusPending || subtle.ConstantTimeCompare([]byte(code), []byte(ck.code)) != 1 {
		return nil, newProblem(wire.CheckNotFound, "check not found, or the code is wrong or already used")
	}
	c.noted = s.note(ck, eventExchanged, s.clock.Now())
	s.decideCheck(ck)
	return s.checkView(ck), nil
}

// outcome returns the result of a check. A choice of the control plane takes precedence. For live
// projects, the function of WithOutcomeFunc determines the result if set. Otherwise, the sandbox
// table does.
func (s *service) outcome(ck *check) rule {
	if ck.chosen != nil {
		return *ck.chosen
	}
	if ck.live && s.opts.outcomeFunc != nil {
		return s.opts.outcomeFunc(idverify.Product(ck.product.name), ck.phone).rule()
	}
	return decide(ck.product.rules, ck.phone)
}

// decideCheck ends a check with its result.
func (s *service) decideCheck(ck *check) { s.finish(ck, s.outcome(ck)) }

// finish sets the final status of a check and queues its callback, in one critical section, so that
// both become visible together.
func (s *service) finish(ck *check, outcome rule) {
	s.clock.Cancel(ck.expiry)
	ck.expiry, ck.code = nil, ""
	ck.status, ck.match, ck.noSIMChange = outcome.status, outcome.match, outcome.noSIMChange
	ck.errorCode = outcome.errorCode
	now := s.clock.Now()
	ck.updated = wireTime(now)
	s.note(ck, endKinds[ck.status], now)
	if !ck.persists() {
		s.removeCheck(ck)
	}
	s.queueCallback(ck)
}

// persists reports whether a check can still be read.
func (c *check) persists() bool {
	return c.status != wire.StatusExpired && c.status != wire.StatusError
}

// removeCheck removes a check from the service and from its project's list.
func (s *service) removeCheck(ck *check) {
	delete(s.checks, ck.id)
	list := ck.project.checks[ck.product.name]
	i, ok := slices.BinarySearchFunc(list, ck.seq, func(c *check, seq uint64) int { return cmp.Compare(c.seq, seq) })
	switch {
	case !ok:
		return
	case i < len(list)/2:
		// Checks usually expire in order of creation, so moving the rest would take long.
		copy(list[1:], list[:i])
		list[0] = nil
		list = list[1:]
	default:
		list = slices.Delete(list, i, i+1)
	}
	ck.project.checks[ck.product.name] = list
}

// charge charges the workspace of p for a check. Checks of sandbox projects are free.
func (s *service) charge(ck *check, p *project) error {
	w := p.workspace
	ck.currency = w.currency
	if p.mode == modeSandbox {
		return nil
	}
	price := s.opts.price(ck.product.name)
	if w.balance < price {
		return newProblem(wire.InsufficientBalance, "")
	}
	w.balance -= price
	ck.charge, ck.live = price, true
	return nil
}

// checkView is the JSON form of a check. It refers to the check, so the caller of appendJSON holds
// the mutex.
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
