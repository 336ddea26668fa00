package stack

import (
	"os/exec"
	"syscall"
)

// isolate makes the process independent of Ctrl-C in the terminal, so that the stack stops its
// processes in order, and ends it if this process is killed.
func isolate(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
