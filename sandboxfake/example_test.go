package sandboxfake_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestExample_Synctest(t *testing.T) {
	t.Parallel()
	synctest.SkipInFIPSMode(t) // the example has the imports of a user's test and cannot skip itself
	testExpiredCheckCallback(t)
}

// start starts a server for an example, as New does in a test. Its frozen clock makes the output
// reproducible.
func start(opts ...sandboxfake.Option) *sandboxfake.Server {
	srv, err := sandboxfake.Start(append([]sandboxfake.Option{sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt)}, opts...)...)
	if err != nil {
		log.Fatal(err)
	}
	return srv
}

// open creates a check, opens its Check URL with a device, and returns the check's ID.
func open(srv *sandboxfake.Server, number, callbackURL string) string {
	ctx := context.Background()
	check, err := srv.Client().PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: callbackURL})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := srv.Device().Open(ctx, check.CheckURL); err != nil {
		log.Fatal(err)
	}
	return check.CheckID
}

func ExampleNew() {
	// In a test file: func TestSignUp(t *testing.T).
	test := func(t *testing.T) {
		srv := sandboxfake.New(t)
		client := srv.Client()
		check, err := client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900019"})
		if err != nil {
			t.Fatal(err)
		}
		if got := check.NoSIMChange; got != idverify.VerdictNo {
			t.Errorf("NoSIMChange = %s, want no for a number that ends in 9", got)
		}
	}
	_ = test
}

// Use Start in programs and in tests that share a server.
func ExampleStart() {
	ctx := context.Background()
	srv, err := sandboxfake.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	client, err := idverify.NewClient(srv.URL(), srv.Credentials(), idverify.WithHTTPClient(srv.HTTPClient()))
	if err != nil {
		log.Fatal(err)
	}
	check, err := client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: "447700900012"})
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(check.Status, check.NoSIMChange)
	// Output: COMPLETED yes
}

func ExampleServer_Handle() {
	srv := start()
	defer srv.Close()
	callbacks := make(chan *idverify.Callback, 1)
	url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(_ context.Context, c *idverify.Callback) error {
		callbacks <- c
		return nil
	}))

	open(srv, "447700900013", url+"/callbacks")

	c := <-callbacks
	fmt.Println(url, c.Status, c.Match)
	// Output: https://shop.sandbox.test COMPLETED no
}

func ExampleServer_Device() {
	ctx := context.Background()
	srv := start()
	defer srv.Close()
	shop := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "welcome back")
	}))
	client := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900012", RedirectURL: shop + "/verified"})
	if err != nil {
		log.Fatal(err)
	}

	visit, err := srv.Device().Open(ctx, check.CheckURL)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(visit.Status, visit.URL.Path, string(visit.Body), visit.URL.Query().Get("check_id") == check.CheckID)
	// Output: 200 /verified welcome back true
}

func ExampleServer_Advance() {
	ctx := context.Background()
	srv := start()
	defer srv.Close()
	url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("attempt after", srv.Now().Sub(frozenAt))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	if _, err := srv.Client().PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: url}); err != nil {
		log.Fatal(err)
	}

	// The check expires after two minutes. Its callback is retried ten seconds later.
	if err := srv.Advance(ctx, 140*time.Second); err != nil {
		log.Fatal(err)
	}

	fmt.Println("now", srv.Now().Sub(frozenAt))
	// Output:
	// attempt after 2m0s
	// attempt after 2m10s
	// now 2m20s
}

func ExampleServer_WaitIdle() {
	srv := start()
	defer srv.Close()
	handled := 0
	url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handled++ }))
	open(srv, "447700900012", url)

	if err := srv.WaitIdle(context.Background()); err != nil {
		log.Fatal(err)
	}

	fmt.Println(handled, "callback")
	// Output: 1 callback
}

func ExampleServer_WaitDelivery() {
	srv := start()
	defer srv.Close()
	id := open(srv, "447700900055", srv.Handle("shop.sandbox.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))

	d, err := srv.WaitDelivery(context.Background(), func(d sandboxfake.Delivery) bool { return d.CheckID == id && d.Done })
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(d.Product, d.Status, len(d.Attempts), d.Attempts[0].Result)
	// Output: phone_check ERROR 1 acknowledged
}

func ExampleServer_Redeliver() {
	ctx := context.Background()
	srv := start()
	defer srv.Close()
	open(srv, "447700900012", srv.Handle("shop.sandbox.test", http.NotFoundHandler()))
	lost, err := srv.WaitDelivery(ctx, func(d sandboxfake.Delivery) bool { return d.Done })
	if err != nil {
		log.Fatal(err)
	}
	srv.Handle("shop.sandbox.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // the receiver works again

	if err := srv.Redeliver(ctx, lost.ID); err != nil {
		log.Fatal(err)
	}
	if _, err := srv.WaitDelivery(ctx, sandboxfake.Delivery.Acknowledged); err != nil {
		log.Fatal(err)
	}

	for _, d := range srv.Deliveries() {
		fmt.Println(d.Attempts[0].Status, d.Attempts[0].Result)
	}
	// Output:
	// 404 rejected
	// 200 acknowledged
}

func ExampleServer_Inject() {
	ctx := context.Background()
	srv := start()
	defer srv.Close()
	client := srv.Client()
	undo := srv.Inject(sandboxfake.Match{Operation: "phone_check.create", Repeat: true}, sandboxfake.Fault{Status: 402})

	_, injected := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
	undo()
	_, afterUndo := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900012"})

	fmt.Println(errors.Is(injected, idverify.ErrInsufficientBalance), afterUndo)
	// Output: true <nil>
}

func ExampleServer_Requests() {
	srv := start()
	defer srv.Close()
	open(srv, "447700900012", "")

	for _, r := range srv.Requests() {
		fmt.Println(r.Status, r.Operation, r.Header.Get("Authorization"))
	}
	// Output:
	// 200 token.create [REDACTED]
	// 201 phone_check.create [REDACTED]
	// 200 phone_check.open
}

func ExampleServer_RotateKeys() {
	ctx := context.Background()
	srv := start()
	defer srv.Close()
	url := srv.Handle("shop.sandbox.test", idverify.CallbackHandler(srv.Verifier([]string{"shop.sandbox.test"}, nil), func(context.Context, *idverify.Callback) error { return nil }))
	for range 2 {
		open(srv, "447700900012", url)
		srv.RotateKeys()
		if err := srv.Advance(ctx, time.Minute); err != nil {
			log.Fatal(err)
		}
	}

	for _, d := range srv.Deliveries() {
		fmt.Println(d.Acknowledged())
	}
	// Output:
	// true
	// true
}

func ExampleServer_Reset() {
	srv := start()
	defer srv.Close()
	before := open(srv, "447700900012", "")

	srv.Reset()

	after := open(srv, "447700900012", "")
	fmt.Println(before == after, len(srv.Deliveries()))
	// Output: true 0
}

func ExampleWithRateLimit() {
	ctx := context.Background()
	srv := start(sandboxfake.WithRateLimit(1))
	defer srv.Close()
	client := srv.Client()
	check := idverify.SIMCheckParams{PhoneNumber: "447700900012"}

	_, first := client.SIMChecks.Create(ctx, check)
	_, second := client.SIMChecks.Create(ctx, check)
	var limited *idverify.Error
	errors.As(second, &limited)
	if err := srv.Advance(ctx, limited.RetryAfter); err != nil {
		log.Fatal(err)
	}
	_, third := client.SIMChecks.Create(ctx, check)

	fmt.Println(first, errors.Is(second, idverify.ErrRateLimited), limited.RetryAfter, third)
	// Output: <nil> true 1h0m0s <nil>
}

func ExamplePhoneCheckOutcome() {
	for _, number := range []string{"447700900012", "447700900013", "447700900055"} {
		outcome := sandboxfake.PhoneCheckOutcome(number)
		fmt.Println(outcome.Status, outcome.Match)
	}
	// Output:
	// COMPLETED yes
	// COMPLETED no
	// ERROR no
}

func ExampleSIMCheckOutcome() {
	fmt.Println(sandboxfake.SIMCheckOutcome("447700900014").NoSIMChange, sandboxfake.SIMCheckOutcome("447700900015").NoSIMChange)
	// Output: yes no
}

func ExampleSubscriberCheckOutcome() {
	swapped := sandboxfake.SubscriberCheckOutcome("447700900018")
	mismatch := sandboxfake.SubscriberCheckOutcome("447700900013")
	fmt.Println(swapped.Match, swapped.NoSIMChange, mismatch.Match, mismatch.NoSIMChange)
	// Output: yes no no unknown
}

func ExampleReachabilityOutcome() {
	for _, ip := range []string{"192.0.2.8", "192.0.2.7", "192.0.2.99"} {
		status, code := sandboxfake.ReachabilityOutcome(netip.MustParseAddr(ip))
		fmt.Printf("%s %d %q\n", ip, status, code)
	}
	// Output:
	// 192.0.2.8 200 ""
	// 192.0.2.7 412 "not_mobile_ip"
	// 192.0.2.99 400 "mno_not_supported"
}

// The server runs behind a tunnel that forwards https://sandbox.example.com to it.
func ExampleWithPublicURL() {
	srv, err := sandboxfake.Start(sandboxfake.WithFreshKeys(), sandboxfake.WithPublicURL("https://sandbox.example.com"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	check, err := srv.Client().PhoneChecks.Create(context.Background(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})

	fmt.Println(strings.HasPrefix(check.CheckURL, "https://sandbox.example.com/"), err)
	// Output: true <nil>
}

// The certificate is valid for sandbox.example.com.
func ExampleWithCertificate() {
	certificate, err := tls.LoadX509KeyPair("sandbox.pem", "sandbox-key.pem")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv, err := sandboxfake.Start(sandboxfake.WithAddr(":8443"), sandboxfake.WithPublicURL("https://sandbox.example.com:8443"), sandboxfake.WithCertificate(certificate))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	fmt.Println(srv.PublicURL())
}

func ExampleServer_NewProject() {
	srv, err := sandboxfake.Start(sandboxfake.WithInMemory()) // in a test: sandboxfake.New(t)
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	ctx := context.Background()

	// A separate project isolates a test from others that share the server.
	shop := srv.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
	check, err := shop.Client().PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
	if err != nil {
		panic(err)
	}
	balance, err := srv.Console().Billing.Balance(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("charged", check.ChargeAmount, check.ChargeCurrency, "and left", balance.AmountAvailable)
	// Output: charged 1 API and left 99
}

func ExampleServer_SignUp() {
	srv, err := sandboxfake.Start(sandboxfake.WithInMemory()) // in a test: sandboxfake.New(t)
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	ctx := context.Background()

	invitation, err := srv.Console().Invitations.Create(ctx, idverify.InvitationParams{Name: "Grace", Role: idverify.RoleViewer})
	if err != nil {
		panic(err)
	}
	grace := srv.SignUp("Grace", invitation.InvitationID)

	joined := grace.Joined[0]
	_, err = joined.Console().Projects.Create(ctx, idverify.ProjectParams{Name: "Not for viewers", Mode: idverify.ModeLive})
	fmt.Println(joined.Role, errors.Is(err, idverify.ErrForbidden))
	_, err = grace.Console().Projects.Create(ctx, idverify.ProjectParams{Name: "Her own", Mode: idverify.ModeLive})
	fmt.Println(grace.Role, err)
	// Output:
	// VIEWER true
	// OWNER <nil>
}
