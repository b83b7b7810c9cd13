package archtest

import "slices"

// Rule is one layout rule.
type Rule struct {
	// Name is the name of its subtest.
	Name string
	// Check returns every place that breaks the rule.
	Check func(*Tree) []Violation
}

// Rules returns all rules of the repository.
func Rules() []Rule {
	return slices.Concat([]Rule{{"files parse", filesParse}}, moduleRules, importRules, sizeRules, textRules, testRules, listRules)
}

// filesParse comes first, since the other rules see only files that parse.
func filesParse(t *Tree) []Violation { return t.Broken }
