package main

import "testing"

func TestReachability_Arguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"either an address or -country": {},
		"set either an address":         {"-country", "GB", "192.0.2.2"},
		"is not an IP address":          {"phone.example.com"},
	} {
		got := runProgram(t, nil, "", append([]string{"reachability", "-fake"}, args...)...)

		got.expect(t, exitUsage, nil, []string{want, "!phone.example.com"})
	}
}
