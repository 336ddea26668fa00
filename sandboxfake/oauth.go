package sandboxfake

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// token is an access token that was given out.
type token struct {
	text       string
	credential *credential
	scopes     []string
	expires    time.Time
	revoked    bool
}

// tokenLifetime is how long an access token is good (contract, section 2).
const tokenLifetime = time.Hour

// tokens keeps the tokens that are good, and forgets those that are not when another is issued: they expire in the order of their issue.
type tokens struct {
	byText map[string]*token
	issued []*token
}

// issue gives c a token for scopes.
func (s *service) issueToken(c *credential, scopes []string) *token {
	now := s.clock.Now()
	expired := slices.IndexFunc(s.tokens.issued, func(t *token) bool { return t.expires.After(now) })
	if expired < 0 {
		expired = len(s.tokens.issued)
	}
	for _, t := range s.tokens.issued[:expired] {
		delete(s.tokens.byText, t.text)
	}
	s.tokens.issued = slices.Delete(s.tokens.issued, 0, expired)

	t := &token{text: s.ids.secret("access_token", c.clientID, &c.counter), credential: c, scopes: scopes, expires: now.Add(tokenLifetime)}
	if s.tokens.byText == nil {
		s.tokens.byText = make(map[string]*token)
	}
	s.tokens.byText[t.text] = t
	s.tokens.issued = append(s.tokens.issued, t)
	return t
}

// revokeAll ends the tokens of a credential.
func (t *tokens) revokeAll(c *credential) {
	for _, issued := range t.issued {
		if issued.credential == c {
			issued.revoked = true
		}
	}
}

// bearer finds the good token of an Authorization header, or returns nil.
func (s *service) bearer(header string) *token {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	t := s.tokens.byText[text]
	if t == nil || t.revoked || t.credential.deleted || !t.expires.After(s.clock.Now()) {
		return nil
	}
	return t
}

// allows reports whether t reaches the paths of scope (specification, section 4, "Scope to path mapping").
func (t *token) allows(scope string) bool {
	if slices.Contains(t.scopes, scope) {
		return true
	}
	// console stands for projects and workspaces together.
	return slices.Contains(t.scopes, wire.ScopeConsole) && (scope == wire.ScopeProjects || scope == wire.ScopeWorkspaces)
}

// tokenView is the answer of the token endpoint (RFC 6749, section 5.1).
type tokenView struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
	Scope       string `json:"scope"`
}

// tokenErrorView is its error (RFC 6749, section 5.2).
type tokenErrorView struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

func tokenError(status int, code, description string) *response {
	resp := &response{status: status, media: wire.MediaJSON, body: tokenErrorView{code, description}}
	if status == http.StatusUnauthorized {
		resp.header = http.Header{"Www-Authenticate": {`Basic realm="token"`}}
	}
	return resp
}

// issueToken is POST /oauth2/v1/token.
func (s *service) issueTokenFor(c *call) (any, error) {
	form, failure := s.tokenForm(c)
	if failure != nil {
		return failure, nil
	}
	switch {
	case !form.Has("grant_type"):
		return tokenError(400, wire.InvalidRequest, "grant_type is missing"), nil
	case form.Get("grant_type") != "client_credentials":
		return tokenError(400, wire.UnsupportedGrantType, "grant_type must be client_credentials"), nil
	case form.Get("scope") == "":
		return tokenError(400, wire.InvalidRequest, "scope is missing: name one or more, separated by a space"), nil
	}
	scopes := strings.Split(form.Get("scope"), " ")
	for i, scope := range scopes {
		switch {
		case scope == "" || slices.Contains(scopes[:i], scope):
			return tokenError(400, wire.InvalidScope, "scopes are separated by a single space, each named once"), nil
		case !c.credential.mayHave(scope):
			return tokenError(400, wire.InvalidScope, "a scope is unknown, or not for this kind of credentials"), nil
		}
	}
	t := s.issueToken(c.credential, scopes)
	return &response{
		status: c.op.Success,
		media:  wire.MediaJSON,
		header: http.Header{"Cache-Control": {"no-store"}},
		body:   tokenView{AccessToken: t.text, TokenType: "bearer", ExpiresIn: int(tokenLifetime / time.Second), Scope: form.Get("scope")},
	}, nil
}

// revokeToken is POST /oauth2/v1/revoke (RFC 7009): the answer does not tell whether there was such a token.
func (s *service) revokeToken(c *call) (any, error) {
	form, failure := s.tokenForm(c)
	if failure != nil {
		return failure, nil
	}
	if form.Get("token") == "" {
		return tokenError(400, wire.InvalidRequest, "token is missing"), nil
	}
	if t := s.tokens.byText[form.Get("token")]; t != nil && t.credential == c.credential {
		t.revoked = true
	}
	return &response{status: c.op.Success}, nil
}

// tokenForm authenticates a call of the token endpoints by Basic and reads its form, or returns the refusal.
func (s *service) tokenForm(c *call) (url.Values, *response) {
	clientID, secret, _ := c.r.BasicAuth()
	if c.credential = s.accounts.authenticate(clientID, secret); c.credential == nil {
		return nil, tokenError(401, wire.InvalidClient, "the service does not know these credentials")
	}
	if c.bodyErr != nil {
		return nil, tokenError(400, wire.InvalidRequest, "the body is too long or was cut off")
	}
	form, err := parseForm(c.r.Header.Get("Content-Type"), c.body)
	if err != nil {
		return nil, tokenError(400, wire.InvalidRequest, err.Error())
	}
	for _, values := range form {
		if len(values) > 1 {
			return nil, tokenError(400, wire.InvalidRequest, "a parameter is given more than once")
		}
	}
	return form, nil
}

// parseForm reads the two kinds of form that the token endpoints take.
func parseForm(contentType string, body []byte) (url.Values, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, errors.New("the Content-Type cannot be read")
	}
	switch media {
	case wire.MediaForm:
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errors.New("the form cannot be read")
		}
		return form, nil
	case wire.MediaMultipart:
		form := make(url.Values)
		for parts := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
			part, err := parts.NextPart()
			if err == io.EOF {
				return form, nil
			}
			if err != nil {
				return nil, errors.New("the multipart form cannot be read")
			}
			value, err := io.ReadAll(part)
			if err != nil {
				return nil, errors.New("the multipart form is cut off")
			}
			form.Add(part.FormName(), string(value))
		}
	}
	return nil, errors.New("the form must be multipart/form-data or application/x-www-form-urlencoded")
}
