package checkflow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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

	storeTimeout   = 5 * time.Second
	serviceTimeout = 10 * time.Second

	// usualTTL is the lifetime of a check whose TTL the service does not report.
	usualTTL = 2 * time.Minute
	// extraTTL keeps a flow after its check has expired, so that a late return is explained.
	extraTTL = time.Minute
)

// Config configures [NewWeb] and [NewApp]. Client, Store and Allow are required, and for a Web also
// Verifier, RedirectURL and StartPage.
type Config struct {
	// Client creates and completes the checks, with version v0.2 of PhoneCheck whatever its own
	// version is. With idverify.WithLiveOnly, Start returns idverify.ErrSandbox for a sandbox project.
	Client *idverify.Client

	// Store contains the flows. Processes that serve the same pages or the same app must share it.
	Store Store

	// Allow returns an error if r must not start a check of number, whose digits are normalized.
	// Start calls it before each check, because each one is charged: limit the checks of a number and
	// of an address.
	Allow func(r *http.Request, number string) error

	// Account returns the ID of the account that is signed in, or "" if there is none. Set it to
	// verify the number of a signed-in account. Start then requires an account, and a check whose
	// account has changed until the return has no verdict. By default a flow has no account.
	Account func(r *http.Request) string

	// Create creates a check with client, which uses version v0.2. The default is
	// client.PhoneChecks.Create. Inbox.CreatePhoneCheck of module inbox also records the check.
	Create func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error)

	// Logger receives why a check was not started, and why a return has no verdict. Level error means
	// that the store or the service failed; a sender can cause everything else. No record contains a
	// number, an address, a code or a token. By default nothing is logged.
	Logger *slog.Logger

	// Verifier verifies the redirects to RedirectURL. Its replay store is not used: a Flow already
	// makes a copy of a redirect useless, and another browser that opens one must be noticed.
	Verifier *signature.Verifier

	// RedirectURL is the URL of Web.Return. Its scheme is https, or http for localhost and loopback
	// addresses.
	RedirectURL string

	// StartPage is the URL or the path of the page on which people start. Return redirects there if
	// there is no result to report, with the Reason in the query parameter "reason".
	StartPage string
}

// Result is the result of a check that the owner of its flow has completed.
type Result struct {
	Verdict   idverify.Verdict // of the service, for the only exchange, by the session that started the check
	Reason    Reason           // why Verdict is unknown, otherwise empty
	ErrorCode string           // of the service if Reason is ReasonEnded, for example idverify.ErrorCodeNotMobileIP; may be empty

	CheckID string
	Number  string // the number that Start got, digits only; not verified unless Verdict is yes
	Data    string // the data that Start got
}

// Reason is why there is no verdict. A person can start again after any of them.
type Reason string

// The reasons. The first four are also those of a [Result] that Return reports.
const (
	ReasonEnded          Reason = "ended"           // the check ended without a result: see Result.ErrorCode
	ReasonCodeRejected   Reason = "code_rejected"   // the code is wrong or was used, or the check has expired
	ReasonAccountChanged Reason = "account_changed" // another account is signed in than at Start
	ReasonUnavailable    Reason = "unavailable"     // the service, the store or the key set failed, or a response was lost
	ReasonInvalid        Reason = "invalid"         // the redirect is invalid or too old
	ReasonNotFound       Reason = "not_found"       // the flow has expired, or checkflow did not start this check
	ReasonOtherSession   Reason = "other_session"   // another session started the check
	ReasonRevoked        Reason = "revoked"         // another browser returned before
	ReasonRepeated       Reason = "repeated"        // the session has returned before
)

// ErrNotAllowed means that Start got a request that is not a POST, comes from a page of another
// origin, has no account or a short token, or is rejected by Config.Allow.
var ErrNotAllowed = errors.New("not allowed")

// StatusCode returns the HTTP status for an error of Start: 403 for [ErrNotAllowed], 422 if the
// person can enter another number or change the network, and otherwise 503.
func StatusCode(err error) int {
	if errors.Is(err, ErrNotAllowed) {
		return http.StatusForbidden
	}
	for _, target := range []error{idverify.ErrPhoneFormat, idverify.ErrIPMismatch, idverify.ErrNotMobileIP, idverify.ErrNetworkNotSupported} {
		if errors.Is(err, target) {
			return http.StatusUnprocessableEntity
		}
	}
	return http.StatusServiceUnavailable
}

// binder binds checks to sessions, for a Web or an App.
type binder struct {
	Config
	client *idverify.Client // uses version v0.2
	kind   string           // makes the owners of web and app flows differ
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
	}
	if c.Create == nil {
		c.Create = func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
			return client.PhoneChecks.Create(ctx, p)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &binder{Config: c, client: c.Client.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}), kind: kind}, nil
}

// owner returns what a Store contains of the token of a session.
func (b *binder) owner(token string) [32]byte { return sha256.Sum256([]byte(b.kind + "\x00" + token)) }

// start creates a check that belongs to the session with token. It returns the lifetime of the
// flow.
func (b *binder) start(r *http.Request, token string, p idverify.PhoneCheckParams, data string) (*idverify.PhoneCheck, time.Duration, error) {
	f, err := b.allowed(r, token, &p, data)
	if err != nil {
		return nil, 0, b.notStarted(r, err)
	}
	check, ttl, err := b.create(detach(r), f, p)
	if err != nil {
		return nil, 0, b.notStarted(r, err)
	}
	return check, ttl, nil
}

// notStarted logs why Start fails, and returns the error of Start.
func (b *binder) notStarted(r *http.Request, err error) error {
	err = fmt.Errorf("checkflow: start: %w", redacted(err))
	level := slog.LevelWarn
	if StatusCode(err) == http.StatusServiceUnavailable {
		level = slog.LevelError
	}
	b.Logger.LogAttrs(r.Context(), level, "checkflow: check not started", slog.String("error", err.Error()))
	return err
}

// allowed returns the new flow, without its check, and normalizes the number in p. It returns an
// error if r may not start it.
func (b *binder) allowed(r *http.Request, token string, p *idverify.PhoneCheckParams, data string) (Flow, error) {
	if r.Method != http.MethodPost {
		return Flow{}, fmt.Errorf("%w: the method is not POST", ErrNotAllowed)
	}
	if p.RedirectURL != "" && p.RedirectURL != b.RedirectURL {
		return Flow{}, fmt.Errorf("%w: RedirectURL is set (use Config.RedirectURL)", idverify.ErrBadRequest)
	}
	if len(data) > maxData {
		return Flow{}, fmt.Errorf("%w: data is longer than %d bytes", idverify.ErrBadRequest, maxData)
	}
	number, err := idverify.NormalizePhoneNumber(p.PhoneNumber)
	if err != nil {
		return Flow{}, err
	}
	f := Flow{Owner: b.owner(token), State: Started, Number: number, Data: data}
	if b.Account != nil {
		f.Account = b.Account(r)
		if f.Account == "" || len(f.Account) > maxAccount {
			return Flow{}, fmt.Errorf("%w: Config.Account returned no account, or more than %d bytes", ErrNotAllowed, maxAccount)
		}
	}
	if err := b.Allow(r, number); err != nil {
		return Flow{}, fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	p.PhoneNumber, p.RedirectURL = number, b.RedirectURL
	return f, nil
}

// create creates the check of f and stores f.
func (b *binder) create(ctx context.Context, f Flow, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, time.Duration, error) {
	if err := withTimeout(ctx, storeTimeout, b.Store.Available); err != nil {
		return nil, 0, fmt.Errorf("no check was created: %w", err)
	}
	var check *idverify.PhoneCheck
	err := withTimeout(ctx, serviceTimeout, func(ctx context.Context) (err error) {
		check, err = b.Create(ctx, b.client, p)
		return err
	})
	switch {
	case err != nil:
		return nil, 0, err
	case check == nil || !validCheckID(check.CheckID) || check.CheckURL == "":
		return nil, 0, errors.New("the created check has no Check URL or an unusable ID")
	}
	f.CheckID = check.CheckID
	ttl := check.TTL
	if ttl <= 0 {
		ttl = usualTTL
	}
	ttl += extraTTL
	err = withTimeout(ctx, storeTimeout, func(ctx context.Context) error { return b.Store.Add(ctx, f, ttl) })
	if err != nil {
		return nil, 0, fmt.Errorf("the check was created, but cannot be completed: %w", err)
	}
	return check, ttl, nil
}

// claim claims the flow of checkID for the session with token. It returns the reason if the code
// must not be exchanged.
func (b *binder) claim(ctx context.Context, checkID, token string, revoke bool) (f Flow, reason Reason) {
	if !validCheckID(checkID) {
		b.log(ctx, "checkflow: return rejected", "", ReasonNotFound, nil)
		return Flow{}, ReasonNotFound
	}
	err := withTimeout(ctx, storeTimeout, func(ctx context.Context) (err error) {
		f, reason, err = b.Store.Claim(ctx, checkID, b.owner(token), revoke)
		return err
	})
	if err != nil {
		f, reason = Flow{}, ReasonUnavailable
	}
	if reason != "" {
		b.log(ctx, "checkflow: return rejected", checkID, reason, err)
	}
	return f, reason
}

// complete exchanges the code of a claimed flow and finishes the flow. It reports whether the
// result can be reported; otherwise only its Reason is valid.
func (b *binder) complete(r *http.Request, f Flow, code, errorCode string) (Result, bool) {
	ctx := detach(r)
	result := Result{CheckID: f.CheckID, Number: f.Number, Data: f.Data}
	var err error
	switch {
	case b.Account != nil && b.Account(r) != f.Account:
		result.Reason = ReasonAccountChanged
	case errorCode != "":
		result.Reason, result.ErrorCode = ReasonEnded, errorCode
	default:
		err = b.exchange(ctx, &result, code)
	}
	if result.Reason != "" {
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
	switch {
	case errors.Is(err, idverify.ErrNotFound):
		result.Reason = ReasonCodeRejected
	case err != nil:
		result.Reason = ReasonUnavailable
	case check.Match == idverify.VerdictUnknown:
		result.Reason, result.ErrorCode = ReasonEnded, check.ErrorCode
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

// log logs a return without a verdict.
func (b *binder) log(ctx context.Context, message, checkID string, reason Reason, err error) {
	level := slog.LevelWarn
	attrs := []slog.Attr{slog.String("check_id", checkID), slog.String("reason", string(reason))}
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

// validCheckID reports whether id can be the ID of a check, so that it is safe to pass to a Store.
func validCheckID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return id != "" && len(id) <= maxCheckID
}
