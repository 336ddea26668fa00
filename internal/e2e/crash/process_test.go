package crash

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// process is a backend process that can be killed and started again.
type process struct {
	config  config
	log     *os.File
	command *exec.Cmd
	stdin   io.Closer
	url     atomic.Pointer[string] // nil while it does not run
}

// start starts the process and waits until it is ready.
func (p *process) start() error {
	text, err := json.Marshal(p.config)
	if err != nil {
		return err
	}
	p.command = exec.Command(os.Args[0])
	p.command.Env = append(os.Environ(), childVariable+"="+string(text), "GOGC=400")
	p.command.Stderr = p.log
	// The process ends when its input is closed, also if this process is killed.
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.command.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.kill()
		return err
	}
	url := strings.TrimSpace(line)
	p.url.Store(&url)
	return nil
}

// kill kills the process with SIGKILL and waits until it has ended. It does nothing if the process
// does not run.
func (p *process) kill() {
	if p.command == nil {
		return
	}
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	p.url.Store(nil)
	p.stdin.Close()
	p.command = nil
}

// startBackends starts n processes and ends them with the test.
func (w *world) startBackends(t *testing.T, n int, c config) {
	t.Helper()
	log := must(os.Create(t.ArtifactDir() + "/backend.log"))(t)
	t.Cleanup(func() { log.Close() })
	credentials := w.service.Credentials()
	c.ServiceURL, c.CA, c.CallbackURL, c.Control = w.service.URL(), w.service.CACertPEM(), w.callbackURL, w.control.URL
	c.ClientID, c.ClientSecret = credentials.ClientID, credentials.ClientSecret.Reveal()
	for range n {
		w.backends = append(w.backends, &process{config: c, log: log})
	}
	for _, p := range w.backends {
		t.Cleanup(p.kill)
	}
	startAll(t, w.backends)
}

// startAll starts processes at the same time.
func startAll(t *testing.T, processes []*process) {
	t.Helper()
	var group sync.WaitGroup
	for _, p := range processes {
		group.Go(func() {
			if err := p.start(); err != nil {
				t.Errorf("start a backend: %v (its output is in the artifacts of the test)", err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
