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

	"github.com/retrysafe/retrysafe/stores/storeapi"
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

func (d keysDir) tenantDir(t Tenant) string {
	text, _ := t.recordKey().AppendText(nil) // never fails
	sum := sha256.Sum256(text)
	return filepath.Join(string(d), hex.EncodeToString(sum[:]))
}

// Load implements [Keys].
func (d keysDir) Load(ctx context.Context, t Tenant) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, value, err := d.currentValue(t)
	return value, err
}

// currentValue returns the value that counts and its number; zero: there is none.
func (d keysDir) currentValue(t Tenant) (number int, value []byte, err error) {
	number, owner, value, err := currentValueIn(d.tenantDir(t))
	if err == nil && number > 0 && owner != t {
		err = errKeyDamaged
	}
	return number, value, err
}

// currentValueIn returns the value of a tenant's directory that counts, with its number and its
// tenant. If the process that replaced the value before it has died, currentValueIn empties that
// one.
func currentValueIn(dir string) (number int, owner Tenant, value []byte, err error) {
	for {
		number, err = largestNumber(dir)
		if err != nil || number == 0 {
			return 0, owner, nil, err
		}
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(number))) //nolint:gosec // in the operator's directory
		if err != nil {
			return 0, owner, nil, fmt.Errorf("sealstore: %w", err)
		}
		if len(text) == 0 { // emptied, so there is a later one
			if next, err := largestNumber(dir); err != nil || next == number {
				return 0, owner, nil, errors.Join(errKeyDamaged, err)
			}
			continue
		}
		line, value, ok := bytes.Cut(text, []byte("\n"))
		owner, err = parseTenant(line)
		if !ok || err != nil || len(value) == 0 {
			return 0, owner, nil, errKeyDamaged
		}
		return number, owner, value, emptyFile(dir, number-1)
	}
}

// emptyFile empties the file with a number, if there is one and it is not empty.
func emptyFile(dir string, number int) error {
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

// largestNumber returns the largest number of a file in dir; zero: there is none.
func largestNumber(dir string) (number int, err error) {
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
	if key != t.recordKey() {
		return Tenant{}, errKeyDamaged
	}
	return t, nil
}

// Swap implements [Keys].
func (d keysDir) Swap(ctx context.Context, t Tenant, old, next []byte) (swapped bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	number, value, err := d.currentValue(t)
	if err != nil || (number == 0) != (old == nil) || !bytes.Equal(value, old) {
		return false, err
	}
	dir := d.tenantDir(t)
	if err := os.Mkdir(dir, 0o700); err == nil {
		err = syncDir(string(d))
		if err != nil {
			return false, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("sealstore: %w", err)
	}
	text, err := t.recordKey().AppendText(nil)
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
	err = errors.Join(syncDir(dir), emptyFile(dir, number))
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
		number, owner, _, err := currentValueIn(filepath.Join(string(d), e.Name()))
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
