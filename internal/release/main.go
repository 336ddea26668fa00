// Release builds the release files of cmd/sandboxfake: an archive and an SBOM for each platform,
// and their checksums. The same commit and version of Go result in the same files. script/release
// runs it in the root of the repository.
//
//	go run ./internal/release [-dist DIR] [-platforms GOOS/GOARCH,...] [VERSION]
//	go run ./internal/release -licenses DIR
//
// The version and the times in the files are those that "go build" records: the tag of the commit,
// or a pseudo-version, and the time of the commit. If VERSION is set and is not the version of the
// commit, the program fails. With -licenses it only writes the license texts, for the container
// image.
package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// packagePath is the program to release.
const packagePath = "./cmd/sandboxfake"

// defaultPlatforms are the platforms of a release.
const defaultPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	dist := flag.String("dist", "dist", "write the files to this `directory`, which must not exist or be empty")
	platforms := flag.String("platforms", defaultPlatforms, "comma-separated `list` of platforms")
	licenses := flag.String("licenses", "", "only write the license texts to this `directory`")
	flag.Parse()
	ctx := context.Background()
	var err error
	switch {
	case *licenses != "":
		err = writeLicenses(ctx, *licenses)
	default:
		err = release(ctx, *dist, strings.Split(*platforms, ","), flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release writes the files of all platforms to dist.
func release(ctx context.Context, dist string, platforms []string, version string) error {
	if entries, err := os.ReadDir(dist); len(entries) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s must not exist or be empty", dist)
	}
	if err := os.MkdirAll(dist, 0o755); err != nil { // #nosec G301 -- public files
		return err
	}
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	documents, err := documents(ctx)
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		b, err := build(ctx, work, platform)
		if err == nil && version != "" && version != b.version() {
			err = fmt.Errorf("the version of the commit is %s, want %s: tag the commit, without uncommitted changes", b.version(), version)
		}
		if err == nil {
			err = b.write(dist, documents)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		fmt.Println(b.name())
	}
	return writeChecksums(dist)
}

// binary is a built program.
type binary struct {
	goos, goarch string
	path         string
	info         *debug.BuildInfo
	committed    time.Time
}

// build builds the program for a platform in the directory work.
func build(ctx context.Context, work, platform string) (*binary, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, errors.New("a platform is GOOS/GOARCH")
	}
	b := &binary{goos: goos, goarch: goarch, path: filepath.Join(work, goos+"-"+goarch)}
	// #nosec G204 -- the arguments are those of the developer.
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.path, packagePath)
	// The environment of the developer must not change the result.
	command.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOEXPERIMENT=")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	var err error
	if b.info, err = buildinfo.ReadFile(b.path); err != nil {
		return nil, err
	}
	if b.committed, err = time.Parse(time.RFC3339, b.setting("vcs.time")); err != nil {
		return nil, errors.New("the commit is unknown: this must be a git clone, not a worktree, and git must be installed")
	}
	return b, nil
}

func (b *binary) setting(key string) string {
	for _, s := range b.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// version returns the version of the commit, such as v1.2.3.
func (b *binary) version() string { return b.info.Main.Version }

// name returns the name of the release files without their extensions.
func (b *binary) name() string {
	return strings.Join([]string{"sandboxfake", b.version(), b.goos, b.goarch}, "_")
}

// write writes the archive and the SBOM.
func (b *binary) write(dist string, documents []file) error {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	name, writeArchive, extension := "sandboxfake", writeTarGz, ".tar.gz"
	if b.goos == "windows" {
		name, writeArchive, extension = "sandboxfake.exe", writeZip, ".zip"
	}
	files := append([]file{{name, 0o755, program}}, documents...)
	archive, err := os.Create(filepath.Join(dist, b.name()+extension)) // #nosec G304 -- the directory of the developer
	if err != nil {
		return err
	}
	if err := errors.Join(writeArchive(archive, b.name(), files, b.committed), archive.Close()); err != nil {
		return err
	}
	bom, err := newBOM(b, program)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, b.name()+".cdx.json"), bom, 0o644) // #nosec G306 G703 -- public files; the caller chooses dist
}
