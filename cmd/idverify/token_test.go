package main

import "testing"

func TestToken_Hidden(t *testing.T) {
	t.Parallel()
	_, env := newService(t)

	hidden := runProgram(t, env, "", "token")
	document := runProgram(t, env, "", "token", "-json").decode(t)
	shown := runProgram(t, env, "", "token", "-show-token", "-scope", "coverage,sim_check")
	withToken := runProgram(t, env, "", "token", "-show-token", "-json").decode(t)

	hidden.expect(t, exitOK, []string{"Scopes   phone_check\n", "(in 3600 s)", "!Token"}, nil)
	shown.expect(t, exitOK, []string{"Scopes   coverage sim_check\n", "Token    "}, nil)
	if token, _ := withToken["access_token"].(string); len(token) < 20 || document["access_token"] != nil {
		t.Errorf("token = %v with -show-token, %v without", withToken["access_token"], document["access_token"])
	}
}
