package fingerprint

import (
	"fmt"
	"strings"
)

// action is what a rule says about a field.
type action uint8

const (
	actionIgnore action = 1 << iota
	actionOnly
)

// pathNode is a place in a body on a path of the rule; it is nil if no path leads there.
type pathNode struct {
	action  action
	members map[string]*pathNode
	element *pathNode
}

func isPath(field string) bool {
	return strings.HasPrefix(field, "$.") || strings.HasPrefix(field, "$[")
}

func (n *pathNode) addPath(path string, what action) error {
	for rest := path[1:]; rest != ""; {
		if after, found := strings.CutPrefix(rest, "[*]"); found {
			if n.element == nil {
				n.element = &pathNode{}
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
			n.members = map[string]*pathNode{}
		}
		if n.members[name] == nil {
			n.members[name] = &pathNode{}
		}
		n = n.members[name]
	}
	n.action |= what
	return nil
}

func (n *pathNode) memberNode(name []byte) *pathNode {
	if n == nil {
		return nil
	}
	return n.members[string(name)]
}

func (n *pathNode) elementNode() *pathNode {
	if n == nil {
		return nil
	}
	return n.element
}

func (n *pathNode) fieldAction() action {
	if n == nil {
		return 0
	}
	return n.action
}
