package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"

	"github.com/idverify/idverify-go"
)

// maxNodes is the most DOM nodes that the page may have, however many checks the service has.
const maxNodes = 3000

// measurement describes the load of the page.
type measurement struct {
	nodes  int     // elements of the document
	heap   float64 // of JavaScript, in MB, after a collection
	dom    float64 // nodes in memory, which includes removed ones
	delay  float64 // longest delay of the event loop since the last measurement, in ms
	server string  // memory of the program
}

func (m measurement) String() string {
	return fmt.Sprintf("%d elements, %.0f nodes in memory, %.1f MB of JavaScript, event loop delayed by at most %.0f ms; %s", m.nodes, m.dom, m.heap, m.delay, m.server)
}

// measure measures the page.
func (p *page) measure() measurement {
	p.t.Helper()
	delay := evaluate[float64](p, `(d => (window.__delay = 0, d))(window.__delay ?? 0)`)
	command(p, heapprofiler.CollectGarbage, cdp.Empty{})
	m := measurement{delay: delay, nodes: evaluate[int](p, `document.querySelectorAll("*").length`), server: p.program.memory()}
	for _, metric := range command(p, performance.GetMetrics, cdp.Empty{}).Metrics {
		switch metric.Name {
		case "JSHeapUsedSize":
			m.heap = metric.Value / 1e6
		case "Nodes":
			m.dom = metric.Value
		}
	}
	return m
}

// memory returns the memory that the program uses, on Linux.
func (p *program) memory() string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, memory, found := strings.Cut(string(status), "VmRSS:")
	if err != nil || !found {
		return "memory of the program unknown"
	}
	memory, _, _ = strings.Cut(memory, "\n")
	return "the program uses " + strings.TrimSpace(memory)
}

// measureDelay makes the page record the delay of its event loop.
func (p *page) measureDelay() {
	p.t.Helper()
	command(p, performance.Enable, performance.EnableParams{})
	evaluate[bool](p, `(() => {
		window.__delay = 0;
		let last = performance.now();
		setInterval(() => { const now = performance.now(); window.__delay = Math.max(window.__delay, now - last - 20); last = now; }, 20);
		return true;
	})()`)
}

// createMany creates PhoneChecks.
func createMany(t *testing.T, client *idverify.Client, n int) {
	t.Helper()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; i < n; i += 8 {
				if _, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: fmt.Sprintf("4477009%05d", i)}); err != nil {
					t.Errorf("create check %d: %v", i, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestPage_Load(t *testing.T) {
	skipSlow(t)
	const checks = 10_000
	duration := 5 * time.Second
	if text := os.Getenv("IDVERIFY_BROWSER_LOAD"); text != "" {
		duration = must(time.ParseDuration(text))(t)
	}
	p := start(t)
	client := p.client()
	pg := open(t, p)
	pg.measureDelay()
	began := time.Now()
	createMany(t, client, checks)
	pg.waitText("#checks-total", "10,000")
	t.Logf("%d checks in %v, with the page open: %v", checks, time.Since(began).Round(time.Second), pg.measure())

	// Page through the list, and back.
	const firstCheck = `document.querySelector("#checks-body tr")?.dataset.id`
	first := until[string](pg, firstCheck)
	pg.click("#checks-older")
	pg.waitFor(firstCheck + ` !== ` + quote(first))
	second := until[string](pg, firstCheck)
	pg.click("#checks-older")
	pg.waitFor(firstCheck + ` !== ` + quote(second))
	pg.click("#checks-newer")
	pg.waitFor(firstCheck + ` === ` + quote(second))
	pg.click("#checks-newer")
	pg.waitFor(firstCheck + ` === ` + quote(first))
	pg.screenshot("10000-checks")

	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	generated := make(chan int)
	go func() { generated <- generateEvents(ctx, client) }()
	steps := []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}
	for _, step := range steps {
		if step < duration {
			waitUntil(ctx, began, step)
			t.Logf("after %v: %v", step, pg.measure())
		}
	}
	n := <-generated
	m := pg.measure()
	t.Logf("%d events in %v: %v", n, duration, m)
	if m.nodes > maxNodes {
		t.Errorf("the page has %d elements, want at most %d", m.nodes, maxNodes)
	}
	// The page still responds.
	pg.view("requests")
	pg.waitFor(`document.querySelectorAll("#requests-body tr").length > 20`)
	const firstRequest = `document.querySelector("#requests-body tr")?.dataset.id`
	before := until[string](pg, firstRequest)
	pg.click("#requests-older")
	pg.waitFor(firstRequest + ` !== ` + quote(before))
	pg.click("#requests-newer")
	pg.waitFor(firstRequest + ` === ` + quote(before))
	m = pg.measure()
	t.Logf("list of requests: %v", m)
	if m.nodes > maxNodes {
		t.Errorf("the list of requests has %d elements, want at most %d", m.nodes, maxNodes)
	}
}

// waitUntil waits until d after began, or the end of ctx.
func waitUntil(ctx context.Context, began time.Time, d time.Duration) {
	timer := time.NewTimer(time.Until(began.Add(d)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// generateEvents causes 100 events per second until ctx ends and returns their number: a check is
// created or read in each.
func generateEvents(ctx context.Context, client *idverify.Client) int {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	var group sync.WaitGroup
	defer group.Wait()
	limit := make(chan struct{}, 32)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return n
		case <-ticker.C:
		}
		limit <- struct{}{}
		group.Go(func() {
			defer func() { <-limit }()
			client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: fmt.Sprintf("4477009%05d", n%100_000), ReferenceID: strings.Repeat("r", n%40)})
		})
	}
}
