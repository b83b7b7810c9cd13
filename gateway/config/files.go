package config

import (
	"context"
	"path/filepath"
)

// The files that a configuration names for reading: relative paths count from its directory. What
// the gateway writes (store, access_log, data_keys) counts from the working directory, as on the
// command line.

// dirKey is the key of the directory in the context of a decoder.
type dirKey struct{}

func contextWithDir(dir string) context.Context {
	return context.WithValue(context.Background(), dirKey{}, dir)
}

// resolveInContext returns the path of a file that an option names, which is read while the option
// is decoded.
func resolveInContext(ctx context.Context, path string) string {
	dir, _ := ctx.Value(dirKey{}).(string)
	return resolvePath(dir, path)
}

func resolvePath(dir, path string) string {
	if path == "" || dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
