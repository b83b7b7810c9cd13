package fingerprint

import (
	"fmt"
	"strings"
)

// action is what a rule says about a field.
type action uint8

const (
	ignore action = 1 << iota
	only
)

// node is a place in a body on a path of the rule; it is nil if no path leads there.
type node struct {
	does    action
	members map[string]*node
	element *node
}

func isPath(field string) bool {
	return strings.HasPrefix(field, "$.") || strings.HasPrefix(field, "$[")
}

func (n *node) add(path string, what action) error {
	for rest := path[1:]; rest != ""; {
		if after, found := strings.CutPrefix(rest, "[*]"); found {
			if n.element == nil {
				n.element = &node{}
			}
			n, rest = n.element, after
			continue
		}
		name, found := strings.CutPrefix(rest, ".")
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name, rest = name[:end], name[end:]
		} else {
			rest = ""
		}
		if !found || name == "" || strings.Contains(name, "]") {
			return fmt.Errorf("fingerprint: the path %q of the rule cannot be read; paths are made of .name and [*], as in $.items[*].at", path)
		}
		if n.members == nil {
			n.members = map[string]*node{}
		}
		if n.members[name] == nil {
			n.members[name] = &node{}
		}
		n = n.members[name]
	}
	n.does |= what
	return nil
}

func (n *node) member(name []byte) *node {
	if n == nil {
		return nil
	}
	return n.members[string(name)]
}

func (n *node) each() *node {
	if n == nil {
		return nil
	}
	return n.element
}

func (n *node) action() action {
	if n == nil {
		return 0
	}
	return n.does
}
