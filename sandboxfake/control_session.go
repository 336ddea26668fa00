package sandboxfake

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
)

// authorized reports whether a request contains the control token or the cookie of a session. If
// it has an Authorization header, only that is valid.
func (s *Server) authorized(r *http.Request) bool {
	if r.Header["Authorization"] != nil {
		return s.hasControlToken(r)
	}
	return s.hasSession(r) && !fromOtherOrigin(r)
}

// hasSession reports whether a request contains the cookie of a session.
func (s *Server) hasSession(r *http.Request) bool {
	want := s.session()
	for _, got := range r.CookiesNamed(want.Name) {
		if subtle.ConstantTimeCompare([]byte(got.Value), []byte(want.Value)) == 1 {
			return true
		}
	}
	return false
}

// fromOtherOrigin reports whether the browser of a request sends it for a page of another origin.
// Browsers also send a cookie to other ports of its host, and for GET requests of their pages.
func fromOtherOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		origin, err := url.Parse(r.Header.Get("Origin"))
		return err != nil || r.Header.Get("Origin") != "" && origin.Host != r.Host
	}
	return true
}

// session returns the cookie of a session. It does not disclose the control token, and the server
// stores nothing. The name depends on the token, because the servers of one host share its cookies.
func (s *Server) session() *http.Cookie {
	derive := func(purpose string) []byte {
		mac := hmac.New(sha256.New, []byte(s.ControlToken()))
		mac.Write([]byte(purpose))
		return mac.Sum(nil)
	}
	return &http.Cookie{
		Name:     "sandboxfake_" + hex.EncodeToString(derive("sandboxfake session name")[:4]),
		Value:    base64.RawURLEncoding.EncodeToString(derive("sandboxfake session")),
		Path:     controlPath,
		Secure:   true,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}
}

// controlSession handles GET /_sandbox/session. The guard has authorized the request.
func (s *Server) controlSession(*http.Request) (any, error) { return nil, nil }

func (s *Server) controlOpenSession(*http.Request) (any, error) {
	return setCookie(s.session()), nil
}

func (s *Server) controlEndSession(*http.Request) (any, error) {
	cookie := s.session()
	cookie.Value, cookie.MaxAge = "", -1
	return setCookie(cookie), nil
}

// setCookie returns a response without a body that sets a cookie.
func setCookie(cookie *http.Cookie) *response {
	return &response{status: http.StatusNoContent, header: http.Header{"Set-Cookie": {cookie.String()}}}
}
