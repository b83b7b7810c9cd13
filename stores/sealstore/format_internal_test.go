package sealstore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

const golden = "testdata/formats_v1.golden"

// The master key and the record of the golden file.
var (
	goldenRing = &Ring{current: "2026-11", keys: map[string]*[keySize]byte{"2026-11": (*[keySize]byte)([]byte("a master key that is no secret!!"))}}
	goldenKey  = storeapi.StoreKey{Namespace: "shop", Layer: "http", Key: storeapi.Key{Tenant: "ada", Operation: "POST /orders", ID: "k\x00/é"}}
)

// goldenAnswers are what the golden file has, by state.
var goldenAnswers = map[storeapi.State]storeapi.Answer{
	storeapi.StateCompleted:  {Codec: "message/http", Body: []byte("HTTP/1.1 201 Created\r\n\r\n{}"), Kept: true},
	storeapi.StateFailed:     {Codec: "failure", Body: []byte{}, Kept: true},
	storeapi.StateInProgress: {Codec: "retrysafe/steps", Body: []byte("{}\n"), Size: 7},
	storeapi.StateReleased:   {Codec: "raw", Size: 1 << 30, Digest: sha256.Sum256([]byte("x"))},
}

// TestFormats: what a build has written, every later build opens.
func TestFormats(t *testing.T) {
	t.Parallel()
	tenant := tenantOf(&goldenKey)
	if _, err := os.Stat(golden); errors.Is(err, fs.ErrNotExist) && os.Getenv("UPDATE") != "" {
		// what is there is never changed
		k := newDataKey()
		lines := []string{"data-key " + hex.EncodeToString(goldenRing.wrap(tenant, k)), "forgotten " + hex.EncodeToString(forgottenKey(k.id))}
		for state, a := range goldenAnswers {
			sealed := sealAnswer(k, &goldenKey, kindOf(state), &a)
			lines = append(lines, fmt.Sprintf("%s %s", state, hex.EncodeToString(sealed.Body)))
		}
		lines = append(lines, "text "+sealText(k, &goldenKey, "dial: refused"))
		assert.NoError(t, os.WriteFile(golden, []byte(strings.Join(lines, "\n")+"\n"), 0o644), "write")
	}
	text, err := os.ReadFile(golden)
	assert.NoError(t, err, "read")
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		values[name] = value
	}
	bin := func(name string) []byte {
		b, err := hex.DecodeString(values[name])
		assert.True(t, err == nil && len(b) > 0, "%s: %v", name, err)
		return b
	}
	parsed, err := parseKey(bin("data-key"))
	assert.NoError(t, err, "the data key")
	k, err := goldenRing.unwrap(tenant, &parsed)
	assert.NoError(t, err, "the data key")
	gone, err := parseKey(bin("forgotten"))
	assert.True(t, err == nil && gone.forgotten && gone.id == k.id, "a forgotten key: %v", err)
	byPage(t, bin("data-key"), bin("completed"))
	for state, want := range goldenAnswers {
		sealed := bin(state.String())
		id, box, err := parseSealed(sealed)
		assert.True(t, err == nil && id == k.id, "%s: %v", state, err)
		shell := storeapi.Answer{Codec: want.Codec, Kept: want.Kept, Size: want.Size}
		got, err := openAnswer(k, &goldenKey, kindOf(state), shell, box)
		assert.NoError(t, err, "%s", state)
		assert.Equal(t, got, want, "%s", state)
		assert.True(t, (got.Body == nil) == (want.Body == nil), "%s: no body and an empty one differ", state)
	}
	id, box, ok := parseText(values["text"])
	assert.True(t, ok && id == k.id, "a text")
	plain, err := openBox(box, &k.key, associatedData(&goldenKey, forError, &storeapi.Answer{}))
	assert.True(t, err == nil && string(plain) == "dial: refused", "a text: %q, %v", plain, err)
}

// TestKeysDirFormat freezes where a directory has data keys: a later build reads the files of
// v0.1.0.
func TestKeysDirFormat(t *testing.T) {
	t.Parallel()
	path, tenant := t.TempDir(), tenantOf(&goldenKey)
	// SHA-256 of "retrysafe-sealstore/data-key/ada/shop/data-key"
	dir := filepath.Join(path, "42ea1c7e11e459576601593784ecb6fabdaa22691e8679fedacf475d7a455d73")
	assert.NoError(t, os.Mkdir(dir, 0o700), "make the directory")
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "1"), nil, 0o600), "an emptied file")
	file := "retrysafe-sealstore/data-key/ada/shop/data-key\nstored"
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "2"), []byte(file), 0o600), "a file")
	keys, err := KeysDir(path)
	assert.NoError(t, err, "KeysDir")
	got, err := keys.Load(t.Context(), tenant)
	assert.True(t, err == nil && string(got) == "stored", "what is read: %q, %v", got, err)
	_, err = keys.Swap(t.Context(), tenant, got, []byte("next"))
	assert.NoError(t, err, "Swap")
	text, err := os.ReadFile(filepath.Join(dir, "3"))
	assert.NoError(t, err, "the next file")
	assert.Equal(t, string(text), "retrysafe-sealstore/data-key/ada/shop/data-key\nnext", "the next file")
	rec := storeapi.StoreKey{Namespace: Namespace, Layer: "data-key", Key: storeapi.Key{Tenant: "ada", Operation: "shop", ID: "data-key"}}
	assert.Equal(t, tenant.recordKey(), rec, "the key of a record")
}

// byPage opens a data key and an answer as docs/formats.md says, without the code of the package.
func byPage(t *testing.T, dataKey, answer []byte) {
	t.Helper()
	unbox := func(key, box []byte, bound string) []byte {
		own, err := hkdf.Key(sha256.New, key, box[:16], "retrysafe seal 1", 32)
		assert.NoError(t, err, "derive")
		block, err := aes.NewCipher(own)
		assert.NoError(t, err, "cipher")
		gcm, err := cipher.NewGCM(block)
		assert.NoError(t, err, "cipher")
		plain, err := gcm.Open(nil, box[16:28], box[28:], []byte(bound))
		assert.NoError(t, err, "open")
		return plain
	}
	assert.Equal(t, dataKey[:2], []byte{1, 1}, "version and kind")
	id := dataKey[2:18]
	assert.Equal(t, string(dataKey[18:26]), "\x072026-11", "id of the master key")
	key := unbox([]byte("a master key that is no secret!!"), dataKey[26:],
		"retrysafe data key 1\nretrysafe-sealstore/data-key/ada/shop/data-key\n"+string(id)+"2026-11")
	assert.Equal(t, answer[0], byte(1), "version")
	assert.Equal(t, answer[1:17], id, "id of the data key")
	plain := unbox(key, answer[17:], "retrysafe sealed 1\ncompleted\nshop/http/ada/POST%20%2Forders/k%00%2F%C3%A9\ntrue 0\nmessage/http")
	assert.Equal(t, string(plain), "\x00HTTP/1.1 201 Created\r\n\r\n{}", "the answer")
}

// TestAuditKeyIsFrozen freezes which data key seals the audit log: a later build opens the entries
// of v0.1.0.
func TestAuditKeyIsFrozen(t *testing.T) {
	t.Parallel()
	entry := storeapi.StoreKey{Namespace: "shop", Layer: "audit", Key: storeapi.Key{Operation: "2026-11-01", ID: "1"}}
	of := func(change func(*storeapi.StoreKey)) string {
		key := entry
		change(&key)
		text, err := tenantOf(&key).recordKey().MarshalText()
		assert.NoError(t, err, "the key of a data key")
		return string(text)
	}
	assert.Equal(t, of(func(*storeapi.StoreKey) {}), "retrysafe-sealstore/data-key/shop/retrysafe-sealstore/data-key", "the audit log")
	assert.Equal(t, of(func(k *storeapi.StoreKey) { k.Tenant = "ada" }), "retrysafe-sealstore/data-key/ada/shop/data-key", "a tenant's record in that layer")
	assert.Equal(t, of(func(k *storeapi.StoreKey) { k.Layer = "http" }), "retrysafe-sealstore/data-key//shop/data-key", "a record without a tenant")
}

// TestNoNonceTwice: boxes of the same text with the same key have different salts, nonces and
// cipher texts.
func TestNoNonceTwice(t *testing.T) {
	t.Parallel()
	k, a := newDataKey(), storeapi.Answer{Codec: "raw", Body: make([]byte, 64), Kept: true}
	seen := map[string]bool{}
	for range 1000 {
		_, box, err := parseSealed(sealAnswer(k, &goldenKey, forCompleted, &a).Body)
		assert.NoError(t, err, "parse")
		for part, b := range map[string][]byte{"salt": box[:saltSize], "nonce": box[saltSize : saltSize+nonceSize], "text": box[saltSize+nonceSize:]} {
			name := part + string(b)
			assert.True(t, !seen[name], "a %s is used twice", part)
			seen[name] = true
		}
	}
	ids := map[keyID]bool{}
	for range 1000 {
		k := newDataKey()
		assert.True(t, !ids[k.id] && k.key != [keySize]byte{}, "a data key is used twice")
		ids[k.id] = true
	}
}

// TestDataKeyIsOneTenants: a stored data key cannot be another tenant's.
func TestDataKeyIsOneTenants(t *testing.T) {
	t.Parallel()
	stored, err := parseKey(goldenRing.wrap(Tenant{"shop", "ada"}, newDataKey()))
	assert.NoError(t, err, "parse")
	for _, other := range []Tenant{{"shop", "bob"}, {"shop2", "ada"}, {"shop", ""}} {
		_, err := goldenRing.unwrap(other, &stored)
		assert.ErrorIs(t, err, errKeyDamaged, "the key of ada, as that of another")
	}
	twin := stored
	twin.id[0]++
	_, err = goldenRing.unwrap(Tenant{"shop", "ada"}, &twin)
	assert.ErrorIs(t, err, errKeyDamaged, "another id")
}

// TestText: a sealed text has room in the last error of a record, which has 1024 bytes, and is cut
// between characters.
func TestText(t *testing.T) {
	t.Parallel()
	k := newDataKey()
	for _, text := range []string{"x", strings.Repeat("é", 1000), strings.Repeat("\xff", 1000), strings.Repeat("a", maxText)} {
		sealed := sealText(k, &goldenKey, text)
		assert.True(t, len(sealed) <= 1024, "%d bytes", len(sealed))
		_, box, ok := parseText(sealed)
		assert.True(t, ok, "parse")
		plain, err := openBox(box, &k.key, associatedData(&goldenKey, forError, &storeapi.Answer{}))
		assert.NoError(t, err, "open")
		assert.True(t, strings.HasPrefix(text, string(plain)) && len(plain) >= min(len(text), maxText-4), "%d bytes of %d", len(plain), len(text))
		assert.True(t, !strings.HasPrefix(text, "é") || len(plain)%2 == 0, "cut in a character")
	}
	for _, text := range []string{"", "sealed:", "sealed:!", "sealed:AA", "dial: refused"} {
		_, _, ok := parseText(text)
		assert.True(t, !ok, "%q is taken for sealed", text)
	}
}

// FuzzSealed: no bytes make the parser of sealed bytes panic, and none that were not sealed are
// opened.
func FuzzSealed(f *testing.F) {
	k := newDataKey()
	a := storeapi.Answer{Codec: "raw", Body: []byte("x"), Kept: true}
	sealed := sealAnswer(k, &goldenKey, forCompleted, &a)
	for _, seed := range [][]byte{nil, {1}, {2}, sealed.Body, sealed.Body[:60], append(bytes.Clone(sealed.Body), 0)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		shell := storeapi.Answer{Codec: "raw", Kept: true}
		_, box, err := parseSealed(b)
		if err == nil {
			_, err = openAnswer(k, &goldenKey, forCompleted, shell, box)
		}
		if err == nil && !bytes.Equal(b[17:], sealed.Body[17:]) {
			t.Errorf("opened, and it was never sealed")
		}
		if _, box, ok := parseText(sealedText + base64.RawURLEncoding.EncodeToString(b)); ok {
			if _, err := openBox(box, &k.key, associatedData(&goldenKey, forError, &storeapi.Answer{})); err == nil {
				t.Errorf("opened as a text")
			}
		}
	})
}

// FuzzDataKey: no bytes make the parser of stored data keys panic; what it accepts has the form of
// docs/formats.md.
func FuzzDataKey(f *testing.F) {
	tenant, r := tenantOf(&goldenKey), NewRing("a") // each fuzzing process has another key
	whole := r.wrap(tenant, newDataKey())
	for _, seed := range [][]byte{nil, {1}, whole, whole[:40], append(bytes.Clone(whole), 0), forgottenKey(keyID{1})} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseKey(b)
		if err != nil {
			return
		}
		back := forgottenKey(s.id)
		if !s.forgotten {
			back = append([]byte{keyVersion, keyWrapped}, s.id[:]...)
			back = append(append(append(back, byte(len(s.master))), s.master...), s.box...)
		}
		if !bytes.Equal(back, b) {
			t.Errorf("%x was read as %x", b, back)
		}
		if s.forgotten {
			return
		}
		if _, err := r.unwrap(tenant, &s); err == nil && !bytes.Equal(b, whole) {
			t.Errorf("unwrapped, and it was never wrapped")
		}
	})
}

// FuzzKeyFile: no text makes the parser of key files panic, and a ring has its current key.
func FuzzKeyFile(f *testing.F) {
	f.Add([]byte(`{"current": "a", "keys": [{"id": "a", "key": "` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}]}`))
	f.Add([]byte(`{"current": "a", "keys": [{"id": "a"`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRing(text)
		if err == nil && r.keys[r.Current()] == nil {
			t.Errorf("a ring without its current key")
		}
	})
}
