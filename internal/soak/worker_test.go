package soak_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// worker creates checks and runs them to their end, as a backend and a device do. It ignores
// errors, which the injected faults cause; the audit finds lost and doubled checks.
type worker struct {
	*round
	random *rand.Rand
	device *sandboxfake.Device
}

func (r *round) work(random *rand.Rand) {
	w := &worker{r, random, r.service.Device()}
	for i := r.begun.Add(1); i <= int64(r.created); i = r.begun.Add(1) {
		reference := fmt.Sprint(i)
		number := fmt.Sprintf("4477009%05d", random.IntN(100_000))
		switch p := random.IntN(100); {
		case p < 35:
			w.simCheck(number, reference)
		case p < 87:
			w.phoneCheck(number, reference)
		default:
			w.subscriberCheck(number, reference)
		}
	}
}

// step runs one step of a check, between two jumps of the clock.
func step[T any](w *worker, do func() (T, error)) (T, error) {
	defer w.hold().Unlock()
	return do()
}

// hold prevents a jump of the clock until the caller unlocks the returned Locker.
func (w *worker) hold() sync.Locker {
	l := w.time.RLocker()
	l.Lock()
	return l
}

// simCheck creates a SIMCheck, which ends on creation. It avoids outcome ERROR: such a check is not
// stored and has no callback, so the audit could not distinguish it from a lost one.
func (w *worker) simCheck(number, reference string) {
	if sandboxfake.SIMCheckOutcome(number).Status == idverify.StatusError {
		number = number[:len(number)-2] + "00"
	}
	step(w, func() (*idverify.SIMCheck, error) {
		return w.client.SIMChecks.Create(w.t.Context(), idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: reference})
	})
}

func (w *worker) phoneCheck(number, reference string) {
	check, err := step(w, func() (*idverify.PhoneCheck, error) {
		return w.client.PhoneChecks.Create(w.t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference})
	})
	if err != nil {
		return
	}
	w.shop.expect(check.CheckID, sandboxfake.PhoneCheckOutcome(number))
	if w.openURL(check.CheckURL) {
		w.shop.finish(check.CheckID)
	}
	if w.random.IntN(10) == 0 {
		read, err := step(w, func() (*idverify.PhoneCheck, error) { return w.client.PhoneChecks.Get(w.t.Context(), check.CheckID) })
		if err == nil && read.Status == idverify.StatusCompleted && read.Match != verdict(read.Status, sandboxfake.PhoneCheckOutcome(number).Match) {
			w.t.Errorf("check of a number ending in %s: match = %v, want the outcome of the sandbox", number[len(number)-2:], read.Match)
		}
	}
}

// subscriberCheck runs a check with code exchange: the redirect brings a code to the shop, and the
// worker exchanges it for the result.
func (w *worker) subscriberCheck(number, reference string) {
	check, err := step(w, func() (*idverify.SubscriberCheck, error) {
		return w.client.SubscriberChecks.Create(w.t.Context(), idverify.SubscriberCheckParams{PhoneNumber: number, ReferenceID: reference})
	})
	if err != nil {
		return
	}
	w.shop.expect(check.CheckID, sandboxfake.SubscriberCheckOutcome(number))
	w.openURL(check.CheckURL)
	code := w.shop.takeCode(check.CheckID)
	if code == "" {
		return
	}
	_, err = step(w, func() (*idverify.SubscriberCheck, error) {
		return w.client.SubscriberChecks.Complete(w.t.Context(), check.CheckID, code)
	})
	if err == nil {
		w.shop.finish(check.CheckID)
	}
}

// openURL opens a Check URL and reports whether that succeeded. It leaves one in twenty unopened,
// so that their checks expire.
func (w *worker) openURL(checkURL string) bool {
	if w.random.IntN(20) == 0 {
		return false
	}
	visit, err := step(w, func() (*sandboxfake.Visit, error) { return w.device.Open(w.t.Context(), checkURL) })
	return err == nil && visit.Status == http.StatusOK
}
