package redisranges

import (
	"context"
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
)

//go:embed lua/take.lua
var takeLua string

//go:embed lua/create.lua
var createLua string

// Taking a range makes nothing larger, so it is allowed when memory is full.
var (
	takeScript   = redisclient.NewScript("take", "#!lua flags=allow-oom\n"+takeLua)
	createScript = redisclient.NewScript("create", "#!lua\n"+createLua)
)

var errReply = errors.New("redisranges: the server's reply is not that of the script; is there a proxy in between that changes replies?")

// Create creates a tag with its first value, and with at least step values in each range. An
// existing tag stays unchanged, and created is false. If ids of the tag are in use already, or the
// server has lost them, first must be above all of them.
func (r *Ranges) Create(ctx context.Context, tag string, first, step int64) (created bool, err error) {
	if err := idgen.CheckNew(tag, first, step); err != nil {
		return false, err
	}
	v, err := r.runScript(ctx, createScript, tag, strconv.FormatInt(first, 10), strconv.FormatInt(step, 10))
	if err != nil {
		return false, err
	}
	n, ok := v.(int64)
	if !ok {
		return false, errReply
	}
	return n == 1, nil
}

// Allocate implements [idgen.Ranges]. A range has the tag's step of values, or n if that is more.
func (r *Ranges) Allocate(ctx context.Context, tag string, n int64) (first, count int64, err error) {
	if err := idgen.CheckTag(tag); err != nil {
		return 0, 0, err
	}
	if n < 1 {
		return 0, 0, fmt.Errorf("redisranges: Allocate of %d values; ask for 1 or more", n)
	}
	v, err := r.runScript(ctx, takeScript, tag, strconv.FormatInt(n, 10))
	if err != nil {
		if e, ok := errors.AsType[redisclient.Error](err); ok && strings.Contains(string(e), "overflow") {
			return 0, 0, idgen.ErrSpent
		}
		return 0, 0, err
	}
	pair, _ := v.([]any)
	if len(pair) != 2 {
		return 0, 0, errReply
	}
	next, got := textOf(pair[0]), textOf(pair[1])
	if next == "" && got == "" {
		return 0, 0, idgen.ErrNoTag
	}
	after, err1 := strconv.ParseInt(next, 10, 64)
	count, err2 := strconv.ParseInt(got, 10, 64)
	if err1 != nil || err2 != nil || count < n || after < math.MinInt64+count || after-count < 1 {
		return 0, 0, errReply
	}
	return after - count, count, nil
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

// runScript runs a script, and waits until the required number of replicas has confirmed it.
func (r *Ranges) runScript(ctx context.Context, s *redisclient.Script, tag string, args ...string) (any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c := redisclient.Call{Script: s, Keys: []string{r.o.Prefix + tag}, Args: args}
	reply, acked, need := r.primaries.Eval(ctx, c)
	if reply.Err == nil && acked < need {
		return nil, fmt.Errorf("redisranges: %d of %d replicas have confirmed the change in time; look at the replicas, or ask for fewer", acked, need)
	}
	if reply.Err != nil {
		return nil, explainRefusal(reply.Err)
	}
	return reply.Value, nil
}

// advice adds to the advice for any script what only ranges know.
var advice = map[string]string{
	"NOPERM": "the user may not run this; it needs EVALSHA, EVAL, EXISTS, HGET, HSET, HINCRBY, CONFIG GET, INFO, and the keys of the prefix",
}

// explainRefusal explains an error of the server. The result still is a [redisclient.Error].
func explainRefusal(err error) error { return redisnode.Refusal("redisranges", advice, err) }
