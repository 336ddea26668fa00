package idverify

import (
	"context"
	"errors"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// Trace is a record of one step of a check. It is for support only: do not base decisions on it.
type Trace struct {
	TraceID string
	Logs    []TraceLog
}

// TraceLog is an entry of a trace.
type TraceLog struct {
	Timestamp  time.Time
	Message    string
	Attributes map[string]any // decoded from JSON; nil if there are none
}

// traces returns the traces of a check from all pages.
func traces(ctx context.Context, a *api, op wire.Operation, checkID string) ([]Trace, error) {
	const maxTraces = 10_000 // far more than the steps of a check
	pages := func(ctx context.Context, o ListOptions) (*Page[Trace], error) {
		return list[traceJSON](ctx, a, listOf(op, o, checkID), "traces")
	}
	return collect(op, maxTraces, all(ctx, ListOptions{Size: 100}, pages))
}

type traceJSON struct {
	TraceID string `json:"trace_id"`
	Logs    []struct {
		Timestamp  timestamp      `json:"timestamp"`
		Message    string         `json:"message"`
		Attributes map[string]any `json:"attributes"`
	} `json:"logs"`
}

func (j traceJSON) value() (*Trace, error) {
	if j.TraceID == "" {
		return nil, errors.New("missing trace_id")
	}
	t := &Trace{TraceID: j.TraceID, Logs: make([]TraceLog, len(j.Logs))}
	for i, l := range j.Logs {
		t.Logs[i] = TraceLog{Timestamp: l.Timestamp.Time, Message: l.Message, Attributes: l.Attributes}
	}
	return t, nil
}
