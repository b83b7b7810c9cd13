package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/check"
)

// subject is a middleware that is examined.
type subject struct {
	name string
	// keyHeader is the field of the key in its default configuration.
	keyHeader string
	// start starts the service at an address of the loopback interface.
	start func(ctx context.Context) (*service, error)
}

// service is a service that runs.
type service struct {
	// address is its host and port.
	address string
	// version says which versions are examined, and configuration how they are set up.
	version, configuration string
	close                  func()
}

var subjects = []subject{
	{"fiber", "X-Idempotency-Key", startFiber},
	{"express", "Idempotency-Key", startExpress},
	{"retrysafe", "Idempotency-Key", startRetrysafe},
}

// subjectReport is a subject with its report.
type subjectReport struct {
	name, version, configuration string
	report                       *check.Report
}

// runChecks examines the subjects and prints the report, or writes it into the page.
func runChecks(ctx context.Context, only string, write bool, root string) error {
	var all []subjectReport
	for _, s := range subjects {
		if only != "" && only != s.name {
			continue
		}
		e, err := examineSubject(ctx, &s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return fmt.Errorf("there is no %q; -only takes fiber, express or retrysafe", only)
	}
	text := renderReport(all)
	if !write {
		_, err := os.Stdout.Write(text)
		return err
	}
	return replaceReport(filepath.Join(root, "docs", "check.md"), text)
}

func examineSubject(ctx context.Context, s *subject) (subjectReport, error) {
	running, err := s.start(ctx)
	if err != nil {
		return subjectReport{}, err
	}
	defer running.close()
	report, err := check.Examine(ctx, newTarget(running.address, s.keyHeader), nil)
	return subjectReport{s.name, running.version, running.configuration, report}, err
}

var beginMark, endMark = []byte("<!-- check-others -->\n"), []byte("<!-- /check-others -->\n")

// replaceReport replaces what the page has between its two marks.
func replaceReport(page string, text []byte) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(old, beginMark)
	_, after, closed := bytes.Cut(rest, endMark)
	if !found || !closed {
		return errors.New(page + " lacks the marks of the report")
	}
	return os.WriteFile(page, bytes.Join([][]byte{before, beginMark, []byte("\n"), text, []byte("\n"), endMark, after}, nil), 0o644)
}
