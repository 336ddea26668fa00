package signin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"

	"github.com/idverify/idverify-go/checkflow"
)

// page contains the data for page.html.
type page struct {
	Title string   // a short heading
	Text  []string // paragraphs that explain the state and the next step

	Form   bool   // show the form
	Number string // as entered
	Wrong  string // error message for Number

	CheckURL string // show a link to it
	Again    bool   // show a link to start again

	Demo bool
}

var formPage = page{Title: "Sign in with your phone number", Form: true}

func wrongNumberPage(entered string) page {
	p := formPage
	p.Number, p.Wrong = entered, "Enter the full number with its country code, for example +44 7700 900 012."
	return p
}

func linkPage(number, checkURL string) page {
	return page{
		Title:    "One more step",
		Text:     []string{"Your mobile network can confirm that this phone has the number ending in " + lastDigits(number) + ".", "Turn off Wi-Fi, then continue within two minutes."},
		CheckURL: checkURL,
	}
}

func verifiedPage(number string) page {
	return page{Title: "Verified", Text: []string{"This phone has the number ending in " + lastDigits(number) + ". You are signed in."}}
}

// lastDigits returns the end of a number, which suffices for its owner.
func lastDigits(number string) string { return number[max(0, len(number)-2):] }

// endPages contains the pages after a sign-in that has ended, by reason.
var endPages = map[checkflow.Reason]page{
	checkflow.ReasonNoMatch: {
		Title: "Not verified",
		Text:  []string{"This phone does not have the number that you entered.", "Check the number, or open this page on the phone that has it."},
		Again: true,
	},
	checkflow.ReasonEnded: {
		Title: "No result",
		Text:  []string{"Your mobile network returned no result. This says nothing about you.", "Please try again in a few minutes, or sign in another way."},
		Again: true,
	},
	checkflow.ReasonUnavailable: {
		Title: "Please try again later",
		Text:  []string{"We cannot check your number right now. This is a problem on our side. Please try again in a few minutes."},
		Again: true,
	},
	checkflow.ReasonInvalid: {
		Title: "This link cannot be used",
		Text:  []string{"It is too old or was changed. Nothing was confirmed. Start again."},
		Again: true,
	},
	checkflow.ReasonOtherSession: {
		Title: "Started in another browser",
		Text: []string{
			"This sign-in was started in another browser, so it has ended. To sign in, allow cookies and start again in this browser.",
			"Did someone send you a link to open? They may want to sign in as you. You are safe: nothing was confirmed.",
		},
		Again: true,
	},
	checkflow.ReasonRevoked: {
		Title: "Opened in another browser",
		Text: []string{
			"The link that returns you to this page was opened in another browser first. We have ended this sign-in to protect you.",
			"Start again, and finish in the same browser.",
		},
		Again: true,
	},
	checkflow.ReasonCodeRejected: timeIsUp,
	checkflow.ReasonNotFound:     timeIsUp,
	checkflow.ReasonRepeated:     timeIsUp, // its session has ended
}

var timeIsUp = page{
	Title: "Time is up",
	Text:  []string{"The check was not completed in time. Start again."},
	Again: true,
}

//go:embed static
var static embed.FS

//go:embed page.html
var source string

var pages = template.Must(template.New("page").Parse(source))

// policy is the Content-Security-Policy of all pages. It allows a page to load styles of its own
// origin only, and forbids scripts and framing.
const policy = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// render responds with p. html/template escapes the user's input.
func (a *app) render(w http.ResponseWriter, status int, p page) {
	p.Demo = a.Demo
	var b bytes.Buffer
	if err := pages.Execute(&b, p); err != nil {
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
