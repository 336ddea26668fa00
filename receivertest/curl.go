package receivertest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// serviceSkew is the clock skew that a receiver allows unless it is configured otherwise.
const serviceSkew = 5 * time.Second

// curl returns a script for sh that sends a request again, and contains it completely. curl may
// order the header fields differently. The values of added headers are variables.
func (e *examination) curl(rule string, r request) string {
	m := r.message
	body := m.Body
	if strings.EqualFold(m.Get("Transfer-Encoding"), "chunked") {
		// curl adds the framing again.
		if decoded, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(body))); err == nil {
			body = string(decoded)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# This message is valid for seconds: it was made on %s,\n", r.date.UTC().Format(http.TimeFormat))
	fmt.Fprintf(&b, "# and receivers accept a date for about %s. For a new message, examine the receiver again with\n", seconds(serviceSkew))
	fmt.Fprintf(&b, "# only the rule %s.\n", rule)
	url, options := e.curlTarget(&b)

	if body != "" {
		b.WriteString(shellOutput(body) + " |\n")
	}
	b.WriteString("curl --silent --show-error --include --http1.1 --max-time 10 --path-as-is")
	option := func(words ...string) { b.WriteString(" \\\n  " + strings.Join(words, " ")) }
	if m.Method == http.MethodHead {
		option("--head")
	} else {
		option("--request", shellWord(m.Method))
	}
	option("--request-target", shellWord(m.Target))
	option("--header", shellHeader("Host", m.Host))
	for _, f := range m.Fields {
		option("--header", shellHeader(f.Name, f.Value))
	}
	names := []string{"User-Agent", "Accept"}
	if body != "" {
		names = append(names, "Content-Type", "Expect")
	}
	for _, name := range names { // do not let curl add them
		if m.Get(name) == "" && r.header.Get(name) == "" && !hasField(r, name) {
			option("--header", "'"+name+":'")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		for i := range r.header[name] {
			option("--header", shellWord(name+": ")+`"$`+variable(name, i)+`"`)
		}
	}
	if body != "" {
		option("--data-binary", "@-")
	}
	for _, o := range options {
		option(o)
	}
	option(url)
	if len(r.header) > 0 {
		return variables(r.header) + b.String()
	}
	return b.String()
}

func hasField(r request, name string) bool {
	for _, f := range r.message.Fields {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

// curlTarget returns the URL of the receiver and the options to connect to it. It writes comments
// about variables to b.
func (e *examination) curlTarget(b *strings.Builder) (url string, options []string) {
	if e.Handler != nil {
		b.WriteString("# Set RECEIVER to the address of the receiver, for example http://127.0.0.1:3000.\n")
		return `"$RECEIVER"`, nil
	}
	if !e.address.tls {
		return shellWord("http://" + e.address.hostPort), nil
	}
	name := e.address.url.Hostname()
	if c := e.TLSConfig; c != nil {
		if c.ServerName != "" {
			name = c.ServerName
		}
		if c.InsecureSkipVerify {
			options = append(options, "--insecure")
		} else if c.RootCAs != nil {
			b.WriteString("# Set CA_FILE to a file with the certificate authorities of the receiver.\n")
			options = append(options, `--cacert "$CA_FILE"`)
		}
	}
	return shellWord("https://" + name), append(options, "--connect-to "+shellWord("::"+e.address.hostPort))
}

// variable returns the name of the shell variable for a value of a header.
func variable(name string, index int) string {
	v := "HEADER_" + strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(name))
	if index > 0 {
		v += fmt.Sprintf("_%d", index+1)
	}
	return v
}

// variables returns a comment with the names of the variables for h.
func variables(h http.Header) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for i := range h[name] {
			names = append(names, variable(name, i))
		}
	}
	return "# Set " + strings.Join(names, " and ") + " to the values of the headers that you added.\n"
}

// shellHeader returns the argument of --header.
func shellHeader(name, value string) string {
	if value == "" {
		return shellWord(name + ";")
	}
	return shellWord(name + ": " + value)
}

// shellWord returns s as one word of sh. Long runs of one byte become commands.
func shellWord(s string) string {
	var b strings.Builder
	for _, run := range runs(s) {
		switch {
		case run.count > 1:
			b.WriteString(`"$(` + repeated(run) + `)"`)
		case printable(run.text):
			b.WriteString("'" + strings.ReplaceAll(run.text, "'", `'\''`) + "'")
		default:
			b.WriteString(`"$(printf ` + printfFormat(run.text) + `)"`)
		}
	}
	if b.Len() == 0 {
		return "''"
	}
	return b.String()
}

// shellOutput returns commands that write s to stdout.
func shellOutput(s string) string {
	var commands []string
	for _, run := range runs(s) {
		switch {
		case run.count > 1:
			commands = append(commands, repeated(run))
		case printable(run.text):
			commands = append(commands, "printf %s '"+strings.ReplaceAll(run.text, "'", `'\''`)+"'")
		default:
			commands = append(commands, "printf "+printfFormat(run.text))
		}
	}
	if len(commands) == 1 {
		return commands[0]
	}
	return "{ " + strings.Join(commands, "; ") + "; }"
}

// run is a text that occurs count times.
type run struct {
	text  string
	count int
}

// minRun is the length from which a run of one byte becomes a command.
const minRun = 512

// runs splits s into long runs of one byte, and the text between them.
func runs(s string) []run {
	var all []run
	start := 0
	for i := 0; i < len(s); {
		end := i + 1
		for end < len(s) && s[end] == s[i] {
			end++
		}
		if end-i >= minRun {
			if start < i {
				all = append(all, run{s[start:i], 1})
			}
			all = append(all, run{s[i : i+1], end - i})
			start = end
		}
		i = end
	}
	if start < len(s) {
		all = append(all, run{s[start:], 1})
	}
	return all
}

// repeated returns a command that writes a run.
func repeated(r run) string {
	return fmt.Sprintf(`head -c %d /dev/zero | tr '\000' '\%03o'`, r.count, r.text[0])
}

// printable reports whether sh and all formats of a report leave s unchanged between quotes.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// printfFormat returns s as a quoted format of printf.
func printfFormat(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '%':
			b.WriteString("%%")
		case c < ' ', c >= 0x7f, c == '\'', c == '\\':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "'" + b.String() + "'"
}
