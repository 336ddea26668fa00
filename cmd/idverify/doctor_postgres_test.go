//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/tooltest"
)

// postgresServer is a PostgreSQL server that listens on a Unix socket.
type postgresServer struct{ dir, bin string }

// startPostgres starts a server, and stops it when the test ends.
func startPostgres(t *testing.T) *postgresServer {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian does not add it to the PATH
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	tooltest.Require(t, len(found) > 0, "PostgreSQL is not installed (run script/setup postgres)")
	dir, err := os.MkdirTemp("", "postgres") // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &postgresServer{dir, filepath.Dir(slices.Max(found))}
	t.Cleanup(func() {
		s.run("pg_ctl", "stop", "-D", s.data(), "-m", "immediate")
		os.RemoveAll(dir)
	})
	if c := serverUser(); c != nil {
		if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	s.mustRun(t, "initdb", "-D", s.data(), "-U", "test", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	s.start(t)
	return s
}

func (s *postgresServer) start(t *testing.T) {
	t.Helper()
	s.mustRun(t, "pg_ctl", "start", "-D", s.data(), "-w", "-l", filepath.Join(s.dir, "log"), "-o", "-c listen_addresses='' -c unix_socket_directories="+s.dir)
}

func (s *postgresServer) data() string { return filepath.Join(s.dir, "data") }

func (s *postgresServer) socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

func (s *postgresServer) run(name string, args ...string) ([]byte, error) {
	command := exec.Command(filepath.Join(s.bin, name), args...)
	command.Dir = s.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: serverUser()}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	return output.Bytes(), err
}

func (s *postgresServer) mustRun(t *testing.T, name string, args ...string) {
	t.Helper()
	if output, err := s.run(name, args...); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, output)
	}
}

// url returns the URL of a database for a user.
func (s *postgresServer) url(user, database string) string {
	return "postgres://" + user + ":the-password@/" + database + "?host=" + s.dir
}

// database creates a database with the tables of module inbox.
func (s *postgresServer) database(t *testing.T, name string) *sql.DB {
	t.Helper()
	admin := openPostgres(t, s.url("test", "postgres"))
	execute(t, admin, "CREATE DATABASE "+name)
	db := openPostgres(t, s.url("test", name))
	if err := inbox.Migrate(t.Context(), db, inbox.Postgres); err != nil {
		t.Fatal(err)
	}
	return db
}

func openPostgres(t *testing.T, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// serverUser returns the user that runs the server, or nil for the current user. PostgreSQL does
// not run as root.
func serverUser() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func TestDoctor_Postgres(t *testing.T) {
	t.Parallel()
	s := startPostgres(t)
	db := s.database(t, "shop")
	insertEntry(t, db, "stopped")
	execute(t, db, "CREATE ROLE shop LOGIN")
	execute(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON idverify_checks TO shop")
	execute(t, db, "GRANT SELECT ON idverify_schema TO shop")
	execute(t, db, "CREATE ROLE poor LOGIN")
	execute(t, db, "GRANT SELECT ON idverify_checks, idverify_schema TO poor")
	execute(t, db, "CREATE ROLE guest LOGIN")
	execute(t, s.database(t, "old"), "UPDATE idverify_schema SET version = 0")
	execute(t, s.database(t, "half"), "DROP TABLE idverify_checks")
	admin := openPostgres(t, s.url("test", "postgres"))
	execute(t, admin, "CREATE DATABASE fresh")
	port := forwardTCP(t, s.socket())
	ca := newAuthority(t, "Test CA")
	encrypted := "postgres://shop@0.0.0.0:" + forwardTLS(t, ca.issue(t, longValidity, "0.0.0.0"), s.socket()) + "/shop?sslmode="

	for _, row := range []struct{ check, problem, source, detail string }{
		{"database-connection", "", s.url("shop", "shop"), "PostgreSQL "},
		{"database-connection", "", "host=" + s.dir + " user=shop dbname=shop", "PostgreSQL "},
		{"database-schema", "", s.url("shop", "shop"), "version 1"},
		{"database-settings", "", s.url("shop", "shop"), "survive a crash"},
		{"database-privileges", "", s.url("shop", "shop"), "all privileges"},
		{"database-entries", "stopped", s.url("shop", "shop"), "1 stopped"},
		{"database-connection", "invalid", "postgres://shop:the-password@host:port/shop", "malformed"},
		{"database-connection", "closed-port", "postgres://shop:the-password@" + unusedAddress + "/shop", "connection refused"},
		{"database-connection", "authentication", s.url("nobody", "shop"), "(28000)"},
		{"database-connection", "missing", s.url("shop", "none"), "(3D000)"},
		{"database-connection", "unencrypted", "postgres://shop@0.0.0.0:" + port + "/shop?sslmode=disable", "without TLS"},
		{"database-connection", "unencrypted", "postgres://shop@0.0.0.0:" + port + "/shop", "without TLS"}, // sslmode=prefer
		{"database-connection", "", "postgres://shop@localhost:" + port + "/shop?sslmode=disable", "PostgreSQL "},
		{"database-connection", "unverified", encrypted + "prefer", "not verified"},
		{"database-connection", "unverified", encrypted + "require", "not verified"},
		{"database-connection", "", encrypted + "require&sslrootcert=" + ca.file, "TLS"}, // as verify-ca
		{"database-connection", "", encrypted + "verify-ca&sslrootcert=" + ca.file, "TLS"},
		{"database-connection", "", encrypted + "verify-full&sslrootcert=" + ca.file, "TLS"},
		{"database-connection", "tls", "postgres://shop:the-password@127.0.0.1:" + forwardTLS(t, newAuthority(t, "Unknown CA").issue(t, longValidity, "127.0.0.1"), s.socket()) + "/shop?sslmode=verify-full", "certificate"},
		{"database-schema", "missing", s.url("shop", "fresh"), "no tables of module inbox"},
		{"database-schema", "outdated", s.url("test", "old"), "version 0, and module inbox needs 1"},
		{"database-schema", "unreadable", s.url("guest", "shop"), "(42501)"},
		{"database-settings", "unsafe", s.url("shop", "shop") + "&options=-csynchronous_commit%3Doff", "synchronous_commit=off"},
		{"database-privileges", "denied", s.url("poor", "shop"), "lacks INSERT on idverify_checks, UPDATE on idverify_checks, DELETE on idverify_checks"},
		{"database-privileges", "unreadable", s.url("test", "half"), "(42P01)"},
		{"database-entries", "unreadable", s.url("test", "half"), "idverify_checks"},
	} {
		t.Run(row.check+" "+row.problem, func(t *testing.T) {
			t.Parallel()

			got := doctorJSON(t, nil, "-only", "database", "-database", row.source)

			if row.problem == "" {
				got.wantOK(t, row.check)
			} else {
				got.wantProblem(t, row.check, row.problem, row.detail)
			}
			if detail := got.row(t, row.check).Detail; !strings.Contains(detail, row.detail) || strings.Contains(got.text, "the-password") {
				t.Errorf("output = %s, want %q and no password", got.text, row.detail)
			}
		})
	}
}

// A locked table must not block doctor beyond its timeout.
func TestDoctor_PostgresLocked(t *testing.T) {
	t.Parallel()
	s := startPostgres(t)
	db := s.database(t, "shop")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE idverify_schema IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}

	got := doctorJSON(t, nil, "-only", "database-settings", "-only", "database-privileges", "-database", s.url("test", "shop"), "-timeout", "2s")

	got.wantProblem(t, "database-settings", "unreadable", "no response before the timeout")
	got.wantOK(t, "database-privileges")
}

func TestDoctor_PostgresStandby(t *testing.T) {
	t.Parallel()
	s := startPostgres(t)
	s.mustRun(t, "pg_ctl", "stop", "-D", s.data(), "-w", "-m", "fast")
	if err := os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.start(t)

	got := doctorJSON(t, nil, "-only", "database-connection", "-database", s.url("test", "postgres"))

	got.wantProblem(t, "database-connection", "standby", "a standby, which is read-only")
}

func TestDoctor_OldPostgres(t *testing.T) {
	t.Parallel()

	got := evaluatePostgres(140012, false, databaseLink{}, 0)

	if got.problem != "old" || problemOf("database-connection", "old").result != resultFailed || !strings.Contains(newDoctorRun(newProgram(nil)).detail(got), "PostgreSQL 14") {
		t.Errorf("version 14 = %+v, want the problem old", got)
	}
}

// forwardTLS forwards TCP connections to the Unix socket of PostgreSQL, on which it has no TLS. It
// accepts the request for TLS as PostgreSQL does.
func forwardTLS(t *testing.T, certificate tls.Certificate, socket string) (port string) {
	t.Helper()
	return forward(t, socket, func(conn net.Conn) (net.Conn, error) {
		request := make([]byte, 8)
		if _, err := io.ReadFull(conn, request); err != nil {
			return nil, err
		}
		if binary.BigEndian.Uint32(request[4:]) != 80877103 {
			return nil, errors.New("not a request for TLS")
		}
		if _, err := io.WriteString(conn, "S"); err != nil {
			return nil, err
		}
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}})
		return secure, secure.Handshake()
	})
}
