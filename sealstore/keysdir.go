package sealstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/retrysafe/retrysafe/storeapi"
)

// KeysDir returns Keys in a directory, which it creates. All processes of a machine can use it; the
// file system must have hard links.
//
// Each tenant has a directory, and each value a file in it, whose name is a number. The file with
// the largest number counts. A file gets its name when it is whole and on disk, and a name is never
// used again: so of any number of processes that swap at once, exactly one succeeds. A replaced
// file is emptied, and its name stays.
func KeysDir(path string) (Keys, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("sealstore: %w", err)
	}
	return keysDir(path), nil
}

type keysDir string

func (d keysDir) dir(t Tenant) string {
	text, _ := t.key().AppendText(nil) // never fails
	sum := sha256.Sum256(text)
	return filepath.Join(string(d), hex.EncodeToString(sum[:]))
}

// Load implements [Keys].
func (d keysDir) Load(ctx context.Context, t Tenant) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, value, err := d.last(t)
	return value, err
}

// last returns the value that counts and its number; zero: there is none.
func (d keysDir) last(t Tenant) (number int, value []byte, err error) {
	number, owner, value, err := lastIn(d.dir(t))
	if err == nil && number > 0 && owner != t {
		err = errKeyDamaged
	}
	return number, value, err
}

// lastIn returns the value of a tenant's directory that counts, with its number and its tenant. If
// the process that replaced the value before it has died, lastIn empties that one.
func lastIn(dir string) (number int, owner Tenant, value []byte, err error) {
	for {
		number, err = largest(dir)
		if err != nil || number == 0 {
			return 0, owner, nil, err
		}
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(number))) //nolint:gosec // in the operator's directory
		if err != nil {
			return 0, owner, nil, fmt.Errorf("sealstore: %w", err)
		}
		if len(text) == 0 { // emptied, so there is a later one
			if next, err := largest(dir); err != nil || next == number {
				return 0, owner, nil, errors.Join(errKeyDamaged, err)
			}
			continue
		}
		line, value, ok := bytes.Cut(text, []byte("\n"))
		owner, err = parseTenant(line)
		if !ok || err != nil || len(value) == 0 {
			return 0, owner, nil, errKeyDamaged
		}
		return number, owner, value, empty(dir, number-1)
	}
}

// empty empties the file with a number, if there is one and it is not empty.
func empty(dir string, number int) error {
	path := filepath.Join(dir, strconv.Itoa(number))
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err == nil {
		err = os.Truncate(path, 0)
	}
	if err != nil {
		return fmt.Errorf("sealstore: a replaced data key is still on disk: %w", err)
	}
	return nil
}

// largest returns the largest number of a file in dir; zero: there is none.
func largest(dir string) (number int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("sealstore: %w", err)
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			number = max(number, n)
		}
	}
	return number, nil
}

// parseTenant parses the first line of a file.
func parseTenant(line []byte) (Tenant, error) {
	var key storeapi.StoreKey
	if err := key.UnmarshalText(line); err != nil {
		return Tenant{}, err
	}
	t := Tenant{key.Operation, key.Tenant}
	if key != t.key() {
		return Tenant{}, errKeyDamaged
	}
	return t, nil
}

// Swap implements [Keys].
func (d keysDir) Swap(ctx context.Context, t Tenant, old, next []byte) (swapped bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	number, value, err := d.last(t)
	if err != nil || (number == 0) != (old == nil) || !bytes.Equal(value, old) {
		return false, err
	}
	dir := d.dir(t)
	if err := os.Mkdir(dir, 0o700); err == nil {
		err = syncDir(string(d))
		if err != nil {
			return false, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("sealstore: %w", err)
	}
	text, err := t.key().AppendText(nil)
	if err != nil {
		return false, err
	}
	temporary, err := writeFile(dir, append(append(text, '\n'), next...))
	if err != nil {
		return false, err
	}
	defer os.Remove(temporary) //nolint:errcheck // it has no meaning without a number
	err = os.Link(temporary, filepath.Join(dir, strconv.Itoa(number+1)))
	switch {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("sealstore: %w", err)
	}
	// From here on next counts. The earlier value is gone from the disk, as far as the file system
	// can do that, before the caller learns it.
	err = errors.Join(syncDir(dir), empty(dir, number))
	return err == nil, err
}

// writeFile writes a file whose name is no number, and waits until it is on disk.
func writeFile(dir string, text []byte) (name string, err error) {
	f, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return "", fmt.Errorf("sealstore: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("sealstore: %w", err)
	}
	return f.Name(), nil
}

// syncDir waits until the names in a directory are on disk.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it does not sync directories
	}
	f, err := os.Open(dir) //nolint:gosec // the operator names the directory
	if err != nil {
		return fmt.Errorf("sealstore: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// Tenants implements [Keys].
func (d keysDir) Tenants(ctx context.Context, see func(Tenant) error) error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return fmt.Errorf("sealstore: %w", err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.IsDir() {
			continue
		}
		number, owner, _, err := lastIn(filepath.Join(string(d), e.Name()))
		switch {
		case err != nil:
			return fmt.Errorf("sealstore: %s: %w", e.Name(), err)
		case number == 0:
			continue // a first value that was not finished
		}
		if err := see(owner); err != nil {
			return err
		}
	}
	return nil
}
