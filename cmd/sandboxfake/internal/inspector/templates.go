package inspector

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
)

// templateFiles contains the pages that depend on the server or a request. They need no script.
//
//go:embed templates
var templateFiles embed.FS

// newTemplates parses the templates, which are embedded and therefore valid.
func newTemplates() *template.Template {
	return template.Must(template.ParseFS(templateFiles, "templates/*.html"))
}

// render writes a page from a template.
func (p *pages) render(w http.ResponseWriter, status int, name string, content any) {
	var page bytes.Buffer
	// The templates accept these contents; writing to a bytes.Buffer cannot fail.
	_ = p.templates.ExecuteTemplate(&page, name, content)
	header := w.Header()
	header.Set("Content-Type", mediaTypes[".html"])
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(page.Bytes())
}
