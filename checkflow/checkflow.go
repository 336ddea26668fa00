package checkflow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/signature"
)

// Limits of a Flow and of the steps of a return.
const (
	maxData    = 4 << 10
	maxAccount = 256
	maxCheckID = 256
	maxCode    = 1 << 10
	// maxReferenceID is the limit of the service.
	maxReferenceID = 1 << 10

	storeTimeout   = 5 * time.Second
	serviceTimeout = 10 * time.Second

	// usualTTL is the lifetime of a check whose TTL is not known.
	usualTTL = 2 * time.Minute
	// maxTTL limits the TTL that the service reports. A longer one is not plausible.
	maxTTL = 24 * time.Hour
	// extraTTL keeps a flow after its check has expired, so that a late return is explained.
	extraTTL = time.Minute
)

// Config configures [NewWeb] and [NewApp]. Client, Store and Allow are required, and for a Web also
// Verifier, RedirectURL and StartPage.
type Config struct {
	// Client creates and completes the checks, with version v0.2 of PhoneCheck, regardless of the
	// version that Client uses. With idverify.WithLiveOnly, Start returns idverify.ErrSandbox for a
	// sandbox project.
	Client *idverify.Client

	// Store contains the flows. Processes that serve the same pages or the same app must share it:
	// otherwise another browser that returns to another process does not revoke the flow.
	Store Store

	// Purpose names what a verdict permits, for example "sign-in". A check can be completed only for
	// the purpose of its Start. Set it to different values if several Apps share a Store: otherwise
	// each of them accepts the checks of the others. For a Web, RedirectURL is part of the purpose.
	Purpose string

	// Allow returns ErrNotAllowed, or an error that wraps it, if r must not start a check of number,
	// whose digits are normalized. Start calls it before each check, because each one is charged.
	//
	// Limit the checks of a number and also those of an address: with a limit of the number alone,
	// anyone can use up the checks of another person. Offer such a person a second way to sign in.
	//
	// Any other error means that Allow failed. Start does not log the text of an error of Allow, which
	// may contain personal data. The error of Start matches it by errors.Is.
	Allow func(r *http.Request, number string) error

	// Account returns the ID of the account that is signed in, or "" if there is none. Set it to
	// verify the number of a signed-in account. Start then requires an account, and there is no
	// verdict unless the same account is signed in at the return. By default a flow has no account.
	Account func(r *http.Request) string

	// Create creates a check with client, which uses version v0.2. The default is
	// client.PhoneChecks.Create. Inbox.CreatePhoneCheck of module inbox also records the check.
	Create func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error)

	// CallbackURL is the default of StartParams.Check.CallbackURL, for example the URL of
	// Inbox.Handler of module inbox. If both are empty, the service uses the callback URL of the
	// project.
	CallbackURL string

	// Logger receives why a check was not started, and why a return has no verdict. Level error means
	// that Allow, the store or the service failed; a sender can cause everything else. No record
	// contains a number, an address, a code or a token. By default nothing is logged.
	Logger *slog.Logger

	// Verifier verifies the redirects to RedirectURL. Its replay store is not used: a Flow already
	// rejects copies of a redirect, and Return must see a copy in another browser to revoke the flow.
	Verifier *signature.Verifier

	// RedirectURL is the URL of Web.Return. Its scheme is https, or http for localhost and loopback
	// addresses.
	RedirectURL string

	// StartPage is the URL or the path of the page on which people start. Return redirects there, with
	// the Reason in the query parameter "reason", if there is no result to report or your function
	// returns "".
	StartPage string
}

// Result is the result of a check that the owner of its flow has completed.
type Result struct {
	Verdict   idverify.Verdict // of the service; unknown unless the session that started the check made the only exchange
	Reason    Reason           // why Verdict is not yes: empty only if it is yes
	ErrorCode string           // of the service if Reason is ReasonEnded, for example idverify.ErrorCodeNotMobileIP; may be empty

	CheckID     string
	PhoneNumber string // the number that Start got, digits only; not verified unless Verdict is yes
	Account     string // the account that Start got from Config.Account: attach the number to this account
	Data        string // StartParams.Data
}

// StartParams contains the parameters of [Web.Start] and [App.Start].
type StartParams struct {
	// Check describes the check. Its RedirectURL must be empty or Config.RedirectURL. For an App, set
	// PhoneIP unless the Check URL leads to an app link: otherwise a page in the browser of a victim
	// may read the code.
	Check idverify.PhoneCheckParams

	// Data is stored and returned in the Result. It has at most 4 KiB.
	Data string
}

// Reason is why the verdict is not yes. A person can start again after any of them.
type Reason string

// The reasons. [Web.Return] passes ReasonNoMatch, ReasonEnded, ReasonCodeRejected,
// ReasonAccountChanged and ReasonUnavailable to your function, and redirects for the others.
// [App.Exchange] can return any of them.
const (
	ReasonNoMatch        Reason = "no_match"        // the verdict is no: another device has the number
	ReasonEnded          Reason = "ended"           // the check ended without a result: see Result.ErrorCode
	ReasonCodeRejected   Reason = "code_rejected"   // the code is wrong or was used, or the check has expired
	ReasonAccountChanged Reason = "account_changed" // another account is signed in than at Start
	ReasonUnavailable    Reason = "unavailable"     // the service, the store or the key set failed, or a response was lost
	ReasonInvalid        Reason = "invalid"         // the redirect is invalid or too old, or Exchange got a request that Start would reject
	ReasonNotFound       Reason = "not_found"       // the flow has expired, or checkflow did not start this check
	ReasonOtherSession   Reason = "other_session"   // another session started the check
	ReasonRevoked        Reason = "revoked"         // another browser returned before
	ReasonRepeated       Reason = "repeated"        // the session has returned before
)

// ErrNotAllowed means that Start got a request that is not a POST, comes from a page of another
// origin, has no account or a short token, or is rejected by Config.Allow.
var ErrNotAllowed = errors.New("not allowed")

// StatusCode returns the HTTP status for an error of Start: 403 for [ErrNotAllowed], 400 if
// StartParams are invalid, 422 if the person can enter another number or change the network, and
// otherwise 503.
func StatusCode(err error) int {
	if errors.Is(err, ErrNotAllowed) {
		return http.StatusForbidden
	}
	if _, failed := errors.AsType[*allowError](err); failed {
		return http.StatusServiceUnavailable
	}
	if _, rejected := errors.AsType[*idverify.Error](err); !rejected && errors.Is(err, idverify.ErrBadRequest) {
		return http.StatusBadRequest
	}
	for _, target := range []error{idverify.ErrPhoneFormat, idverify.ErrIPMismatch, idverify.ErrNotMobileIP, idverify.ErrNetworkNotSupported} {
		if errors.Is(err, target) {
			return http.StatusUnprocessableEntity
		}
	}
	return http.StatusServiceUnavailable
}

// allowError is an error of Config.Allow without its text.
type allowError struct{ cause error }

// Error implements error.
func (e *allowError) Error() string {
	if errors.Is(e.cause, ErrNotAllowed) {
		return ErrNotAllowed.Error() + ": rejected by Config.Allow"
	}
	return "Config.Allow failed (log its error in Allow)"
}

// Is reports whether the cause matches target. There is no Unwrap: its result would be printed.
func (e *allowError) Is(target error) bool { return errors.Is(e.cause, target) }

// binder binds checks to sessions, for a Web or an App.
type binder struct {
	Config
	client *idverify.Client // uses version v0.2
	kind   string           // makes the owners of web and app flows differ
	origin *http.CrossOriginProtection
}

// newBinder validates the fields that Web and App have in common, and sets the defaults.
func newBinder(kind string, c Config) (*binder, error) {
	switch {
	case c.Client == nil:
		return nil, errors.New("Config.Client is nil (set it to a client of the project)")
	case c.Store == nil:
		return nil, errors.New("Config.Store is nil (set it, for one process to NewMemoryStore(0))")
	case c.Allow == nil:
		return nil, errors.New("Config.Allow is nil (set it to a function that limits the checks of a number and an address)")
	case c.CallbackURL != "" && !isCallbackURL(c.CallbackURL):
		return nil, errors.New("Config.CallbackURL is not an absolute URL (set it to the https URL of your callback handler)")
	}
	if c.Create == nil {
		c.Create = func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
			return client.PhoneChecks.Create(ctx, p)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &binder{
		Config: c,
		client: c.Client.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}),
		kind:   kind,
		origin: http.NewCrossOriginProtection(),
	}, nil
}

// isCallbackURL reports whether text is an absolute URL without user and fragment.
func isCallbackURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.Fragment == ""
}

// owner returns the hash that identifies the session with token in a Store. It also depends on the
// purpose and the redirect URL.
func (b *binder) owner(token string) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %q %q %s", b.kind, b.RedirectURL, b.Purpose, token))
}

// start creates a check that belongs to the session with token. It returns the lifetime of the
// flow.
func (b *binder) start(r *http.Request, token string, p StartParams) (*idverify.PhoneCheck, time.Duration, error) {
	f, err := b.allowed(r, token, &p)
	if err != nil {
		return nil, 0, b.notStarted(r, err)
	}
	check, ttl, err := b.create(detach(r), f, p.Check)
	if err != nil {
		var more []slog.Attr
		if check != nil {
			more = append(more, slog.String("check_id", check.CheckID))
		}
		return nil, 0, b.notStarted(r, err, more...)
	}
	return check, ttl, nil
}

// notStarted logs why Start fails, and returns the error of Start.
func (b *binder) notStarted(r *http.Request, err error, more ...slog.Attr) error {
	err = fmt.Errorf("checkflow: start: %w", redacted(err))
	level := slog.LevelWarn
	if StatusCode(err) == http.StatusServiceUnavailable && !errors.Is(err, context.Canceled) { // a client can disconnect
		level = slog.LevelError
	}
	b.Logger.LogAttrs(r.Context(), level, "checkflow: check not started", append(more, slog.String("error", err.Error()))...)
	return err
}

// checkRequest returns an error if r is not a POST, or comes from a page of another origin.
func (b *binder) checkRequest(r *http.Request) error {
	if r.Method != http.MethodPost {
		return fmt.Errorf("%w: the method is not POST", ErrNotAllowed)
	}
	if err := b.origin.Check(r); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	return nil
}

// allowed returns the new flow, without its check, and completes p.Check. It returns an error if r
// may not start it.
func (b *binder) allowed(r *http.Request, token string, p *StartParams) (Flow, error) {
	if err := b.checkRequest(r); err != nil {
		return Flow{}, err
	}
	switch {
	case p.Check.RedirectURL != "" && p.Check.RedirectURL != b.RedirectURL:
		return Flow{}, fmt.Errorf("%w: RedirectURL is set (use Config.RedirectURL)", idverify.ErrBadRequest)
	case len(p.Data) > maxData:
		return Flow{}, fmt.Errorf("%w: Data is longer than %d bytes", idverify.ErrBadRequest, maxData)
	case len(p.Check.ReferenceID) > maxReferenceID:
		return Flow{}, fmt.Errorf("%w: ReferenceID is longer than %d bytes", idverify.ErrBadRequest, maxReferenceID)
	}
	number, err := idverify.NormalizePhoneNumber(p.Check.PhoneNumber)
	if err != nil {
		return Flow{}, err
	}
	f := Flow{Owner: b.owner(token), State: StateStarted, PhoneNumber: number, Data: p.Data}
	if b.Account != nil {
		f.Account = b.Account(r)
		if f.Account == "" || len(f.Account) > maxAccount {
			return Flow{}, fmt.Errorf("%w: Config.Account returned no account, or more than %d bytes", ErrNotAllowed, maxAccount)
		}
	}
	if err := b.Allow(r, number); err != nil {
		return Flow{}, &allowError{err}
	}
	p.Check.PhoneNumber, p.Check.RedirectURL = number, b.RedirectURL
	p.Check.CallbackURL = cmp.Or(p.Check.CallbackURL, b.CallbackURL)
	return f, nil
}

// create creates the check of f and stores f. With an error, it returns the check if one with a
// valid ID was created, and so may have been charged.
func (b *binder) create(ctx context.Context, f Flow, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, time.Duration, error) {
	if err := withTimeout(ctx, storeTimeout, b.Store.Available); err != nil {
		return nil, 0, fmt.Errorf("no check was created: %w", err)
	}
	// A check that Create returns after the deadline is used, too: it exists and was charged. Create
	// may have stored it after the service had responded.
	createCtx, cancel := context.WithTimeout(ctx, serviceTimeout)
	defer cancel()
	check, err := b.Create(createCtx, b.client, p)
	switch {
	case err != nil:
		return nil, 0, err
	case check == nil || !validText(check.CheckID, maxCheckID) || check.CheckURL == "":
		return nil, 0, errors.New("the created check has no Check URL or an unusable ID")
	case !hasNumber(check, f.PhoneNumber):
		return check, 0, errors.New("the created check has another number (Config.Create must create a check of p.PhoneNumber)")
	}
	f.CheckID = check.CheckID
	ttl := check.TTL
	if ttl <= 0 || ttl > maxTTL {
		ttl = usualTTL
	}
	ttl += extraTTL
	err = withTimeout(ctx, storeTimeout, func(ctx context.Context) error { return b.Store.Add(ctx, f, ttl) })
	if err != nil {
		return check, 0, fmt.Errorf("the check was created, but cannot be completed: %w", err)
	}
	return check, ttl, nil
}

// claim claims the flow of p.CheckID for the session with p.Token. It returns the reason if the
// code must not be exchanged, and logs it with message. If ended is set, the check has ended
// without a code.
func (b *binder) claim(ctx context.Context, message string, p ExchangeParams, ended, revoke bool) (f Flow, reason Reason) {
	var err error
	switch {
	case !ended && !validText(p.Code, maxCode):
		reason = ReasonCodeRejected
	case !validText(p.CheckID, maxCheckID):
		reason = ReasonNotFound
	default:
		err = withTimeout(ctx, storeTimeout, func(ctx context.Context) (err error) {
			f, reason, err = b.Store.Claim(ctx, p.CheckID, b.owner(p.Token), revoke)
			return err
		})
	}
	if err != nil {
		f, reason = Flow{}, ReasonUnavailable
	}
	var more []slog.Attr
	if b.kind == "web" {
		more = append(more, slog.Bool("cookie_sent", p.Token != ""))
	}
	switch reason {
	case "":
	case ReasonOtherSession, ReasonRepeated, ReasonRevoked:
		b.log(ctx, message, p.CheckID, reason, nil, more...)
	default: // the ID may be any text of a request, which does not belong in the log
		b.log(ctx, message, "", reason, err)
	}
	return f, reason
}

// complete exchanges the code of a claimed flow and finishes the flow. It reports whether the
// result can be reported; otherwise only its Reason is valid.
func (b *binder) complete(r *http.Request, f Flow, code, errorCode string) (Result, bool) {
	ctx := detach(r)
	result := Result{CheckID: f.CheckID, PhoneNumber: f.PhoneNumber, Account: f.Account, Data: f.Data}
	var err error
	switch {
	case b.Account != nil && b.Account(r) != f.Account:
		result.Reason = ReasonAccountChanged
	case errorCode != "":
		result.Reason, result.ErrorCode = ReasonEnded, errorCode
	default:
		err = b.exchange(ctx, &result, code)
	}
	if result.Verdict == idverify.VerdictUnknown {
		b.log(ctx, "checkflow: no verdict", f.CheckID, result.Reason, err)
	}

	finished := false
	err = withTimeout(ctx, storeTimeout, func(ctx context.Context) (err error) {
		finished, err = b.Store.Finish(ctx, f.CheckID)
		return err
	})
	rejected := Result{Reason: ReasonRevoked}
	switch {
	case err == nil && finished:
		return result, true
	case err != nil:
		rejected.Reason = ReasonUnavailable
	}
	b.log(ctx, "checkflow: flow not finished", f.CheckID, rejected.Reason, err)
	return rejected, false
}

// exchange exchanges the code, and sets the verdict or the reason of result. The error is for the
// log.
func (b *binder) exchange(ctx context.Context, result *Result, code string) error {
	var check *idverify.PhoneCheck
	err := withTimeout(ctx, serviceTimeout, func(ctx context.Context) (err error) {
		check, err = b.client.PhoneChecks.Complete(ctx, result.CheckID, code)
		return err
	})
	if errors.Is(err, idverify.ErrOutcomeUnknown) {
		// This session owns the check and made its only exchange. If the check is COMPLETED, that
		// exchange completed it.
		b.Logger.WarnContext(ctx, "checkflow: outcome of the exchange unknown", "check_id", result.CheckID, "error", err)
		err = withTimeout(ctx, serviceTimeout, func(ctx context.Context) (err error) {
			check, err = b.client.PhoneChecks.Get(ctx, result.CheckID)
			return err
		})
		if err == nil && check.Status != idverify.StatusCompleted {
			err = errors.New("the code was not exchanged")
		}
	}
	if err == nil && !hasNumber(check, result.PhoneNumber) {
		err = errors.New("the check has another number than its flow")
	}
	switch {
	case errors.Is(err, idverify.ErrNotFound):
		result.Reason = ReasonCodeRejected
	case err != nil:
		result.Reason = ReasonUnavailable
	case check.Match == idverify.VerdictUnknown:
		result.Reason, result.ErrorCode = ReasonEnded, check.ErrorCode
	case check.Match == idverify.VerdictNo:
		result.Verdict, result.Reason = check.Match, ReasonNoMatch
	default:
		result.Verdict = check.Match
	}
	return err
}

// redacted redacts err, unless it is an error of package idverify. These are redacted already, and
// their request IDs may contain digits that look like a phone number.
func redacted(err error) error {
	if t := reflect.TypeOf(err); t.Kind() == reflect.Pointer && t.Elem().PkgPath() == reflect.TypeFor[idverify.Error]().PkgPath() {
		return err
	}
	return redact.Error(err)
}

// log logs a return or an exchange without a verdict. The checkID is empty unless the store has the
// check.
func (b *binder) log(ctx context.Context, message, checkID string, reason Reason, err error, more ...slog.Attr) {
	level := slog.LevelWarn
	attrs := []slog.Attr{slog.String("reason", string(reason))}
	if checkID != "" {
		attrs = append(attrs, slog.String("check_id", checkID))
	}
	attrs = append(attrs, more...)
	if err != nil {
		attrs = append(attrs, slog.String("error", redacted(err).Error()))
	}
	if reason == ReasonUnavailable {
		level = slog.LevelError
	}
	b.Logger.LogAttrs(ctx, level, message, attrs...)
}

// detach returns a context that does not end with r, so that a client that disconnects does not
// interrupt a check between two steps.
func detach(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

// withTimeout calls f with a context that ends after timeout. A response after that time is not
// used.
func withTimeout(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := f(ctx)
	return cmp.Or(err, ctx.Err())
}

// hasNumber reports whether check is one of number, as far as the service reports it.
func hasNumber(check *idverify.PhoneCheck, number string) bool {
	if check.PhoneNumber == "" {
		return true
	}
	got, err := idverify.NormalizePhoneNumber(check.PhoneNumber)
	return err == nil && got == number
}

// validText reports whether text can be an ID or a code of a check, so that it is safe to pass to a
// Store or to the service.
func validText(text string, max int) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return text != "" && len(text) <= max
}
