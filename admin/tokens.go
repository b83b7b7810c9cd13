package admin

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Tokens are the tokens of callers. A token is not kept, only its SHA-256: it is long and random,
// so a digest that is quick to make does no harm.
type Tokens map[[sha256.Size]byte]Caller

// Caller is who sent a request, and what it may do.
type Caller struct {
	Name  string
	Roles Roles
}

// TokenPrefix begins every token of NewToken, so that tools that look for secrets find one.
const TokenPrefix = "rsadmin_"

// ReadTokens reads a file of tokens; see [ParseTokens]. It returns an error if others than the
// owner may write to the file: they could give themselves a role.
func ReadTokens(file string) (Tokens, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 && runtime.GOOS != "windows" {
		// it has other rights
		return nil, fmt.Errorf("%s: others than its owner may write to the file (mode %04o); run chmod go-w %s", file, mode, file)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return ParseTokens(file, text)
}

// ParseTokens parses a file of tokens. Each line has the name of a caller, its roles with commas,
// and the SHA-256 of its token in hex digits, with spaces between. A line that begins with # is a
// comment. file is the file's name, for errors.
//
//	alice  view,resolve  9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// retrysafe console token makes a token and its line.
func ParseTokens(file string, text []byte) (Tokens, error) {
	tokens := Tokens{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		wrong := func(field int, format string, args ...any) error {
			column := len(line) + 1
			if field < len(fields) {
				column = strings.Index(line, fields[field]) + 1
			}
			return fmt.Errorf("%s:%d:%d: %s", file, n, column, fmt.Sprintf(format, args...))
		}
		if len(fields) != 3 {
			return nil, wrong(min(3, len(fields)), "a line has %d parts; write a name, its roles and the SHA-256 of its token", len(fields))
		}
		if !isText(fields[0], mostName) {
			return nil, wrong(0, "the name has more than %d bytes, or characters that cannot be printed", mostName)
		}
		roles, err := ParseRoles(fields[1])
		if err != nil {
			return nil, wrong(1, "%s", err)
		}
		digest, err := hex.DecodeString(fields[2])
		if err != nil || len(digest) != sha256.Size {
			return nil, wrong(2, "the third part is no SHA-256 in 64 hex digits; retrysafe console token makes one")
		}
		key := [sha256.Size]byte(digest)
		if other, ok := tokens[key]; ok {
			return nil, wrong(2, "%s has this token too; every caller needs its own", other.Name)
		}
		tokens[key] = Caller{Name: fields[0], Roles: roles}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return tokens, nil
}

// callerOf returns whom a token belongs to.
func (t Tokens) callerOf(token string) (Caller, bool) {
	c, ok := t[sha256.Sum256([]byte(token))]
	return c, ok
}
