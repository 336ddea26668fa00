package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"path/filepath"
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
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return postgresProblem(err)
	}
	link, err := linkOf(ctx, db, config)
	if err != nil {
		db.Close()
		return postgresProblem(err)
	}
	var version int
	var standby bool
	began := time.Now()
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int, pg_is_in_recovery()").Scan(&version, &standby); err != nil {
		db.Close()
		return postgresProblem(err)
	}
	latency := time.Since(began)
	d.stored = &inboxDatabase{db: db, dialect: inbox.Postgres}
	return evaluatePostgres(version, standby, link, latency)
}

// databaseLink describes the protection of a connection.
type databaseLink struct{ local, encrypted, verified bool }

// linkOf inspects a connection, because the settings permit several kinds: with sslmode=prefer, the
// default of libpq, the connection has no TLS if the server has none.
func linkOf(ctx context.Context, db *sql.DB, config *pgx.ConnConfig) (link databaseLink, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return link, err
	}
	defer conn.Close()
	err = conn.Raw(func(driver any) error {
		_, link.encrypted = driver.(*stdlib.Conn).Conn().PgConn().Conn().(*tls.Conn)
		return nil
	})
	link.local, link.verified = isLocalPostgres(config.Host), link.encrypted && verifies(config.TLSConfig)
	for _, other := range config.Fallbacks {
		link.local = link.local && isLocalPostgres(other.Host)
		link.verified = link.verified && verifies(other.TLSConfig)
	}
	return link, err
}

// isLocalPostgres reports whether a host is this machine, or the directory of a Unix socket.
func isLocalPostgres(host string) bool {
	return strings.HasPrefix(host, "/") || filepath.IsAbs(host) || isLocal(net.JoinHostPort(host, "0"))
}

// verifies reports whether connections with a configuration verify the certificate. nil is the
// configuration of connections without TLS.
func verifies(config *tls.Config) bool {
	return config == nil || !config.InsecureSkipVerify || config.VerifyPeerCertificate != nil || config.VerifyConnection != nil
}

// evaluatePostgres checks the version and the role of the server, and its connection.
func evaluatePostgres(version int, standby bool, link databaseLink, latency time.Duration) diagnosis {
	detail := fmt.Sprintf("PostgreSQL %d, latency %s", version/10000, seconds(latency))
	switch {
	case version/10000 < oldestPostgres:
		return sick("old", "%s", detail)
	case standby:
		return sick("standby", "%s, a standby, which is read-only", detail)
	case !link.local && !link.encrypted:
		return sick("unencrypted", "%s, without TLS", detail)
	case !link.local && !link.verified:
		return sick("unverified", "%s, with TLS, but the certificate of the server is not verified", detail)
	case link.encrypted:
		return healthy("%s, TLS", detail)
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
	return sick(unreachable(err), "%s", databaseError(err))
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
