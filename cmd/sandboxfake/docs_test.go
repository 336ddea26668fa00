package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/conformance"
)

func TestSandboxPage_ShowsWalkthroughs(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	scripts := map[string]string{
		"sh": read("testdata/walkthrough/walkthrough.sh"),
		"js": read("testdata/walkthrough/walkthrough.js"),
		"py": read("testdata/walkthrough/walkthrough.py"),
	}

	shown := regexp.MustCompile("(?s)```(sh|js|py)\n(.*?)\n```").FindAllStringSubmatch(read("../../docs/sandbox.md"), -1)

	if len(shown) != len(scripts) {
		t.Errorf("the page shows %d scripts, want one each with curl, Node and Python", len(shown))
	}
	for _, block := range shown {
		for paragraph := range strings.SplitSeq(block[2], "\n\n") {
			if !strings.Contains(scripts[block[1]], paragraph) {
				t.Errorf("the page shows a paragraph that is not in the script:\n%s", paragraph)
			}
		}
	}
	if want := fmt.Sprintf("%d numbered expectations", len(conformance.Expectations())); !strings.Contains(read("../../docs/testing.md"), want) {
		t.Errorf("docs/testing.md does not mention %s", want)
	}
}
