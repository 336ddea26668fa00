package idverify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func ExampleNewClient() {
	// CredentialsFromEnv reads IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET.
	client, err := idverify.NewClient("https://eu.api.example.com", idverify.CredentialsFromEnv())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.JWKSURL())
}

// Creates a PhoneCheck and waits for its result. The examples use a fake of the service and its
// simulated device.
func ExamplePhoneCheckService_Create() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(), context.Background()

	check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "+44 7700 900-012"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(check.Status)

	// In production, the app on the device opens check.CheckURL.
	if _, err := service.Device().Open(ctx, check.CheckURL); err != nil {
		fmt.Println(err)
		return
	}
	check, err = client.PhoneChecks.Wait(ctx, check.CheckID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("match:", check.Match)
	// Output:
	// ACCEPTED
	// match: yes
}

// In version v0.2, the device returns with a code, which the backend exchanges for the result.
func ExamplePhoneCheckService_Complete() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	ctx := context.Background()
	client := service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))

	check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900001"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Without a redirect URL, the device receives the code as JSON and sends it to the backend.
	visit, err := service.Device().Open(ctx, check.CheckURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	var body struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(visit.Body, &body); err != nil {
		fmt.Println(err)
		return
	}
	check, err = client.PhoneChecks.Complete(ctx, check.CheckID, body.Code)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("match:", check.Match)
	// Output: match: no
}

func ExamplePhoneCheckService_All() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(), context.Background()
	for _, reference := range []string{"first", "second", "third"} {
		if _, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900012", ReferenceID: reference}); err != nil {
			fmt.Println(err)
			return
		}
	}

	for check, err := range client.PhoneChecks.All(ctx, idverify.ListOptions{Size: 2, Sort: "created_at,asc"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(check.ReferenceID, check.Status)
	}
	// Output:
	// first ACCEPTED
	// second ACCEPTED
	// third ACCEPTED
}

// Finds the check of a Create whose response was lost.
func ExamplePhoneCheckService_FindByReferenceID() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(), context.Background()
	service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Drop: true})

	_, err = client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900012", ReferenceID: "sign-up-42-attempt-1"})
	if !errors.Is(err, idverify.ErrOutcomeUnknown) {
		fmt.Println(err)
		return
	}
	// The context of Create is often done: its deadline has passed, or the user has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	checks, err := client.PhoneChecks.FindByReferenceID(ctx, "sign-up-42-attempt-1")
	switch {
	case err != nil:
		fmt.Println("search again later:", err)
	case len(checks) == 0 || checks[0].CheckURL == "": // not listed, or opened or ended
		fmt.Println("send a text message instead") // do not create the check again: it may exist
	default:
		fmt.Println("send the Check URL to the app:", checks[0].ReferenceID, checks[0].Status)
	}
	// Output: send the Check URL to the app: sign-up-42-attempt-1 ACCEPTED
}

func ExampleSIMCheckService_Create() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(), context.Background()

	for _, number := range []string{"447700900001", "447700900007", "447700900099"} {
		check, err := client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: number})
		if err != nil {
			fmt.Println(err)
			return
		}
		switch check.NoSIMChange {
		case idverify.VerdictYes:
			fmt.Println("the SIM has not changed")
		case idverify.VerdictNo:
			fmt.Println("the SIM has changed: ask for another proof")
		default:
			fmt.Println("unknown:", check.Status, check.ErrorCode)
		}
	}
	// Output:
	// the SIM has not changed
	// the SIM has changed: ask for another proof
	// unknown: ERROR mno_server_error
}

func ExampleSubscriberCheckService_Create() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(), context.Background()

	check, err := client.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: "447700900006"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := service.Device().Open(ctx, check.CheckURL); err != nil {
		fmt.Println(err)
		return
	}
	check, err = client.SubscriberChecks.Get(ctx, check.CheckID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("match:", check.Match, "no SIM change:", check.NoSIMChange)
	// Output: match: yes no SIM change: no
}

// Decides by the verdict. Unknown is not a no.
func ExampleVerdict() {
	for _, verdict := range []idverify.Verdict{idverify.VerdictYes, idverify.VerdictNo, idverify.VerdictUnknown} {
		switch verdict {
		case idverify.VerdictYes:
			fmt.Println(verdict, "- signed in")
		case idverify.VerdictNo:
			fmt.Println(verdict, "- another device has this number")
		default:
			fmt.Println(verdict, "- verify in another way")
		}
	}
	// Output:
	// yes - signed in
	// no - another device has this number
	// unknown - verify in another way
}

// Chooses a verification method by the device's IP address.
func ExampleReachabilityService_Lookup() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(), context.Background()

	for _, ip := range []string{"192.0.2.2", "192.0.2.1", "192.0.2.99"} {
		r, err := client.Reachability.Lookup(ctx, netip.MustParseAddr(ip))
		switch {
		case errors.Is(err, idverify.ErrNotMobileIP):
			fmt.Println("ask the user to turn off Wi-Fi")
		case errors.Is(err, idverify.ErrNetworkNotSupported):
			fmt.Println("send a text message instead")
		case err != nil:
			fmt.Println(err)
		case r.Supports(idverify.ProductPhoneCheck):
			fmt.Println("create a PhoneCheck")
		}
	}
	// Output:
	// create a PhoneCheck
	// ask the user to turn off Wi-Fi
	// send a text message instead
}

// Gets a token for reachability only, which may be passed to a device.
func ExampleClient_Token() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()

	token, err := service.Client().Token(context.Background(), idverify.ScopeReachability)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(token.Type(), token.AccessToken != "")
	// Output: Bearer true
}

// Uses version v0.2 for a web page, and v0.1 for an app. Both clients share their access tokens.
func ExampleClient_WithVersions() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	app, ctx := service.Client(), context.Background()
	web := app.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})

	for _, client := range []*idverify.Client{app, web} {
		if _, err := client.PhoneChecks.List(ctx, idverify.ListOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}

	for _, r := range service.Requests() {
		path, _, _ := strings.Cut(r.Path, "?")
		fmt.Println(r.Operation, path)
	}
	// Output:
	// token.create /oauth2/v1/token
	// phone_check.list /phone_check/v0.1/checks
	// phone_check.list /phone_check/v0.2/checks
}

// Creates the verifier of a program in production.
func ExampleClient_NewJWKS() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client := service.Client()

	keys, err := client.NewJWKS(nil) // with the HTTP client, clock and logger of client
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier, err := signature.NewVerifier(keys, []string{"shop.example.com"}, &signature.VerifierOptions{
		Replay: signature.NewMemoryReplayStore(0),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error {
		return nil // store the callback
	}))

	fmt.Println(keys.Refresh(context.Background())) // fetch the keys now
	// Output: <nil>
}

// Receives the result of a check in a signed callback.
func ExampleCallbackHandler() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(), context.Background()

	// In production, use signature.NewVerifier with the key set of client.NewJWKS.
	verifier := service.Verifier([]string{"shop.sandbox.test"}, nil)
	done := make(chan string, 1)
	shop := http.NewServeMux()
	shop.Handle("POST /callbacks", idverify.CallbackHandler(verifier, func(_ context.Context, c *idverify.Callback) error {
		done <- fmt.Sprint(c.Product, " ", c.ReferenceID, ": ", c.Status, ", match: ", c.Match)
		return nil // after an error, the service retries
	}))

	check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{
		PhoneNumber: "447700900055",
		ReferenceID: "sign-up 42",
		CallbackURL: service.Handle("shop.sandbox.test", shop) + "/callbacks",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := service.Device().Open(ctx, check.CheckURL); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-done)
	// Output: phone_check sign-up 42: ERROR, match: unknown
}

// Completes a check with the code of a redirect, if the user's session created the check.
func ExampleRedirectHandler() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	ctx := context.Background()
	client := service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))

	session := make(map[string]bool) // IDs of the checks that this user's session created
	shop := http.NewServeMux()
	shop.Handle("GET /verified", idverify.RedirectHandler(service.Verifier([]string{"shop.sandbox.test"}, nil), func(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
		if !session[redirect.CheckID] {
			http.Error(w, "this check belongs to another session", http.StatusForbidden)
			return
		}
		if redirect.ErrorCode != "" {
			fmt.Fprint(w, "not verified: ", redirect.ErrorCode)
			return
		}
		check, err := client.PhoneChecks.Complete(r.Context(), redirect.CheckID, redirect.Code)
		if err != nil {
			http.Error(w, "please try again later", http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, "verified: ", check.Match)
	}))

	check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{
		PhoneNumber: "447700900012",
		RedirectURL: service.Handle("shop.sandbox.test", shop) + "/verified",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	session[check.CheckID] = true
	visit, err := service.Device().Open(ctx, check.CheckURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(visit.Body))
	// Output: verified: yes
}

// Changes a project: nil fields are left unchanged, and a pointer to "" removes a URL.
func ExampleProjectService_Update() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	projects, ctx := service.Console().Projects, context.Background()
	project, err := projects.Create(ctx, idverify.ProjectParams{
		Name:        "Shop",
		Mode:        idverify.ModeSandbox,
		CallbackURL: "https://shop.example.com/callbacks",
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	project, err = projects.Update(ctx, project.ProjectID, idverify.ProjectUpdate{
		Mode:           new(idverify.ModeLive),
		CallbackURL:    new(""),
		PhoneCheckURLs: idverify.ProductURLsUpdate{CallbackURL: new("https://shop.example.com/phone")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %s %q %s\n", project.Name, project.Mode, project.CallbackURL, project.PhoneCheckURLs.CallbackURL)
	// Output: Shop live "" https://shop.example.com/phone
}

func ExampleError() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()

	_, err = service.Client().PhoneChecks.Get(context.Background(), "no-such-check")
	if e, ok := errors.AsType[*idverify.Error](err); ok {
		fmt.Println(e.Status, e.Code(), errors.Is(err, idverify.ErrNotFound))
	}
	// Output: 404 check_not_found true
}

// The service did not confirm a POST, which it may have processed. ErrOutcomeUnknown is tested
// first, because the error can match another sentinel too.
func ExampleErrOutcomeUnknown() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	service.Inject(sandboxfake.Match{Operation: "sim_check.create"}, sandboxfake.Fault{Status: http.StatusBadGateway})

	_, err = service.Client().SIMChecks.Create(context.Background(), idverify.SIMCheckParams{PhoneNumber: "447700900001"})
	switch {
	case errors.Is(err, idverify.ErrOutcomeUnknown):
		fmt.Println("may have been charged: ask for another proof, do not create the check again")
	case errors.Is(err, idverify.ErrInsufficientBalance):
		fmt.Println("top up")
	case err != nil:
		fmt.Println("not processed:", err)
	}
	// Output: may have been charged: ask for another proof, do not create the check again
}

func ExampleNormalizePhoneNumber() {
	number, err := idverify.NormalizePhoneNumber("+44 (7700) 900-000")
	fmt.Println(number, err)
	_, err = idverify.NormalizePhoneNumber("07700 900000")
	fmt.Println(err)
	// Output:
	// 447700900000 <nil>
	// idverify: normalize phone number: malformed phone number: begins with a zero: start with the country code, as in 44 7700 900012
}

// Decodes credentials from a file or from the value of a secret store.
func ExampleCredentials() {
	stored := []byte(`{"client_id": "5f2c6b1a", "client_secret": "do not print me"}`)

	var credentials idverify.Credentials
	if err := json.Unmarshal(stored, &credentials); err != nil {
		fmt.Println(err)
		return
	}
	client, err := idverify.NewClient("https://eu.api.example.com", credentials)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(credentials, client.JWKSURL())
	// Output: {5f2c6b1a [REDACTED]} https://eu.api.example.com/.well-known/jwks.json
}

// Reports a secret that was stored with the newline of its file.
func ExampleCredentialsFromEnv() {
	os.Setenv("IDVERIFY_CLIENT_ID", "5f2c6b1a")
	os.Setenv("IDVERIFY_CLIENT_SECRET", "do not print me\n")
	defer os.Unsetenv("IDVERIFY_CLIENT_ID")
	defer os.Unsetenv("IDVERIFY_CLIENT_SECRET")

	_, err := idverify.NewClient("https://eu.api.example.com", idverify.CredentialsFromEnv())
	fmt.Println(err)
	// Output: idverify: new client: read credentials from the environment: IDVERIFY_CLIENT_SECRET begins or ends with white space, such as the newline at the end of a file (remove it)
}

func ExampleSecret() {
	secret := idverify.NewSecret("do not print me")
	fmt.Printf("%v %+v\n", secret, idverify.Credentials{ClientID: "a", ClientSecret: secret})
	// Output: [REDACTED] {ClientID:a ClientSecret:[REDACTED]}
}

// Rotates the credentials of a project while a client uses them.
func ExampleCredentialsFunc() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	console, ctx := service.Console(), context.Background()
	project := service.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox})

	// In production, the source reads a file or a secret store.
	stored := project.Credentials
	source := idverify.CredentialsFunc(func(context.Context) (idverify.Credentials, error) { return stored, nil })
	client, err := idverify.NewClient(service.URL(), source, idverify.WithHTTPClient(service.HTTPClient()))
	if err != nil {
		fmt.Println(err)
		return
	}
	params := idverify.SIMCheckParams{PhoneNumber: "447700900012"}
	before, err := client.SIMChecks.Create(ctx, params)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("before:", before.Status)

	// Create, deploy, delete.
	issued, err := console.ProjectCredentials.Create(ctx, project.ProjectID)
	if err != nil {
		fmt.Println(err)
		return
	}
	stored = issued.Credentials
	err = console.ProjectCredentials.Delete(ctx, project.ProjectID, project.Credentials.ClientID)
	if err != nil {
		fmt.Println(err)
		return
	}

	after, err := client.SIMChecks.Create(ctx, params)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("after:", after.Status)
	// Output:
	// before: COMPLETED
	// after: COMPLETED
}

// Logs the request ID and the rate limit of successful attempts.
func ExampleWithObserver() {
	service, err := sandboxfake.Start(sandboxfake.WithRateLimit(3600))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	client := service.Client(idverify.WithObserver(func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
		return ctx, func(a idverify.Attempt) {
			if a.Err == nil && a.RateLimit != nil {
				logger.InfoContext(ctx, "attempt", "operation", a.Operation, "request_id", a.RequestID, "remaining", a.RateLimit.Remaining)
			}
		}
	}))

	if _, err := client.Reachability.LookupCountry(context.Background(), "GB"); err != nil {
		fmt.Println(err)
		return
	}
	// Output: level=INFO msg=attempt operation=reachability.country request_id=6ed78a84-220f-876f-9e1b-6d4487e395dc remaining=3599
}

// withoutTime removes the time of a record, so that the output of the example does not change.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// Limits an attempt to five seconds, and the retries of all operations to one until others succeed.
func ExampleRetryPolicy() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	client, ctx := service.Client(idverify.WithRetry(idverify.RetryPolicy{
		AttemptTimeout: 5 * time.Second,
		Budget:         1,
	})), context.Background()
	service.Inject(sandboxfake.Match{Operation: "reachability.country", Repeat: true}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

	for range 3 {
		if _, err := client.Reachability.LookupCountry(ctx, "GB"); err == nil {
			fmt.Println("the service works")
		}
	}

	attempts := 0
	for _, r := range service.Requests() {
		if r.Operation == "reachability.country" {
			attempts++
		}
	}
	fmt.Println(attempts, "attempts for 3 operations")
	// Output: 4 attempts for 3 operations
}
