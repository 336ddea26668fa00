package main

import (
	"flag"
	"fmt"
	"strings"
)

// newFlags returns the flag set of a command. arguments describes what follows the flags.
func (p *program) newFlags(name, arguments string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	flags.Usage = func() {
		fmt.Fprintln(p.stderr, strings.TrimSpace("Usage: idverify "+name+" [flags] "+arguments))
		flags.PrintDefaults()
	}
	return flags
}

// parse parses args, and reports whether the command is to run. Otherwise code is the exit code.
func parse(flags *flag.FlagSet, args []string) (code int, ok bool) {
	switch err := flags.Parse(args); err {
	case nil:
		return exitOK, true
	case flag.ErrHelp:
		return exitOK, false
	default:
		return exitUsage, false
	}
}

// parseArguments parses args, and returns the arguments between and after the flags. If their
// number is wrong, it prints the usage.
func parseArguments(flags *flag.FlagSet, args []string, atLeast, atMost int) (arguments []string, code int, ok bool) {
	arguments = []string{}
	for {
		if code, ok := parse(flags, args); !ok {
			return nil, code, false
		}
		if flags.NArg() == 0 {
			break
		}
		arguments = append(arguments, flags.Arg(0))
		args = flags.Args()[1:]
	}
	if len(arguments) < atLeast || len(arguments) > atMost {
		fmt.Fprintf(flags.Output(), "idverify: %s: unexpected number of arguments: %d\n", flags.Name(), len(arguments))
		flags.Usage()
		return nil, exitUsage, false
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
