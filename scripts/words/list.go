package main

import "regexp"

// entry is one word, or a few, and what to write in its place.
type entry struct {
	pattern *regexp.Regexp
	instead string
	// but are uses in which the word is right.
	but *regexp.Regexp
}

func word(pattern, instead string) entry {
	return entry{pattern: regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`), instead: instead}
}

func (e entry) unless(pattern string) entry {
	e.but = regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`)
	return e
}

// list is in the order of docs/how-we-write.md.
var list = []entry{
	word(`anew`, "again"),
	word(`of (?:yours|ours|theirs)`, "your own, our own, their own"),
	word(`belongs? into`, "belongs in"),
	word(`as a rule`, "usually"),
	word(`tells? whether`, "reports whether"),
	word(`(?:is|are|was|were|be|been|being|gets?|got) told`, "gets, receives, is answered with").
		unless(`(?:is|are|was|were|be|been|being) told apart`),
	word(`what (?:a|the|each|every) (?:repeat|duplicate|caller)s? (?:is|are) told`, "how a duplicate is answered"),
	word(`what bec(?:omes|ame) of`, "the outcome of"),
	word(`nobody`, "the actor: no caller, no process, no one"),
	word(`whoever`, "the actor: the caller that, anyone who"),
	word(`comes? again|came again`, "retries, is redelivered"),
	word(`(?:a|an|the|each|every|any|no|this|that|of|for|all|plain|later) repeats?`, "duplicate"),
	word(`behind`, "after (in time); behind is a place").
		unless(`behind (?:(?:a|an|the|its|your|our|their|one|this|that|another|such a|several) )?` +
			`(?:[-\w]+ ){0,2}(?:proxy|proxies|gateways?|middlewares?|balancers?|fronts?|pool|poolers?|pgbouncer|nginx|envoy|router|cdn|nat|address)|` +
			`(?:falls?|fell|lags?|lagging|left|stays?|far) behind`),
}
