package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/replaystore/redis"
	"github.com/idverify/idverify-go/signature"
)

// connect connects the shop to the service, the database, Redis and the job queue. This file is all
// that a backend needs besides its own business.
func (s *shop) connect(ctx context.Context, c config, pool *pgxpool.Pool, replayClient *goredis.Client) error {
	httpClient, err := c.httpClient()
	if err != nil {
		return err
	}
	// The sign-in on the web needs the code exchange of version v0.2.
	s.client, err = idverify.NewClient(c.baseURL, idverify.CredentialsFile(c.credentialsFile), idverify.WithHTTPClient(httpClient),
		idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}), idverify.WithLogger(s.log), otelidverify.ClientOption())
	if err != nil {
		return err
	}
	if rejected, ok := errors.AsType[*idverify.TokenError](s.client.CheckCredentials(ctx)); ok && (errors.Is(rejected, idverify.ErrUnauthorized) || rejected.Code == idverify.CodeInvalidScope) {
		return rejected // after any other error the service may be unavailable
	}
	s.keys, err = s.client.NewJWKS(nil)
	replays, replaysErr := redis.New(replayClient, nil)
	inserter, inserterErr := river.NewClient(riverdatabasesql.New(s.db), &river.Config{Logger: s.log})
	if err := errors.Join(err, replaysErr, inserterErr); err != nil {
		return err
	}
	hosts, options := []string{c.publicURL.Host}, signature.VerifierOptions{Target: target, Observe: otelidverify.ObserveVerifier(), Logger: s.log}
	callbacks, callbacksErr := signature.NewVerifier(s.keys, hosts, &options)
	options.Replay = replays // callbacks need none: the inbox stores one result for each check
	redirects, redirectsErr := signature.NewVerifier(s.keys, hosts, &options)
	checks, inboxErr := inbox.New(ctx, s.db, inbox.Postgres, &inbox.Options{OnResult: enqueue(inserter), Logger: s.log, Observe: otelidverify.ObserveInbox()})
	if err := errors.Join(callbacksErr, redirectsErr, inboxErr); err != nil {
		return err
	}
	s.callbacks, s.redirects, s.checks = callbacks, redirects, checks
	_, keysErr := otelidverify.RegisterJWKS(s.keys)
	_, checksErr := otelidverify.RegisterInbox(s.checks)
	if err := errors.Join(replays.Check(ctx), keysErr, checksErr); errors.Is(err, redis.ErrEviction) {
		return err
	} else if err != nil {
		s.log.WarnContext(ctx, "started with a warning", "error", err)
	}
	workers := expireWorkers(pool)
	river.AddWorker(workers, &resultWorker{pool: pool, checks: s.checks, process: process})
	// A job of a process that was killed runs again after a minute.
	s.jobs, err = river.NewClient(riverpgxv5.New(pool), &river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers: workers, PeriodicJobs: expireHourly(), Logger: s.log, JobTimeout: 20 * time.Second, RescueStuckJobsAfter: time.Minute})
	return err
}

// target returns the host and the request target that the service signed. The proxy sets both
// headers on every request; nothing else can reach this program.
func target(r *http.Request) (host, requestURI string) {
	return r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Original-URI")
}

// ready returns why the process cannot serve requests, or nil. While the key set cannot be fetched,
// a set that is not too old is sufficient.
func (s *shop) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if err := s.keys.Refresh(ctx); err != nil {
		if age, fetched := s.keys.Age(); !fetched || age > 24*time.Hour { // MaxStale
			return errors.New("no key set")
		}
	}
	select {
	case <-s.jobs.Stopped():
		return errors.New("job queue stopped")
	default:
		return s.db.PingContext(ctx)
	}
}
