package archtest

import "slices"

// Rule is one rule of the layout.
type Rule struct {
	// Name is the name of its subtest.
	Name string
	// Check reports every place that breaks it.
	Check func(*Tree) []Violation
}

// Rules are all rules of the repository.
func Rules() []Rule {
	return slices.Concat([]Rule{{"files parse", filesParse}}, moduleRules, importRules, sizeRules, textRules, testRules)
}

// filesParse comes first: the other rules see only files that parse.
func filesParse(t *Tree) []Violation { return t.Broken }
