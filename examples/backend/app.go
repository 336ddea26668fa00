package main

import (
	"net/http"

	"github.com/idverify/idverify-go"
)

// appSignIn starts a check for an app, which opens the Check URL and sends the code to appSession.
func (s *shop) appSignIn(w http.ResponseWriter, r *http.Request) {
	number, ok := phoneNumber(w, r)
	if !ok {
		return
	}
	check, err := s.app.Start(r, "", idverify.PhoneCheckParams{PhoneNumber: number}, "")
	if err != nil {
		s.notCreated(w, r, err)
		return
	}
	respond(w, http.StatusCreated, check)
}

// appSession signs in the app that started a check. The app sends the session with its requests, in
// the header Authorization.
func (s *shop) appSession(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Token   string `json:"token"`
		CheckID string `json:"check_id"`
		Code    string `json:"code"`
	}
	if !read(w, r, &request) {
		return
	}
	result := s.app.Exchange(r, request.Token, request.CheckID, request.Code)
	switch result.Verdict {
	case idverify.VerdictYes:
		token, err := s.newSession(r, result.Number)
		if err != nil {
			respond(w, http.StatusServiceUnavailable, map[string]string{"error": "unavailable"})
			return
		}
		respond(w, http.StatusCreated, map[string]string{"session": token})
	case idverify.VerdictNo:
		respond(w, http.StatusForbidden, map[string]string{"error": "no_match"})
	default:
		respond(w, http.StatusForbidden, map[string]string{"error": string(result.Reason)})
	}
}
