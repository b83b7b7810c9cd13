package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

var dir = filepath.Join("..", "..", "docs", "diagrams")

// TestPicturesAreThoseOfTheTexts: each text has its picture, and each picture its text.
func TestPicturesAreThoseOfTheTexts(t *testing.T) {
	t.Parallel()
	want, err := pictures(dir)
	assert.NoError(t, err, "draw")
	assert.True(t, len(want) >= 4, "pictures: %d", len(want))
	for path, svg := range want {
		have, err := os.ReadFile(path)
		assert.NoError(t, err, "read")
		assert.True(t, bytes.Equal(have, svg), "%s is not what its text makes: go run ./scripts/diagrams", path)
	}
	have, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	assert.NoError(t, err, "list")
	assert.Equal(t, len(have), len(want), "pictures without a text")
}

var viewBox = regexp.MustCompile(`viewBox="0 0 (\d+) (\d+)"`)

// TestPictures: each is XML with a title and a description, fits a page, and has colours for dark
// screens.
func TestPictures(t *testing.T) {
	t.Parallel()
	all, err := pictures(dir)
	assert.NoError(t, err, "draw")
	for path, svg := range all {
		decoder := xml.NewDecoder(bytes.NewReader(svg))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			assert.NoError(t, err, "%s: XML", path)
		}
		for _, part := range []string{"<title ", "<desc ", `role="img"`, "prefers-color-scheme: dark", "system-ui"} {
			assert.Contains(t, string(svg), part, "%s", path)
		}
		size := viewBox.FindStringSubmatch(string(svg))
		assert.True(t, size != nil, "%s: a viewBox", path)
		width, _ := strconv.Atoi(size[1])
		assert.True(t, width <= widest, "%s: width %d", path, width)
	}
}

// TestMistakes: a text that makes no sense is refused, with the number of its line.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const sequence = "title: T\ndesc: D\nactors: a, b\n"
	const graph = "title: T\ndesc: D\nsize: 300x200\nbox one 0,0 90x40 plain: One\n"
	for text, want := range map[string]string{
		"title: T\nactors: a, b\n":            "1: a picture needs the fields title and desc",
		"title: T\ndesc: D\n":                 "1: a picture needs the field actors or size",
		"title: T\ndesc: D\nsize: 800x90\n":   "3: size: write WIDTHxHEIGHT",
		sequence + "a -> c: hello":            `4: a message goes from one actor to another: no actor has the name "c"`,
		sequence + "\n# why\nhello":           `6: "hello" is no statement`,
		sequence + "crash a: x\na -> b: y":    "5: a has crashed",
		sequence + "start a: x":               "4: a cannot start now",
		graph + "one.left -> two.right: x":    "5: an arrow needs two boxes",
		graph + "one -> one: x":               `5: "one -> one: x" is no box and no arrow`,
		graph + "box two 280,0 40x40 bad: T":  "5: box two is outside of the picture",
		graph + "box two 0,90 90x20 bad: T|U": "5: box two is too small for its text",
	} {
		_, err := draw(text)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), want), "%q: got %v, want %s", text, err, want)
	}
}

// TestTextIsEscaped: a text cannot add elements to the picture.
func TestTextIsEscaped(t *testing.T) {
	t.Parallel()
	svg, err := draw("title: <b>\ndesc: D & E\nactors: a, b\na -> b: <script>\nb: good! 1 < 2")
	assert.NoError(t, err, "draw")
	assert.True(t, !bytes.Contains(svg, []byte("<script>")) && !bytes.Contains(svg, []byte("<b>")), "escaped")
	assert.Contains(t, string(svg), "&lt;script&gt;", "the text")
	assert.Contains(t, string(svg), `class="good"`, "the colour of the note")
}
