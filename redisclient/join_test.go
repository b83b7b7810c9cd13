package redisclient_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

var (
	both  = redisclient.NewJoinable("both", "#!lua", "local n = 1\n", "return KEYS[1] .. ARGV[1]\n", "")
	plain = redisclient.NewScript("plain", "return ARGV[1]")
)

func joinable(key string, args ...string) redisclient.Call {
	return redisclient.Call{Script: both, Keys: []string{key}, Args: args, Join: true}
}

// recorder answers calls, and keeps what was sent.
type recorder struct {
	sent   []string
	answer func(c redisclient.Call, whole bool) redisclient.Reply
}

func (r *recorder) send(calls []redisclient.Call, whole bool) []redisclient.Reply {
	var texts []string
	replies := make([]redisclient.Reply, len(calls))
	for i, c := range calls {
		texts = append(texts, fmt.Sprintf("%s%q%q", c.Script.Name, c.Keys, c.Args))
		replies[i] = r.answer(c, whole)
	}
	r.sent = append(r.sent, fmt.Sprint(whole, " ", strings.Join(texts, " ")))
	return replies
}

// ran answers as the scripts of this test do.
func ran(c redisclient.Call, _ bool) redisclient.Reply {
	if c.Script.Name != "both-joined" {
		return redisclient.Reply{Value: c.Keys[0] + strings.Join(c.Args, "")}
	}
	var answers []any
	at := 1
	for i, key := range c.Keys[:len(c.Args[0])] {
		n := int(c.Args[0][i])
		answers = append(answers, key+strings.Join(c.Args[at:at+n], ""))
		at += n
	}
	return redisclient.Reply{Value: []any{answers, []any{}}}
}

func values(replies []redisclient.Reply) (all []any) {
	for _, r := range replies {
		if r.Err != nil {
			all = append(all, r.Err.Error())
		} else {
			all = append(all, r.Value)
		}
	}
	return all
}

// TestSendManyJoins: calls of one script are one run, and each gets its own reply. Others are sent
// beside it.
func TestSendManyJoins(t *testing.T) {
	t.Parallel()
	r := &recorder{answer: ran}
	alone := joinable("e", "5")
	alone.Alone = true
	separate := joinable("f", "6")
	separate.Join = false
	got := redisclient.SendMany([]redisclient.Call{
		joinable("a", "1"), {Script: plain, Keys: []string{"b"}, Args: []string{"2"}}, joinable("c"), joinable("d", "3", "4"), alone, separate,
	}, false, r.send)
	assert.Equal(t, values(got), []any{"a1", "b2", "c", "d34", "e5", "f6"}, "replies")
	assert.Equal(t, r.sent, []string{`false both-joined["a" "c" "d"]["\x01\x00\x02" "1" "3" "4"] plain["b"]["2"] both["e"]["5"] both["f"]["6"]`}, "sent")
}

// TestSendManyJoinsSlots: in a cluster only keys of one slot are in one run, also without Join.
func TestSendManyJoinsSlots(t *testing.T) {
	t.Parallel()
	r := &recorder{answer: ran}
	separate := joinable("{a}3", "3")
	separate.Join = false
	got := redisclient.SendMany([]redisclient.Call{joinable("{a}1", "1"), joinable("{b}2", "2"), separate}, true, r.send)
	assert.Equal(t, values(got), []any{"{a}11", "{b}22", "{a}33"}, "replies")
	assert.Equal(t, r.sent, []string{`false both-joined["{a}1" "{a}3"]["\x01\x01" "1" "3"] both["{b}2"]["2"]`}, "sent")
}

// TestSendManyUnknown: a run whose script the server does not know is sent once more with its
// source, and the others are not.
func TestSendManyUnknown(t *testing.T) {
	t.Parallel()
	r := &recorder{answer: func(c redisclient.Call, whole bool) redisclient.Reply {
		if c.Script == plain || whole {
			return ran(c, whole)
		}
		return redisclient.Reply{Err: redisclient.Error("NOSCRIPT No matching script.")}
	}}
	got := redisclient.SendMany([]redisclient.Call{joinable("a"), {Script: plain, Keys: []string{"b"}}, joinable("c")}, false, r.send)
	assert.Equal(t, values(got), []any{"a", "b", "c"}, "replies")
	assert.Equal(t, r.sent, []string{`false both-joined["a" "c"]["\x00\x00"] plain["b"][]`, `true both-joined["a" "c"]["\x00\x00"]`}, "sent")
}

// TestSendManySplits: what a server refuses to run as one is sent again separately. What has no
// reply is not, since it may have run. Calls after the end of a run are sent separately, and an
// error of one call is only its own.
func TestSendManySplits(t *testing.T) {
	t.Parallel()
	lost := errors.New("the connection is gone")
	const separately = `false both["a"][] both["b"][] both["c"][]`
	for name, c := range map[string]struct {
		joined redisclient.Reply
		want   []any
		again  string
	}{
		"refused":        {redisclient.Reply{Err: redisclient.Error("CROSSSLOT Keys in request don't hash to the same slot")}, []any{"a", "b", "c"}, separately},
		"something else": {redisclient.Reply{Value: "OK"}, []any{"a", "b", "c"}, separately},
		"lost":           {redisclient.Reply{Err: lost}, []any{lost.Error(), lost.Error(), lost.Error()}, ""},
		"ended early":    {redisclient.Reply{Value: []any{[]any{"a"}, []any{}}}, []any{"a", "b", "c"}, `false both["b"][] both["c"][]`},
		"one failed":     {redisclient.Reply{Value: []any{[]any{"a", "", "c"}, []any{int64(2), "WRONGTYPE b"}}}, []any{"a", "redis: WRONGTYPE b", "c"}, ""},
	} {
		r := &recorder{answer: func(call redisclient.Call, whole bool) redisclient.Reply {
			if len(call.Keys) > 1 {
				return c.joined
			}
			return ran(call, whole)
		}}
		got := redisclient.SendMany([]redisclient.Call{joinable("a"), joinable("b"), joinable("c")}, false, r.send)
		assert.Equal(t, values(got), c.want, "%s: replies", name)
		want := []string{`false both-joined["a" "b" "c"]["\x00\x00\x00"]`}
		if c.again != "" {
			want = append(want, c.again)
		}
		assert.Equal(t, r.sent, want, "%s: sent", name)
	}
}

// TestSendManyBounds: a run has at most 128 calls and 256 KiB, since nothing else runs meanwhile.
func TestSendManyBounds(t *testing.T) {
	t.Parallel()
	var many, large []redisclient.Call
	for i := range 300 {
		many = append(many, joinable(fmt.Sprint(i)))
	}
	for i := range 6 {
		large = append(large, joinable(fmt.Sprint(i), strings.Repeat("x", 100<<10)))
	}
	large = append(large, joinable("huge", strings.Repeat("x", 300<<10)))
	for name, c := range map[string]struct {
		calls []redisclient.Call
		want  []int
	}{"many": {many, []int{128, 128, 44}}, "large": {large, []int{2, 2, 2, 1}}} {
		var sizes []int
		r := &recorder{answer: func(call redisclient.Call, whole bool) redisclient.Reply {
			sizes = append(sizes, len(call.Keys))
			return ran(call, whole)
		}}
		for i, reply := range redisclient.SendMany(c.calls, false, r.send) {
			assert.Equal(t, reply.Value, any(c.calls[i].Keys[0]+strings.Join(c.calls[i].Args, "")), "reply %d", i)
		}
		assert.Equal(t, sizes, c.want, "%s: calls in each run", name)
	}
}

// TestSlot compares with the examples of Redis, and with CLUSTER KEYSLOT.
func TestSlot(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{
		"123456789": 0x31c3 % 16384, "foo": 12182, "{foo}bar": 12182, "x{foo}{bar}": 12182, "": 0, "somekey": 11058, "foo{hash_tag}": 2515, "bar{hash_tag}": 2515,
	} {
		assert.Equal(t, redisclient.Slot(key), want, "slot of %q", key)
	}
	assert.True(t, redisclient.Slot("{}a") != redisclient.Slot("{}b") && redisclient.Slot("{a") != redisclient.Slot("{b"), "an empty tag is none")
}

// TestSendManyShares: calls with the same second key are one run that has this key last. Those with
// another one are a run of their own.
func TestSendManyShares(t *testing.T) {
	t.Parallel()
	r := &recorder{answer: ran}
	var calls []redisclient.Call
	for _, keys := range [][]string{{"a", "x"}, {"b", "y"}, {"c", "x"}, {"d"}, {"e"}, {"f", "x", "z"}, {"g", "y"}, {"h", "x", "z"}} {
		c := joinable("", keys[0])
		c.Keys = keys
		calls = append(calls, c)
	}
	got := redisclient.SendMany(calls, false, r.send)
	assert.Equal(t, values(got), []any{"aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh"}, "replies")
	assert.Equal(t, r.sent, []string{`false both-joined["a" "c" "x"]["\x01\x01" "a" "c"] both-joined["b" "g" "y"]["\x01\x01" "b" "g"] ` +
		`both-joined["d" "e"]["\x01\x01" "d" "e"] both["f" "x" "z"]["f"] both["h" "x" "z"]["h"]`}, "sent")
}
