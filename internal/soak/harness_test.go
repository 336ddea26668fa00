package soak_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// Three prices without a common divisor: a check that is missing in the books of one product is not made up for by another.
var prices = map[idverify.Product]string{idverify.ProductPhoneCheck: "0.05", idverify.ProductSubscriberCheck: "0.07", idverify.ProductSIMCheck: "0.03"}

// world is the service, a workspace with money, and a shop that gets the callbacks.
type harness struct {
	t         *testing.T
	seed      uint64
	service   *sandboxfake.Server
	console   *idverify.Console
	shop      *shop
	transport countingTransport

	// A jump of the clock waits until nothing is under way, so it holds the lock alone; workers hold it for reading, step by step.
	time sync.RWMutex
}

func newHarness(t *testing.T, seed uint64) *harness {
	t.Helper()
	service, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithSeed(seed), sandboxfake.WithPrices(prices), sandboxfake.WithJournalLimit(2*roundChecks))
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, seed: seed, service: service, console: service.Console(), transport: countingTransport{service.HTTPClient().Transport, new(counter)}}
	h.shop = newShop(t, h)
	h.topUp()
	return h
}

func (h *harness) close() { h.service.Close() }

// httpClient is a client whose requests are watched.
func (h *harness) httpClient() *http.Client { return &http.Client{Transport: h.transport} }

// topUp goes the way of an owner: company details, payment details, money.
func (h *harness) topUp() {
	ctx, billing := h.t.Context(), h.console.Billing
	if _, err := billing.UpdateAccount(ctx, idverify.BillingAccount{CompanyName: "Soak Ltd", Country: "GB"}); err != nil {
		h.t.Fatal(err)
	}
	card, err := billing.AddPaymentMethod(ctx, idverify.PaymentMethodParams{CardNumber: idverify.NewSecret("4242424242424242"), ExpiryMonth: 12, ExpiryYear: 2099, Currencies: []string{"EUR"}})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := billing.TopUp(ctx, idverify.TopUpParams{PaymentMethodID: card.PaymentMethodID, Currency: "EUR", Amount: "1000000"}); err != nil {
		h.t.Fatal(err)
	}
}

// balance is what is left, exactly.
func (h *harness) balance() *big.Rat {
	b, err := h.console.Billing.Balance(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return amount(h.t, b.AmountAvailable.String())
}

func amount(t testing.TB, decimal string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(decimal)
	if !ok {
		t.Fatalf("%q is no amount", decimal)
	}
	return r
}

// jump moves the clock of the service, of the client and of the verifier, all one, by d, with nobody at work.
func (h *harness) jump(d time.Duration) {
	h.time.Lock()
	defer h.time.Unlock()
	if err := h.service.Advance(h.t.Context(), d); err != nil {
		h.t.Error(err)
	}
}

// round is one project's life.
type round struct {
	*harness
	tally
	number  int
	calm    bool // the keys neither rotate nor fail to be fetched, so that the handler may fail five times
	project *idverify.Project
	client  *idverify.Client
	begun   atomic.Int64 // checks
	random  *rand.Rand
	resent  map[string]bool // by delivery id
}

func (h *harness) newRound(number, checks int) *round {
	r := &round{harness: h, number: number, calm: number%2 == 0, tally: tally{created: checks}, random: h.newRandom(number, 0), resent: make(map[string]bool)}
	var err error
	r.project, err = h.console.Projects.Create(h.t.Context(), idverify.ProjectParams{
		Name:            fmt.Sprint("round ", number),
		CallbackURL:     h.shop.url + "/callbacks",
		SubscriberCheck: idverify.ProductURLs{RedirectURL: h.shop.url + "/back?shop=1"},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	issued := r.project.Credentials[0]
	r.client, err = idverify.NewClient(h.service.URL(), idverify.Credentials{ClientID: issued.ClientID, ClientSecret: issued.ClientSecret},
		idverify.WithHTTPClient(h.httpClient()), idverify.WithClock(h.service.Now),
		idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2"}),
		idverify.WithRetry(idverify.RetryPolicy{MinWait: time.Microsecond, MaxWait: time.Millisecond}))
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// newRandom is a source of its own for everybody who draws.
func (h *harness) newRandom(round, worker int) *rand.Rand {
	return rand.New(rand.NewPCG(h.seed, uint64(round)<<8|uint64(worker)))
}

// run has the workers make the round's checks while time jumps, waits until every check has ended and every callback is through, and makes up the books.
func (r *round) run() {
	before := r.balance()
	r.transport.reset()
	r.shop.startRound(r)
	remove := r.injectFaults(r.random, r.calm)
	var work sync.WaitGroup
	for i := range workers {
		work.Go(func() { r.work(r.newRandom(r.number, i+1)) })
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	r.advanceClock(done)
	remove()

	for range 4 { // the life of a check, and 150 s of tries
		r.jump(2 * time.Minute)
	}
	r.redeliver()
	r.jump(5 * time.Minute)
	for n := 0; n < 5 && r.resendTimedOut(); n++ {
		r.jump(5 * time.Minute)
	}
	r.audit(before)
	if err := r.console.Projects.Delete(r.t.Context(), r.project.ProjectID); err != nil {
		r.t.Error(err)
	}
}

// moveTime jumps after every hundred checks or so: mostly a little, sometimes beyond a check's life, a token's, or a key's.
func (r *round) advanceClock(done <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	next, rotateAt := int64(50), int64(r.created/2)
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		begun := r.begun.Load()
		if begun < next {
			continue
		}
		next = begun + 50 + r.random.Int64N(200)
		d := []time.Duration{0, time.Second, 10 * time.Second, time.Minute, 3 * time.Minute, 10 * time.Minute, 56 * time.Minute, 3 * time.Hour}[r.random.IntN(8)]
		r.jump(d)
		r.jumps++
		r.jumped += d
		if !r.calm && begun > rotateAt && r.rotations == 0 {
			r.service.RotateKeys()
			r.rotations++
		}
	}
}

// redeliver has the service send some callbacks a second time, as it may.
func (r *round) redeliver() {
	deliveries := r.deliveries()
	for range 20 {
		r.resend(deliveries[r.random.IntN(len(deliveries))])
	}
}

// resendTimedOut has the service send once more what it gave up after ten seconds without an answer: there is no second try after a time-out, and a busy machine must not decide what is lost.
func (r *round) resendTimedOut() (some bool) {
	for _, d := range r.deliveries() {
		if !r.resent[d.ID] && len(d.Attempts) > 0 && d.Attempts[len(d.Attempts)-1].Result == sandboxfake.ResultTimedOut {
			r.resent[d.ID], some = true, true
			r.timedOut++
			r.resend(d)
		}
	}
	return some
}

func (r *round) deliveries() []sandboxfake.Delivery {
	return slices.DeleteFunc(r.service.Deliveries(), func(d sandboxfake.Delivery) bool { return d.ProjectID != r.project.ProjectID })
}

func (r *round) resend(d sandboxfake.Delivery) {
	if err := r.service.Redeliver(r.t.Context(), d.ID); err != nil {
		r.t.Error(err)
	}
}

// makeUpBooks compares what was paid with what came back.
func (r *round) audit(before *big.Rat) {
	ledger := r.shop.currentLedger()
	count := make(map[idverify.Product]int)
	references := make(map[string]string) // to the check that was created with it
	record := func(product idverify.Product, reference, checkID string) {
		count[product]++
		if other, twice := references[reference]; twice {
			r.doubled++
			r.t.Errorf("round %d: one create made two checks, %s and %s", r.number, checkID, other)
		}
		references[reference] = checkID
	}
	for c, err := range r.client.SIMChecks.All(r.t.Context(), idverify.ListOptions{Size: 100}) {
		if err != nil {
			r.t.Fatal(err)
		}
		record(idverify.ProductSIMCheck, c.ReferenceID, c.CheckID)
	}
	for id, c := range ledger.handled {
		record(c.Product, c.ReferenceID, id)
	}
	charged := new(big.Rat).Sub(before, r.balance())
	expected := new(big.Rat)
	for product, n := range count {
		expected.Add(expected, new(big.Rat).Mul(amount(r.t, prices[product]), big.NewRat(int64(n), 1)))
		r.accepted += n
	}
	if charged.Cmp(expected) != 0 {
		r.t.Errorf("round %d: %s was paid, but the checks that we know of cost %s: the others are lost", r.number, charged.FloatString(2), expected.FloatString(2))
	}
	for id, want := range ledger.known {
		switch c := ledger.handled[id]; {
		case c == nil:
			r.lost++
			r.t.Errorf("round %d: the check %s has no callback", r.number, id)
		case c.Status == idverify.StatusExpired && !ledger.finished[id]:
			r.expired++
		case c.Status != want.Status || !cmp.Equal(c.Match, want.Match) || !cmp.Equal(c.NoSIMChange, want.NoSIMChange):
			r.t.Errorf("round %d: the callback of %s says %+v, want %+v", r.number, id, c, want)
		}
	}
	r.processed, r.attempts, r.failed, r.repeated = len(ledger.handled), ledger.attempts, ledger.failed, ledger.repeated
	r.checkTokens()
	// A round in which next to nothing happened proves nothing.
	if r.accepted < r.created*9/10 || r.expired > r.processed/3 || r.timedOut > r.attempts/10 {
		r.t.Errorf("round %d: of %d creates %d were accepted, of %d callbacks %d told of an end by time, of %d tries %d timed out", r.number, r.created, r.accepted, r.processed, r.expired, r.attempts, r.timedOut)
	}
}

// checkTokens: each jump may end the three tokens, each refusal one.
func (r *round) checkTokens() {
	r.requests, r.tokens, r.faults = r.transport.get("requests"), r.transport.get("tokens"), make(map[string]int)
	for kind, n := range r.transport.all() {
		if name, ok := strings.CutPrefix(kind, faultPrefix); ok {
			r.faults[name] = n
		}
	}
	limit := 3*(1+2*(r.jumps+6)) + r.faults[unauthorized.name]
	good := r.transport.get("good tokens")
	if good > limit {
		r.t.Errorf("round %d: %d tokens were fetched, want %d at most: %d jumps, %d refusals", r.number, good, limit, r.jumps, r.faults[unauthorized.name])
	}
	// Less than a quarter of the token requests fail.
	if r.tokens > 2*good+50 {
		r.t.Errorf("round %d: %d token requests were sent for %d tokens", r.number, r.tokens, good)
	}
}

// checkID is in the body of every callback, verified or not.
func checkID(body []byte) string {
	var b struct {
		CheckID string `json:"check_id"`
	}
	json.Unmarshal(body, &b)
	return b.CheckID
}
