// Package inspector implements the inspector, a page for browsers that shows and controls a running
// sandboxfake. The page calls the control plane, so that it can do nothing that other clients
// cannot.
package inspector

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"time"
)

// Config configures the inspector.
type Config struct {
	URL          string       // of the server, as this process reaches it
	PublicURL    string       // base of links for phones; if empty, URL
	Client       *http.Client // for requests to URL
	ControlToken string
	CACertPEM    []byte // for clients of URL; the first certificate is the server's CA
	CAFile       string // path of a file with CACertPEM, or empty
	FixedKeys    bool   // anyone knows the private key of the CA
	OpenAPI      []byte // description of the control plane, or nil
}

// Paths that the inspector serves.
const (
	indexPath   = "/_sandbox/"
	assetsPath  = indexPath + "page/"
	privatePath = assetsPath + "private/" // requires the authorization of the control plane
)

// assets contains the page for browsers, without HTML that depends on requests.
//
//go:embed assets
var assets embed.FS

// pages is the handler of New.
type pages struct {
	Config
	files     map[string]*file // by path in assets
	templates *template.Template
}

// New returns a handler for sandboxfake.ControlOptions.Page, which lets only authorized requests
// reach privatePath. All others require no authorization, so the files contain nothing about the
// server.
func New(c Config) http.Handler {
	p := &pages{Config: c, files: newFiles(), templates: newTemplates()}
	if len(c.OpenAPI) > 0 {
		p.files["openapi.json"] = newFile("openapi.json", c.OpenAPI)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+indexPath+"{$}", func(w http.ResponseWriter, r *http.Request) { p.serveFile(w, r, indexFile) })
	mux.HandleFunc("GET "+assetsPath+"{name...}", func(w http.ResponseWriter, r *http.Request) { p.serveFile(w, r, r.PathValue("name")) })
	mux.HandleFunc("GET "+privatePath+"environment.json", p.environment)
	mux.HandleFunc("GET "+privatePath+"timeline.html", p.saveTimeline)
	mux.HandleFunc("GET "+assetsPath+"qr.png", p.qrCode)
	mux.HandleFunc("GET "+openPath+"{check_id}", phoneHeaders(p.phonePage))
	mux.HandleFunc("POST "+openPath+"{check_id}", phoneHeaders(p.chosen))
	p.handleCA(mux)
	return secured(mux)
}

// policy returns a Content-Security-Policy. It permits forms only to the given sources, and does
// not restrict them if formAction is empty.
func policy(formAction string) string {
	csp := "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	if formAction != "" {
		csp += "; form-action " + formAction
	}
	return csp
}

// secured sets the headers of all responses. A handler may replace them.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy("'self'"))
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// indexFile is the name of the page itself, which only indexPath serves.
const indexFile = "index.html"

// mediaTypes are the media types of files, by extension. All others are plain text. The operating
// system's table may differ.
var mediaTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".svg":  "image/svg+xml",
}

// file is a static file.
type file struct {
	content   []byte
	mediaType string
	etag      string
}

func newFile(name string, content []byte) *file {
	sum := sha256.Sum256(content)
	mediaType := cmp.Or(mediaTypes[path.Ext(name)], "text/plain; charset=utf-8")
	return &file{content, mediaType, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
}

// newFiles returns the embedded files.
func newFiles() map[string]*file {
	files := make(map[string]*file)
	// Embedded files can be read.
	root, _ := fs.Sub(assets, "assets")
	_ = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, _ error) error {
		if !d.IsDir() {
			content, _ := fs.ReadFile(root, name)
			files[name] = newFile(name, content)
		}
		return nil
	})
	return files
}

func (p *pages) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	f := p.files[name]
	if f == nil || (name == indexFile) != (r.URL.Path == indexPath) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.mediaType)
	w.Header().Set("Etag", f.etag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
}

// environment handles GET /_sandbox/page/private/environment.json, which contains the path of the
// CA file for commands to copy.
func (p *pages) environment(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", mediaTypes[".json"])
	json.NewEncoder(w).Encode(struct {
		CAFile string `json:"ca_file"`
	}{p.CAFile})
}
