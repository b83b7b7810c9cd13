package retrysafe_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/errortest"
)

// TestErrorsAreFrozen: each error keeps its outcome in a trace, its text, and whether a retry is of
// use.
func TestErrorsAreFrozen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, c := range errortest.All() {
		after, again := retrysafe.Retryable(c.Err)
		fmt.Fprintf(&b, "%s\n  trace %s\n  retry %v %v\n  text %s\n", c.Name, retrysafe.OutcomeOfError(c.Err), again, after, &retrysafe.Error{Op: "op", Err: c.Err})
	}
	assert.Golden(t, "testdata/errors_v1.golden", b.String())
}

// withoutRow are errors that the table does not have, with the reason.
var withoutRow = map[string]string{
	"ErrAnswerSealed": "it wraps ErrAnswerNotKept, whose row it has",
}

// exportedErrors returns the names of the package's exported variables that begin with Err.
func exportedErrors(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(".")
	assert.NoError(t, err, "files")
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution)
		assert.NoError(t, err, "parse %s", entry.Name())
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				for _, ident := range spec.(*ast.ValueSpec).Names { //nolint:errcheck,forcetypeassert // as all of a var
					if strings.HasPrefix(ident.Name, "Err") {
						names = append(names, ident.Name)
					}
				}
			}
		}
	}
	return names
}

// TestTableHasEveryError: the table has every error of this package, once, and none that an earlier
// row answers.
func TestTableHasEveryError(t *testing.T) {
	t.Parallel()
	known, _ := retrysafe.KnownErrors()
	var listed []string
	for _, c := range errortest.Sentinels() {
		listed = append(listed, c.Name)
		in := slices.ContainsFunc(known, func(err error) bool { return err == c.Err }) //nolint:errorlint // the row itself
		assert.Equal(t, !in, withoutRow[c.Name] != "", "%s is not in the table of code.go", c.Name)
	}
	names := exportedErrors(t)
	slices.Sort(names)
	slices.Sort(listed)
	assert.Equal(t, listed, names, "the errors in internal/errortest, and those of this package")
	for i, err := range known {
		for _, earlier := range known[:i] {
			assert.True(t, !errors.Is(err, earlier), "the row of %v is never reached, since that of %v is before it", err, earlier)
		}
	}
}

var codeName = regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)

// TestCodes: the table is whole, and its texts say what its other columns say.
func TestCodes(t *testing.T) {
	t.Parallel()
	all := retrysafe.Codes()
	assert.True(t, len(all) >= 37 && all[0] == retrysafe.CodeOutcomeUnknown && all[len(all)-1] == retrysafe.CodeUpstreamUnreachable, "codes: %v", all)
	for i, c := range all {
		assert.Equal(t, int(c), i+1, "the number of %v: each constant has a row", c)
		assert.True(t, codeName.MatchString(c.String()), "the name of %v", c)
		for _, name := range []string{c.String(), c.Reason()} {
			found, ok := retrysafe.ParseCode(name)
			assert.True(t, ok && found == c, "%s is %v", name, found)
		}
		assert.True(t, c.HTTPStatus() != 0 || c.GRPCCode() != 0, "%v is a code of some protocol", c)
		assert.Equal(t, c.HTTPStatus() != 0, c.Title() != "", "%v has a title over HTTP", c)
		assert.True(t, c.HTTPStatus() != 0 || c.Detail() == "", "%v has a detail over HTTP only", c)
		assert.Equal(t, c.GRPCCode() != 0, c.Message() != "", "%v has a message over RPC", c)
		assert.True(t, !c.Retryable() || slices.Contains([]int{409, 429, 503}, c.HTTPStatus()), "the status of %v goes with Retry-After", c)
		text := strings.ToLower(c.Title() + c.Detail() + c.Message())
		says := strings.Contains(text, "nothing was done") || strings.Contains(text, "did nothing") || strings.Contains(text, "not sent")
		assert.True(t, !says || c.NothingDone(), "%v says that nothing was done, and does not know it", c)
	}
	for _, none := range []retrysafe.Code{0, 200} {
		got := fmt.Sprintf("%v %d %d %q %v %v", none, none.HTTPStatus(), none.GRPCCode(), none.Title()+none.Detail()+none.Message(), none.Retryable(), none.NothingDone())
		assert.Equal(t, got, fmt.Sprintf(`code-%d 0 0 "" false false`, uint8(none)), "what is no code")
	}
	_, ok := retrysafe.ParseCode("")
	assert.True(t, !ok, "an empty name")
	_, ok = retrysafe.ParseCode("In-Progress")
	assert.True(t, !ok, "another spelling")
}

// TestCodeOf: an error that is in no row says nothing about what was done, nor does one that is
// joined with an error in doubt.
func TestCodeOf(t *testing.T) {
	t.Parallel()
	assert.Equal(t, retrysafe.CodeOf(nil), retrysafe.Code(0), "no error")
	for _, c := range errortest.Unknown() {
		assert.Equal(t, retrysafe.CodeOf(c.Err), retrysafe.CodeOutcomeUnknown, "the code of %s", c.Name)
	}
	for _, c := range errortest.All() {
		code := retrysafe.CodeOf(c.Err)
		assert.True(t, !errors.Is(c.Err, retrysafe.ErrInDoubt) || code == retrysafe.CodeOutcomeUnknown, "the code of %s: %v", c.Name, code)
		doubted := fmt.Errorf("%w: %w", c.Err, retrysafe.ErrInDoubt)
		assert.Equal(t, retrysafe.CodeOf(doubted), retrysafe.CodeOutcomeUnknown, "the code of %s in doubt", c.Name)
	}
}

// TestOutcomesOfTraces: the comment of CallDone names the words of the table, and those of calls
// that ran.
func TestOutcomesOfTraces(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("trace.go")
	assert.NoError(t, err, "read")
	_, rest, ok := strings.Cut(string(text), "// Outcome is one of ")
	assert.True(t, ok, "the comment")
	rest, _, _ = strings.Cut(rest, ".\n")
	var said []string
	for word := range strings.FieldsFuncSeq(rest, func(r rune) bool { return strings.ContainsRune(" ,\n\t/", r) }) {
		if word != "and" {
			said = append(said, word)
		}
	}
	_, words := retrysafe.KnownErrors()
	words = append(words, "executed", "failed", "released", "doubt", "replayed", "succeeded", "error")
	words = slices.DeleteFunc(words, func(word string) bool {
		return word == "" || word == "too-many-requests" // Engine.Allow is no call of a trace
	})
	slices.Sort(words)
	slices.Sort(said)
	assert.Equal(t, said, slices.Compact(words), "the words of the comment")
}
