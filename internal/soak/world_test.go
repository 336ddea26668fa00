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
type world struct {
	t       *testing.T
	seed    uint64
	service *sandboxfake.Server
	console *idverify.Console
	shop    *shop
	watch   watch

	// A jump of the clock waits until nothing is under way, so it holds the lock alone; workers hold it for reading, step by step.
	time sync.RWMutex
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	service, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithSeed(seed), sandboxfake.WithPrices(prices), sandboxfake.WithJournalLimit(2*roundChecks))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, seed: seed, service: service, console: service.Console(), watch: watch{service.HTTPClient().Transport, new(counter)}}
	w.shop = newShop(t, w)
	w.topUp()
	return w
}

func (w *world) close() { w.service.Close() }

// httpClient is a client whose requests are watched.
func (w *world) httpClient() *http.Client { return &http.Client{Transport: w.watch} }

// topUp goes the way of an owner: company details, payment details, money.
func (w *world) topUp() {
	ctx, billing := w.t.Context(), w.console.Billing
	if _, err := billing.UpdateAccount(ctx, idverify.BillingAccount{CompanyName: "Soak Ltd", Country: "GB"}); err != nil {
		w.t.Fatal(err)
	}
	card, err := billing.AddPaymentMethod(ctx, idverify.PaymentMethodParams{CardNumber: idverify.NewSecret("4242424242424242"), ExpiryMonth: 12, ExpiryYear: 2099, Currencies: []string{"EUR"}})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := billing.TopUp(ctx, idverify.TopUpParams{PaymentMethodID: card.PaymentMethodID, Currency: "EUR", Amount: "1000000"}); err != nil {
		w.t.Fatal(err)
	}
}

// balance is what is left, exactly.
func (w *world) balance() *big.Rat {
	b, err := w.console.Billing.Balance(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return amount(w.t, b.AmountAvailable.String())
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
func (w *world) jump(d time.Duration) {
	w.time.Lock()
	defer w.time.Unlock()
	if err := w.service.Advance(w.t.Context(), d); err != nil {
		w.t.Error(err)
	}
}

// round is one project's life.
type round struct {
	*world
	tally
	number  int
	calm    bool // the keys neither rotate nor fail to be fetched, so that the handler may fail five times
	project *idverify.Project
	client  *idverify.Client
	begun   atomic.Int64 // checks
	random  *rand.Rand
	resent  map[string]bool // by delivery id
}

func (w *world) newRound(number, checks int) *round {
	r := &round{world: w, number: number, calm: number%2 == 0, tally: tally{created: checks}, random: w.newRandom(number, 0), resent: make(map[string]bool)}
	var err error
	r.project, err = w.console.Projects.Create(w.t.Context(), idverify.ProjectParams{
		Name:            fmt.Sprint("round ", number),
		CallbackURL:     w.shop.url + "/callbacks",
		SubscriberCheck: idverify.ProductURLs{RedirectURL: w.shop.url + "/back?shop=1"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	issued := r.project.Credentials[0]
	r.client, err = idverify.NewClient(w.service.URL(), idverify.Credentials{ClientID: issued.ClientID, ClientSecret: issued.ClientSecret},
		idverify.WithHTTPClient(w.httpClient()), idverify.WithClock(w.service.Now),
		idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2"}),
		idverify.WithRetry(idverify.RetryPolicy{MinWait: time.Microsecond, MaxWait: time.Millisecond}))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// newRandom is a source of its own for everybody who draws.
func (w *world) newRandom(round, who int) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, uint64(round)<<8|uint64(who)))
}

// run has the workers make the round's checks while time jumps, waits until every check has ended and every callback is through, and makes up the books.
func (r *round) run() {
	before := r.balance()
	r.watch.reset()
	r.shop.open(r)
	remove := r.injectFaults(r.random, r.calm)
	var work sync.WaitGroup
	for who := range workers {
		work.Go(func() { r.work(r.newRandom(r.number, who+1)) })
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	r.moveTime(done)
	remove()

	for range 4 { // the life of a check, and 150 s of tries
		r.jump(2 * time.Minute)
	}
	r.redeliver()
	r.jump(5 * time.Minute)
	for n := 0; n < 5 && r.resendTimedOut(); n++ {
		r.jump(5 * time.Minute)
	}
	r.makeUpBooks(before)
	if err := r.console.Projects.Delete(r.t.Context(), r.project.ProjectID); err != nil {
		r.t.Error(err)
	}
}

// moveTime jumps after every hundred checks or so: mostly a little, sometimes beyond a check's life, a token's, or a key's.
func (r *round) moveTime(done <-chan struct{}) {
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
func (r *round) makeUpBooks(before *big.Rat) {
	book := r.shop.close()
	count := make(map[idverify.Product]int)
	references := make(map[string]string) // to the check that was created with it
	note := func(product idverify.Product, reference, checkID string) {
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
		note(idverify.ProductSIMCheck, c.ReferenceID, c.CheckID)
	}
	for id, c := range book.handled {
		note(c.Product, c.ReferenceID, id)
	}
	paid := new(big.Rat).Sub(before, r.balance())
	owed := new(big.Rat)
	for product, n := range count {
		owed.Add(owed, new(big.Rat).Mul(amount(r.t, prices[product]), big.NewRat(int64(n), 1)))
		r.accepted += n
	}
	if paid.Cmp(owed) != 0 {
		r.t.Errorf("round %d: %s was paid, but the checks that we know of cost %s: the others are lost", r.number, paid.FloatString(2), owed.FloatString(2))
	}
	for id, want := range book.known {
		switch c := book.handled[id]; {
		case c == nil:
			r.lost++
			r.t.Errorf("round %d: the check %s has no callback", r.number, id)
		case c.Status == idverify.StatusExpired && !book.finished[id]:
			r.expired++
		case c.Status != want.Status || !cmp.Equal(c.Match, want.Match) || !cmp.Equal(c.NoSIMChange, want.NoSIMChange):
			r.t.Errorf("round %d: the callback of %s says %+v, want %+v", r.number, id, c, want)
		}
	}
	r.processed, r.attempts, r.failed, r.repeated = len(book.handled), book.attempts, book.failed, book.repeated
	r.checkTokens()
	// A round in which next to nothing happened proves nothing.
	if r.accepted < r.created*9/10 || r.expired > r.processed/3 || r.timedOut > r.attempts/10 {
		r.t.Errorf("round %d: of %d creates %d were accepted, of %d callbacks %d told of an end by time, of %d tries %d timed out", r.number, r.created, r.accepted, r.processed, r.expired, r.attempts, r.timedOut)
	}
}

// checkTokens: each jump may end the three tokens, each refusal one.
func (r *round) checkTokens() {
	r.requests, r.tokens, r.faults = r.watch.get("requests"), r.watch.get("tokens"), make(map[string]int)
	for kind, n := range r.watch.all() {
		if name, ok := strings.CutPrefix(kind, faultPrefix); ok {
			r.faults[name] = n
		}
	}
	most := 3*(1+2*(r.jumps+6)) + r.faults[refused.name]
	good := r.watch.get("good tokens")
	if good > most {
		r.t.Errorf("round %d: %d tokens were fetched, want %d at most: %d jumps, %d refusals", r.number, good, most, r.jumps, r.faults[refused.name])
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
