// Package enum names the constants of small integer types.
package enum

import "fmt"

// Name returns the name at e's index, or the number if there is none.
func Name[E ~uint8](e E, names ...string) string {
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("unknown (%d)", uint8(e))
}
