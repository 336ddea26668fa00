package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is a running child process.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{} // closed when the process has exited
	err    error         // why it exited; valid when exited is closed
}

// stopTimeout is the time after which a process that does not stop is killed. It is longer than the
// shutdown of a replica.
const stopTimeout = 30 * time.Second

// startProcess starts cmd. Its output is appended to a log in dir, and to stdout if that is not
// nil.
func startProcess(dir, name string, cmd *exec.Cmd, stdout io.Writer) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if stdout != nil {
		cmd.Stdout = io.MultiWriter(log, stdout)
	}
	isolate(cmd)
	if err := cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		log.Close()
		close(p.exited)
	}()
	return p, nil
}

// stop terminates the process, waits until it has exited and returns its error. It may be called
// again.
func (p *process) stop() error { return p.stopWith(syscall.SIGTERM) }

func (p *process) stopWith(signal syscall.Signal) error {
	_ = p.cmd.Process.Signal(signal) // it may have exited
	select {
	case <-p.exited:
		return p.err
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s did not stop within %v", p.name, stopTimeout)
	}
}

// await waits until ready returns nil. It returns an error if the process exits or ctx ends before.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s exited at startup: %w", p.name, errors.Join(p.err, err))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", p.name, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// startTimeout is the time after which the start of a process fails.
const startTimeout = time.Minute

// lineReader is a writer that passes on the rest of the first line that begins with prefix.
type lineReader struct {
	prefix []byte
	found  chan string // capacity 1

	mu   sync.Mutex // guards the fields below
	line []byte
	done bool
}

func newLineReader(prefix string) *lineReader {
	return &lineReader{prefix: []byte(prefix), found: make(chan string, 1)}
}

// Write implements io.Writer.
func (l *lineReader) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return len(b), nil
	}
	l.line = append(l.line, b...)
	for {
		line, rest, complete := bytes.Cut(l.line, []byte("\n"))
		if !complete {
			return len(b), nil
		}
		if value, ok := bytes.CutPrefix(line, l.prefix); ok {
			l.found <- string(value)
			l.line, l.done = nil, true
			return len(b), nil
		}
		l.line = rest
	}
}
