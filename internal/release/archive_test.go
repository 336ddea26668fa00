package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestArchive_Contents(t *testing.T) {
	t.Parallel()
	files := []file{{"sandboxfake", 0o755, []byte("program")}, {"licenses/go/LICENSE", 0o644, []byte("text")}}
	modified := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	want := []string{
		"sandboxfake_v1.2.3/sandboxfake -rwxr-xr-x 2026-01-02T02:04:05Z program",
		"sandboxfake_v1.2.3/licenses/go/LICENSE -rw-r--r-- 2026-01-02T02:04:05Z text",
	}
	for _, format := range []struct {
		name  string
		write func(io.Writer, string, []file, time.Time) error
		list  func(*testing.T, []byte) []string
	}{
		{"tar.gz", writeTarGz, listTarGz},
		{"zip", writeZip, listZip},
	} {
		var first, second bytes.Buffer

		if err := format.write(&first, "sandboxfake_v1.2.3", files, modified); err != nil {
			t.Fatal(err)
		}
		if err := format.write(&second, "sandboxfake_v1.2.3", files, modified.UTC()); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, format.list(t, first.Bytes())); diff != "" {
			t.Errorf("%s: contents (-want +got):\n%s", format.name, diff)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: two archives of the same files differ", format.name)
		}
	}
}

func listTarGz(t *testing.T, archive []byte) (list []string) {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(compressed); ; {
		header, err := files.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname+header.Gname != "" {
			t.Errorf("owner = %d %d %s %s, want 0", header.Uid, header.Gid, header.Uname, header.Gname)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %s %s %s", header.Name, header.FileInfo().Mode(), header.ModTime.UTC().Format(time.RFC3339), content))
	}
}

func listZip(t *testing.T, archive []byte) (list []string) {
	t.Helper()
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %s %s %s", f.Name, f.Mode(), f.Modified.UTC().Format(time.RFC3339), content))
	}
	return list
}
