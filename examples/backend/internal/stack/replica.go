package stack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// Replica is a process of the backend. It keeps its address when it is stopped and started again.
type Replica struct {
	Name string
	Addr string // set by the first Start

	dir, program string
	env          []string
	process      *process
}

// newReplica returns the n-th replica.
func (s *Stack) newReplica(n int, program, otel string) *Replica {
	return &Replica{Name: fmt.Sprintf("replica-%d", n), Addr: "127.0.0.1:0", dir: s.Dir, program: program, env: []string{
		"PUBLIC_URL=" + s.URL,
		"DATABASE_URL=" + s.Postgres.URL(),
		"IDVERIFY_BASE_URL=" + s.Service.URL(),
		"IDVERIFY_CREDENTIALS_FILE=" + s.credentialsFile(),
		"IDVERIFY_CA_FILE=" + s.serviceCAFile(),
		"OTEL=" + otel,
	}}
}

// Start starts the replica and waits until it is ready.
func (r *Replica) Start(ctx context.Context) error {
	cmd := exec.Command(r.program)
	cmd.Env = append(append(os.Environ(), r.env...), "LISTEN="+r.Addr)
	listening := newLineReader("listening on ")
	var err error
	if r.process, err = startProcess(r.dir, r.Name, cmd, listening); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case addr := <-listening.found:
		r.Addr = strings.TrimSpace(addr)
	case <-r.process.exited:
		return fmt.Errorf("%s exited at startup: %w", r.Name, r.process.err)
	case <-ctx.Done():
		return fmt.Errorf("%s does not listen: %w", r.Name, ctx.Err())
	}
	return r.process.await(ctx, r.ready)
}

// Stop terminates the replica and waits until it has exited. The error is not nil if it did not
// exit with code 0.
func (r *Replica) Stop() error {
	if r.process == nil {
		return nil
	}
	return r.process.stop()
}

// ready returns nil if the readiness probe of the replica succeeds.
func (r *Replica) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("GET /readyz: %s", response.Status)
	}
	return nil
}
