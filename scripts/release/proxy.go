package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// packModule writes a module's files of the tree into a proxy directory, in the layout that "go
// help goproxy" describes, and returns the lines that belong in the go.sum of the modules that
// require it.
func (r *repo) packModule(ctx context.Context, m *mod, version, proxy string) (sums string, err error) {
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return "", err
	}
	base := filepath.Join(proxy, escaped, "@v")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	gomod, err := os.ReadFile(filepath.Join(r.dir, m.dir, "go.mod"))
	if err != nil {
		return "", err
	}
	files, err := r.filesToPack(ctx, m)
	if err != nil {
		return "", err
	}
	var zipped bytes.Buffer
	if err := zip.Create(&zipped, module.Version{Path: m.path, Version: version}, files); err != nil {
		return "", fmt.Errorf("%s cannot be packed: %w", m.path, err)
	}
	for name, data := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": fmt.Appendf(nil, "{\"Version\":%q}", version), version + ".mod": gomod, version + ".zip": zipped.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(base, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return sumLines(m.path, version, filepath.Join(base, version+".zip"), gomod)
}

// sumLines are a module's lines of go.sum.
func sumLines(modulePath, version, zipped string, gomod []byte) (string, error) {
	whole, err := dirhash.HashZip(zipped, dirhash.Hash1)
	if err != nil {
		return "", err
	}
	only, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(gomod)), nil })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", modulePath, version, whole, modulePath, version, only), nil
}

// filesToPack returns the files that belong to the module: those below its directory and in no
// other module, and, as the go command does, the repository's LICENSE where the module has none.
func (r *repo) filesToPack(ctx context.Context, m *mod) ([]zip.File, error) {
	names, err := r.gitFiles(ctx)
	if err != nil {
		return nil, err
	}
	var files []zip.File
	licensed := false
	for _, name := range names {
		if r.ownerOf(name) == m {
			within := strings.TrimPrefix(strings.TrimPrefix(name, m.dir), "/")
			licensed = licensed || within == "LICENSE"
			files = append(files, file{disk: filepath.Join(r.dir, name), name: within})
		}
	}
	if !licensed {
		files = append(files, file{disk: filepath.Join(r.dir, "LICENSE"), name: "LICENSE"})
	}
	return files, nil
}

// ownerOf returns the module that a file belongs to.
func (r *repo) ownerOf(name string) *mod {
	var best *mod
	for _, m := range r.modules {
		if (m.dir == "" || strings.HasPrefix(name, m.dir+"/")) && (best == nil || len(m.dir) > len(best.dir)) {
			best = m
		}
	}
	return best
}

// file is one of a zip archive.
type file struct{ disk, name string }

func (f file) Path() string                 { return path.Clean(f.name) }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.disk) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.disk) }
