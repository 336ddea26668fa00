package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/signature"
)

// connect connects the shop to the service, the database and the job queue. This file is all
// that a backend needs besides its own business.
func (s *shop) connect(ctx context.Context, c config, pool *pgxpool.Pool) error {
	httpClient, err := c.httpClient()
	if err != nil {
		return err
	}
	s.client, err = idverify.NewClient(c.baseURL, idverify.CredentialsFile(c.credentialsFile), idverify.WithHTTPClient(httpClient),
		idverify.WithLogger(s.log), idverify.WithLiveOnly(), otelidverify.ClientOption())
	if err != nil {
		return err
	}
	if err := s.client.CheckCredentials(ctx); errors.Is(err, idverify.ErrUnauthorized) || errors.Is(err, idverify.ErrForbidden) {
		return err // after any other error the service may be unavailable
	}
	s.keys, err = s.client.NewJWKS(nil)
	inserter, inserterErr := river.NewClient(riverdatabasesql.New(s.db), &river.Config{Logger: s.log})
	if err := errors.Join(err, inserterErr); err != nil {
		return err
	}
	var verifierErr, inboxErr error
	s.verifier, verifierErr = signature.NewVerifier(s.keys, []string{c.publicURL.Host}, &signature.VerifierOptions{Target: target, Observe: otelidverify.ObserveVerifier(), Logger: s.log})
	s.checks, inboxErr = inbox.New(ctx, s.db, inbox.Postgres, &inbox.Options{OnResult: enqueue(inserter), Logger: s.log, Observe: otelidverify.ObserveInbox[inbox.Event]()})
	if err := errors.Join(verifierErr, inboxErr); err != nil {
		return err
	}
	if err := s.connectSignIn(s.checks.Flows(0)); err != nil {
		return err
	}
	otelidverify.RegisterJWKS(s.keys)
	otelidverify.RegisterInbox(s.checks.Stats)
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

// running returns why the process should get no requests, or nil.
func (s *shop) running(context.Context) error {
	select {
	case <-s.jobs.Stopped():
		return errors.New("job queue stopped")
	default:
	}
	if s.stopping.Load() {
		return errors.New("stopping")
	}
	return nil
}
