package stack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Postgres is a PostgreSQL server that listens on a Unix socket.
type Postgres struct {
	bin, dir string
	process  *process
}

// newPostgres returns a server with a directory in dir, whose programs are next to initdb.
func newPostgres(dir, initdb string) *Postgres {
	return &Postgres{bin: filepath.Dir(initdb), dir: filepath.Join(dir, "pg")}
}

// URL returns the URL of the database.
func (p *Postgres) URL() string {
	return "postgres:///postgres?" + url.Values{"host": {p.dir}, "user": {"shop"}}.Encode()
}

// Restart stops the server, which ends all its connections, and starts it again.
func (p *Postgres) Restart(ctx context.Context) error {
	p.stop()
	return p.start(ctx)
}

// create creates the database and starts the server.
func (p *Postgres) create(ctx context.Context) error {
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return err
	}
	credential, err := serverUser()
	if err != nil {
		return err
	}
	if credential != nil {
		// The server's user needs the way to its directory, but no other file.
		if err := os.Chmod(filepath.Dir(p.dir), 0o711); err != nil {
			return err
		}
		if err := os.Chown(p.dir, int(credential.Uid), int(credential.Gid)); err != nil {
			return err
		}
	}
	initdb, err := p.command("initdb", "-D", p.data(), "-U", "shop", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	if err != nil {
		return err
	}
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return p.start(ctx)
}

func (p *Postgres) start(ctx context.Context) error {
	server, err := p.command("postgres", "-D", p.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories="+p.dir, "-c", "max_connections=200")
	if err != nil {
		return err
	}
	if p.process, err = startProcess(filepath.Dir(p.dir), "postgres", server, nil); err != nil {
		return err
	}
	return p.process.await(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.URL())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// stop stops the server. It rolls back the transactions in progress and ends all connections.
func (p *Postgres) stop() {
	if p.process != nil {
		_ = p.process.stopWith(syscall.SIGINT) // the exit code does not matter
	}
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// command returns a command of PostgreSQL.
func (p *Postgres) command(name string, args ...string) (*exec.Cmd, error) {
	credential, err := serverUser()
	if err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join(p.bin, name), args...)
	command.Dir = p.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return command, nil
}

// serverUser returns the user that runs the server, or nil for the current user. PostgreSQL does
// not run as root.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres (run as another user)")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
