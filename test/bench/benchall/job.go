package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// program is what a comparison runs in each round.
type program struct {
	// dir is the folder of the module, and pkg the package in it: of Go benchmarks, or of a
	// command.
	dir, pkg string
	// bench is the pattern of the Go benchmarks, and time what -test.benchtime gets; quick is the
	// time of a quick run.
	bench, time, quick string
	args               []string // further ones
	// command: pkg is gatewaybench, and its figures get this prefix.
	command string
	prefix  string        // of the figures of Go benchmarks
	most    time.Duration // that it may take; default: mostTime
}

// job is one run of benchall.
type job struct {
	root   string
	rounds int
	quick  bool
	log    io.Writer
}

// mostTime is the most that a program may take.
const mostTime = 10 * time.Minute

// measureComparison runs the programs of a comparison in turn, round by round.
func (j *job) measureComparison(ctx context.Context, c comparison) (samples, error) {
	dir, err := os.MkdirTemp("", "benchall-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	built := make([]string, len(c.programs))
	for i, p := range c.programs {
		built[i] = filepath.Join(dir, fmt.Sprint("program", i))
		if err := j.buildProgram(ctx, &p, built[i]); err != nil {
			return nil, err
		}
	}
	rounds := j.roundsOf(c)
	got := samples{}
	for round := range rounds {
		for i, p := range c.programs {
			fmt.Fprintf(j.log, "  round %d of %d: %s %s\n", round+1, rounds, p.pkg, p.bench)
			if err := j.runProgram(ctx, &p, built[i], got); err != nil {
				return nil, err
			}
		}
	}
	return got, nil
}

// roundsOf returns how often the programs of a comparison run.
func (j *job) roundsOf(c comparison) int {
	switch {
	case c.inner > 0:
		return 1
	case c.rounds > 0:
		return min(j.rounds, c.rounds)
	}
	return j.rounds
}

func (j *job) buildProgram(ctx context.Context, p *program, to string) error {
	args := []string{"test", "-c", "-o", to, p.pkg}
	if p.command != "" {
		args = []string{"build", "-o", to, p.pkg}
	}
	_, err := j.runCommand(ctx, mostTime, p.dir, "go", args...)
	return err
}

// runProgram runs a program and adds its figures.
func (j *job) runProgram(ctx context.Context, p *program, built string, got samples) error {
	if p.command != "" {
		args := p.args
		if j.quick {
			args = append(append([]string{}, args...), "-n", "200", "-c", "4")
		}
		out, err := j.runCommand(ctx, mostTime, p.dir, built, args...)
		if err != nil {
			return err
		}
		return got.addGatewayRounds(p.command, out)
	}
	long := p.time
	if j.quick {
		long = p.quick
	}
	args := append([]string{"-test.run", "^$", "-test.bench", p.bench, "-test.benchtime", long, "-test.benchmem", "-test.timeout", "0"}, p.args...)
	out, err := j.runCommand(ctx, cmp.Or(p.most, mostTime), filepath.Join(p.dir, p.pkg), built, args...)
	if err != nil {
		return err
	}
	return got.addBenchmarks(p.prefix, out)
}

// runCommand runs a program in a folder of the repository for at most a time, and returns what it
// prints.
func (j *job) runCommand(ctx context.Context, most time.Duration, dir, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(j.root, dir)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s in %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), dir, err, out, errs.Bytes())
	}
	return out, nil
}
