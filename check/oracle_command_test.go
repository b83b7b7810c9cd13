package check_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
)

// shellCommand is a Command that prints text.
func shellCommand(script string) check.Command {
	return check.Command{Args: []string{"sh", "-c", script}}
}

func TestCommandTakesTheLastNumber(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]int64{
		`12\n`:                             12,
		`12`:                               12,
		`7\n8 orders and 9 payments\n\n`:   9,
		`(integer) 3\n`:                    3,
		`count\n-----\n   12\n(1 row)\n\n`: 12,
		`total=-4`:                         -4,
		`-4`:                               -4,
		`range 2-6`:                        6,
		`é12`:                              12,
		`9223372036854775807`:              9223372036854775807,
		`| 5 |`:                            5,
	} {
		got, err := shellCommand("printf -- '" + out + "'").Count(t.Context())
		if err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", out, got, err, want)
		}
	}
	if got, err := shellCommand("yes 'a long line' | head -n 50000; echo 4").Count(t.Context()); err != nil || got != 4 {
		t.Errorf("after 800 kB: %d, %v", got, err)
	}
}

func TestCommandSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo no such table >&2; exit 3":     "exit status 3\nno such table",
		"true":                               "the command true printed nothing",
		"echo none; echo hm >&2":             "no number on its last line: \"none\"\nhm",
		"echo 12.5":                          `"12.5"`,
		"echo 1,234":                         `"1,234"`,
		"echo 99999999999999999999":          "no whole number",
		"head -c 9000 /dev/zero >&2; exit 1": "exit status 1\n…",
	} {
		if n, err := shellCommand(script).Count(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v; want %q", script, n, err, want)
		}
	}
	for _, c := range []check.Command{{}, {Args: []string{""}}, {Args: []string{"/no/such/program"}}} {
		if n, err := c.Count(t.Context()); err == nil {
			t.Errorf("%v counts %d", c, n)
		}
	}
}

func TestCommandIsKilled(t *testing.T) {
	t.Parallel()
	began := filepath.Join(t.TempDir(), "began")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for waiting := true; waiting && t.Context().Err() == nil; {
			_, err := os.Stat(began)
			waiting = err != nil
		}
	}()
	_, err := check.Command{Args: []string{"sh", "-c", "touch '" + began + "'; exec sleep 600"}}.Count(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the count ended with %v", err)
	}
}

func TestCommandHidesItsArguments(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]check.Command{
		"the command psql":  {Args: []string{"/usr/bin/psql", "postgres://u:secret@host"}},
		"the command mysql": shellCommand("MYSQL_PWD=secret mysql -e 'select 1'"),
		"a command":         {},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
