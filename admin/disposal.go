package admin

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Disposal names messages that are redriven or discarded: one by one, or all of a rule. Those of a
// rule are counted first; with the count and the time of that, no message is touched that was not
// counted.
type Disposal struct {
	Places   []int64    `json:"places,omitempty" doc:"of an outbox: places of the messages"`
	Letters  []string   `json:"letters,omitempty" doc:"of dead letters: their hashes"`
	All      bool       `json:"all,omitempty" doc:"all of them, as far as topic, why, consumer and until select"`
	Topic    string     `json:"topic,omitempty" doc:"with all, of an outbox: only this topic"`
	Why      string     `json:"why,omitempty" doc:"with all, of dead letters: only this reason"`
	Consumer string     `json:"consumer,omitempty" doc:"with all, of dead letters: only this consumer"`
	Until    *time.Time `json:"until,omitempty" doc:"with all: only those that were given up by then; until of a count"`
	Count    int        `json:"count,omitempty" doc:"needed with all: how many at most, 1 to 10000, the oldest first; count of a count"`
	NotDone  bool       `json:"not_done,omitempty" doc:"redrive also what is in doubt: somebody has found out that nothing was done"`
	Reason   string     `json:"reason" doc:"why; it is written to the audit log"`
}

// disposedJSON counts what was done.
type disposedJSON struct {
	Done   int      `json:"done" doc:"messages that were redriven or discarded"`
	Gone   int      `json:"gone" doc:"dead letters that were taken away since they were done before"`
	More   bool     `json:"more" doc:"true if count left messages that the rule selects"`
	Failed []string `json:"failed,omitempty" doc:"those that were left, with the code of the reason"`
}

// summary says what was done, for the audit log.
func (d *disposedJSON) summary() string {
	return fmt.Sprintf("%d done, %d gone, %d left", d.Done, d.Gone, len(d.Failed))
}

// mostChosen bounds the messages that one request names, and mostByRule those of a rule.
const (
	mostChosen = 1000
	mostByRule = 10_000
)

// validate reports what of a disposal cannot be. names is how many messages it names. All needs a
// count: a program that has counted none, or has forgotten to count, touches no message.
func (in *Disposal) validate(names int) error {
	rule := in.Topic != "" || in.Why != "" || in.Consumer != "" || in.Until != nil || in.Count != 0
	switch {
	case in.All == (names > 0):
		return badRequest("name messages one by one, or say all, and not both")
	case names > mostChosen:
		return badRequest("name at most 1000 messages at once")
	case rule && !in.All:
		return badRequest("topic, why, consumer, until and count belong to all")
	case in.All && (in.Count < 1 || in.Count > mostByRule):
		return badRequest("all needs count, how many messages at most: a number from 1 to " + strconv.Itoa(mostByRule))
	case !isText(in.Topic, mostReason) || !isText(in.Why, mostReason) || !isText(in.Consumer, mostReason):
		return badRequest("topic, why and consumer are words, as counts show them")
	}
	return checkReason(in.Reason)
}

// Choice returns the dead letters that in selects.
func (in *Disposal) Choice() *Choice {
	c := &Choice{Hashes: in.Letters, All: in.All, Why: in.Why, Consumer: in.Consumer}
	if in.All {
		c.Most, c.Until = in.Count, in.Until
	}
	return c
}

// Selection says what in selects, for the audit log.
func (in *Disposal) Selection() string {
	words := []string{joinNames(append(slices.Clone(in.Letters), placeNames(in.Places)...))}
	if in.All {
		words[0] = "all"
	}
	for _, part := range [][2]string{{"topic", in.Topic}, {"why", in.Why}, {"consumer", in.Consumer}} {
		if part[1] != "" {
			words = append(words, part[0]+" "+strconv.Quote(part[1]))
		}
	}
	if in.Until != nil {
		words = append(words, "until "+in.Until.UTC().Format(time.RFC3339Nano))
	}
	if in.All && in.Count > 0 && in.Count < math.MaxInt {
		words = append(words, "at most "+strconv.Itoa(in.Count))
	}
	if in.NotDone {
		words = append(words, "not-done")
	}
	return strings.Join(words, ", ")
}

func placeNames(places []int64) (names []string) {
	for _, p := range places {
		names = append(names, strconv.FormatInt(p, 10))
	}
	return names
}

// joinNames returns names for the audit log, at most 50.
func joinNames(names []string) string {
	const most = 50
	if len(names) > most {
		return strings.Join(names[:most], " ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, " ")
}

// deadCountsJSON counts dead messages by what they have in common. At most 10,000 are counted, and
// the 100 largest groups shown.
type deadCountsJSON struct {
	deadCountJSON
	More   bool            `json:"more" doc:"true if there are more than were counted"`
	Groups []deadCountJSON `json:"groups" doc:"the most frequent first"`
}

// deadCountJSON is one of the counts.
type deadCountJSON struct {
	Topic string     `json:"topic,omitempty" doc:"of an outbox: the topic"`
	Why   string     `json:"why,omitempty" doc:"of dead letters: the reason"`
	Count int        `json:"count" doc:"messages"`
	Until *time.Time `json:"until,omitempty" doc:"when the last of them was given up; give it and count to redrive or discard"`
}

// mostGroups bounds the groups that are shown.
const mostGroups = 100

// countMessage counts a message. It returns false when no more are counted.
func (d *deadCountsJSON) countMessage(of deadCountJSON, died time.Time) bool {
	if d.More = d.Count == mostByRule; d.More {
		return false
	}
	i := slices.IndexFunc(d.Groups, func(g deadCountJSON) bool { return g.Topic == of.Topic && g.Why == of.Why })
	if i < 0 {
		i = len(d.Groups)
		d.Groups = append(d.Groups, of)
	}
	d.deadCountJSON.add(died)
	d.Groups[i].add(died)
	return true
}

func (d *deadCountJSON) add(died time.Time) {
	d.Count++
	if died = died.UTC(); d.Until == nil || died.After(*d.Until) {
		d.Until = &died
	}
}

// largestGroups returns the counts with the largest groups. A group without a name cannot be a
// rule.
func (d *deadCountsJSON) largestGroups() *deadCountsJSON {
	d.Groups = slices.DeleteFunc(d.Groups, func(g deadCountJSON) bool { return g.Topic+g.Why == "" })
	slices.SortStableFunc(d.Groups, func(a, b deadCountJSON) int { return b.Count - a.Count })
	d.Groups = d.Groups[:min(mostGroups, len(d.Groups))]
	return d
}
