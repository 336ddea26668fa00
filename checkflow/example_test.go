package checkflow_test

import (
	"crypto/rand"
	"fmt"
	"log"
	"net/http"
	"net/url"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/sandboxfake"
)

// Example signs in a person on a website. In production, client is the result of
// [idverify.NewClient], the verifier is that of [signature.NewVerifier] with the keys of
// [idverify.Client.NewJWKS], and a server of package http serves mux.
func Example() {
	service, err := sandboxfake.Start(sandboxfake.WithInMemory())
	if err != nil {
		log.Fatal(err)
	}
	web, err := checkflow.NewWeb(checkflow.Config{
		Client:      service.Client(),
		Verifier:    service.Verifier([]string{"shop.example.com"}, nil),
		Store:       checkflow.NewMemoryStore(0),
		Allow:       func(*http.Request, string) error { return nil }, // limit checks here
		RedirectURL: "https://shop.example.com/return",
		StartPage:   "/start.html",
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, r *http.Request) {
		checkURL, err := web.Start(w, r, checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: r.PostFormValue("number")}})
		if err != nil {
			http.Error(w, "Check the number, or try again later.", checkflow.StatusCode(err))
			return
		}
		http.Redirect(w, r, checkURL, http.StatusSeeOther)
	})
	mux.Handle("/return", web.Return(func(w http.ResponseWriter, r *http.Request, result checkflow.Result) string {
		if result.Verdict != idverify.VerdictYes {
			return "/start.html" // or verify in another way
		}
		http.SetCookie(w, &http.Cookie{Name: "__Host-session", Value: rand.Text(), Path: "/", Secure: true, HttpOnly: true})
		fmt.Println("signed in:", result.PhoneNumber)
		return "/"
	}))
	visit(service, service.Handle("shop.example.com", mux))
	// Output: signed in: 447700900012
}

// visit submits the form of the start page in a browser, which opens the Check URL and returns.
func visit(service *sandboxfake.Server, shop string) {
	browser := service.Device().Client()
	response, err := browser.PostForm(shop+"/start", url.Values{"number": {"+44 7700 900 012"}})
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	service.Close()
}
