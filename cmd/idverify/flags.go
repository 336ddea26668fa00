package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// newFlags returns the flag set of a command. arguments describes what follows the flags.
func newFlags(name, arguments string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // parse prints errors and the usage
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), strings.TrimSpace("Usage: idverify "+name+" [flags] "+arguments))
		flags.PrintDefaults()
	}
	return flags
}

// parse parses args, and reports whether the command is to run. Otherwise it prints the usage or an
// error, and code is the exit code.
func (p *program) parse(flags *flag.FlagSet, args []string) (code int, ok bool) {
	switch err := flags.Parse(args); err {
	case nil:
		return exitOK, true
	case flag.ErrHelp:
		flags.SetOutput(p.stdout)
		flags.Usage()
		return exitOK, false
	default:
		return p.misused(flags.Name(), err), false
	}
}

// misused prints an error in the use of a command, and returns the exit code.
func (p *program) misused(command string, err error) int {
	text := fmt.Sprintf("idverify: %s: %v", command, err)
	separator := " "
	if strings.Contains(text, "\n") { // of an unknownNameError
		separator = "\n"
	}
	fmt.Fprintf(p.stderr, "%s%s(\"idverify %s -h\" lists the flags)\n", text, separator, command)
	return exitUsage
}

// unknownNameError is the error of a flag whose value is not one of the known names.
type unknownNameError struct {
	flag, kind, name string   // such as "-only", "rule" and its value
	known            []string // in the order of the documentation
}

func (e *unknownNameError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: there is no %s %q. The %ss are", e.flag, e.kind, e.name, e.kind)
	width := lineWidth
	for i, name := range e.known {
		if i > 0 {
			b.WriteByte(',')
		}
		separator := " "
		if width += len(name) + 2; width > lineWidth {
			width, separator = len(name)+3, "\n  "
		}
		b.WriteString(separator + name)
	}
	return b.String()
}

// lineWidth is the width to which a list of names is wrapped.
const lineWidth = 100

// parseArguments parses args like parse, and returns the arguments between and after the flags.
func (p *program) parseArguments(flags *flag.FlagSet, args []string, atLeast, atMost int) (arguments []string, code int, ok bool) {
	arguments = []string{}
	for {
		if code, ok := p.parse(flags, args); !ok {
			return nil, code, false
		}
		if flags.NArg() == 0 {
			break
		}
		arguments = append(arguments, flags.Arg(0))
		args = flags.Args()[1:]
	}
	if len(arguments) < atLeast || len(arguments) > atMost {
		code := p.misused(flags.Name(), fmt.Errorf("unexpected number of arguments: %d", len(arguments)))
		var usage strings.Builder
		flags.SetOutput(&usage)
		flags.Usage()
		line, _, _ := strings.Cut(usage.String(), "\n")
		fmt.Fprintln(p.stderr, line)
		return nil, code, false
	}
	return arguments, exitOK, true
}

// shellQuote quotes s as one word of a POSIX shell, if necessary.
func shellQuote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("-._/:@", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// stringList is the value of a repeatable flag.
type stringList []string

// String implements [flag.Value]. It is the default, and never a value, which can be a secret.
func (l *stringList) String() string { return "" }

// Set implements [flag.Value].
func (l *stringList) Set(text string) error {
	*l = append(*l, text)
	return nil
}
