package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// TestImage_WithoutDocker runs the build steps of the Dockerfile, and the program like "docker run
// --read-only": in a directory with only the files of the image, as the user of the image. It
// differs from Docker in the port, which the system selects, in the CA certificates, which are
// those of a receiver of this test, and in the namespaces.
func TestImage_WithoutDocker(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("the test mounts directories: run it on Linux as root")
	}
	tooltest.Require(t, tooltest.Installed("sh", "unshare", "mount", "chroot"), "install sh, util-linux and coreutils")
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run(); err != nil {
		t.Skip("root of this container cannot mount: the test requires the capability CAP_SYS_ADMIN")
	}
	d := readDockerfile(t)
	receiver := tlsReceiver(t)
	root := d.buildImage(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw}))

	p := startCommand(t, d.command(t, root, "127.0.0.1:0", append(d.entrypoint, "-json", "-seed", "1")))
	a := p.readJSON()
	inside := a.CAFile
	a.CAFile = fmt.Sprintf("/proc/%d/root%s", p.cmd.Process.Pid, a.CAFile)
	delivery := a.deliver(t, receiver.URL)
	health := func() (string, error) {
		output, err := d.command(t, root, strings.TrimPrefix(a.URL, "https://"), d.healthcheck).CombinedOutput()
		return string(output), err
	}
	ready, readyErr := health()
	owner := processOwner(t, p.cmd.Process.Pid)
	code, _ := p.stop(syscall.SIGTERM)
	_, stoppedErr := health()

	if inside != "/ca/ca.pem" {
		t.Errorf("CA file = %s, want it in the volume", inside)
	}
	if delivery["acknowledged"] != true {
		t.Errorf("delivery = %v, want one to a receiver whose CA is in the image", delivery)
	}
	if readyErr != nil || stoppedErr == nil {
		t.Errorf("health check: %v (%s) while the program runs and %v after it, want success and failure", readyErr, ready, stoppedErr)
	}
	if owner != d.user {
		t.Errorf("user of the process = %s, want %s", owner, d.user)
	}
	if code != 0 {
		t.Errorf("exit code after SIGTERM = %d, want 0\n%s", code, p.log.String())
	}
}

// buildImage runs the build steps and returns a directory with the files of the image. roots are
// its CA certificates.
func (d *dockerfile) buildImage(t *testing.T, roots []byte) (root string) {
	t.Helper()
	out := t.TempDir()
	// The user of the image cannot enter the directories of t.TempDir.
	root = must(os.MkdirTemp("", "image-"))(t)
	t.Cleanup(func() { os.RemoveAll(root) })
	noError(t, os.Chmod(root, 0o755))
	for _, step := range d.build {
		command := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(step, "/out/", out+"/"))
		command.Dir = "../.."
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("RUN %s: %v\n%s", step, err, output)
		}
	}
	for _, c := range d.copies {
		to := filepath.Join(root, c.to)
		noError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		if strings.HasSuffix(c.from, "/ca-certificates.crt") {
			noError(t, os.WriteFile(to, roots, 0o644))
		} else {
			noError(t, os.Rename(strings.Replace(c.from, "/out/", out+"/", 1), to))
		}
		uid, gid := ids(t, c.owner)
		noError(t, os.Chown(to, uid, gid))
	}
	checkImage(t, root)
	return root
}

// checkImage verifies which files the image contains.
func checkImage(t *testing.T, root string) {
	t.Helper()
	var got []string
	noError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch dir, _, _ := strings.Cut(rel, "/"); {
		case dir == "licenses" && rel != "licenses/go/LICENSE":
		case !d.IsDir():
			got = append(got, rel)
		}
		return err
	}))
	if want := []string{"etc/ssl/certs/ca-certificates.crt", "licenses/go/LICENSE", "sandboxfake"}; !slices.Equal(got, want) {
		t.Errorf("files of the image = %q, want %q and other license texts", got, want)
	}
}

// command returns a command that runs in the image, as its user, with a read-only file system and a
// volume for the CA file. The listener has the address addr.
func (d *dockerfile) command(t *testing.T, root, addr string, args []string) *exec.Cmd {
	t.Helper()
	uid, _ := ids(t, d.user)
	const script = `root=$1 user=$2 uid=$3; shift 3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o "mode=0755,uid=$uid" tmpfs "$root/ca"
exec chroot --userspec="$user" --groups= "$root" "$@"`
	command := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-ec", script, "sh", root, d.user, strconv.Itoa(uid)}, args...)...)
	command.Env = append(slices.Clone(d.env), "PATH="+os.Getenv("PATH"), "SANDBOXFAKE_ADDR="+addr)
	return command
}

// ids parses a user and a group.
func ids(t *testing.T, owner string) (uid, gid int) {
	t.Helper()
	if _, err := fmt.Sscanf(owner, "%d:%d", &uid, &gid); err != nil {
		t.Fatalf("owner %q: %v", owner, err)
	}
	return uid, gid
}

// processOwner returns the user and group of a process.
func processOwner(t *testing.T, pid int) string {
	t.Helper()
	status := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	owner := make([]string, 2)
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		switch {
		case fields[0] == "Uid:":
			owner[0] = fields[2] // the effective ID
		case fields[0] == "Gid:":
			owner[1] = fields[2]
		}
	}
	return strings.Join(owner, ":")
}

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
	d, stages := new(dockerfile), []string{}
	for line := range strings.Lines(readFile(t, "Dockerfile")) {
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
	image := regexp.MustCompile(`(?m)^FROM golang:(\S+) `).FindStringSubmatch(readFile(t, "Dockerfile"))
	toolchain := regexp.MustCompile(`(?m)^export GOTOOLCHAIN=go(\S+)$`).FindStringSubmatch(readFile(t, "../../script/release"))

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
