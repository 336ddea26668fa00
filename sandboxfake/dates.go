package sandboxfake

import (
	"context"
	"maps"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// WithSystemDates dates the signatures of callbacks and redirects by the system's clock, however
// far [Server.Advance] moved the server's: for receivers that check dates against real time. By
// default they show the time of the server's clock. Every other time stays that of the server's
// clock.
//
// Two messages of one check then never carry the same date, because a receiver would reject the
// second as a replay: the server waits for the next second, so that 100 messages of one check take
// 100 seconds.
func WithSystemDates() Option {
	return func(o *options) error {
		o.systemDates = true
		return nil
	}
}

// messageDates chooses the dates of signatures. The server's mutex guards it.
type messageDates struct {
	system bool                 // dates come from the system's clock
	last   map[string]time.Time // the last date of each check, unless it was past at the last cleaning
	second time.Time            // when last was last cleaned up
}

// next returns a date for a message of a check: now in whole seconds, or one second after the
// check's last date. It has no upper bound: a receiver rejects a date that was already used, but
// accepts a late message. After the system's clock was set back, a check may therefore wait until
// the clock has passed its last date.
func (d *messageDates) next(checkID string, now time.Time) time.Time {
	date := now.UTC().Truncate(time.Second)
	if !date.Equal(d.second) {
		d.second = date
		maps.DeleteFunc(d.last, func(_ string, last time.Time) bool { return last.Before(date) })
	}
	if last, ok := d.last[checkID]; ok {
		date = last.Add(time.Second)
	}
	if d.last == nil {
		d.last = make(map[string]time.Time)
	}
	d.last[checkID] = date
	return date
}

// signer returns a signer of one message of a check, which is to be sent at once. It waits until
// the message has a date of its own, or until ctx ends. The caller must not hold the mutex.
func (s *service) signer(ctx context.Context, checkID string, key signingKey) (*signature.Signer, error) {
	date := s.messageDate(ctx, checkID)
	return signature.NewSigner(key.id, key.key, &signature.SignerOptions{
		CallbackHeader: s.opts.callbackHeader,
		Base64Digest:   s.opts.base64Digest,
		Now:            func() time.Time { return date },
	})
}

// signedRedirect returns the URL that a device is sent to, with its own date and signature.
func (s *service) signedRedirect(ctx context.Context, view openedView, target string, key signingKey) (string, error) {
	signer, err := s.signer(ctx, view.CheckID, key)
	if err != nil {
		return "", err
	}
	return view.redirect(target, signer)
}

func (s *service) messageDate(ctx context.Context, checkID string) time.Time {
	s.mu.Lock()
	if !s.dates.system {
		defer s.mu.Unlock()
		return s.clock.Now()
	}
	now := time.Now()
	date := s.dates.next(checkID, now)
	s.mu.Unlock()
	if d := date.Sub(now); d > 0 {
		wait(ctx, d)
	}
	return date
}

// messageNow returns the time on the clock that dates messages. The mutex is held.
func (s *service) messageNow() time.Time {
	if s.dates.system {
		return time.Now()
	}
	return s.clock.Now()
}
