package config

import (
	"fmt"
	"slices"
)

// suggestName returns a suggestion to append to a message about an unknown name, or nothing if no
// name is close.
func suggestName(text string, names []string) string {
	if slices.Contains(names, text) {
		return "; it belongs in another part of the file"
	}
	best, far := "", 1+max(1, len(text)/3)
	for _, name := range names {
		if d := editDistance(text, name); d < far {
			best, far = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance counts the bytes to add, drop, change or swap with the next one.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			cost := 1
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
