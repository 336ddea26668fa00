package sandboxfake

import (
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
)

// Paths of the page, below controlPath.
const (
	assetsPath  = controlPath + "page/"
	privatePath = assetsPath + "private/" // guarded as the control plane
	openPath    = controlPath + "open/"
	caPath      = controlPath + "ca"
)

// withPage passes the requests for the page to its handler, and all others to next. The guard of
// the control plane checks those below privatePath first.
func (s *Server) withPage(next http.Handler) http.Handler {
	if s.page == nil {
		return next
	}
	private := s.guardControl(s.page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == controlPath {
			w.Header().Set("Vary", "Accept")
		}
		switch {
		case !isPage(r):
			next.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, privatePath):
			private.ServeHTTP(w, r)
		default:
			s.page.ServeHTTP(w, r)
		}
	})
}

// isPage reports whether a request is for the page. A path with dot segments or escapes is not,
// because two routers could interpret it differently, and the page requires no token.
func isPage(r *http.Request) bool {
	p := r.URL.Path
	if p == controlPath {
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && acceptsHTML(r)
	}
	if r.URL.RawPath != "" || path.Clean(p) != strings.TrimSuffix(p, "/") {
		return false
	}
	return p == caPath || strings.HasPrefix(p, caPath+"/") || strings.HasPrefix(p, assetsPath) || strings.HasPrefix(p, openPath)
}

// acceptsHTML reports whether a client accepts a page.
func acceptsHTML(r *http.Request) bool {
	for media := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		name, params, err := mime.ParseMediaType(media)
		if err == nil && name == "text/html" && (params["q"] == "" || strings.Trim(params["q"], "0.") != "") {
			return true
		}
	}
	return false
}

// isNavigation reports whether a browser sent a request to show the response in a window or a tab.
//
// Browsers that send no Sec-Fetch-Mode, such as Safari before 16.4, are recognized by the
// User-Agent that every browser has, together with Accept-Language. Native clients that accept
// text/html lack at least one of them.
func isNavigation(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		dest := r.Header.Get("Sec-Fetch-Dest") // an iframe cannot show the page
		return mode == "navigate" && (dest == "" || dest == "document")
	}
	return acceptsHTML(r) && r.Header.Get("Accept-Language") != "" && strings.HasPrefix(r.Header.Get("User-Agent"), "Mozilla/5.0 (")
}

// redirectBrowser redirects a browser that opens the root path to the control page and, if
// PhonePage is set, one that opens a Check URL to the phone page. It reports whether it did.
func (s *Server) redirectBrowser(w http.ResponseWriter, r *http.Request) bool {
	if s.page == nil || r.Method != http.MethodGet {
		return false
	}
	target := ""
	if r.URL.Path == "/" && acceptsHTML(r) {
		target = controlPath
	} else if route := routes().find(r.URL.EscapedPath()); route != nil && s.opts.control.PhonePage && isNavigation(r) {
		switch route.methods[http.MethodGet].op.Name {
		case wire.OpenPhoneCheck.Name, wire.OpenSubscriberCheck.Name:
			target = openPath + url.PathEscape(route.ids["check_id"])
		}
	}
	if target == "" {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusSeeOther)
	return true
}
