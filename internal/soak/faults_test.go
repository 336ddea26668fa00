package soak_test

import (
	"bytes"
	"cmp"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing/iotest"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// faultKind is a fault and its name in the report.
type faultKind struct {
	name  string
	fault sandboxfake.Fault
}

var (
	dropped       = faultKind{"connection dropped", sandboxfake.Fault{Drop: true}}
	truncated     = faultKind{"body truncated", sandboxfake.Fault{Truncate: true}}
	notJSON       = faultKind{"not JSON", sandboxfake.Fault{Body: "<html>"}}
	slow          = faultKind{"slow", sandboxfake.Fault{Latency: 2 * time.Millisecond}}
	unauthorized  = faultKind{"401", sandboxfake.Fault{Status: 401}}
	rateLimited   = faultKind{"429", sandboxfake.Fault{Status: 429}}
	internalError = faultKind{"500", sandboxfake.Fault{Status: 500}}
	badGateway    = faultKind{"502", sandboxfake.Fault{Status: 502}}
	unavailable   = faultKind{"503", sandboxfake.Fault{Status: 503}}
)

// faultPlan lists the faults of each operation. The key set never fails twice in a row: the
// handler fails up to four of the six attempts to deliver a callback, and one of the other two must
// succeed.
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

// injectFaults injects random faults into each operation. The returned function removes them. In a
// calm round the key set does not fail.
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

// countingTransport counts the requests of the client and the key set, their faults, and the tokens
// issued.
type countingTransport struct {
	next http.RoundTripper
	*counter
}

// RoundTrip reads the complete body to find out whether it is truncated.
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
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(cmp.Or(err, io.EOF))))
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
