package sandboxfake

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"math/big"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/memnet"
	"github.com/idverify/idverify-go/signature"
)

// keyRing contains the published signing keys. The last key signs callbacks and redirects.
type keyRing struct {
	source *keySource
	keys   []signingKey
	made   int // number of keys created so far
}

type signingKey struct {
	id      string
	key     *rsa.PrivateKey
	removed time.Time // when a retired key leaves the key set; zero for the current key
}

// RotateKeys replaces the signing key. The old key stays published for five minutes on the server's
// clock, the time for which clients may cache the key set.
func (s *Server) RotateKeys() {
	svc := s.lock()
	defer svc.mu.Unlock()
	s.must(svc.rotateKeys())
}

// rotateKeys adds a key and schedules the removal of the previous signing key.
func (s *service) rotateKeys() error {
	retired := s.keys.signing().id
	if err := s.addKey(); err != nil {
		return err
	}
	removed := s.clock.Now().Add(keySetMaxAge)
	s.keys.keys[len(s.keys.keys)-2].removed = removed
	s.recent.add(recent{kind: recentRotate, at: s.clock.Now(), text: s.keys.signing().id})
	s.clock.Schedule(removed, func() {
		s.keys.remove(retired)
		s.recent.add(recent{kind: recentRetire, at: s.clock.Now(), text: retired})
	})
	s.noteChange()
	s.runDue()
	return nil
}

// addKey appends the next key, which becomes the signing key. The fixed keys are reused in turn
// under new IDs; fresh keys have IDs derived from them.
func (s *service) addKey() error {
	k := &s.keys
	key, id, err := k.source.key(k.made)
	if err != nil {
		return err
	}
	if id == "" {
		id = s.ids.uuid("key", "", &s.ids.root)
	}
	// Reject invalid options here, not at the first message.
	if _, err := signature.NewSigner(id, key, &signature.SignerOptions{CallbackHeader: s.opts.callbackHeader}); err != nil {
		return err
	}
	k.made++
	k.keys = append(k.keys, signingKey{id: id, key: key})
	return nil
}

// signing returns the current signing key.
func (k *keyRing) signing() signingKey { return k.keys[len(k.keys)-1] }

// signingUnder returns the current signing key. For a fault with WrongKey, it returns an
// unpublished key with the same ID. f may be nil.
func (k *keyRing) signingUnder(f *Fault) (key signingKey, err error) {
	key = k.signing()
	if f != nil && f.WrongKey {
		key.key, err = k.source.wrong()
	}
	return key, err
}

// keySource provides the keys that sign messages. It survives a Reset, so that the server
// starts with the same keys again.
type keySource struct {
	pool  []*rsa.PrivateKey               // fixed keys, used in turn; nil with WithFreshKeys
	wrong func() (*rsa.PrivateKey, error) // returns the key that is never published

	mu    sync.Mutex // guards fresh
	fresh []*rsa.PrivateKey
}

// newFreshKeySource returns a source that generates its keys when they are first used.
func newFreshKeySource() *keySource { return &keySource{wrong: sync.OnceValues(memnet.GenerateKey)} }

// key returns the n-th key, counted from 0, and its ID, which is empty for a fixed key.
func (k *keySource) key(n int) (key *rsa.PrivateKey, id string, err error) {
	if len(k.pool) > 0 {
		return k.pool[n%len(k.pool)], "", nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.fresh) <= n {
		key, err := memnet.GenerateKey()
		if err != nil {
			return nil, "", err
		}
		k.fresh = append(k.fresh, key)
	}
	sum := sha256.Sum256(k.fresh[n].N.Bytes())
	return k.fresh[n], base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

func (k *keyRing) remove(id string) {
	for i, key := range k.keys {
		if key.id == id {
			k.keys = append(k.keys[:i:i], k.keys[i+1:]...)
			return
		}
	}
}

// keySetMaxAge is the time for which clients may cache the key set, and for which a retired key
// stays in it.
const keySetMaxAge = 5 * time.Minute

// jwk is a public key in the key set (RFC 7517).
type jwk struct {
	KeyType   string `json:"kty"`
	Exponent  string `json:"e"`
	Modulus   string `json:"n"`
	Use       string `json:"use"`
	KeyID     string `json:"kid"`
	Algorithm string `json:"alg"`
}

// keySetView is the JSON form of the key set.
type keySetView struct {
	Keys []jwk `json:"keys"`
}

// keySet handles GET /.well-known/jwks.json.
func (s *service) keySet(*call) (any, error) {
	var set keySetView
	for _, key := range s.keys.keys {
		set.Keys = append(set.Keys, jwk{
			KeyType:   "RSA",
			Exponent:  base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.key.E)).Bytes()),
			Modulus:   base64.RawURLEncoding.EncodeToString(key.key.N.Bytes()),
			Use:       "sig",
			KeyID:     key.id,
			Algorithm: "RS256",
		})
	}
	return &response{
		status: http.StatusOK,
		media:  wire.MediaJSON,
		header: http.Header{"Cache-Control": {"public, max-age=" + strconv.Itoa(int(keySetMaxAge.Seconds()))}},
		body:   set,
	}, nil
}

// messageDates determines the dates of signatures. The mutex of the service guards it.
type messageDates struct {
	system  bool              // dates come from the system's clock
	used    map[usedDate]bool // the cleanup removes past dates
	cleaned int64             // time of the last cleanup
}

// usedDate is the date of a message.
type usedDate struct {
	key    string // check ID, or delivery.dated
	second int64  // Unix time
}

// next returns a date for a message: now in whole seconds, or the first later second that no
// message with the same key has, because a receiver would reject the message as a replay. The date
// can be in the future: the caller waits for it, because a receiver accepts a late message.
func (d *messageDates) next(key string, now time.Time) time.Time {
	date := usedDate{key, now.Unix()}
	if date.second != d.cleaned {
		d.cleaned = date.second
		maps.DeleteFunc(d.used, func(used usedDate, _ bool) bool { return used.second < d.cleaned })
	}
	for d.used[date] {
		date.second++
	}
	if d.used == nil {
		d.used = make(map[usedDate]bool)
	}
	d.used[date] = true
	return time.Unix(date.second, 0).UTC()
}

// signer returns a signer for one message, which must be sent immediately. It waits for the date of
// the message, see messageDate. The caller must not hold the mutex.
func (s *service) signer(ctx context.Context, dated string, redirect bool, key signingKey) (*signature.Signer, error) {
	date := s.messageDate(ctx, dated, redirect)
	return signature.NewSigner(key.id, key.key, &signature.SignerOptions{
		CallbackHeader: s.opts.callbackHeader,
		Base64Digest:   s.opts.base64Digest,
		Now:            func() time.Time { return date },
	})
}

// signedRedirect returns the URL that the device of a check is redirected to, with its own date and
// signature. The caller must not hold the mutex.
func (s *service) signedRedirect(ctx context.Context, ck *check, view openedView, target string, key signingKey) (string, error) {
	signer, err := s.signer(ctx, view.CheckID, true, key)
	if err != nil {
		return "", err
	}
	location, err := view.redirect(target, signer)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.note(ck, eventRedirected, s.clock.Now()); e != nil {
		e.location = location
		s.noteChange()
	}
	return location, nil
}

// messageDate returns a date that no message with the same key has, and waits until the clock
// reaches it, or until ctx ends. By the server's clock, it does not wait if the clock is frozen, or
// for a redirect, which is sent once and never identical to a callback.
func (s *service) messageDate(ctx context.Context, key string, redirect bool) time.Time {
	s.mu.Lock()
	now := s.messageNow()
	if !s.dates.system && (redirect || s.clock.Frozen()) {
		s.mu.Unlock()
		return now
	}
	date := s.dates.next(key, now)
	s.mu.Unlock()
	if d := date.Sub(now); d > 0 {
		wait(ctx, d)
	}
	return date
}

// messageNow returns the current time for the dates of signatures.
func (s *Server) messageNow() time.Time {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.messageNow()
}

// messageNow returns the current time for the dates of signatures. The caller holds s.mu.
func (s *service) messageNow() time.Time {
	if s.dates.system {
		return time.Now()
	}
	return s.clock.Now()
}
