package atomicfile_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/idverify/idverify-go/internal/atomicfile"
)

func TestReplace(t *testing.T) {
	t.Parallel()
	listen := func(path string) error {
		listener, err := net.Listen("unix", path)
		if err == nil {
			t.Cleanup(func() { listener.Close() })
		}
		return err
	}
	for _, row := range []struct {
		name    string
		prepare func(path string) error
		ok      bool
	}{
		{"no file", func(string) error { return nil }, true},
		{"a file", func(path string) error { return os.WriteFile(path, []byte("a longer old content"), 0o600) }, true},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, false},
		{"a link to a directory", func(path string) error { return os.Symlink(filepath.Dir(path), path) }, false},
		{"a socket", listen, false},
		{"a link to a socket", func(path string) error {
			return errors.Join(listen(path+".socket"), os.Symlink(path+".socket", path))
		}, false},
		{"a link to nothing", func(path string) error { return os.Symlink(path+".missing", path) }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "ca") // short, for a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			path := filepath.Join(dir, "ca.pem")
			if err := row.prepare(path); err != nil {
				if runtime.GOOS == "windows" {
					t.Skip("links require a privilege on Windows")
				}
				t.Fatal(err)
			}

			before, _ := os.Lstat(path)

			err = atomicfile.Replace(path, []byte("new"), 0o640)

			if (err == nil) != row.ok || err != nil && err.Error() != "exists and is not a regular file" {
				t.Errorf("error = %v, want success: %t", err, row.ok)
			}
			if after, err := os.Lstat(path); !row.ok && (err != nil || after.Mode() != before.Mode() || !os.SameFile(before, after)) {
				t.Errorf("the path was replaced: %v", err)
			}
			if after, err := os.Lstat(path); row.ok && (err != nil || after.Mode() != 0o640) && runtime.GOOS != "windows" {
				t.Errorf("mode = %v, error = %v, want that of a file with permissions 0640", after.Mode(), err)
			}
			if content, _ := os.ReadFile(path); row.ok && string(content) != "new" {
				t.Errorf("content = %q, want new", content)
			}
			if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".idverify-*")); len(names) > 0 {
				t.Errorf("temporary files remain: %q", names)
			}
		})
	}
}
