package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/idverify/idverify-go/inbox"
)

// oldestPostgres is the oldest supported version of PostgreSQL.
const oldestPostgres = 15

// connectPostgres connects to PostgreSQL.
func (d *doctorRun) connectPostgres(ctx context.Context) diagnosis {
	config, err := pgx.ParseConfig(d.database)
	if err != nil {
		return sick("invalid", "the data source name of PostgreSQL is malformed")
	}
	if config.Password != "" {
		d.secrets = append(d.secrets, config.Password)
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(1)
	var version int
	var standby bool
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return postgresProblem(err)
	}
	began := time.Now()
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int, pg_is_in_recovery()").Scan(&version, &standby); err != nil {
		db.Close()
		return postgresProblem(err)
	}
	latency := time.Since(began)
	d.stored = &inboxDatabase{db: db, dialect: inbox.Postgres}
	return evaluatePostgres(version, standby, config, latency)
}

// evaluatePostgres checks the version and the role of the server, and its connection.
func evaluatePostgres(version int, standby bool, config *pgx.ConnConfig, latency time.Duration) diagnosis {
	detail := fmt.Sprintf("PostgreSQL %d, latency %v", version/10000, latency.Round(100*time.Microsecond))
	switch {
	case version/10000 < oldestPostgres:
		return sick("old", "%s", detail)
	case standby:
		return sick("standby", "%s, a standby, which is read-only", detail)
	case config.TLSConfig == nil && !strings.HasPrefix(config.Host, "/") && !isLocal(config.Host+":0"):
		return sick("plain-text", "%s, without TLS", detail)
	}
	return healthy("%s", detail)
}

// postgresProblem classifies an error of the connection.
func postgresProblem(err error) diagnosis {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(e.Code, "28"):
			return sick("authentication", "%s", databaseError(err))
		case e.Code == "3D000":
			return sick("missing", "%s", databaseError(err))
		}
		return sick("unreachable", "%s", databaseError(err))
	}
	if unverified {
		return sick("tls", "%s", cause(err))
	}
	return sick("unreachable", "%s", databaseError(err))
}

// databaseError returns the text of an error without the data source name.
func databaseError(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message + " (" + e.Code + ")"
	}
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return cause(e.Unwrap())
	}
	return cause(err)
}

// isDenied reports whether the user lacks a privilege.
func isDenied(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "42501"
}

// checkGrants checks the privileges that a service needs.
func (d *doctorRun) checkGrants(ctx context.Context) diagnosis {
	var missing []string
	for _, table := range []struct {
		name       string
		privileges []string
	}{
		{"idverify_checks", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{"idverify_schema", []string{"SELECT"}},
	} {
		for _, privilege := range table.privileges {
			var granted bool
			if err := d.stored.db.QueryRowContext(ctx, "SELECT has_table_privilege($1, $2)", table.name, privilege).Scan(&granted); err != nil {
				return sick("unreadable", "%s", databaseError(err))
			}
			if !granted {
				missing = append(missing, privilege+" on "+table.name)
			}
		}
	}
	if len(missing) > 0 {
		return sick("denied", "this user lacks %s", strings.Join(missing, ", "))
	}
	return healthy("this user has all privileges that module inbox needs")
}
