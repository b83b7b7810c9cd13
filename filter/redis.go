package filter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/redisclient"
)

//go:embed lua/head.lua
var headLua string

//go:embed lua/write.lua
var writeLua string

//go:embed lua/mark.lua
var markLua string

//go:embed lua/stats.lua
var statsLua string

var (
	markScript  = redisclient.NewScript("filter-mark", "#!lua\n"+headLua+writeLua+markLua)
	statsScript = redisclient.NewScript("filter-stats", "#!lua flags=no-writes\n"+headLua+statsLua)
)

// ErrLost means that the server has lost ids while they were added: it has restarted, another
// server has replaced it, or keys were evicted or deleted. The filter says maybe to every id; start
// the rebuild again.
var ErrLost = errors.New("filter: ids were lost on the server during the rebuild; begin it again, and keep maxmemory-policy from evicting the filter")

// idsPerCall is how many ids one script takes, so that a script takes at most a few milliseconds.
const idsPerCall = 256

// redisFilter is what the filters on Redis have in common: a hash that says whether the filter is
// whole, and what belongs to it.
type redisFilter struct {
	client    redisclient.Client
	o         Options
	name      string   // of the hash
	firstArgs []string // arguments of every script
	// lastWhole is whether the filter was whole by the last answer: 0 no answer yet, 1 yes, 2 no.
	lastWhole        atomic.Int32
	added, surelyNew atomic.Uint64
}

func newRedisFilter(c redisclient.Client, name, format string, o Options) (*redisFilter, error) {
	switch {
	case c == nil:
		return nil, errors.New("filter: a client is needed; the adapters rueidisclient and goredisclient make one")
	case name == "" || len(name) > 512 || strings.ContainsAny(name, "{}"):
		return nil, errors.New("filter: the name of a filter on Redis has 1 to 512 bytes and no braces: it is the hash tag of its keys")
	}
	if o.Prefix == "" {
		o.Prefix = "rs-filter:"
	}
	if strings.Contains(o.Prefix, "{") {
		return nil, errors.New("filter: Prefix has a brace; the hash tag is the name")
	}
	ms := strconv.FormatInt(o.Window.Milliseconds(), 10)
	count := strconv.Itoa(o.Windows)
	s := &redisFilter{client: c, o: o, name: o.Prefix + "{" + name + "}"}
	s.firstArgs = []string{format + " " + ms + "ms " + count, ms, count}
	return s, nil
}

func (s *redisFilter) newCall(script *redisclient.Script, args ...string) redisclient.Call {
	return redisclient.Call{Script: script, Keys: []string{s.name}, Args: append(s.firstArgs[:len(s.firstArgs):len(s.firstArgs)], args...)}
}

// replyText returns the answer of a script.
func (s *redisFilter) replyText(r redisclient.Reply) (string, error) {
	if r.Err != nil {
		return "", explainRefusal(r.Err)
	}
	text, ok := r.Value.(string)
	if !ok {
		return "", fmt.Errorf("filter: the server answered with a %T; is there a proxy that changes answers?", r.Value)
	}
	return text, nil
}

// runForAll runs a script for all ids, in one round trip if the client can. If anything fails, no
// id is surely new.
func (s *redisFilter) runForAll(ctx context.Context, script *redisclient.Script, args, ids []string) ([]bool, error) {
	yes := make([]bool, len(ids))
	var calls []redisclient.Call
	for from := 0; from < len(ids); from += idsPerCall {
		calls = append(calls, s.newCall(script, append(args[:len(args):len(args)], ids[from:min(from+idsPerCall, len(ids))]...)...))
	}
	var replies []redisclient.Reply
	if p, ok := s.client.(redisclient.Pipeliner); ok && len(calls) > 1 {
		replies = p.EvalMany(ctx, calls)
	} else {
		for _, c := range calls {
			replies = append(replies, s.client.Eval(ctx, c))
		}
	}
	if len(replies) != len(calls) {
		return yes, fmt.Errorf("filter: %d of %d calls were answered", len(replies), len(calls))
	}
	at, whole := 0, true
	for i, r := range replies {
		n := min(idsPerCall, len(ids)-i*idsPerCall)
		text, err := s.replyText(r)
		if err == nil && (len(text) != n+1 || text[0] != 'w' && text[0] != 'p') {
			err = errors.New("filter: the server answered something else; is there a proxy that changes answers?")
		}
		if err != nil {
			return make([]bool, len(ids)), err
		}
		whole = whole && text[0] == 'w'
		for _, c := range text[1:] {
			yes[at] = c == '1' && text[0] == 'w'
			at++
		}
	}
	if len(ids) > 0 {
		s.noteWhole(whole)
	}
	return yes, nil
}

// noteWhole logs when the filter has stopped being whole.
func (s *redisFilter) noteWhole(whole bool) {
	now := int32(2)
	if whole {
		now = 1
	}
	if before := s.lastWhole.Swap(now); before != now && !whole {
		s.o.Logger.Warn("filter: ids are missing on the server, and it says maybe to all; rebuild it", "key", s.name)
	}
}

func (s *redisFilter) countAdded(surelyNew []bool) {
	s.added.Add(uint64(len(surelyNew)))
	n := uint64(0)
	for _, yes := range surelyNew {
		if yes {
			n++
		}
	}
	s.surelyNew.Add(n)
}

// MarkWhole says that all inserted ids are in the filter: for an empty table. Until then, or until
// a Rebuild has ended, the filter says maybe to every id.
func (s *redisFilter) MarkWhole(ctx context.Context) error {
	_, err := s.replyText(s.client.Eval(ctx, s.newCall(markScript, "mark")))
	return err
}

// rebuild adds all ids, in batches.
func (s *redisFilter) rebuild(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(int), put func(ids [][]byte) error) (n int, err error) {
	epoch, err := s.replyText(s.client.Eval(ctx, s.newCall(markScript, "begin")))
	if err != nil {
		return 0, err
	}
	var batch [][]byte
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := put(batch)
		batch = batch[:0]
		return err
	}
	n, err = eachID(ctx, ids, progress, func(id []byte) error {
		if batch = append(batch, append([]byte(nil), id...)); len(batch) < 4*idsPerCall {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return n, err
	}
	said, err := s.replyText(s.client.Eval(ctx, s.newCall(markScript, "end", epoch)))
	if err == nil && said != "whole" {
		err = ErrLost
	}
	return n, err
}

// fetchStats asks the server whether the filter is whole, and how many ids its windows have.
func (s *redisFilter) fetchStats(ctx context.Context) (out Stats, ids []int, err error) {
	out.Added, out.SurelyNew = s.added.Load(), s.surelyNew.Load()
	out.Maybe = out.Added - min(out.Added, out.SurelyNew)
	text, err := s.replyText(s.client.Eval(ctx, s.newCall(statsScript)))
	if err != nil {
		return out, nil, err
	}
	for i, word := range strings.Fields(text) {
		if i == 0 {
			out.Whole = word == "1"
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil {
			return out, nil, errors.New("filter: the server's counts are no numbers; is there a proxy that changes answers?")
		}
		ids = append(ids, n)
	}
	if len(ids) != s.o.Windows {
		return out, nil, fmt.Errorf("filter: the server counted %d windows, and there are %d", len(ids), s.o.Windows)
	}
	return out, ids, nil
}

// explainRefusal explains a refusal of the server. The error still is a [redisclient.Error].
func explainRefusal(err error) error {
	e, ok := errors.AsType[redisclient.Error](err)
	if !ok {
		return fmt.Errorf("filter: it is unknown what was put in, so all ids are maybe seen: %w", err)
	}
	switch e.Code() {
	case "RSFORMAT":
		return fmt.Errorf("filter: the filter of this name was made with other options; use the same in all processes, or another name: %w", e)
	case "NOPERM":
		return fmt.Errorf("filter: the user may not run this; it needs EVALSHA, EVAL, INFO, TIME, SETBIT, GETBIT, STRLEN, EXISTS, PFADD, PEXPIREAT, HSET, HMGET, HKEYS, HDEL, HINCRBY on the keys of the prefix: %w", e)
	case "WRONGTYPE":
		return fmt.Errorf("filter: a key of the filter holds something else; choose another Prefix or name: %w", e)
	}
	return fmt.Errorf("filter: the server refuses, so all ids are maybe seen: %w", e)
}

// checkWindowUnit returns an error if the window does not fit Redis, which counts in milliseconds.
func checkWindowUnit(o *Options) error {
	if o.Window%time.Millisecond != 0 {
		return fmt.Errorf("filter: Window is %v; on Redis it is whole milliseconds", o.Window)
	}
	return nil
}
