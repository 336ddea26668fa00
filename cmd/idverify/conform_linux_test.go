package main

import "testing"

func TestConform_Confirmation(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	terminal, keyboard := openTerminal(t)
	must(keyboard.WriteString("n\n"))(t)
	p := newProgram(env)
	p.stdin = terminal

	got := p.runCommand(t.Context(), "conform")

	got.expect(t, exitError, nil, []string{
		"Creates up to 59 checks", "In a live project, the first one costs money", "Test the service? [y/N] ", "Nothing was sent.",
	})
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("the command sent %d requests, want none", n)
	}
}
