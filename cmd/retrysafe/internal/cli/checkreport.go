package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
)

// reportFlags say where reports go.
type reportFlags struct {
	json, junit, sarif, html string

	files map[string]*os.File // opened before the examination, so that a bad name costs nothing
}

func (f *reportFlags) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.json, "json", "", "write the report as JSON to this file, or - for the standard output in place of the table")
	flags.StringVar(&f.junit, "junit", "", "write the report as JUnit XML")
	flags.StringVar(&f.sarif, "sarif", "", "write the report as SARIF 2.1.0")
	flags.StringVar(&f.html, "html", "", "write the report as an HTML page")
}

// kinds are the reports that files can have.
func (f *reportFlags) kinds() []struct {
	name  string
	write func(io.Writer, *check.Report) error
} {
	return []struct {
		name  string
		write func(io.Writer, *check.Report) error
	}{{f.json, report.JSON}, {f.junit, report.JUnit}, {f.sarif, report.SARIF}, {f.html, report.HTML}}
}

// createFiles creates the files.
func (f *reportFlags) createFiles(*cobra.Command) error {
	f.files = make(map[string]*os.File)
	used := map[string]bool{}
	for _, k := range f.kinds() {
		switch {
		case k.name == "":
			continue
		case used[k.name]:
			return fmt.Errorf("two reports go to %s; give each a file of its own", k.name)
		}
		used[k.name] = true
		if k.name == "-" {
			continue
		}
		file, err := os.Create(k.name)
		if err != nil {
			return err
		}
		f.files[k.name] = file
	}
	return nil
}

// removeUnused removes the files if there was no report: an empty file looks like one.
func (f *reportFlags) removeUnused() {
	for name, file := range f.files {
		if about, err := file.Stat(); err == nil && about.Mode().IsRegular() {
			_ = os.Remove(name)
		}
		_ = file.Close() // write closes those of a report
	}
}

// writeAll writes all reports.
func (f *reportFlags) writeAll(c *cobra.Command, r *check.Report) error {
	var errs []error
	table := true
	for _, k := range f.kinds() {
		switch {
		case k.name == "-":
			table = false
			errs = append(errs, k.write(c.OutOrStdout(), r))
		case k.name != "":
			errs = append(errs, k.write(f.files[k.name], r), f.files[k.name].Close())
		}
	}
	if table {
		out := c.OutOrStdout()
		style := report.Style{Color: isTerminal(out) && os.Getenv("NO_COLOR") == ""}
		if isTerminal(out) {
			style.Width = 100
		}
		errs = append(errs, report.Table(out, r, style))
	}
	f.files = nil
	return errors.Join(errs...)
}
