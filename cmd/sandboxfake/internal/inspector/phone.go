package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// openPath is the path of the page on which a person with a phone chooses how a check ends. The
// check ID is a capability, as it is in the Check URL.
const openPath = indexPath + "open/"

// choice is a result that a phone can choose, as the operation outcomes lists it.
type choice struct {
	As          string `json:"as"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Status      string `json:"status"`
	Match       bool   `json:"match"`
	ErrorCode   string `json:"error_code"`
}

// Result describes the result, or is empty if there is none.
func (c choice) Result() string {
	switch {
	case c.ErrorCode != "":
		return "the error " + c.ErrorCode
	case c.Status != "COMPLETED":
		return ""
	case c.Match:
		return "a match"
	}
	return "no match"
}

// choices returns the results that a phone can choose.
func (p *pages) choices(ctx context.Context) ([]choice, error) {
	var list struct {
		Outcomes []choice `json:"outcomes"`
	}
	_, err := p.call(ctx, http.MethodGet, "outcomes", nil, &list)
	return list.Outcomes, err
}

// maxForm is the maximum size of the form in bytes.
const maxForm = 4096

// openCheck is the part of a check that the page uses.
type openCheck struct {
	CheckID     string     `json:"check_id"`
	Product     string     `json:"product"`
	ProjectID   string     `json:"project_id"`
	PhoneNumber string     `json:"phone_number"`
	Status      string     `json:"status"`
	CheckURL    string     `json:"check_url"` // empty once the check cannot be opened
	ExpiresAt   *time.Time `json:"expires_at"`
	CallbackURL string     `json:"callback_url"`
}

// phoneForm is the content of template phone.html.
type phoneForm struct {
	Title     string
	Product   string
	Last      string // digits of the number
	Project   string // name, or empty if it is unknown
	Remaining string
	Choices   []choice // those that people meet first
	Failures  []choice // the other errors
}

// message is the content of template message.html.
type message struct {
	Title string
	Text  []string // paragraphs
	Retry bool     // link to the choices
	Path  string   // of the choices; set by writeMessage
}

// Messages about checks that cannot be opened.
var (
	unknownCheck = message{Title: "Check not found", Text: []string{"There is no check with this address. Open the link or QR code again, or create a new check."}}
	openedCheck  = message{Title: "Already opened", Text: []string{"A check can be opened once, and this one was opened before. Create a new check to start again."}}
	expiredCheck = message{Title: "Check expired", Text: []string{"This check was not opened in time. Create a new check to start again."}}
	unavailable  = message{Title: "Not available", Text: []string{"The control plane did not respond as expected. The check may not have been opened."}, Retry: true}
)

// phonePage handles GET /_sandbox/open/{check_id}. It never opens the check, because messengers and
// browsers request links in advance.
func (p *pages) phonePage(w http.ResponseWriter, r *http.Request) {
	check, ok := p.findOpen(w, r)
	if !ok {
		return
	}
	var state struct {
		Now      time.Time `json:"now"`
		Projects []struct {
			ProjectID string `json:"project_id"`
			Name      string `json:"name"`
		} `json:"projects"`
	}
	list, err := p.choices(r.Context())
	if err == nil {
		_, err = p.call(r.Context(), http.MethodGet, "state", nil, &state)
	}
	if err != nil {
		p.writeMessage(w, r, http.StatusBadGateway, unavailable)
		return
	}
	form := phoneForm{
		Title:   "How does this phone open the check?",
		Product: productTitles[check.Product],
		Last:    check.PhoneNumber[max(0, len(check.PhoneNumber)-4):],
	}
	for _, c := range list {
		if c.ErrorCode == "" || c.ErrorCode == notMobileIP {
			form.Choices = append(form.Choices, c)
		} else {
			form.Failures = append(form.Failures, c)
		}
	}
	for _, project := range state.Projects {
		if project.ProjectID == check.ProjectID {
			form.Project = project.Name
		}
	}
	if check.ExpiresAt != nil {
		form.Remaining = remaining(check.ExpiresAt.Sub(state.Now))
	}
	p.render(w, http.StatusOK, "phone.html", form)
}

// notMobileIP is the error of a phone that is not connected to a mobile network. Its Check URL then
// responds with 412 if there is no redirect URL.
const notMobileIP = "not_mobile_ip"

// productTitles are the products whose checks a phone opens.
var productTitles = map[string]string{"phone_check": "PhoneCheck", "subscriber_check": "SubscriberCheck"}

// remaining formats the time until a check expires.
func remaining(d time.Duration) string {
	seconds := int(max(d, 0).Round(time.Second).Seconds())
	if seconds < 60 {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
}

// findOpen returns the check of a request. If it does not exist or cannot be opened, it writes a
// message and returns false.
func (p *pages) findOpen(w http.ResponseWriter, r *http.Request) (*openCheck, bool) {
	check, status, err := p.check(r.Context(), r.PathValue("check_id"))
	switch {
	case status == http.StatusNotFound || err == nil && productTitles[check.Product] == "":
		p.writeMessage(w, r, http.StatusNotFound, unknownCheck)
	case err != nil:
		p.writeMessage(w, r, http.StatusBadGateway, unavailable)
	case check.CheckURL != "":
		return check, true
	default:
		p.gone(w, r, check)
	}
	return nil, false
}

// check returns a check and the status of the control plane's response.
func (p *pages) check(ctx context.Context, id string) (*openCheck, int, error) {
	var timeline struct {
		Check openCheck `json:"check"`
	}
	status, err := p.call(ctx, http.MethodGet, "timeline?"+url.Values{"check_id": {id}}.Encode(), nil, &timeline)
	return &timeline.Check, status, err
}

// gone writes the reason why a check cannot be opened.
func (p *pages) gone(w http.ResponseWriter, r *http.Request, check *openCheck) {
	if check.Status == "EXPIRED" {
		p.writeMessage(w, r, http.StatusGone, expiredCheck)
		return
	}
	p.writeMessage(w, r, http.StatusGone, openedCheck)
}

// chosen handles POST /_sandbox/open/{check_id}, the form of phonePage. The control plane's
// protection against requests of other origins also covers it.
func (p *pages) chosen(w http.ResponseWriter, r *http.Request) {
	invalid := message{Title: "Invalid form", Text: []string{"The form does not contain one of the choices."}, Retry: true}
	as, status := chosenAs(w, r)
	if status != http.StatusOK {
		p.writeMessage(w, r, status, invalid)
		return
	}
	list, err := p.choices(r.Context())
	if err != nil {
		p.writeMessage(w, r, http.StatusBadGateway, unavailable)
		return
	}
	i := slices.IndexFunc(list, func(c choice) bool { return c.As == as })
	if i < 0 {
		p.writeMessage(w, r, http.StatusBadRequest, invalid)
		return
	}
	chosen := list[i]
	check, ok := p.findOpen(w, r)
	if !ok {
		return
	}
	var opened openedCheckResponse
	body := map[string]string{"check_id": check.CheckID, "as": as}
	if status, err := p.call(r.Context(), http.MethodPost, "open", body, &opened); err != nil {
		p.notOpened(w, r, check.CheckID, status, false)
		return
	}
	switch {
	case chosen.Status == "EXPIRED":
		p.writeMessage(w, r, http.StatusOK, message{Title: "Check expired", Text: []string{"The check was not opened, as if the phone had no network.", resultText(check, chosen)}})
	case opened.Response.Location != "":
		// See Other makes the browser send GET, as it does for the redirect of the Check URL.
		w.Header().Set("Location", opened.Response.Location)
		w.WriteHeader(http.StatusSeeOther)
	case opened.Response.Status == http.StatusOK, chosen.ErrorCode == notMobileIP && opened.Response.Status == http.StatusPreconditionFailed:
		ended := message{Title: "The check ended with " + chosen.Result(), Text: []string{resultText(check, chosen)}}
		if code := opened.code(); code != "" {
			ended = message{Title: "The phone received a code", Text: []string{"There is no redirect URL. The backend exchanges the code for the result: " + code}}
		}
		p.writeMessage(w, r, http.StatusOK, ended)
	default:
		p.notOpened(w, r, check.CheckID, opened.Response.Status, opened.Response.Status == 0)
	}
}

// openedCheckResponse is the response of the operation open.
type openedCheckResponse struct {
	Response struct {
		Status   int             `json:"status"`
		Location string          `json:"location"`
		Body     json.RawMessage `json:"body"`
	} `json:"response"`
}

// code returns the code in the body, or "" if the check has ended.
func (o openedCheckResponse) code() string {
	var body struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(o.Response.Body, &body)
	return body.Code
}

// chosenAs returns the choice of a form. If the form is invalid, it returns the status to respond
// with.
func chosenAs(w http.ResponseWriter, r *http.Request) (as string, status int) {
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/x-www-form-urlencoded" {
		return "", http.StatusUnsupportedMediaType
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return "", http.StatusRequestEntityTooLarge
		}
		return "", http.StatusBadRequest
	}
	values := r.PostForm["as"]
	if len(values) != 1 {
		return "", http.StatusBadRequest
	}
	return values[0], http.StatusOK
}

// resultText describes how the backend gets the result of a check that has ended as chosen.
func resultText(check *openCheck, chosen choice) string {
	switch {
	case check.CallbackURL != "":
		return "The result follows in a callback to the backend. You can close this page."
	case chosen.Status == "COMPLETED":
		return "The check has no callback URL. The backend reads the result from the service."
	}
	return "The check has no callback URL, and the service does not store checks with this result."
}

// notOpened writes the reason why the phone received no result: the status of a response, or that
// the response was lost.
func (p *pages) notOpened(w http.ResponseWriter, r *http.Request, checkID string, status int, lost bool) {
	check, found, err := p.check(r.Context(), checkID)
	switch {
	case found == http.StatusNotFound:
		p.writeMessage(w, r, http.StatusNotFound, unknownCheck)
	case err != nil:
		p.writeMessage(w, r, http.StatusBadGateway, unavailable)
	case lost:
		text := "The service closed the connection without a response, for example because of a fault that was set in the inspector."
		if check.CheckURL == "" {
			text += " The check was opened before that."
		}
		p.writeMessage(w, r, http.StatusBadGateway, message{Title: "No response", Text: []string{text}, Retry: check.CheckURL != ""})
	case check.CheckURL == "":
		// The check expired or was opened in the meantime.
		p.gone(w, r, check)
	default:
		text := fmt.Sprintf("The service responded with status %d, for example because of a fault that was set in the inspector. The check was not opened.", status)
		p.writeMessage(w, r, http.StatusBadGateway, message{Title: "Not opened", Text: []string{text}, Retry: true})
	}
}

func (p *pages) writeMessage(w http.ResponseWriter, r *http.Request, status int, m message) {
	m.Path = r.URL.EscapedPath()
	p.render(w, status, "message.html", m)
}

// phoneHeaders replaces headers for the page of a phone, whose form leads to another origin.
func phoneHeaders(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		// Chromium applies form-action to the redirect after the form.
		header.Set("Content-Security-Policy", policy(""))
		// With no-referrer, browsers send "Origin: null" with the form. Old ones send no Sec-Fetch-Site,
		// so their requests would seem to come from another origin.
		header.Set("Referrer-Policy", "same-origin")
		// The Check URL can be open in a window that the customer's page opened. A redirect through
		// a page with same-origin would disconnect the two.
		header.Set("Cross-Origin-Opener-Policy", "unsafe-none")
		header.Set("Cache-Control", "no-store")
		next(w, r)
	}
}
