// Signin signs people in by their phone number: the smallest use of package checkflow. README.md
// shows it.
//
//	go run ./examples/signin
//
// Your browser warns you once, of the certificate of the fake; continue to 127.0.0.1.
package main

import (
	"crypto/rand"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func main() {
	service, err := sandboxfake.Start() // a fake of the service
	if err != nil {
		log.Fatal(err)
	}
	site, err := newSite("http://localhost:8080", service.Client(), service.Verifier([]string{"localhost:8080"}, nil))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("Open http://localhost:8080 and sign in. Numbers that end in 12 match.")
	log.Fatal(http.ListenAndServe("localhost:8080", site)) //nolint:gosec // on loopback only
}

const form = `<!doctype html><form method="post" action="/start"><input name="number" value="+44 7700 900 012"><button>Sign in</button></form>`

func newSite(origin string, client *idverify.Client, verifier *signature.Verifier) (http.Handler, error) {
	web, err := checkflow.NewWeb(checkflow.Config{
		Client:      client,
		Verifier:    verifier,
		Store:       checkflow.NewMemoryStore(0),                      // one process
		Allow:       func(*http.Request, string) error { return nil }, // limit checks here: each one costs money
		RedirectURL: origin + "/return",
		StartPage:   "/",
	})
	if err != nil {
		return nil, err
	}
	var users sync.Map // the number that is signed in, by session
	login := http.Cookie{Name: "session", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if strings.HasPrefix(origin, "https:") {
		login.Name, login.Secure = "__Host-session", true // no other host of the domain can set it
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, form) })
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, r *http.Request) {
		checkURL, err := web.Start(w, r, checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: r.PostFormValue("number")}})
		if err != nil {
			status := checkflow.StatusCode(err)
			http.Error(w, http.StatusText(status), status)
			return
		}
		http.Redirect(w, r, checkURL, http.StatusSeeOther)
	})
	mux.Handle("/return", web.Return(func(w http.ResponseWriter, _ *http.Request, result checkflow.Result) string {
		if result.Verdict != idverify.VerdictYes {
			return "" // the start page: verify in another way
		}
		session := login
		session.Value = rand.Text()
		users.Store(session.Value, result.PhoneNumber)
		http.SetCookie(w, &session)
		return "/account"
	}))
	mux.HandleFunc("GET /account", func(w http.ResponseWriter, r *http.Request) {
		if session, err := r.Cookie(login.Name); err == nil {
			if number, ok := users.Load(session.Value); ok {
				fmt.Fprintln(w, "Signed in:", number)
				return
			}
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	return mux, nil
}
