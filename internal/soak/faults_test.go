package soak_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// faultKind is one way to fail.
type faultKind struct {
	name  string
	fault sandboxfake.Fault
}

var (
	dropped       = faultKind{"connection dropped", sandboxfake.Fault{Drop: true}}
	truncated     = faultKind{"body truncated", sandboxfake.Fault{Truncate: true}}
	notJSON       = faultKind{"no JSON", sandboxfake.Fault{Body: "<html>"}}
	slow          = faultKind{"slow", sandboxfake.Fault{Latency: 2 * time.Millisecond}}
	unauthorized  = faultKind{"401", sandboxfake.Fault{Status: 401}}
	rateLimited   = faultKind{"429", sandboxfake.Fault{Status: 429}}
	internalError = faultKind{"500", sandboxfake.Fault{Status: 500}}
	badGateway    = faultKind{"502", sandboxfake.Fault{Status: 502}}
	unavailable   = faultKind{"503", sandboxfake.Fault{Status: 503}}
)

// faultPlan is what goes wrong, by operation. The key set never fails twice running: the service tries a callback six times, and the handler may use up five of them.
var faultPlan = []struct {
	operation string
	percent   int
	kinds     []faultKind
}{
	{"token.create", 30, []faultKind{dropped, truncated, notJSON, slow, slow, rateLimited, internalError, unavailable}},
	{"phone_check.create", 8, []faultKind{dropped, truncated, notJSON, unauthorized, rateLimited, internalError, badGateway, unavailable}},
	{"phone_check.open", 4, []faultKind{dropped, truncated, internalError, unavailable}},
	{"phone_check.get", 8, []faultKind{dropped, truncated, notJSON, unauthorized, rateLimited, internalError, badGateway, unavailable}},
	{"subscriber_check.create", 8, []faultKind{dropped, truncated, notJSON, unauthorized, rateLimited, internalError, badGateway, unavailable}},
	{"subscriber_check.open", 4, []faultKind{dropped, truncated, internalError, unavailable}},
	{"subscriber_check.complete", 8, []faultKind{dropped, truncated, notJSON, unauthorized, rateLimited, internalError, badGateway, unavailable}},
	{"sim_check.create", 8, []faultKind{dropped, truncated, notJSON, unauthorized, rateLimited, internalError, badGateway, unavailable}},
	{"jwks.get", 30, []faultKind{dropped, truncated, notJSON, internalError, unavailable}},
}

// injectFaults plans the faults of each operation anew and returns what takes them back.
func (h *harness) injectFaults(random *rand.Rand, calm bool) (remove func()) {
	var removes []func()
	for _, plan := range faultPlan {
		if calm && plan.operation == "jwks.get" {
			continue
		}
		faults := make([]sandboxfake.Fault, 997)
		for i := range faults {
			afterFault := i > 0 && faults[i-1] != (sandboxfake.Fault{}) || i == len(faults)-1
			if random.IntN(100) < plan.percent && !(afterFault && plan.operation == "jwks.get") {
				faults[i] = plan.kinds[random.IntN(len(plan.kinds))].fault
			}
		}
		removes = append(removes, h.service.Inject(sandboxfake.Match{Operation: plan.operation, Repeat: true}, faults...))
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
	}
}

// watch is the way of all requests of the client and of the key set: it counts them, and what goes wrong with them.
type countingTransport struct {
	next http.RoundTripper
	*counter
}

// RoundTrip reads the answer whole, to see whether it is.
func (w countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	isToken := strings.HasPrefix(r.URL.Path, "/oauth2/")
	w.add("requests")
	if isToken {
		w.add("tokens")
	}
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		w.add(faultPrefix + dropped.name)
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), errReader{err}))
	switch {
	case err != nil:
		w.add(faultPrefix + truncated.name)
	case resp.StatusCode == 401 || resp.StatusCode == 429 || resp.StatusCode >= 500:
		w.add(faultPrefix + strconv.Itoa(resp.StatusCode))
	case strings.HasPrefix(string(body), "<"):
		w.add(faultPrefix + notJSON.name)
	case isToken && resp.StatusCode == 200:
		w.add("good tokens")
	}
	return resp, nil
}

const faultPrefix = "fault: "

// errReader ends with err, or as a body does.
type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) {
	if r.err == nil {
		return 0, io.EOF
	}
	return 0, r.err
}
