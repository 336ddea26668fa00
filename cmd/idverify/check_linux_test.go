package main

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal returns a terminal into which a user has typed a text.
func openTerminal(t *testing.T, typed string) *os.File {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	var unlocked, number int32
	connection := must(keyboard.SyscallConn())(t)
	noError(t, connection.Control(func(fd uintptr) {
		syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlocked)))
		syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPTN, uintptr(unsafe.Pointer(&number)))
	}))
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	must(keyboard.WriteString(typed))(t)
	return terminal
}

// The command must not ask a question whose reply it cannot use.
func TestCheckCreate_ReadsConfiguration(t *testing.T) {
	t.Parallel()
	p := newProgram(nil)
	p.stdin = openTerminal(t, "y\n")

	got := p.runCommand(t.Context(), "check", "create", number)

	got.expect(t, exitError, nil, []string{"IDVERIFY_BASE_URL is missing", "![y/N]"})
}

func TestCheckCreate_Confirmation(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, typed string
		args        []string
		code        int
		stderr      []string
	}{
		{"yes", "y\n", []string{number}, exitOK, []string{"Create a check of …12? In a live project, it costs money. [y/N] Creating a PhoneCheck"}},
		{"number and yes", number + "\nYES\n", []string{"-"}, exitOK, []string{"Phone number: Create a check of …12?"}},
		{"no", "n\n", []string{number}, exitError, []string{"Not created."}},
		{"nothing", "\n", []string{number}, exitError, []string{"Not created."}},
		{"end of input", "\x04", []string{number}, exitError, []string{"Not created."}},
		{"flag", "", []string{"-yes", number}, exitOK, []string{"!Create a check"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv, env := newService(t)
			p := newProgram(env)
			p.stdin = openTerminal(t, row.typed)

			got := p.runCommand(t.Context(), append([]string{"check", "create"}, row.args...)...)

			got.expect(t, row.code, nil, row.stderr)
			wantCreates(t, srv, map[bool]int{true: 1}[row.code == exitOK])
		})
	}
}
