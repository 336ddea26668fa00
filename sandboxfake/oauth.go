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

// token is an issued access token.
type token struct {
	text       string
	credential *credential
	scopes     []string
	expires    time.Time
	revoked    bool
}

// tokenLifetime is the lifetime of an access token.
const tokenLifetime = time.Hour

// tokens contains the issued tokens, in order of expiry. Issuing a token removes expired tokens.
type tokens struct {
	byText map[string]*token
	issued []*token
}

// issueToken issues a token of c for scopes, and removes expired tokens.
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

// revokeAll revokes all tokens of a credential.
func (t *tokens) revokeAll(c *credential) {
	for _, issued := range t.issued {
		if issued.credential == c {
			issued.revoked = true
		}
	}
}

// tokenOf returns the token of a call, or nil if it is unknown, expired or revoked, or its
// credentials were deleted.
func (s *service) tokenOf(c *call) *token {
	t := c.internal
	if t == nil {
		scheme, text, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return nil
		}
		t = s.tokens.byText[text]
	}
	if t == nil || t.revoked || t.credential.deleted || !t.expires.After(s.clock.Now()) {
		return nil
	}
	return t
}

// allows reports whether t grants access to the operations of scope.
func (t *token) allows(scope string) bool {
	if slices.Contains(t.scopes, scope) {
		return true
	}
	// The scope console includes projects and workspaces.
	return slices.Contains(t.scopes, wire.ScopeConsole) && (scope == wire.ScopeProjects || scope == wire.ScopeWorkspaces)
}

// tokenView is the response to a token request (RFC 6749, section 5.1).
type tokenView struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
	Scope       string `json:"scope"`
}

// tokenErrorView is an error response to a token request (RFC 6749, section 5.2).
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

// issueTokenFor handles POST /oauth2/v1/token.
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
		return tokenError(400, wire.InvalidRequest, "scope is missing (send one or more scopes, separated by spaces)"), nil
	}
	scopes := strings.Split(form.Get("scope"), " ")
	for i, scope := range scopes {
		switch {
		case scope == "" || slices.Contains(scopes[:i], scope):
			return tokenError(400, wire.InvalidScope, "scopes must be unique and separated by single spaces"), nil
		case !c.credential.mayHave(scope) && !slices.Contains(s.opts.extraScopes, scope):
			return tokenError(400, wire.InvalidScope, "unknown scope, or scope not available to these credentials"), nil
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

// revokeToken handles POST /oauth2/v1/revoke (RFC 7009). The response does not disclose whether the
// token exists.
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

// tokenForm authenticates a request to a token endpoint by HTTP Basic and parses its form. If
// either fails, it returns the error response.
func (s *service) tokenForm(c *call) (url.Values, *response) {
	clientID, secret, _ := c.r.BasicAuth()
	if c.credential = s.accounts.authenticate(clientID, secret); c.credential == nil {
		return nil, tokenError(401, wire.InvalidClient, "unknown credentials")
	}
	if c.bodyErr != nil {
		return nil, tokenError(400, wire.InvalidRequest, "the body is too large or truncated")
	}
	form, err := parseForm(c.r.Header.Get("Content-Type"), c.body)
	if err != nil {
		return nil, tokenError(400, wire.InvalidRequest, err.Error())
	}
	for _, values := range form {
		if len(values) > 1 {
			return nil, tokenError(400, wire.InvalidRequest, "duplicate parameter")
		}
	}
	return form, nil
}

// parseForm parses a URL-encoded or multipart form.
func parseForm(contentType string, body []byte) (url.Values, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, errors.New("Content-Type is missing or malformed")
	}
	switch media {
	case wire.MediaForm:
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errors.New("the form is malformed")
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
				return nil, errors.New("the multipart form is malformed")
			}
			value, err := io.ReadAll(part)
			if err != nil {
				return nil, errors.New("the multipart form is truncated")
			}
			form.Add(part.FormName(), string(value))
		}
	}
	return nil, errors.New("the form must be multipart/form-data or application/x-www-form-urlencoded")
}
