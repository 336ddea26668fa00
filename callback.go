package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// Callback is what the service says of a check that has ended (specification, section 6). It is the only record of a check that ended as EXPIRED or ERROR.
//
// A verified one need not be about a check of yours: another customer of the service can create a check with your callback URL, and the service signs its callback for your host. Act only on a CheckID that you stored when Create returned, with its Product.
//
// The service may send one more than once: handle it by CheckID, so that a second time does no harm.
type Callback struct {
	Product     Product // of a kind that this package does not know, its name, and perhaps nothing below but Body
	CheckID     string
	Status      CheckStatus // look here first: a PhoneCheck in ERROR has Match false
	Match       *bool       // nil when it does not apply, which is not false
	NoSIMChange *bool       // of a SubscriberCheck; nil when it does not apply: without a match, and in ERROR

	ChargeAmount   json.Number // decimal
	ChargeCurrency string      // for example "API"
	CreatedAt      time.Time
	UpdatedAt      time.Time
	NetworkID      string // when COMPLETED
	ErrorCode      string // when ERROR, for example "mno_timeout"
	ReferenceID    string // given on creation by whoever made the check, so decide nothing by it: CheckID tells whether it was you

	Body []byte // as it was signed
}

// ParseCallback reads a verified callback: what [signature.Verifier.VerifyCallback] returns. [CallbackHandler] does both.
//
// A body that is not a check's is an error for the kinds phone_check and subscriber_check. Of another kind, such as a webhook to come, what can be read is read.
// The error does not repeat the body.
func ParseCallback(m *signature.Message) (*Callback, error) {
	if m == nil {
		return nil, errors.New("idverify: parse callback: the message is nil")
	}
	c := &Callback{Product: productOf(m.Kind), Body: m.Body}
	known := c.Product == ProductPhoneCheck || c.Product == ProductSubscriberCheck

	var j checkJSON
	err := json.Unmarshal(m.Body, &j)
	if err == nil {
		err = j.valid()
	}
	if err != nil && known {
		return nil, fmt.Errorf("idverify: parse callback of kind %s: unusable body: %s", c.Product, decodeReason(err))
	}
	c.CheckID = j.CheckID
	c.Status = j.Status
	c.Match = j.Match
	c.NoSIMChange = j.NoSIMChange
	c.ChargeAmount = j.ChargeAmount
	c.ChargeCurrency = j.ChargeCurrency
	c.CreatedAt = j.CreatedAt.Time
	c.UpdatedAt = j.UpdatedAt.Time
	c.NetworkID = j.NetworkID
	c.ErrorCode = j.ErrorCode
	c.ReferenceID = j.ReferenceID
	return c, nil
}

// CallbackHandler returns the handler for your callback URL: it verifies each callback with v and passes it to handle, whose context is the request's.
//
//	400  the callback does not verify; the service does not send it again
//	503  it cannot be verified now; the service sends it again
//	204  handle returned nil
//	500  handle returned an error or panicked, or a verified body cannot be read; the service sends it again, at most six times in all
//
// So return an error when the callback could not be stored, and nil when it was stored before. A kind that this package does not know is passed on like the others.
//
// handle decides whether the check is yours (see [Callback]). A CheckID that is not stored may be one whose Create is just returning: return an error while CreatedAt is young, so that it comes again, and nil afterwards, without acting on it.
//
// handle is called concurrently and must return within ten seconds, the service's time-out, after which it does not try again.
//
// What is answered with 400, 503 or 500 is logged, with the reason, to VerifierOptions.Logger, and nowhere without it.
//
// Specification: sections 5.3 and 6.
func CallbackHandler(v *signature.Verifier, handle func(context.Context, *Callback) error) http.Handler {
	return v.CallbackHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer respondToPanic(w)
		m, _ := signature.MessageFromContext(r.Context())
		c, err := ParseCallback(m)
		if err == nil {
			err = handle(r.Context(), c)
		}
		if err != nil {
			v.Logger().ErrorContext(r.Context(), "idverify: callback not handled", slog.String("kind", m.Kind), slog.String("check_id", checkID(c)), slog.String("error", err.Error()))
			// Nothing of err: it is ours, not the service's.
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

// checkID is that of a callback that could be read, for the log.
func checkID(c *Callback) string {
	if c == nil {
		return ""
	}
	return c.CheckID
}

// respondToPanic answers 500 and lets the panic go on. Without the answer net/http would cut the connection, and after that the service does not try again.
func respondToPanic(w http.ResponseWriter) {
	p := recover()
	if p == nil {
		return
	}
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	_ = http.NewResponseController(w).Flush()
	panic(p)
}
