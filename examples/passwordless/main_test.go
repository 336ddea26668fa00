package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestTheProgramServesThePageAndEndsCleanly(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, slog.New(slog.DiscardHandler)) }()

	response, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	stop()

	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), "This is a demonstration") {
		t.Errorf("status %d, %v, want the form of the demonstration:\n%s", response.StatusCode, err, body)
	}
	if err := <-ended; err != nil {
		t.Errorf("the program ended with %v, want a clean end", err)
	}
}
