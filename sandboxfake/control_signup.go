package sandboxfake

import "net/http"

// accountView is the JSON form of an [Account]. It contains the client secret.
type accountView struct {
	WorkspaceID string          `json:"workspace_id"`
	MemberID    string          `json:"member_id"`
	Role        string          `json:"role"`
	Credentials credentialsPair `json:"credentials"`
	Joined      []accountView   `json:"joined,omitempty"`
}

type credentialsPair struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

func newAccountView(a *Account) accountView {
	v := accountView{
		WorkspaceID: a.WorkspaceID,
		MemberID:    a.MemberID,
		Role:        string(a.Role),
		Credentials: credentialsPair{a.Credentials.ClientID, a.Credentials.ClientSecret.Reveal()},
	}
	for _, joined := range a.Joined {
		v.Joined = append(v.Joined, newAccountView(joined))
	}
	return v
}

// controlSignUp handles POST /_sandbox/signup. See [Server.SignUp].
func (s *Server) controlSignUp(r *http.Request) (any, error) {
	var params struct {
		Name          string   `json:"name"`
		InvitationIDs []string `json:"invitation_ids"`
	}
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	svc := s.lock()
	defer svc.mu.Unlock()
	account, err := svc.signUp(params.Name, params.Name, params.InvitationIDs)
	if err != nil {
		return nil, badControl("%v", err)
	}
	return newAccountView(account), nil
}
