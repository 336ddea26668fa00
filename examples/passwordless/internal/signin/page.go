package signin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
)

// page is what page.html shows.
type page struct {
	Title string   // what happened, in two or three words
	Text  []string // paragraphs: what it means, and what to do

	Form   bool   // ask for the number
	Number string // as it was typed
	Wrong  string // what is wrong with it

	CheckURL string // offer to open it
	Live     bool   // the page changes by itself
	Again    bool   // offer to begin again

	Demo bool
}

// The pages that have no session to speak of.
var (
	noSession = page{
		Title: "Nothing under way",
		Text:  []string{"This browser has no sign-in under way. If you have just begun one, your browser did not keep our cookie: allow cookies for this site, and begin again."},
		Again: true,
	}
	notYours = page{
		Title: "Begun somewhere else",
		Text: []string{
			"This sign-in was begun in another browser, so it is not used here.",
			"Did somebody send you a link to open? They may be trying to sign in as you. You are safe: nothing was confirmed.",
		},
		Again: true,
	}
	badLink = page{
		Title: "This link cannot be used",
		Text:  []string{"It is too old, or was changed on its way. Nothing was confirmed. Begin again."},
		Again: true,
	}
	later = page{
		Title: "Try again later",
		Text:  []string{"We cannot ask your mobile network just now. The fault is ours, not yours. Try again in a few minutes."},
		Again: true,
	}
)

// pageOf tells in plain words how far the check of s is.
func pageOf(s session) page {
	switch s.state {
	case started:
		return page{
			Title:    "One more step",
			Text:     []string{"Your mobile network can confirm that this phone has the number ending in " + s.digits + ".", "Turn off Wi-Fi, then continue within two minutes."},
			CheckURL: s.checkURL,
			Live:     true,
		}
	case pending:
		return page{
			Title: "Just a moment",
			Text:  []string{"We are waiting for your mobile network. This page changes by itself."},
			Live:  true,
		}
	case verified:
		return page{
			Title: "Verified",
			Text:  []string{"This phone has the number ending in " + s.digits + ". You are signed in."},
		}
	case notVerified:
		return page{
			Title: "Not verified",
			Text:  []string{"This phone does not have the number ending in " + s.digits + ".", "Check the number, or open this page on the phone that has it."},
			Again: true,
		}
	case expired:
		return page{
			Title: "Time is up",
			Text:  []string{"The check was not finished in time. Nothing was decided: begin again."},
			Again: true,
		}
	}
	return page{
		Title: "No answer",
		Text:  []string{"Your mobile network could not tell. That says nothing about you.", "Try again in a few minutes, or sign in another way."},
		Again: true,
	}
}

//go:embed static
var static embed.FS

//go:embed page.html
var source string

var pages = template.Must(template.New("page").Parse(source))

// policy lets a page load what is its own, and nobody frame it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// render answers p. Its parts come from this package and the user's own form, and all go through html/template.
func (a *app) render(w http.ResponseWriter, status int, p page) {
	p.Demo = a.Demo
	var b bytes.Buffer
	if err := pages.Execute(&b, p); err != nil {
		a.Log.Error("page not rendered", "error", err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}
