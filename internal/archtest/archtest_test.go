package archtest_test

import (
	"os"
	"testing"

	"github.com/retrysafe/retrysafe/internal/archtest"
)

// repository is the path of the repository from the directory of this package.
const repository = "../.."

func TestRepository(t *testing.T) {
	t.Parallel()
	tree, err := archtest.Read(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	if tree.File("internal/archtest/archtest_test.go") == nil || len(tree.Modules) < 2 {
		t.Fatalf("read %d files and %d modules from %s, which is not the repository", len(tree.Files), len(tree.Modules), repository)
	}
	for _, rule := range archtest.Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			for _, v := range rule.Check(tree) {
				t.Error(v)
			}
		})
	}
}
