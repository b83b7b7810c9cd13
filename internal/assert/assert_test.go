package assert_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// probe records the failure of an assertion; empty if it held.
type probe struct{ text string }

func (p *probe) Helper() {}

func (p *probe) Fatalf(format string, args ...any) { p.text = fmt.Sprintf(format, args...) }

func TestAssertions(t *testing.T) {
	t.Parallel()
	wrapped := fmt.Errorf("read: %w", io.EOF)
	for _, c := range []struct {
		name string
		call func(assert.T)
		want string // part of the failure; empty: the assertion holds
	}{
		{"equal", func(p assert.T) { assert.Equal(p, 1, 1, "n") }, ""},
		{"unequal", func(p assert.T) { assert.Equal(p, 1, 2, "n of %s", "x") }, "n of x: got 1, want 2"},
		{"nil and empty", func(p assert.T) { assert.Equal(p, nil, []byte{}, "body") }, `body: got nil bytes, want ""`},
		{"long", func(p assert.T) { assert.Equal(p, strings.Repeat("a", 1000), "", "s") }, "… (1000 bytes), want"},
		{"other", func(p assert.T) { assert.NotEqual(p, 1, 2, "n") }, ""},
		{"same", func(p assert.T) { assert.NotEqual(p, 2, 2, "n") }, "n: got 2, want anything else"},
		{"true", func(p assert.T) { assert.True(p, true, "it is so") }, ""},
		{"false", func(p assert.T) { assert.True(p, false, "it is so") }, "got false, want true: it is so"},
		{"no error", func(p assert.T) { assert.NoError(p, nil, "read") }, ""},
		{"an error", func(p assert.T) { assert.NoError(p, io.EOF, "read") }, `read: got error "EOF", want none`},
		{"wrapped", func(p assert.T) { assert.ErrorIs(p, wrapped, io.EOF, "read") }, ""},
		{"another error", func(p assert.T) { assert.ErrorIs(p, errors.New("x"), io.EOF, "read") }, `read: got error "x", want "EOF"`},
		{"nil error", func(p assert.T) { assert.ErrorIs(p, nil, io.EOF, "read") }, `read: got error nil, want "EOF"`},
		{"contains", func(p assert.T) { assert.Contains(p, "abc", "b", "s") }, ""},
		{"contains not", func(p assert.T) { assert.Contains(p, "abc", "d", "s") }, `s: got "abc", want it to contain "d"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var p probe
			c.call(&p)
			if (c.want == "") != (p.text == "") || !strings.Contains(p.text, c.want) {
				t.Errorf("got %q, want %q", p.text, c.want)
			}
		})
	}
}
