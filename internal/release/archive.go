package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// file is a file of an archive. Its name has slashes.
type file struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// writeTarGz writes an archive with the files in the given order, below the directory dir. Its
// bytes depend on the arguments only.
func writeTarGz(w io.Writer, dir string, files []file, modified time.Time) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{
			Format:   tar.FormatPAX,
			Typeflag: tar.TypeReg,
			Name:     dir + "/" + f.name,
			Mode:     int64(f.mode.Perm()),
			Size:     int64(len(f.content)),
			ModTime:  modified.UTC().Truncate(time.Second),
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// writeZip is writeTarGz for a zip file.
func writeZip(w io.Writer, dir string, files []file, modified time.Time) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: modified.UTC().Truncate(time.Second)}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeChecksums writes SHA256SUMS, in the format of sha256sum, for all files of a directory.
func writeChecksums(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name())) // #nosec G304 -- the directory of the developer
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o644) // #nosec G306 -- a public file
}
