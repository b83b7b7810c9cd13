package main

import "regexp"

// entry is one word, or a few, and what to write in its place.
type entry struct {
	pattern *regexp.Regexp
	instead string
	// but are uses in which the word is right.
	exceptions *regexp.Regexp
}

func newEntry(pattern, instead string) entry {
	return entry{pattern: regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`), instead: instead}
}

func (e entry) exceptFor(pattern string) entry {
	e.exceptions = regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`)
	return e
}

// list is in the order of docs/writing.md.
var entries = []entry{
	newEntry(`anew`, "again"),
	newEntry(`of (?:yours|ours|theirs)`, "your own, our own, their own"),
	newEntry(`belongs? into`, "belongs in"),
	newEntry(`as a rule`, "usually"),
	newEntry(`tells? whether`, "reports whether"),
	newEntry(`(?:is|are|was|were|be|been|being|gets?|got) told`, "gets, receives, is answered with").
		exceptFor(`(?:is|are|was|were|be|been|being) told apart`),
	newEntry(`what (?:a|the|each|every) (?:repeat|duplicate|caller)s? (?:is|are) told`, "how a duplicate is answered"),
	newEntry(`what bec(?:omes|ame) of`, "the outcome of"),
	newEntry(`nobody`, "the actor: no caller, no process, no one"),
	newEntry(`whoever`, "the actor: the caller that, anyone who"),
	newEntry(`comes? again|came again`, "retries, is redelivered"),
	newEntry(`(?:a|an|the|each|every|any|no|this|that|of|for|all|plain|later) repeats?`, "duplicate"),
	newEntry(`behind`, "after (in time); behind is a place").
		exceptFor(`behind (?:(?:a|an|the|its|your|our|their|one|this|that|another|such a|several) )?` +
			`(?:[-\w]+ ){0,2}(?:proxy|proxies|gateways?|middlewares?|balancers?|fronts?|pool|poolers?|pgbouncer|nginx|envoy|router|cdn|nat|address)|` +
			`(?:falls?|fell|lags?|lagging|left|stays?|far) behind`),
}
