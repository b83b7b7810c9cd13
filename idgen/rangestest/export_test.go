package rangestest

import (
	"fmt"
	"testing"
)

// Check returns what is wrong with the clause with that id.
func Check(t testing.TB, c Config, id string) error {
	for _, one := range clauses {
		if one.id == id {
			return checkClause(t, c, one)
		}
	}
	return fmt.Errorf("there is no clause %s", id)
}
