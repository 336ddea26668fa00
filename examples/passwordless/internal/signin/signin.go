// Package signin signs people in by their phone number, without a password or a text message. A web
// page asks for the number. The device's browser opens the Check URL of a PhoneCheck over the
// mobile data connection and returns to the page.
//
// Package checkflow makes sure that the browser which returns is the one that asked. This package
// contains the pages, and the sessions of those who are signed in.
package signin

import (
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
)

// Config configures [New].
type Config struct {
	// Config contains all fields that [checkflow.NewWeb] requires, except RedirectURL and StartPage.
	checkflow.Config

	// BaseURL is the handler's public URL, for example "https://shop.example.com".
	BaseURL string

	// Demo shows the fake's test numbers on the pages.
	Demo bool
}

// New returns the handler of the pages and of the redirect URL.
func New(c Config) (http.Handler, error) {
	c.RedirectURL, c.StartPage = c.BaseURL+"/return", "/"
	web, err := checkflow.NewWeb(c.Config)
	if err != nil {
		return nil, err
	}
	a := &app{Config: c, web: web, cookie: sessionCookie(!strings.HasPrefix(c.BaseURL, "http:")), sessions: make(map[string]session)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("POST /{$}", a.start)
	mux.Handle("/return", web.Return(a.returned))
	mux.Handle("GET /static/", http.FileServerFS(static))
	return mux, nil
}

type app struct {
	Config
	web    *checkflow.Web
	cookie http.Cookie // of a session, without a value

	mu       sync.Mutex // guards sessions
	sessions map[string]session
}

// home shows who is signed in, why a sign-in has ended without a result, or the form.
func (a *app) home(w http.ResponseWriter, r *http.Request) {
	reason := checkflow.Reason(r.FormValue("reason"))
	number := a.signedIn(r)
	switch end, ended := endPages[reason]; {
	case number != "" && (reason == "" || reason == checkflow.ReasonRepeated):
		a.render(w, http.StatusOK, verifiedPage(number))
	case ended:
		a.render(w, http.StatusOK, end)
	default:
		a.render(w, http.StatusOK, formPage)
	}
}

// start creates a check and shows its Check URL. The browser must follow it: if the person opens it
// in another one, the sign-in ends.
func (a *app) start(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	number := r.PostFormValue("number")
	checkURL, err := a.web.Start(w, r, checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: number}})
	switch status := checkflow.StatusCode(err); {
	case err == nil:
		digits, _ := idverify.NormalizePhoneNumber(number) // Start has accepted it
		a.render(w, http.StatusOK, linkPage(digits, checkURL))
	case errors.Is(err, idverify.ErrPhoneFormat):
		a.render(w, status, wrongNumberPage(number))
	case status == http.StatusServiceUnavailable:
		a.render(w, status, endPages[checkflow.ReasonUnavailable])
	default: // sign in another way
		a.render(w, status, endPages[checkflow.ReasonEnded])
	}
}

// returned signs in the person whose check matches, and returns the next page.
func (a *app) returned(w http.ResponseWriter, _ *http.Request, result checkflow.Result) string {
	if result.Verdict != idverify.VerdictYes {
		return "" // the start page, with the reason
	}
	a.signIn(w, result.PhoneNumber)
	return "/"
}

// session is the session of somebody who is signed in.
type session struct {
	number string
	expiry time.Time
}

const sessionAge = 15 * time.Minute

// signIn creates a session and sets its cookie. A shop stores its sessions in a database.
func (a *app) signIn(w http.ResponseWriter, number string) {
	token, now := rand.Text(), time.Now()
	a.mu.Lock()
	maps.DeleteFunc(a.sessions, func(_ string, s session) bool { return now.After(s.expiry) })
	a.sessions[token] = session{number, now.Add(sessionAge)}
	a.mu.Unlock()
	c := a.cookie //nolint:gosec // see sessionCookie
	c.Value = token
	http.SetCookie(w, &c)
}

// sessionCookie returns the cookie of a session, without a value. With the prefix of its name,
// other hosts of the domain cannot set it, for example to the session of an attacker.
func sessionCookie(secure bool) http.Cookie {
	//nolint:gosec // not all browsers store a Secure cookie of http://127.0.0.1
	c := http.Cookie{Name: "session", Path: "/", MaxAge: int(sessionAge / time.Second), Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if secure {
		c.Name = "__Host-" + c.Name
	}
	return c
}

// signedIn returns the number that is signed in, or "".
func (a *app) signedIn(r *http.Request) string {
	c, err := r.Cookie(a.cookie.Name)
	if err != nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[c.Value]; time.Now().Before(s.expiry) {
		return s.number
	}
	return ""
}
