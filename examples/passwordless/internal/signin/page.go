package signin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
)

// page contains the data for page.html.
type page struct {
	Title string   // a short heading
	Text  []string // paragraphs that explain the state and the next step

	Form   bool   // show the form
	Number string // as entered
	Wrong  string // error message for Number

	CheckURL string // show a link to it
	Live     bool   // the page updates automatically
	Again    bool   // show a link to start again

	Demo bool
}

// Pages that do not depend on a session.
var (
	noSession = page{
		Title: "No sign-in in progress",
		Text:  []string{"This browser has no sign-in in progress. If you have just started one, your browser did not store our cookie: allow cookies for this site and start again."},
		Again: true,
	}
	notYours = page{
		Title: "Started in another browser",
		Text: []string{
			"This sign-in was started in another browser, so it has ended. To sign in, start again in this browser.",
			"Did someone send you a link to open? They may want to sign in as you. You are safe: nothing was confirmed.",
		},
		Again: true,
	}
	badLink = page{
		Title: "This link cannot be used",
		Text:  []string{"It is too old or was changed. Nothing was confirmed. Start again."},
		Again: true,
	}
	later = page{
		Title: "Please try again later",
		Text:  []string{"We cannot check your number right now. This is a problem on our side. Please try again in a few minutes."},
		Again: true,
	}
)

// pageOf returns the page for the state of a session.
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
			Text:  []string{"We are waiting for your mobile network. This page updates automatically."},
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
			Text:  []string{"The check was not completed in time. Start again."},
			Again: true,
		}
	case elsewhere:
		return page{
			Title: "Opened in another browser",
			Text: []string{
				"The link that returns you to this page was opened in another browser first. We have ended this sign-in to protect you.",
				"Start again, and finish in the same browser.",
			},
			Again: true,
		}
	}
	return page{
		Title: "No result",
		Text:  []string{"Your mobile network returned no result. This says nothing about you.", "Please try again in a few minutes, or sign in another way."},
		Again: true,
	}
}

//go:embed static
var static embed.FS

//go:embed page.html
var source string

var pages = template.Must(template.New("page").Parse(source))

// policy is the Content-Security-Policy of all pages. It allows a page to load resources of its own
// origin only, and forbids framing.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// render responds with p. html/template escapes the user's input.
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
