package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestAPI: what users import is what the files here say.
func TestAPI(t *testing.T) {
	t.Parallel()
	differences, err := compareOrWrite(filepath.Join("..", ".."), false)
	assert.NoError(t, err, "run")
	assert.Equal(t, differences, nil, "go run ./scripts/api -write, and see in git diff what changes for users")
}

const source = `package shop

import "context"

const (
	A State = iota
	B
	hidden
)

const C = 1

var Err, other = f(), f()

type State int

type Alias = State

type T[K comparable] struct {
	Field func(ctx context.Context, n int) error
	own   int
	State
}

type I interface {
	M(a, b int) (n int, err error)
	error
}

func F[K any](k K, more ...string) (*T[string], error) { return nil, nil }

func (t *T[K]) Do(context.Context) {}

func (t *T[K]) do() {}

type private struct{ X int }

func (private) Do() {}
`

func TestExported(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"shop/shop.go": source, "shop/shop_test.go": "package shop\n\nfunc Test() {}\n", "shop/internal/x/x.go": "package x\n\nfunc X() {}\n",
		"tool/main.go": "package main\n\nfunc X() {}\n", "examples/x/x.go": "package x\n\nfunc X() {}\n",
	} {
		path := filepath.Join(root, name)
		assert.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700), "directory")
		assert.NoError(t, os.WriteFile(path, []byte(content), 0o600), "file")
	}
	got, err := exportedNames(root)
	assert.NoError(t, err, "exported")
	var want []string
	for _, s := range []string{
		"const A State", "const B State", "const C", "func F[K any](K, ...string) (*T[string], error)", "method (*T[K]) Do(context.Context)",
		"type Alias = State", "type I interface", "type I interface, M(int, int) (int, error)", "type I interface, embedded error", "type State int",
		"type T[K comparable] struct", "type T[K comparable] struct, Field func(context.Context, int) error", "type T[K comparable] struct, embedded State", "var Err",
	} {
		want = append(want, "github.com/retrysafe/retrysafe/shop: "+s)
	}
	assert.Equal(t, got, want, "declarations")
}

func TestRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put := func(name, content string) {
		path := filepath.Join(root, name)
		assert.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700), "directory")
		assert.NoError(t, os.WriteFile(path, []byte(content), 0o600), "file")
	}
	put("shop/shop.go", "package shop\n\nfunc New() {}\n\nfunc Kept() {}\n")
	put("new/home/home.go", "package home\n\nfunc Moved() {}\n")
	put("scripts/api/moved.txt", "home new/home\n")
	put("scripts/api/v0.1.0.txt", "github.com/retrysafe/retrysafe/home: func Moved()\ngithub.com/retrysafe/retrysafe/shop: func Gone()\ngithub.com/retrysafe/retrysafe/shop: func Kept()\n")
	got, err := compareOrWrite(root, false)
	assert.NoError(t, err, "run")
	assert.Equal(t, got, []string{
		"new, and not in next.txt: github.com/retrysafe/retrysafe/shop: func New()",
		"removed, and not in removed.txt: github.com/retrysafe/retrysafe/shop: func Gone()",
	}, "before -write")
	_, err = compareOrWrite(root, true)
	assert.NoError(t, err, "write")
	got, err = compareOrWrite(root, false)
	assert.NoError(t, err, "run")
	assert.Equal(t, got, nil, "after -write")
	put("shop/shop.go", "package shop\n\nfunc Kept() {}\n\nfunc Gone() {}\n")
	got, err = compareOrWrite(root, false)
	assert.NoError(t, err, "run")
	assert.Equal(t, got, []string{
		"in next.txt, and not in the tree: github.com/retrysafe/retrysafe/shop: func New()",
		"in removed.txt, and not removed: github.com/retrysafe/retrysafe/shop: func Gone()",
	}, "another tree")
}
