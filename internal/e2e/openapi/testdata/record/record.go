package sandboxfake

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
)

// serve appends each exchange with the service to the file RECORD. A test compiles this file into
// the package, in place of the method serve, which it renames to serveUnrecorded.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, controlPath) {
		s.serveUnrecorded(w, r)
		return
	}
	var sent, received bytes.Buffer
	if r.Body != http.NoBody {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &sent), r.Body}
	}
	recorder := &recordingWriter{ResponseWriter: w, body: &received, status: http.StatusOK}
	header := r.Header.Clone()
	s.serveUnrecorded(recorder, r)

	line, err := json.Marshal(map[string]any{
		"method": r.Method, "target": r.URL.RequestURI(), "header": header, "body": sent.Bytes(),
		"status": recorder.status, "response_header": w.Header(), "response_body": received.Bytes(),
	})
	if err == nil {
		err = appendLine(os.Getenv("RECORD"), append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

func appendLine(path string, line []byte) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(line)
	return err
}

// recordingWriter records the status and the body of a response.
type recordingWriter struct {
	http.ResponseWriter
	body   *bytes.Buffer
	status int
}

func (w *recordingWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *recordingWriter) Write(p []byte) (int, error) {
	w.body.Write(p)
	return w.ResponseWriter.Write(p)
}

func (w *recordingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
