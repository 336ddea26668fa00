package redact

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
)

// PanicText returns the text of a runtime error, and the type of any other value, which may contain
// a secret or personal data.
func PanicText(p any) (text string) {
	defer func() {
		if recover() != nil { // p.Error panicked
			text = fmt.Sprintf("a value of type %T", p)
		}
	}()
	if e, ok := p.(runtime.Error); ok {
		return e.Error()
	}
	return fmt.Sprintf("a value of type %T", p)
}

// PanicSite returns the name of the function that panicked. It is called from a deferred function.
func PanicSite() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]) // skip Callers, PanicSite and the deferred function
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			return frame.Function
		}
		if !more {
			return "an unknown function"
		}
	}
}

// RespondToPanic responds with 500 and an empty body before a panic continues. Without a response
// net/http would close the connection, after which the service does not retry a callback. It does
// so after the response, so the service must not reuse the connection.
func RespondToPanic(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "0")
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusInternalServerError)
	_ = http.NewResponseController(w).Flush()
}
