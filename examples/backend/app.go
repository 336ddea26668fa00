package main

import (
	"net/http"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
)

// appSignIn starts a check for an app, which opens the Check URL and sends the code to appSession.
// The app sends both requests over mobile data. With PhoneIP, a check that an attacker started has
// no code for a page in the victim's browser that opens the Check URL.
func (s *shop) appSignIn(w http.ResponseWriter, r *http.Request) {
	number, ok := phoneNumber(w, r)
	if !ok {
		return
	}
	addr, err := clientAddr(r)
	if err != nil {
		s.unavailable(w, r, "check not created", err)
		return
	}
	check, err := s.app.Start(r, "", checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: number, PhoneIP: addr}})
	if err != nil {
		s.notCreated(w, r, err)
		return
	}
	respond(w, http.StatusCreated, check)
}

// appSession signs in the app that started a check. The app sends the session with its requests, in
// the header Authorization.
func (s *shop) appSession(w http.ResponseWriter, r *http.Request) {
	var params checkflow.ExchangeParams
	if !read(w, r, &params) {
		return
	}
	result := s.app.Exchange(r, params)
	if result.Verdict != idverify.VerdictYes {
		respond(w, http.StatusForbidden, map[string]string{"error": string(result.Reason)})
		return
	}
	token, err := s.newSession(r, result.PhoneNumber)
	if err != nil {
		respond(w, http.StatusServiceUnavailable, map[string]string{"error": "unavailable"})
		return
	}
	respond(w, http.StatusCreated, map[string]string{"session": token})
}
