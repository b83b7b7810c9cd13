package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mutant is a mistake, and the test that has to find it.
type mutant struct {
	name     string
	file     string // from the root of the tree
	old, new string // old is there once
	module   string // folder of the test's module
	test     string // its package in the module, and its name
}

func (m *mutant) matches(words []string) bool {
	for _, w := range words {
		if strings.Contains(m.name, w) {
			return true
		}
	}
	return len(words) == 0
}

// runTests is an error where the tests do not find the mistake.
func (m *mutant) runTests(dir string) error {
	file := filepath.Join(dir, m.file)
	whole, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := strings.Count(string(whole), m.old); n != 1 {
		return fmt.Errorf("the text to change is %d times in %s, and has to be once", n, m.file)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(whole), m.old, m.new, 1)), 0o600); err != nil {
		return err
	}
	defer os.WriteFile(file, whole, 0o600) //nolint:errcheck // the next one that needs it says so
	where, name, _ := strings.Cut(m.test, " ")
	cmd := exec.Command("go", "test", "-count=1", "-timeout=5m", "-run", "^("+name+")$", where)
	cmd.Dir = filepath.Join(dir, m.module)
	cmd.Env = append(os.Environ(), "RETRYSAFE_MODELS=long") // some mistakes need many steps
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case err == nil:
		return errors.New("LIVES")
	case strings.Contains(text, "[build failed]"), strings.Contains(text, "[setup failed]"):
		return fmt.Errorf("it does not compile:\n%s", text)
	case !strings.Contains(text, "--- FAIL: ") && !strings.Contains(text, "panic: "):
		return fmt.Errorf("the test did not run:\n%s", text)
	}
	return nil
}
