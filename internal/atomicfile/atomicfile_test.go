package atomicfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/idverify/idverify-go/internal/atomicfile"
)

func TestReplace(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		prepare func(path string) error
		ok      bool
	}{
		{"no file", func(string) error { return nil }, true},
		{"a file", func(path string) error { return os.WriteFile(path, []byte("a longer old content"), 0o600) }, true},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, false},
		{"a link to a directory", func(path string) error { return os.Symlink(filepath.Dir(path), path) }, false},
		{"a link to nothing", func(path string) error { return os.Symlink(path+".missing", path) }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ca.pem")
			if err := row.prepare(path); err != nil {
				if runtime.GOOS == "windows" {
					t.Skip("links require a privilege on Windows")
				}
				t.Fatal(err)
			}

			err := atomicfile.Replace(path, []byte("new"))

			if (err == nil) != row.ok {
				t.Errorf("error = %v, want success: %t", err, row.ok)
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
