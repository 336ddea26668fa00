package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dockerfile is the parsed Dockerfile of the program.
type dockerfile struct {
	build []string // the commands of the first stage
	// The image.
	copies      []imageCopy
	env         []string
	user        string
	expose      string
	entrypoint  []string
	healthcheck []string
}

// imageCopy is a file or directory that the image contains.
type imageCopy struct{ owner, from, to string }

// readDockerfile parses the Dockerfile. The test fails if it has an instruction that it does not
// support, because the image would then differ from the one that TestImage runs.
func readDockerfile(t *testing.T) *dockerfile {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	d, stages := new(dockerfile), []string{}
	for line := range strings.Lines(string(text)) {
		op, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case op == "" || strings.HasPrefix(op, "#"):
		case op == "FROM":
			stages = append(stages, args)
		case len(stages) == 1 && op == "RUN":
			d.build = append(d.build, args)
		case len(stages) == 1 && (op == "WORKDIR" || op == "COPY"):
		case len(stages) != 2 || !d.instruction(t, op, args):
			t.Fatalf("the test does not support the instruction %s", line)
		}
	}
	if len(stages) != 2 || !strings.HasSuffix(stages[0], " AS build") || stages[1] != "scratch" {
		t.Fatalf("stages = %q, want a build and scratch", stages)
	}
	return d
}

// instruction parses an instruction of the last stage.
func (d *dockerfile) instruction(t *testing.T, op, args string) (supported bool) {
	t.Helper()
	fields := strings.Fields(args)
	switch op {
	case "COPY":
		if fields[0] != "--from=build" {
			return false
		}
		c := imageCopy{owner: "0:0"}
		if owner, ok := strings.CutPrefix(fields[1], "--chown="); ok {
			c.owner, fields = owner, fields[1:]
		}
		c.from, c.to = fields[1], fields[2]
		d.copies = append(d.copies, c)
	case "ENV":
		d.env = fields
	case "USER":
		d.user = args
	case "EXPOSE":
		d.expose = args
	case "ENTRYPOINT":
		d.entrypoint = execForm(t, args)
	case "HEALTHCHECK":
		_, command, _ := strings.Cut(args, "CMD ")
		d.healthcheck = execForm(t, command)
	case "VOLUME", "STOPSIGNAL":
	default:
		return false
	}
	return true
}

// execForm parses a command in the form of a JSON array. scratch has no shell for the other form.
func execForm(t *testing.T, text string) (command []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &command); err != nil {
		t.Fatalf("command %s: %v", text, err)
	}
	return command
}

func TestDockerfile_Consistent(t *testing.T) {
	t.Parallel()
	d := readDockerfile(t)
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	image := regexp.MustCompile(`(?m)^FROM golang:(\S+) `).FindStringSubmatch(read("Dockerfile"))
	toolchain := regexp.MustCompile(`(?m)^export GOTOOLCHAIN=go(\S+)$`).FindStringSubmatch(read("../../script/release"))

	if image == nil || toolchain == nil || image[1] != toolchain[1] {
		t.Errorf("Go version of the Dockerfile = %q, of script/release = %q, want the same", image, toolchain)
	}
	if !slices.Equal(d.env, []string{"SANDBOXFAKE_ADDR=:" + d.expose}) {
		t.Errorf("environment = %q with EXPOSE %s, want the same port", d.env, d.expose)
	}
	if uid, gid, found := strings.Cut(d.user, ":"); !found || uid == "0" || strings.Trim(uid+gid, "0123456789") != "" {
		t.Errorf("user = %q, want numbers other than 0: scratch has no /etc/passwd", d.user)
	}
}
