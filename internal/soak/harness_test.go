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

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// prices have no common divisor, so that a missing check of one product does not cancel out a
// doubled check of another.
var prices = map[idverify.Product]string{idverify.ProductPhoneCheck: "0.05", idverify.ProductSubscriberCheck: "0.07", idverify.ProductSIMCheck: "0.03"}

// harness is a fake of the service, a workspace with a balance, and a shop.
type harness struct {
	t         *testing.T
	seed      uint64
	service   *sandboxfake.Server
	console   *idverify.Console
	shop      *shop
	transport countingTransport

	// time is locked for a jump of the clock. Workers lock it for reading during each step, so that
	// no request is in flight when the clock jumps.
	time sync.RWMutex
}

func newHarness(t *testing.T, seed uint64) *harness {
	t.Helper()
	service := must(sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithSeed(seed), sandboxfake.WithPrices(prices), sandboxfake.WithJournalLimit(2*roundChecks)))(t)
	h := &harness{t: t, seed: seed, service: service, console: service.Console(), transport: countingTransport{service.HTTPClient().Transport, new(counter)}}
	h.shop = newShop(t, h)
	h.topUp()
	return h
}

// httpClient returns a client whose requests are counted.
func (h *harness) httpClient() *http.Client { return &http.Client{Transport: h.transport} }

// topUp adds company details, a payment method and a balance, in this order, as the console
// requires.
func (h *harness) topUp() {
	ctx, console := h.t.Context(), h.console
	must(console.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "Soak Ltd", Country: "GB"}))(h.t)
	card := must(console.PaymentMethods.Create(ctx, idverify.PaymentMethodParams{CardNumber: idverify.NewSecret("4242424242424242"), ExpiryMonth: 12, ExpiryYear: 2099, Currencies: []string{"EUR"}}))(h.t)
	must(console.TopUps.Create(ctx, idverify.TopUpParams{PaymentMethodID: card.PaymentMethodID, Currency: "EUR", Amount: "1000000"}))(h.t)
}

// balance returns the exact balance.
func (h *harness) balance() *big.Rat {
	b := must(h.console.Billing.Balance(h.t.Context()))(h.t)
	return amount(h.t, b.AmountAvailable.String())
}

func amount(t testing.TB, decimal string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(decimal)
	if !ok {
		t.Fatalf("%q is not an amount", decimal)
	}
	return r
}

// jump advances the clock that the service, the client and the verifier share, while no step runs.
func (h *harness) jump(d time.Duration) {
	h.time.Lock()
	defer h.time.Unlock()
	if err := h.service.Advance(h.t.Context(), d); err != nil {
		h.t.Error(err)
	}
}

// round is a series of checks of one project.
type round struct {
	*harness
	tally
	number  int
	calm    bool // no rotation or failure of keys, so that the handler may fail five times
	project *idverify.Project
	client  *idverify.Client
	begun   atomic.Int64 // number of checks begun
	random  *rand.Rand
	resent  map[string]bool // by delivery ID
}

func (h *harness) newRound(number, checks int) *round {
	r := &round{harness: h, number: number, calm: number%2 == 0, tally: tally{created: checks}, random: h.newRandom(number, 0), resent: make(map[string]bool)}
	r.project = must(h.console.Projects.Create(h.t.Context(), idverify.ProjectParams{
		Name:                fmt.Sprint("round ", number),
		Mode:                idverify.ModeLive,
		CallbackURL:         h.shop.url + "/callbacks",
		SubscriberCheckURLs: idverify.ProductURLs{RedirectURL: h.shop.url + "/back?shop=1"},
	}))(h.t)
	issued := r.project.Credentials[0]
	r.client = must(idverify.NewClient(h.service.URL(), idverify.Credentials{ClientID: issued.ClientID, ClientSecret: issued.ClientSecret},
		idverify.WithHTTPClient(h.httpClient()), idverify.WithClock(h.service.Now),
		idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2"}),
		idverify.WithRetry(idverify.RetryPolicy{MinWait: time.Microsecond, MaxWait: time.Millisecond})))(h.t)
	return r
}

// newRandom returns a random source for each worker of a round, and 0 for the round itself.
func (h *harness) newRandom(round, worker int) *rand.Rand {
	return rand.New(rand.NewPCG(h.seed, uint64(round)<<8|uint64(worker)))
}

// run runs the checks of the round while the clock jumps, waits until every check has ended and
// every callback is delivered, and audits the result.
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

	for range 4 { // beyond the lifetime of a check, and 150 s of delivery attempts
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

// advanceClock jumps after every 50 to 249 checks until done is closed: often a little, sometimes
// beyond the lifetime of a check, a token or a cached key set.
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

// redeliver makes the service deliver some callbacks a second time.
func (r *round) redeliver() {
	deliveries := r.deliveries()
	for range 20 {
		r.resend(deliveries[r.random.IntN(len(deliveries))])
	}
}

// resendTimedOut delivers again the callbacks whose last attempt timed out, and reports whether
// there were any. The service does not retry after a timeout, which can occur on a busy machine.
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

// audit compares the charges with the checks that are listed or reported by callbacks.
func (r *round) audit(before *big.Rat) {
	ledger := r.shop.currentLedger()
	count := make(map[idverify.Product]int)
	references := make(map[string]string) // check IDs by reference ID
	record := func(product idverify.Product, reference, checkID string) {
		count[product]++
		if other, twice := references[reference]; twice {
			r.doubled++
			r.t.Errorf("round %d: one create made two checks: %s and %s", r.number, checkID, other)
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
		r.t.Errorf("round %d: charged %s, but the known checks cost %s: checks were lost", r.number, charged.FloatString(2), expected.FloatString(2))
	}
	for id, want := range ledger.known {
		switch c := ledger.handled[id]; {
		case c == nil:
			r.lost++
			r.t.Errorf("round %d: check %s has no callback", r.number, id)
		case c.Status == idverify.StatusExpired && !ledger.finished[id]:
			r.expired++
		case c.Status != want.Status || c.Match != verdict(want.Status, want.Match) || c.NoSIMChange != verdict(want.Status, want.NoSIMChange):
			r.t.Errorf("round %d: callback of check %s = %+v, want %+v", r.number, id, c, want)
		}
	}
	r.processed, r.attempts, r.failed, r.repeated = len(ledger.handled), ledger.attempts, ledger.failed, ledger.repeated
	r.checkTokens()
	// A round with too few completed checks tests nothing.
	if r.accepted < r.created*9/10 || r.expired > r.processed/3 || r.timedOut > r.attempts/10 {
		r.t.Errorf("round %d: %d creates, %d accepted; %d callbacks, %d of expired checks; %d attempts, %d timed out; want most to complete", r.number, r.created, r.accepted, r.processed, r.expired, r.attempts, r.timedOut)
	}
}

// verdict returns the verdict of the client for a sandbox outcome v with a status.
func verdict(status idverify.CheckStatus, v idverify.Verdict) idverify.Verdict {
	if status != idverify.StatusCompleted {
		return idverify.VerdictUnknown
	}
	return v
}

// checkTokens limits the number of token requests. Each jump may expire the three tokens, and each
// 401 response discards one.
func (r *round) checkTokens() {
	counts := r.transport.counts()
	r.requests, r.tokens, r.faults = counts["requests"], counts["tokens"], make(map[string]int)
	for kind, n := range counts {
		if name, ok := strings.CutPrefix(kind, faultPrefix); ok {
			r.faults[name] = n
		}
	}
	limit := 3*(1+2*(r.jumps+6)) + r.faults[unauthorized.name]
	good := counts["good tokens"]
	if good > limit {
		r.t.Errorf("round %d: %d tokens fetched, want at most %d: %d jumps, %d 401 responses", r.number, good, limit, r.jumps, r.faults[unauthorized.name])
	}
	// Less than a quarter of the token requests fail.
	if r.tokens > 2*good+50 {
		r.t.Errorf("round %d: %d token requests for %d tokens, want at most twice as many", r.number, r.tokens, good)
	}
}

// checkID returns the check ID of a callback body, verified or not.
func checkID(body []byte) string {
	var b struct {
		CheckID string `json:"check_id"`
	}
	json.Unmarshal(body, &b)
	return b.CheckID
}

// must returns v, or fails the test.
func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
