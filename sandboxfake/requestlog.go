package sandboxfake

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/idverify/idverify-go/internal/timeline"
)

// requestLog writes the log of WithRequestLog. A nil *requestLog writes nothing.
type requestLog struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

// call logs a call and the status of its response.
func (l *requestLog) call(c *call, status int, elapsed time.Duration) {
	if l == nil {
		return
	}
	operation, result := c.op.Name, ""
	if operation == "" {
		operation = "-"
	}
	if c.fault != nil {
		result = "injected fault"
	}
	l.line(c.r.Method, timeline.MaskPath(c.r.URL.EscapedPath()), operation, status, result, elapsed)
}

// attempt logs the n-th attempt of a delivery.
func (l *requestLog) attempt(d *delivery, n int, attempt Attempt, elapsed time.Duration) {
	if l == nil {
		return
	}
	result := string(attempt.Result)
	if attempt.Error != "" {
		result += ": " + timeline.MaskText(attempt.Error)
	}
	l.line("→", fmt.Sprintf("callback %s", d.CheckID), fmt.Sprintf("%s %s, attempt %d", d.Product, d.Status, n), attempt.Status, result, elapsed)
}

func (l *requestLog) line(method, path, operation string, status int, result string, d time.Duration) {
	code := "---"
	if status != 0 {
		code = fmt.Sprint(status)
	}
	if result != "" {
		code += " " + result
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s %-6s %s %s %s %.1fms\n", time.Now().Format("15:04:05.000"), method, path, operation, code, float64(d.Microseconds())/1000)
}
