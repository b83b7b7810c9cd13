package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed express
var expressFiles embed.FS

const expressConfiguration = "`app.post('*', idempotency.idempotency())`, records in memory"

// startExpress installs the packages of express/package.json into a folder of its own and starts
// express/server.js.
func startExpress(ctx context.Context) (*service, error) {
	dir, err := os.MkdirTemp("", "checkothers")
	if err != nil {
		return nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	s, err := installExpress(ctx, dir)
	if err != nil {
		remove()
		return nil, err
	}
	end := s.close
	s.close = func() { end(); remove() }
	return s, nil
}

func installExpress(ctx context.Context, dir string) (*service, error) {
	for _, name := range []string{"package.json", "server.js"} {
		text, err := expressFiles.ReadFile("express/" + name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	install := exec.CommandContext(ctx, "npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm install: %w: %s", err, out)
	}
	version, err := expressVersion(ctx, dir)
	if err != nil {
		return nil, err
	}
	node := exec.CommandContext(ctx, "node", "server.js")
	node.Dir, node.Stderr = dir, os.Stderr
	// A middleware that is given an error calls Express's own handler, which prints a trace.
	node.Env = append(os.Environ(), "NODE_ENV=test")
	out, err := node.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := node.Start(); err != nil {
		return nil, err
	}
	end := func() {
		_ = node.Process.Kill()
		_ = node.Wait()
	}
	lines := bufio.NewReader(out)
	address, err := lines.ReadString('\n')
	if err != nil {
		end()
		return nil, fmt.Errorf("the server of Express does not start: %w", err)
	}
	go func() { _, _ = lines.WriteTo(os.Stderr) }()
	return &service{strings.TrimSpace(address), version, expressConfiguration, end}, nil
}

func expressVersion(ctx context.Context, dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return "", err
	}
	var named struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &named); err != nil {
		return "", err
	}
	node, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("express-idempotency %s with Express %s, Node.js %s", named.Dependencies["express-idempotency"],
		named.Dependencies["express"], strings.TrimSpace(string(node))), nil
}
