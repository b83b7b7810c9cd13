package main

import (
	"context"
	"os"
	"path/filepath"
)

// tidyModules runs go mod tidy in every module. It does so in a copy of the tree, where replace
// lines stand in for siblings whose versions are not released yet, and copies back what has
// changed.
func tidyModules(ctx context.Context, r *repo) error {
	stage, err := os.MkdirTemp("", "retrysafe-tidy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	tree, err := r.copyTo(ctx, stage)
	if err != nil {
		return err
	}
	for _, m := range tree.modules {
		printProgress("tidy %s", m.path)
		if err := tree.tidyModule(ctx, m); err != nil {
			return err
		}
		for _, name := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile(filepath.Join(tree.dir, m.dir, name))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(r.dir, m.dir, name), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *repo) tidyModule(ctx context.Context, m *mod) error {
	add, drop := []string{"mod", "edit"}, []string{"mod", "edit"}
	for _, sibling := range r.modules {
		if sibling != m {
			add = append(add, "-replace="+sibling.path+"="+filepath.Join(r.dir, sibling.dir))
			drop = append(drop, "-dropreplace="+sibling.path)
		}
	}
	for _, args := range [][]string{add, {"mod", "tidy"}, drop} {
		if _, err := runForOutput(ctx, filepath.Join(r.dir, m.dir), []string{"GOWORK=off"}, "go", args...); err != nil {
			return err
		}
	}
	return nil
}
