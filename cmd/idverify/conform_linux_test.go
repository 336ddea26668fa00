package main

import (
	"bytes"
	"testing"
)

func TestConform_Confirmation(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	terminal, keyboard := openTerminal(t)
	if _, err := keyboard.WriteString("n\n"); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	p := newProgram(env)
	p.stdin, p.stdout, p.stderr = terminal, &stdout, &stderr

	code := p.run(t.Context(), []string{"conform"})

	result{code, stdout.String(), stderr.String()}.expect(t, exitError, nil, []string{
		"Creates up to 59 checks", "In a live project, the first one costs money", "Test the service? [y/N] ", "Nothing was sent.",
	})
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("the command sent %d requests, want none", n)
	}
}
