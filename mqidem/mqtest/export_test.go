package mqtest

import "testing"

// Check runs one clause, for the tests of the suite itself.
func Check(t testing.TB, c Config, id string) error {
	for _, one := range clauses {
		if one.id == id {
			return checkClause(t, c, one)
		}
	}
	panic("no clause " + id)
}
