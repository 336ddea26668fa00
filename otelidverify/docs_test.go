package otelidverify_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// newService is the snippet of docs/production.md.
func newService(baseURL string, credentials idverify.Credentials, hosts []string, use func(*idverify.Client, *signature.Verifier)) error {
	client, err := idverify.NewClient(baseURL, credentials, otelidverify.ClientOption())
	if err != nil {
		return err
	}
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return err
	}
	verifier, err := signature.NewVerifier(keys, hosts, &signature.VerifierOptions{Observe: otelidverify.ObserveVerifier()})
	if err != nil {
		return err
	}
	otelidverify.RegisterJWKS(keys)
	use(client, verifier)
	return nil
}

func TestProduction_Snippet(t *testing.T) {
	t.Parallel()
	called := false

	err := newService("https://service.example.com", idverify.Credentials{ClientID: "id", ClientSecret: idverify.NewSecret("secret")}, []string{"shop.example.com"},
		func(*idverify.Client, *signature.Verifier) { called = true })

	if err != nil || !called {
		t.Errorf("error = %v, want none", err)
	}
	block := regexp.MustCompile("(?s)```go\n([^`]*otelidverify.ClientOption[^`]*)```").FindStringSubmatch(production(t))
	source := must(os.ReadFile("docs_test.go"))(t)
	if block == nil {
		t.Fatal("docs/production.md has no snippet with otelidverify.ClientOption")
	}
	indented := "\t" + strings.ReplaceAll(strings.TrimSuffix(block[1], "\n"), "\n", "\n\t") + "\n"
	if !strings.Contains(string(source), indented) {
		t.Errorf("the snippet of docs/production.md is not in this file, so nothing compiles it:\n%s", block[1])
	}
}

func TestProduction_Metrics(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("(?m)^\\| `(idverify\\.[a-z_.]+)` \\| ([a-z]+) \\| `(\\S+)` \\| ([^|]+) \\| [^|]+ \\|$")

	documented := make(map[string]string)
	for _, m := range row.FindAllStringSubmatch(production(t), -1) {
		attributes := strings.Split(strings.ReplaceAll(m[4], "`", ""), ", ")
		slices.Sort(attributes)
		documented[m[1]] = fmt.Sprintf("%s %s %s", m[2], m[3], strings.Join(attributes, " "))
	}

	wantEqual(t, emitted(t), documented, "metrics in docs/production.md, compared with those emitted")
}

func TestProduction_Alerts(t *testing.T) {
	t.Parallel()
	table, rules := production(t), readDocument(t, "alerts.yaml")
	known := map[string]bool{"idverify": true} // the name of the group
	for name, properties := range emitted(t) {
		known[prometheusName(name, properties)] = true
		for _, attribute := range strings.Fields(properties)[2:] {
			known[strings.ReplaceAll(attribute, ".", "_")] = true
		}
	}

	if len(rules) < 1000 {
		t.Fatalf("docs/alerts.yaml has no alert rules: %q", rules)
	}
	for _, name := range regexp.MustCompile(`\b(idverify|error|http)[a-z_]*`).FindAllString(rules, -1) {
		name = strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_bucket")
		if !known[name] {
			t.Errorf("an alert uses %s, which is not the name of a metric or attribute", name)
		}
	}
	for _, name := range regexp.MustCompile(`idverify:\w+:\w+`).FindAllString(rules+table, -1) {
		if !strings.Contains(rules, "record: "+name+"\n") {
			t.Errorf("an alert uses %s, which no rule records", name)
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if strings.Count(table, "\n| `"+m[1]+"` | ") != 1 {
			t.Errorf("alert %s has no row with its first action", m[1])
		}
	}
}

// prometheusName returns the name of a metric in Prometheus, without the suffix of a histogram's
// series.
func prometheusName(name, properties string) string {
	name = strings.ReplaceAll(name, ".", "_")
	if strings.Fields(properties)[1] == "s" {
		name += "_seconds"
	}
	return name
}

func production(t *testing.T) string {
	t.Helper()
	return readDocument(t, "production.md")
}

func readDocument(t *testing.T, name string) string {
	t.Helper()
	return string(must(os.ReadFile("../docs/" + name))(t))
}

// emitted returns the type, the unit and the sorted attributes of each metric of the package.
func emitted(t *testing.T) map[string]string {
	t.Helper()
	r := newReceiver(t, sandboxfake.WithRateLimit(1000))
	otelidverify.RegisterJWKS(r.keys, r.providers()...)
	client := r.srv.Client(fastRetries(), otelidverify.ClientOption(r.providers()...))
	if status := r.deliver(t); status != http.StatusNoContent {
		t.Fatalf("response to the callback = %d, want 204", status)
	}
	r.srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})
	if status := r.deliver(t); status != http.StatusBadRequest {
		t.Fatalf("response to the forged callback = %d, want 400", status)
	}
	r.srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Drop: true})
	_, _ = client.PhoneChecks.Create(t.Context(), number)
	r.srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, sandboxfake.Fault{Status: http.StatusTooManyRequests})
	must(client.PhoneChecks.List(t.Context(), idverify.ListOptions{}))(t)

	observeInbox(t, r.telemetry)
	otelidverify.ObserveVerifier(r.providers()...)(t.Context(), signature.Verification{Operation: "callback", Reason: "ErrReplayStore", Err: signature.ErrReplayStore, Alert: true})

	metrics := make(map[string]string)
	for _, m := range r.metrics(t) {
		kind, attributes := "gauge", make(map[string]bool)
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			kind = "histogram"
			for _, p := range data.DataPoints {
				for _, a := range p.Attributes.ToSlice() {
					attributes[string(a.Key)] = true
				}
			}
		case metricdata.Gauge[int64], metricdata.Gauge[float64]:
			attributes["none"] = true
		default:
			t.Fatalf("metric %s has data of type %T", m.Name, m.Data)
		}
		if m.Description == "" {
			t.Errorf("metric %s has no description", m.Name)
		}
		metrics[m.Name] = fmt.Sprintf("%s %s %s", kind, m.Unit, strings.Join(slices.Sorted(maps.Keys(attributes)), " "))
	}
	return metrics
}
