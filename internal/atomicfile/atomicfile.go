// Package atomicfile replaces files atomically.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace replaces the file at path atomically, so that a concurrent reader never sees part of it.
// The file has the permissions perm, even if the replaced file had others. A symbolic link to a
// file, or to nothing, is replaced and not followed. Replace fails if path is something else than a
// file, such as a device.
func Replace(path string, content []byte, perm fs.FileMode) error {
	// A rename would also replace a device such as /dev/null, for all processes.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return errors.New("exists and is not a regular file")
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".idverify-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(perm), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
