package main

import "testing"

func TestConform_Confirmation(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	p := newProgram(env)
	p.stdin = openTerminal(t, "n\n")

	got := p.runCommand(t.Context(), "conform")

	got.expect(t, exitError, nil, []string{
		"Creates up to 59 checks", "In a live project, the first one costs money", "Test the service? [y/N] ", "Nothing was sent.",
	})
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("the command sent %d requests, want none", n)
	}
}
