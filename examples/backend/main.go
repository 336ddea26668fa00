// Backend is a shop that verifies its customers with the service: sign-up, sign-in on the web and
// in an app, payouts, and the choice between a silent check and a text message. It is meant to be
// deployed in several replicas behind a proxy, with PostgreSQL. The environment configures it: see
// config.
//
// Start with wiring.go, which connects the packages of the SDK, and jobs.go, which processes each
// result once. The other files are the business of the shop.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv, os.Stdout, slog.New(slog.NewJSONHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "backend:", err)
		os.Exit(1)
	}
}

// run serves the shop until ctx ends. It prints its address to out when it is ready to serve.
func run(ctx context.Context, getenv func(string) string, out io.Writer, log *slog.Logger) (err error) {
	c, err := configFrom(getenv)
	if err != nil {
		return err
	}
	stopTelemetry, err := startTelemetry(c.telemetry, out)
	if err != nil {
		return err
	}
	last := context.WithoutCancel(ctx) // what ends last continues after ctx has ended
	defer func() { err = errors.Join(err, stopTelemetry(last)) }()

	pool, err := openPool(last, c.databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := migrate(ctx, pool, db); err != nil {
		return err
	}
	s := &shop{publicURL: c.publicURL, log: log, db: db}
	if err := s.connect(ctx, c, pool); err != nil {
		return err
	}
	return s.run(ctx, c, out)
}

// run processes results and serves requests until ctx ends.
func (s *shop) run(ctx context.Context, c config, out io.Writer) error {
	last := context.WithoutCancel(ctx)
	if err := s.jobs.Start(last); err != nil {
		return err
	}
	stopChecks := s.checks.Start(last, s.client, nil) // the jobs process the results
	err := s.serve(ctx, c, out)
	stopChecks()
	stopCtx, cancel := context.WithTimeout(last, stopTimeout)
	defer cancel()
	return errors.Join(err, s.jobs.Stop(stopCtx))
}

// stopTimeout limits the time for requests in flight, of which Return takes up to 36 s, and then
// for jobs in progress.
const stopTimeout = 40 * time.Second

// serve serves the shop until ctx ends: then the readiness probe fails, and requests in flight
// finish.
func (s *shop) serve(ctx context.Context, c config, out io.Writer) error {
	handler, err := s.handler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintln(out, "listening on", listener.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	time.Sleep(c.shutdownDelay) // the proxy notices
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = server.Shutdown(end)
	if closed := <-served; !errors.Is(closed, http.ErrServerClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// openPool returns a pool of connections for the inbox, the jobs and the shop.
func openPool(ctx context.Context, databaseURL string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, errors.New("DATABASE_URL is invalid")
	}
	c.MaxConns = max(c.MaxConns, minConns)
	return pgxpool.NewWithConfig(ctx, c)
}

// minConns is enough for ten jobs, River itself and as many requests.
const minConns = 24
