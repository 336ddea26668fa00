// Sandboxfake runs the service as a program, for clients in any language: a TLS server with the rules of the service's sandbox, on this machine, with nothing to pay.
//
//	go run ./cmd/sandboxfake
//
// It prints its URL, the file of its certificate authority, credentials of a project and of its workspace, and two commands to paste. Then it logs a line for each call and each try of a callback, until it gets SIGINT or SIGTERM.
// What [sandboxfake.Server] offers a Go test (moving the clock, faults, the journals) is under /_sandbox/, which explains itself.
//
// Every run has keys and credentials of its own, unless the flags ask for fixed ones:
//
//	-addr host:port   listen there; 127.0.0.1:0 by default, a free port
//	-json             print one line of JSON in place of the text, for scripts
//	-seed n           the same ids, credentials, codes and tokens in every run with this n
//	-fixed-keys       the test keys that everybody has, in place of new ones: it starts faster, and clients may keep the CA file
//	-ca-file path     write the CA certificate there and leave it there; by default it is a temporary file
//	-remote-control   answer /_sandbox/ to every address, for example to other containers, and not to this machine alone
//	-quiet            no log
//
// Give it the name that its clients use, and the certificate is good for that, too: in a container called sandbox, -addr sandbox:8443 -remote-control.
//
// It exits with 0 when it was asked to stop, with 1 when it could not start, and with 2 when a flag is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/idverify/idverify-go/sandboxfake"
)

func main() {
	// Before anything is printed: who reads the URL may stop us at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// run is the program: it serves until ctx ends, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags, code := parseFlags(args, stderr)
	if flags == nil {
		return code
	}
	if err := serve(ctx, flags, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return exitError
	}
	return exitOK
}

// flags are the command line's.
type flags struct {
	addr, caFile  string
	seed          uint64
	fixedKeys     bool
	json          bool
	remoteControl bool
	quiet         bool
	controlToken  string
}

// controlTokenEnv is the environment variable that sets the control token.
const controlTokenEnv = "SANDBOXFAKE_CONTROL_TOKEN"

// parseFlags reads the command line. Where there is nothing to run, it returns nil and the exit code.
func parseFlags(args []string, stderr io.Writer) (*flags, int) {
	// Unless a seed is given, credentials are drawn anew for each run.
	f := &flags{seed: rand.Uint64()}
	set := flag.NewFlagSet("sandboxfake", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.addr, "addr", "127.0.0.1:0", "listen on this `host:port`; port 0 is a free one")
	set.BoolVar(&f.json, "json", false, "print one line of JSON in place of the text")
	set.Func("seed", "the same ids and credentials in every run with this `number`; by default others each time", func(text string) (err error) {
		f.seed, err = strconv.ParseUint(text, 10, 64)
		return err
	})
	set.BoolVar(&f.fixedKeys, "fixed-keys", false, "use the test keys that everybody has, in place of new ones")
	set.StringVar(&f.caFile, "ca-file", "", "write the CA certificate to this `path` and leave it there; by default it is a temporary file")
	set.BoolVar(&f.remoteControl, "remote-control", false, "answer /_sandbox/ to every address, and not to this machine alone")
	set.StringVar(&f.controlToken, "control-token", "", "the `token` that /_sandbox/ requires, of at least 16 characters; better set "+controlTokenEnv+", because other users see flags; random by default")
	set.BoolVar(&f.quiet, "quiet", false, "do not log calls")
	switch err := set.Parse(args); {
	case err == flag.ErrHelp:
		return nil, exitOK
	case err != nil:
		return nil, exitUsage
	case set.NArg() > 0:
		fmt.Fprintf(stderr, "sandboxfake takes flags only, not %q\n", set.Arg(0))
		set.Usage()
		return nil, exitUsage
	}
	if f.controlToken == "" {
		f.controlToken = os.Getenv(controlTokenEnv)
	}
	return f, exitOK
}

// options are what the flags mean to the server.
func (f *flags) options(log io.Writer) []sandboxfake.Option {
	options := []sandboxfake.Option{sandboxfake.WithAddr(f.addr), sandboxfake.WithSeed(f.seed), sandboxfake.WithControlPlane()}
	if f.controlToken != "" {
		options = append(options, sandboxfake.WithControlToken(f.controlToken))
	}
	if f.remoteControl {
		options = append(options, sandboxfake.WithRemoteControl())
	}
	if !f.fixedKeys {
		options = append(options, sandboxfake.WithFreshKeys())
	}
	if !f.quiet {
		options = append(options, sandboxfake.WithRequestLog(log))
	}
	return options
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, f *flags, stdout, stderr io.Writer) error {
	server, err := sandboxfake.Start(f.options(stderr)...)
	if err != nil {
		return err
	}
	defer server.Close()
	caFile, remove, err := writeCA(f.caFile, server.CACertPEM())
	if err != nil {
		return fmt.Errorf("sandboxfake: write the CA file: %w", err)
	}
	defer remove()
	if err := announce(stdout, f.json, server, caFile); err != nil {
		return fmt.Errorf("sandboxfake: print how to reach the server: %w", err)
	}
	<-ctx.Done()
	return nil
}

// replaceFile puts a new file in the place of path, in one step: who waits for it never reads half of it, and a file or link that somebody else left there is not written through.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".sandboxfake-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeCA writes the CA certificate to path, or to a temporary file when path is empty, which remove takes away again. It returns the absolute path.
func writeCA(path string, cert []byte) (file string, remove func(), err error) {
	remove = func() {}
	if path == "" {
		dir, err := os.MkdirTemp("", "sandboxfake-")
		if err != nil {
			return "", nil, err
		}
		path, remove = filepath.Join(dir, "ca.pem"), func() { os.RemoveAll(dir) }
	}
	if path, err = filepath.Abs(path); err == nil {
		err = replaceFile(path, cert)
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return path, remove, nil
}
