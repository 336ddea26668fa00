package main

import (
	"flag"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docSection returns the text of docs/tools.md from a heading to the next one of any level.
func docSection(t *testing.T, heading string) string {
	t.Helper()
	_, section, ok := strings.Cut(readText(t, "../../docs/tools.md"), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/tools.md has no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	return section
}

// spans returns the first words of all code spans in a text.
func spans(text string) []string {
	var found []string
	for _, m := range regexp.MustCompile("`([^` ]+)[^`]*`").FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

func TestCheckFlags_Documented(t *testing.T) {
	t.Parallel()
	p := &program{stderr: io.Discard}
	_, reachabilityFlags, _ := newReachabilityCommand(p)
	_, tokenFlags, _, _ := newTokenCommand(p)
	sets := []*flag.FlagSet{
		newCreateCommand(p).flags, newGetCommand(p).flags, newListCommand(p).flags, newWaitCommand(p).flags, newTracesCommand(p).flags,
		reachabilityFlags, tokenFlags,
	}
	section := docSection(t, "### Flags of checks, reachability and token")
	for _, set := range sets {
		var want, got []string
		set.VisitAll(func(f *flag.Flag) { want = append(want, "-"+f.Name) })
		for line := range strings.Lines(section) {
			cells := strings.Split(line, "|")
			if len(cells) != 5 || !strings.HasPrefix(cells[1], " `-") {
				continue
			}
			commands := strings.TrimSpace(cells[2])
			if commands == "all" || strings.HasPrefix(commands, "all `check`") && strings.HasPrefix(set.Name(), "check") || strings.Contains(commands, "`"+set.Name()+"`") {
				got = append(got, spans(cells[1])[0])
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("flags of %s in docs/tools.md (-flag set +page):\n%s", set.Name(), diff)
		}
	}
}

func TestCheckJSON_Documented(t *testing.T) {
	t.Parallel()
	section := docSection(t, "### JSON of checks, reachability and token")
	var documented []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			documented = append(documented, spans(cells[2])...)
		}
	}
	want := []string{
		"product", "checks", // check list
		"product", "check_id", "traces", // check traces
		"network_id", "network_name", "country_code", "products", "country_code", "dialing_code", "products", // reachability
		"scopes", "expires_at", "expires_in_seconds", "access_token", // token
	}
	for _, document := range []any{check{}, trace{}, traceLog{}, countryProduct{}, countryNetwork{}, price{}} {
		for field := range reflect.TypeOf(document).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			want = append(want, name)
		}
	}
	slices.Sort(want)
	slices.Sort(documented)
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("fields in docs/tools.md (-code +page):\n%s", diff)
	}
}

func TestCheckJSON_Fields(t *testing.T) {
	t.Parallel()
	section := docSection(t, "### JSON of checks, reachability and token")
	names := regexp.MustCompile(`(?m)^\s*\{?"([a-z_]+)":|[,{]"([a-z_]+)":`)
	for _, args := range [][]string{
		{"check", "create", "-fake", number},
		{"check", "list", "-fake", "-product", "subscriber_check"},
		{"check", "get", "-fake", "-product", "sim_check", "b04e5343-cdbd-8e4b-bd46-2d551cb7a138"},
		{"reachability", "-fake", "192.0.2.2"},
		{"reachability", "-fake", "-country", "GB"},
		{"token", "-fake", "-show-token"},
	} {
		got := runProgram(t, nil, "", append(args, "-json")...)

		got.decode(t)
		found := names.FindAllStringSubmatch(got.stdout, -1)
		if got.code != exitOK || len(found) < 3 {
			t.Errorf("%v: exit code %d, %d fields\n%s", args, got.code, len(found), got.stderr)
		}
		for _, m := range found {
			if name := m[1] + m[2]; !strings.Contains(section, "`"+name+"`") {
				t.Errorf("%v: docs/tools.md does not contain the field %s", args, name)
			}
		}
	}
}

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
