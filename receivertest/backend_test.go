package receivertest_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

const callbackURL = "https://api.example.com/callbacks?tenant=7"

// backend stores checks, and the effects of their results, in memory.
type backend struct {
	fault string // a mistake of the backend, or empty

	mu       sync.Mutex // guards the fields below
	products map[string]string
	effects  map[string]int
	received map[string]bool
	slow     bool
}

func newBackend(fault string) *backend {
	return &backend{fault: fault, products: map[string]string{}, effects: map[string]int{}, received: map[string]bool{}}
}

func (b *backend) probe() receivertest.Probe {
	return receivertest.Probe{
		Created: func(_ context.Context, c receivertest.Check) error {
			if c.Product != "phone_check" && c.Product != "subscriber_check" {
				return fmt.Errorf("unknown product %q", c.Product)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.products[c.CheckID] = c.Product
			return nil
		},
		Effects: func(_ context.Context, id string) (int, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.effects[id], nil
		},
		SlowStore: func(_ context.Context, slow bool) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.slow = slow
			return nil
		},
	}
}

// Mistakes of a backend.
const (
	actsOnUnknownChecks  = "acts on unknown checks"
	actsOnOtherProducts  = "acts on other products"
	actsOnDuplicates     = "acts on duplicates"
	rejectsDuplicates    = "rejects duplicates"
	actsTwice            = "acts twice"
	losesResults         = "loses results"
	hangsWithStore       = "hangs with the store"
	acknowledgesUnstored = "acknowledges unstored callbacks"
	marksUnstored        = "marks unstored callbacks"
)

var errStore = errors.New("store unavailable")

// errDuplicate is returned with the mistake rejectsDuplicates.
var errDuplicate = errors.New("duplicate")

// record acts on the result of a check.
func (b *backend) record(ctx context.Context, product, id string, created time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.products[id]
	switch {
	case b.fault == losesResults:
		return nil
	case !ok && b.fault != actsOnUnknownChecks:
		if time.Since(created) < time.Minute {
			return errors.New("check is not stored yet")
		}
		return nil
	case ok && known != product && b.fault != actsOnOtherProducts:
		return nil
	case b.received[id] && b.fault == rejectsDuplicates:
		return errDuplicate
	case b.received[id] && b.fault != actsOnDuplicates:
		return nil
	}
	if b.fault == marksUnstored {
		b.received[id] = true
	}
	if b.slow && b.fault != acknowledgesUnstored {
		if err := b.wait(ctx); err != nil {
			return err
		}
	}
	b.received[id] = true
	b.effects[id]++
	if b.fault == actsTwice {
		b.effects[id]++
	}
	return nil
}

// wait waits for the slow store, without the lock.
func (b *backend) wait(ctx context.Context) error {
	b.mu.Unlock()
	defer b.mu.Lock()
	timeout := time.After(3 * time.Second)
	if b.fault == hangsWithStore {
		timeout = nil
	}
	select {
	case <-timeout:
	case <-ctx.Done():
	}
	return errStore
}

func newKeys(t *testing.T) *receivertest.Keys { t.Helper(); return must(receivertest.NewTestKeys())(t) }

// newVerifier returns a verifier for messages to host that are signed with keys.
func newVerifier(t *testing.T, keys *receivertest.Keys, host string, opts *signature.VerifierOptions) *signature.Verifier {
	t.Helper()
	return verifierAt(t, keys.URL(), keys, host, opts)
}

// verifierAt is like newVerifier, for another URL of the key set.
func verifierAt(t *testing.T, url string, keys *receivertest.Keys, host string, opts *signature.VerifierOptions) *signature.Verifier {
	t.Helper()
	jwks := must(signature.NewJWKS(url, &signature.JWKSOptions{HTTPClient: keys.Client()}))(t)
	return must(signature.NewVerifier(jwks, []string{host}, opts))(t)
}

// callbackReceiver returns a receiver of package idverify, which acts on results with b.
func callbackReceiver(t *testing.T, b *backend, opts *signature.VerifierOptions) receivertest.Receiver {
	t.Helper()
	keys := newKeys(t)
	v := newVerifier(t, keys, "api.example.com", opts)
	handler := idverify.CallbackHandler(v, func(ctx context.Context, c *idverify.Callback) error {
		return b.record(ctx, string(c.Product), c.CheckID, c.CreatedAt)
	})
	return receivertest.Receiver{Keys: keys, URL: callbackURL, Handler: handler, Probe: b.probe(), Strict: true}
}

// handmade is a receiver of callbacks that does not use package signature. Like many receivers, it
// parses messages leniently. fault is a mistake, or empty.
type handmade struct {
	fault      string
	minRefetch time.Duration // between two requests for the key set
	keys       *receivertest.Keys
	backend    *backend

	mu       sync.Mutex // guards the fields below
	keySet   map[string]*rsa.PublicKey
	fetched  time.Time
	replays  map[string]bool
	messages int
}

// Mistakes of a receiver.
const (
	noSignature      = "no check of the signature"
	noDigest         = "no check of the digest"
	noHost           = "no check of the host"
	forwardedHost    = "host from X-Forwarded-Host"
	noDate           = "no check of the date"
	longSkew         = "clock skew of 83 minutes"
	noCoverage       = "no check of the coverage"
	noAlgorithm      = "algorithm of the message"
	keyOfMessage     = "key from the message"
	outage400        = "400 during an outage"
	outageHangs      = "no timeout for the key set"
	noRefetch        = "no second request for the key set"
	noReplayStore    = "no replay store"
	noBodyLimit      = "no limit on the body"
	error500         = "500 for invalid messages"
	accept200        = "200 for invalid messages"
	actsBefore       = "acts before the verification"
	onlyCompleted    = "rejects failed checks"
	reserializes     = "digest of the decoded body"
	silentRejections = "no response to invalid messages"
	panics           = "panics on invalid messages"
	rateLimit        = "rate limit"
	bans             = "bans senders of invalid messages"
)

var errUnavailable = errors.New("unavailable")

func (h *handmade) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.messages++
	n := h.messages
	h.mu.Unlock()
	if h.fault == rateLimit && n > 20 {
		http.Error(w, "slow down", http.StatusTooManyRequests)
		return
	}
	body, err := h.verify(w, r)
	if err == nil {
		var c struct {
			CheckID   string `json:"check_id"`
			Status    string `json:"status"`
			CreatedAt string `json:"created_at"`
		}
		if json.Unmarshal(body, &c) != nil || h.fault == onlyCompleted && c.Status != "COMPLETED" {
			http.Error(w, "not a check", http.StatusUnprocessableEntity)
			return
		}
		created, _ := time.Parse("2006-01-02T15:04:05-0700", c.CreatedAt)
		err = h.backend.record(r.Context(), r.Header.Get("X-Service-Callback"), c.CheckID, created)
		if err != nil && !errors.Is(err, errDuplicate) {
			err = errUnavailable
		}
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
	case errors.Is(err, errUnavailable):
		http.Error(w, "later", http.StatusServiceUnavailable)
	case h.fault == error500:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case h.fault == accept200:
		io.WriteString(w, "invalid")
	case h.fault == silentRejections:
		<-r.Context().Done()
	case h.fault == panics:
		panic(http.ErrAbortHandler)
	default:
		if h.fault == bans {
			h.mu.Lock()
			h.messages += 1000
			h.mu.Unlock()
		}
		http.Error(w, err.Error(), http.StatusUnauthorized)
	}
}

var parameter = regexp.MustCompile(`(\w+)="([^"]*)"`)

func (h *handmade) verify(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if h.fault != noBodyLimit {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, errors.New("body too large")
	}
	if h.fault == actsBefore {
		var c struct {
			CheckID string `json:"check_id"`
		}
		if json.Unmarshal(body, &c) == nil {
			_ = h.backend.record(r.Context(), "phone_check", c.CheckID, time.Time{})
		}
	}
	if h.fault == bans && h.count() > 15000 {
		return nil, errors.New("banned")
	}
	params := map[string]string{}
	for _, m := range parameter.FindAllStringSubmatch(r.Header.Get("Authorization"), -1) {
		params[m[1]] = m[2]
	}
	covered := strings.Fields(params["headers"])
	for _, name := range []string{"(request-target)", "host", "date", "x-service-callback", "digest"} {
		if h.fault != noCoverage && !slices.Contains(covered, name) {
			return nil, errors.New("not covered: " + name)
		}
	}
	if err := h.verifySent(r, body); err != nil {
		return nil, err
	}
	if h.fault == noSignature {
		return body, nil
	}
	var lines []string
	for _, name := range covered {
		value := r.Header.Get(name)
		switch name {
		case "(request-target)":
			value = strings.ToLower(r.Method) + " " + r.RequestURI
		case "host":
			value = r.Host
		}
		lines = append(lines, name+": "+value)
	}
	if err := h.verifySignature(params, strings.Join(lines, "\n")); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.replays[params["signature"]] && h.fault != noReplayStore {
		return nil, errors.New("replay")
	}
	h.replays[params["signature"]] = true
	return body, nil
}

// verifySent checks the host, the date and the digest.
func (h *handmade) verifySent(r *http.Request, body []byte) error {
	host := r.Host
	if forwarded := r.Header.Get("X-Forwarded-Host"); h.fault == forwardedHost && forwarded != "" {
		host = forwarded
	}
	if h.fault != noHost && host != "api.example.com" {
		return errors.New("host")
	}
	skew := 5 * time.Second
	if h.fault == longSkew {
		skew = 5000 * time.Second
	}
	date, err := http.ParseTime(r.Header.Get("Date"))
	if h.fault != noDate && (err != nil || time.Since(date).Abs() > skew) {
		return errors.New("date")
	}
	if h.fault == reserializes {
		var compact bytes.Buffer
		_ = json.Compact(&compact, body)
		body = compact.Bytes()
	}
	sum := sha256.Sum256(body)
	if h.fault != noDigest && r.Header.Get("Digest") != "SHA-256="+hex.EncodeToString(sum[:]) {
		return errors.New("digest")
	}
	return nil
}

func (h *handmade) verifySignature(params map[string]string, text string) error {
	sig, err := base64.StdEncoding.DecodeString(params["signature"])
	if err != nil {
		return err
	}
	key, err := h.key(params["keyId"])
	if err != nil {
		return err
	}
	if h.fault == noAlgorithm && params["algorithm"] == "hmac-sha256" {
		der, _ := x509.MarshalPKIXPublicKey(key)
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write([]byte(text))
		if hmac.Equal(sig, mac.Sum(nil)) {
			return nil
		}
	}
	sum := sha256.Sum256([]byte(text))
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig)
}

// key returns the key with the given ID. It requests the key set at most every minRefetch.
func (h *handmade) key(id string) (*rsa.PublicKey, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if key := h.keySet[id]; key != nil {
		return key, nil
	}
	if h.fault == keyOfMessage {
		if der, err := base64.StdEncoding.DecodeString(id); err == nil {
			if key, err := x509.ParsePKIXPublicKey(der); err == nil {
				return key.(*rsa.PublicKey), nil
			}
		}
	}
	unknown := errors.New("unknown key")
	if h.keySet != nil && h.fault == noRefetch {
		return nil, unknown
	}
	if !h.fetched.IsZero() && time.Since(h.fetched) < h.minRefetch {
		return nil, errUnavailable
	}
	h.fetched = time.Now()
	keySet, err := h.fetch()
	switch {
	case err != nil && h.fault == outage400:
		return nil, unknown
	case err != nil:
		return nil, errUnavailable
	}
	h.keySet = keySet
	if key := keySet[id]; key != nil {
		return key, nil
	}
	return nil, unknown
}

// refresh requests the key set.
func (h *handmade) refresh() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keySet, err = h.fetch()
	return err
}

func (h *handmade) fetch() (map[string]*rsa.PublicKey, error) {
	client := h.keys.Client()
	if client.Timeout = 3 * time.Second; h.fault == outageHangs {
		client.Timeout = 0
	}
	resp, err := client.Get(h.keys.URL())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var set struct {
		Keys []struct{ Kid, N, E string } `json:"keys"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil || resp.StatusCode != http.StatusOK {
		return nil, errUnavailable
	}
	keySet := map[string]*rsa.PublicKey{}
	for _, k := range set.Keys {
		n, _ := base64.RawURLEncoding.DecodeString(k.N)
		e, _ := base64.RawURLEncoding.DecodeString(k.E)
		keySet[k.Kid] = &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	}
	return keySet, nil
}

func (h *handmade) count() int { h.mu.Lock(); defer h.mu.Unlock(); return h.messages }

// respond returns a handler that responds to all messages with the status.
func respond(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// limited limits the rate to n requests per second, with status 503.
func limited(next http.Handler, n int) http.Handler {
	var mu sync.Mutex
	var second int64
	var count int
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if now := time.Now().Unix(); now != second {
			second, count = now, 0
		}
		count++
		over := count > n
		mu.Unlock()
		if over {
			http.Error(w, "slow down", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
