package redisclient

import (
	_ "embed"
	"errors"
)

// joinedLua runs the function one, which is before it, for each key.
//
//go:embed joined.lua
var joinedLua string

// NewJoinable returns a script for one key that answers with a string, and has a joined form. A
// second key may be one that many calls share; calls that share it are joined. shebang is the
// script's first line. once runs at the beginning, in the joined form once for all calls: it must
// depend on neither KEYS nor ARGV. each does the work.
//
// In the joined form each may append to the table later, and last handles it at the end, with the
// second key of the calls in shared. By itself, a call has no such table: later is nil. last must
// not fail, since the work of all calls is done.
func NewJoinable(name, shebang, once, each, last string) *Script {
	s := NewScript(name, shebang+"\n"+once+"local later\n"+each)
	s.joined = NewScript(name+"-joined", shebang+"\n"+once+"local later = {}\nlocal function one(KEYS, ARGV)\n"+each+"end\n"+joinedLua+last+joinedEnd)
	return s
}

const joinedEnd = "return {answers, failed}\n"

// Joined returns the script that runs this one for many keys, or nil if it has no such form.
func (s *Script) Joined() *Script { return s.joined }

// Bounds of one run of a joined script: while it runs, the server does nothing else.
const (
	mostJoined      = 128
	mostJoinedBytes = 256 << 10 // of arguments; joined.lua bounds the answers
	mostJoinedArgs  = 255       // of one call
)

// joinedCall is calls of one script that are sent as one call, and their places.
type joinedCall struct {
	Call
	places []int
}

// SendMany makes calls in as few runs of scripts as it can, and returns the replies in their order.
// send makes its calls in one round trip for each server, with the sources of scripts if whole is
// set. SendMany repeats a call with its source if a server does not know the script.
//
// Calls of one script with a joined form run as one if [Call].Join is set, or with slots set if
// their keys are in one slot of a cluster. What a server refuses to run as one, SendMany sends
// again separately: nothing has run, or each call has run by itself and is safe to repeat.
func SendMany(calls []Call, slots bool, send func(calls []Call, whole bool) []Reply) []Reply {
	replies := make([]Reply, len(calls))
	var alone []int // to be sent separately after all
	joined := joinCalls(calls, slots)
	for i, r := range sendKnown(joined, send) {
		j := &joined[i]
		if len(j.places) == 1 {
			replies[j.places[0]] = r
			continue
		}
		alone = append(alone, j.splitReply(r, replies)...)
	}
	if len(alone) > 0 {
		again := make([]joinedCall, len(alone))
		for i, at := range alone {
			again[i] = joinedCall{calls[at], []int{at}}
		}
		for i, r := range sendKnown(again, send) {
			replies[alone[i]] = r
		}
	}
	return replies
}

// sendKnown sends calls, and those again whose script a server does not know.
func sendKnown(joined []joinedCall, send func([]Call, bool) []Reply) []Reply {
	calls := make([]Call, len(joined))
	for i := range joined {
		calls[i] = joined[i].Call
	}
	replies := send(calls, false)
	var unknown []int
	var again []Call
	for i, r := range replies {
		if r.UnknownScript() {
			unknown, again = append(unknown, i), append(again, calls[i])
		}
	}
	if len(again) > 0 {
		for i, r := range send(again, true) {
			replies[unknown[i]] = r
		}
	}
	return replies
}

// joinCalls returns the calls to send. Calls for one key stay in their order.
func joinCalls(calls []Call, slots bool) []joinedCall {
	type group struct {
		script *Script
		slot   int
		shared string // the calls' second key
	}
	open := map[group]*joinedCall{}
	var groups []*joinedCall
	size := map[*joinedCall]int{}
	for i, c := range calls {
		n := 0
		for _, a := range c.Args {
			n += len(a)
		}
		g := group{script: c.Script.joined}
		if len(c.Keys) == 2 {
			g.shared = c.Keys[1]
		}
		can := g.script != nil && len(c.Keys) <= 2 && len(c.Args) <= mostJoinedArgs && n <= mostJoinedBytes && !c.Alone
		if slots {
			g.slot = Slot(c.Keys[0])
		} else {
			can = can && c.Join
		}
		if !can {
			groups = append(groups, &joinedCall{c, []int{i}})
			continue
		}
		j := open[g]
		if j == nil || len(j.places) == mostJoined || size[j]+n > mostJoinedBytes {
			j = &joinedCall{Call: c}
			open[g], groups = j, append(groups, j)
		}
		j.places, size[j] = append(j.places, i), size[j]+n
	}
	all := make([]joinedCall, len(groups))
	for i, j := range groups {
		if len(j.places) > 1 {
			j.combine(calls)
		}
		all[i] = *j
	}
	return all
}

// combine makes one call of those at the places. Its first argument has the number of arguments of
// each.
func (j *joinedCall) combine(calls []Call) {
	counts := make([]byte, len(j.places))
	j.Script = j.Script.joined
	shared := j.Keys[1:]
	j.Keys, j.Args = make([]string, len(j.places), len(j.places)+1), make([]string, 1, 1+3*len(j.places))
	for i, at := range j.places {
		c := &calls[at]
		counts[i] = byte(len(c.Args)) //nolint:gosec // at most mostJoinedArgs
		j.Keys[i], j.Args = c.Keys[0], append(j.Args, c.Args...)
	}
	j.Keys = append(j.Keys, shared...)
	j.Args[0] = string(counts)
}

// splitReply sets the replies of the calls, and returns the places of those that have not run.
func (j *joinedCall) splitReply(r Reply, replies []Reply) (alone []int) {
	both, _ := r.Value.([]any)
	if _, refused := errors.AsType[Error](r.Err); r.Err != nil && !refused {
		for _, at := range j.places {
			replies[at] = r
		}
		return nil
	}
	if len(both) != 2 {
		return j.places
	}
	answers, _ := both[0].([]any)
	errs, _ := both[1].([]any)
	for i, v := range answers[:min(len(answers), len(j.places))] {
		replies[j.places[i]] = Reply{Value: v}
	}
	for i := 0; i+1 < len(errs); i += 2 {
		at, _ := errs[i].(int64)
		text, _ := errs[i+1].(string)
		if at >= 1 && int(at) <= len(j.places) {
			replies[j.places[at-1]] = Reply{Err: Error(text)}
		}
	}
	return j.places[min(len(answers), len(j.places)):]
}
