package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licensesFile lists the licenses of the linked modules.
const licensesFile = "THIRD_PARTY_LICENSES.md"

// documents returns the files of an archive besides the program: README and licenses.
func documents(ctx context.Context) ([]file, error) {
	var files []file
	for _, f := range []struct{ name, path string }{
		{"README.md", filepath.Join("cmd", "sandboxfake", "README.md")},
		{"LICENSE", "LICENSE"},
		{licensesFile, licensesFile},
	} {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{f.name, 0o644, content})
	}
	texts, err := licenseTexts(ctx)
	return append(files, texts...), err
}

// writeLicenses writes all license texts to a directory.
func writeLicenses(ctx context.Context, dir string) error {
	files, err := documents(ctx)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.name == "README.md" {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(f.name, "licenses/")))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.content, f.mode)); err != nil { // #nosec G301 -- public files
			return err
		}
	}
	return nil
}

// licenseName matches the files with the conditions for distributing a module.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)(\.(md|txt))?$`)

// licenseTexts returns the license texts of Go and of the modules that are linked into the program,
// sorted by module.
func licenseTexts(ctx context.Context) ([]file, error) {
	directories, err := moduleDirectories(ctx)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, m := range directories {
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			return nil, err
		}
		found := false
		for _, entry := range entries {
			if !entry.Type().IsRegular() || !licenseName.MatchString(entry.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(m.Dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			files = append(files, file{"licenses/" + m.Path + "/" + entry.Name(), 0o644, content})
			found = true
		}
		if !found {
			return nil, fmt.Errorf("module %s has no license file", m.Path)
		}
	}
	return files, nil
}

// moduleDirectory is the directory of a module's source.
type moduleDirectory struct {
	Path string
	Dir  string
	Main bool
}

// moduleDirectories returns the directories of Go and of the linked modules, sorted by path.
func moduleDirectories(ctx context.Context) ([]moduleDirectory, error) {
	goroot, err := goOutput(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	listed, err := goOutput(ctx, "list", "-deps", "-json=Module", packagePath)
	if err != nil {
		return nil, err
	}
	modules := []moduleDirectory{{Path: "go", Dir: strings.TrimSpace(string(goroot))}}
	for decoder := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p struct{ Module *moduleDirectory }
		err := decoder.Decode(&p)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if p.Module != nil && !p.Module.Main && !slices.Contains(modules, *p.Module) {
			modules = append(modules, *p.Module)
		}
	}
	slices.SortFunc(modules, func(a, b moduleDirectory) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// goOutput runs the go command and returns its standard output.
func goOutput(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- constant arguments
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return output, nil
}
