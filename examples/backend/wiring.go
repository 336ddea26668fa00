package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/replaystore/redis"
	"github.com/idverify/idverify-go/signature"
)

// wiring connects the shop to the service, the database, Redis and the job queue. This file is all
// that a backend needs besides its own business.
type wiring struct {
	db       *sql.DB
	client   *idverify.Client
	keys     *signature.JWKS
	verifier *signature.Verifier
	checks   *inbox.Inbox
	jobs     *river.Client[pgx.Tx]
}

func newWiring(ctx context.Context, c config, pool *pgxpool.Pool, db *sql.DB, replayClient *goredis.Client, log *slog.Logger) (*wiring, error) {
	httpClient, err := c.httpClient()
	if err != nil {
		return nil, err
	}
	// The web sign-in needs the code exchange of version v0.2.
	client, err := idverify.NewClient(c.baseURL, idverify.Credentials{}, idverify.WithCredentialsSource(c.credentials), idverify.WithHTTPClient(httpClient),
		idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}), idverify.WithLogger(log), otelidverify.Option())
	if err != nil {
		return nil, err
	}
	if _, err := client.Token(ctx, idverify.ScopePhoneCheck); errors.Is(err, idverify.ErrUnauthorized) {
		return nil, err // any other error: the service may be unavailable
	}
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return nil, err
	}
	_, metricErr := otelidverify.RegisterJWKS(keys)
	replays, err := redis.New(replayClient, nil)
	if err != nil {
		return nil, err
	}
	evictionErr := replays.Check(ctx)
	if errors.Is(evictionErr, redis.ErrEviction) {
		return nil, evictionErr
	}
	if err := errors.Join(metricErr, evictionErr); err != nil {
		log.WarnContext(ctx, "continuing", "error", err)
	}
	verifier, err := signature.NewVerifier(keys, []string{c.publicURL.Host},
		&signature.VerifierOptions{Replay: replays, Target: target, Observe: otelidverify.ObserveVerifier(), Logger: log})
	if err != nil {
		return nil, err
	}
	checks, err := inbox.New(ctx, db, inbox.Postgres, &inbox.Options{OnResult: enqueue, Logger: log})
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &resultWorker{pool: pool, checks: checks, process: process})
	// A job of a process that was killed runs again after a minute.
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers: workers, Logger: log, JobTimeout: 20 * time.Second, RescueStuckJobsAfter: time.Minute})
	if err != nil {
		return nil, err
	}
	return &wiring{db, client, keys, verifier, checks, jobs}, nil
}

// target returns the host and the request target that the service signed. The proxy sets both
// headers on every request; nothing else can reach this program.
func target(r *http.Request) (host, requestURI string) {
	return r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Original-URI")
}

// ready returns why the process cannot serve requests, or nil. While the key set cannot be fetched,
// a set that is not too old is sufficient.
func (g *wiring) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if err := g.keys.Refresh(ctx); err != nil {
		if age, fetched := g.keys.Age(); !fetched || age > maxStale {
			return errors.New("no key set")
		}
	}
	select {
	case <-g.jobs.Stopped():
		return errors.New("job queue stopped")
	default:
		return g.db.PingContext(ctx)
	}
}

const maxStale = 24 * time.Hour // the default of JWKSOptions.MaxStale
