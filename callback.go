package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/verifierlog"
	"github.com/idverify/idverify-go/signature"
)

// Callback is a message from the service about a check that has ended.
//
// Get returns [ErrNotFound] for a check that ended as EXPIRED or ERROR: store what its callback
// reports. See [CheckStatus].
//
// A verified callback may be about a check that is not yours: another customer of the service can
// create a check with your callback URL, and the service signs its callback for your host. Act only
// on a CheckID that you stored when Create returned, and check its Product.
//
// The service may send a callback more than once: process each CheckID once.
type Callback struct {
	Product     Product // if it is unknown, fields other than Body may be empty
	CheckID     string
	Status      CheckStatus
	Match       Verdict // unknown unless Status is COMPLETED and Product is known
	NoSIMChange Verdict // known only for a SubscriberCheck whose Match is VerdictYes

	ChargeAmount   json.Number // decimal
	ChargeCurrency string      // for example "API"
	CreatedAt      time.Time
	UpdatedAt      time.Time
	NetworkID      string // only if COMPLETED
	ErrorCode      string // only if ERROR, for example ErrorCodeMNOTimeout
	ReferenceID    string // set by the creator of the check, who may not be you: decide by CheckID instead

	Body []byte // the signed body
}

// ParseCallback decodes a message that [signature.Verifier.VerifyCallback] returned.
// [CallbackHandler] verifies and decodes.
//
// For the products phone_check and subscriber_check it returns an error if the body is not a check.
// For an unknown product, it decodes the fields that it knows, and Match and NoSIMChange are
// unknown. The error does not contain the body.
func ParseCallback(m *signature.Message) (*Callback, error) {
	if m == nil {
		return nil, errors.New("idverify: parse callback: the message is nil")
	}
	c := &Callback{Product: productOf(m.Product), Body: m.Body}
	known := c.Product == ProductPhoneCheck || c.Product == ProductSubscriberCheck

	var j checkJSON
	err := json.Unmarshal(m.Body, &j)
	if err == nil {
		err = j.valid()
	}
	if err != nil && known {
		return nil, fmt.Errorf("idverify: parse callback of product %s: unusable body: %s", c.Product, decodeReason(err))
	}
	c.CheckID = j.CheckID
	c.Status = j.Status
	if known {
		c.Match, c.NoSIMChange = j.verdicts(c.Product)
	}
	c.ChargeAmount = j.ChargeAmount
	c.ChargeCurrency = j.ChargeCurrency
	c.CreatedAt = j.CreatedAt.Time
	c.UpdatedAt = j.UpdatedAt.Time
	c.NetworkID = j.NetworkID
	c.ErrorCode = j.ErrorCode
	c.ReferenceID = j.ReferenceID
	return c, nil
}

// CallbackHandler returns the handler for your callback URL. It verifies each callback with v and
// calls handle with the callback and a context that has the values of the request's context. That
// context ends after 30 seconds. It does not end when the service closes the connection, because
// the service would not send the callback again. CallbackHandler responds as follows:
//
//	204  handle returned nil
//	400  the callback is invalid; the service does not retry
//	503  the callback cannot be verified now; the service retries
//	500  handle returned an error or panicked, or the body of a verified callback is not a check;
//	     the service retries, up to six attempts in all
//
// handle must return an error if it could not store the callback, and nil if the callback is
// already stored. Callbacks of unknown products are passed to it too.
//
// handle must decide whether the check is yours: see [Callback]. If a CheckID is not stored, Create
// may not have returned yet. Return an error while CreatedAt is recent, so that the service
// retries, and nil afterwards, without acting on the callback. The handler of package inbox does
// this with a database.
//
// handle may be called concurrently. It should return within ten seconds, because the service does
// not retry after a timeout.
//
// The reason for a response 400, 500 or 503 is logged to VerifierOptions.Logger, if set. The error
// that handle returns is logged unchanged. A panic of handle is logged and continues after the
// response. Its value is logged only if it is a runtime error.
func CallbackHandler(v *signature.Verifier, handle func(ctx context.Context, c *Callback) error) http.Handler {
	return v.RequireCallback(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := unhandled{logger: verifierlog.FromContext(r.Context()), request: r}
		defer u.respondToPanic(w)
		u.message, _ = signature.MessageFromContext(r.Context())
		var err error
		if u.callback, err = ParseCallback(u.message); err == nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), handleTimeout)
			defer cancel()
			err = handle(ctx, u.callback)
		}
		if err != nil {
			u.log(err.Error())
			// Do not disclose the error to the service.
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

// handleTimeout ends the context of a callback. It is longer than the ten seconds that the service
// waits, because a callback that is stored late is not lost.
const handleTimeout = 30 * time.Second

// unhandled logs a callback that was not handled.
type unhandled struct {
	logger   *slog.Logger
	request  *http.Request
	message  *signature.Message
	callback *Callback // nil if the message could not be parsed
}

func (u *unhandled) log(text string) {
	checkID := ""
	if u.callback != nil {
		checkID = u.callback.CheckID
	}
	u.logger.ErrorContext(u.request.Context(), "idverify: callback not handled",
		slog.String("product", u.message.Product), slog.String("check_id", checkID), slog.String("error", text))
}

// respondToPanic responds with 500 to a panic, logs and continues it.
func (u *unhandled) respondToPanic(w http.ResponseWriter) {
	p := recover()
	if p == nil {
		return
	}
	redact.RespondToPanic(w)
	u.log("panic in " + redact.PanicSite() + ": " + redact.PanicText(p))
	panic(p)
}
