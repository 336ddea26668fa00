package signin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
)

// page is the data of page.html.
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

// The pages that do not depend on a session.
var (
	noSession = page{
		Title: "No sign-in in progress",
		Text:  []string{"This browser has no sign-in in progress. If you have just begun one, your browser did not keep our cookie: allow cookies for this site, and begin again."},
		Again: true,
	}
	notYours = page{
		Title: "Begun somewhere else",
		Text: []string{
			"This sign-in was begun in another browser, so it has ended. To sign in, begin again in this browser.",
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

// pageOf returns the page for the progress of the session's check.
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
	case elsewhere:
		return page{
			Title: "Opened somewhere else",
			Text: []string{
				"The link that brings you back here was opened in another browser first. So that nobody else can use it, this sign-in has ended.",
				"Begin again, and finish in the browser in which you begin.",
			},
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

// policy allows a page to load resources of its own origin only, and forbids framing.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// render responds with p. html/template escapes all its parts, some of which come from the user's
// own form.
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
