package main

import (
	"fmt"
	"strings"
)

// widest is the width of the column of text in which GitHub and most pages show a picture.
const widest = 720

// head are the fields of a text.
type head struct {
	title, desc   string
	actors        []string
	width, height int
}

// line is a statement and its place in the text.
type line struct {
	n    int
	text string
}

// readHead reads the fields, and returns the statements after them. Empty lines and lines that
// begin with # are comments.
func readHead(src string) (h head, rest []line, err error) {
	for i, text := range strings.Split(src, "\n") {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if len(rest) == 0 {
			field, err := h.read(text)
			if err != nil {
				return h, nil, fmt.Errorf("%d: %w", i+1, err)
			}
			if field {
				continue
			}
		}
		rest = append(rest, line{i + 1, text})
	}
	switch {
	case h.title == "" || h.desc == "":
		return h, nil, fmt.Errorf("1: a picture needs the fields title and desc")
	case h.actors == nil && h.width == 0:
		return h, nil, fmt.Errorf("1: a picture needs the field actors or size")
	}
	return h, rest, nil
}

func (h *head) read(text string) (field bool, err error) {
	name, value, _ := strings.Cut(text, ": ")
	switch name {
	case "title":
		h.title = value
	case "desc":
		h.desc = value
	case "actors":
		h.actors = strings.Split(value, ", ")
	case "size":
		if _, err := fmt.Sscanf(value, "%dx%d", &h.width, &h.height); err != nil || h.width > widest {
			return false, fmt.Errorf("size: write WIDTHxHEIGHT, at most %d wide", widest)
		}
	default:
		return false, nil
	}
	return true, nil
}
