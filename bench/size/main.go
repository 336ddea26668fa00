// Command size compares a program with the client and a program with net/http and
// golang.org/x/oauth2: the size of the executable, and the time of go build. It prints a line in
// the format of package testing for each of them.
//
//	cd bench && go run ./size
//
// BenchmarkImport/link is the time with every package in the build cache. BenchmarkImport/compile,
// with the flag -compile, is the time with only the packages of the standard library in the cache.
// It takes about a minute, because it compiles them first.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	log.SetFlags(0)
	runs := flag.Int("runs", 5, "builds of each program; the result is the median")
	compile := flag.Bool("compile", false, "also measure with only the standard library in the cache")
	flag.Parse()
	if err := run(*runs, *compile); err != nil {
		log.Fatal("size: ", err)
	}
}

func run(runs int, compile bool) error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	link := func(program string) (time.Duration, error) { return build(dir, program, "") }
	times, err := alternate(runs, link)
	if err != nil {
		return err
	}
	plain, err := os.Stat(filepath.Join(dir, "handwritten"))
	if err != nil {
		return err
	}
	client, err := os.Stat(filepath.Join(dir, "client"))
	if err != nil {
		return err
	}
	fmt.Printf("BenchmarkImport/size 1 %.2f x-nethttp %.1f more-MB\n", float64(client.Size())/float64(plain.Size()), float64(client.Size()-plain.Size())/1e6)
	fmt.Printf("BenchmarkImport/link %d %.2f x-nethttp\n", runs, times)
	if !compile {
		return nil
	}

	std := filepath.Join(dir, "std")
	if _, err := goCommand(std, "build", "std"); err != nil {
		return err
	}
	times, err = alternate(runs, func(program string) (time.Duration, error) {
		cache := filepath.Join(dir, "cache")
		if err := os.RemoveAll(cache); err != nil {
			return 0, err
		}
		if err := os.CopyFS(cache, os.DirFS(std)); err != nil {
			return 0, err
		}
		return build(dir, program, cache)
	})
	if err != nil {
		return err
	}
	fmt.Printf("BenchmarkImport/compile %d %.2f x-nethttp\n", runs, times)
	return nil
}

// alternate measures both programs in turn, after a first run of each that does not count. It
// returns the median time of client divided by that of handwritten.
func alternate(runs int, measure func(program string) (time.Duration, error)) (float64, error) {
	times := make(map[string][]time.Duration)
	for n := range runs + 1 {
		for _, program := range []string{"handwritten", "client"} {
			took, err := measure(program)
			if err != nil {
				return 0, err
			}
			if n > 0 {
				times[program] = append(times[program], took)
			}
		}
	}
	return float64(median(times["client"])) / float64(median(times["handwritten"])), nil
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// build builds program in dir. It returns the duration.
func build(dir, program, cache string) (time.Duration, error) {
	output := filepath.Join(dir, program)
	if err := os.RemoveAll(output); err != nil {
		return 0, err
	}
	return goCommand(cache, "build", "-o", output, "./size/"+program)
}

// goCommand runs the go command with the given build cache, or the default one if it is empty. It
// returns the duration.
func goCommand(cache string, args ...string) (time.Duration, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = os.Environ()
	if cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+cache)
	}
	cmd.Stderr = os.Stderr
	start := time.Now()
	err := cmd.Run()
	return time.Since(start), err
}
