package redisstore

import (
	_ "embed"

	"github.com/retrysafe/retrysafe/redisclient"
)

// timeLua is the beginning of every script. A joined script reads the time once for all its calls.
//
//go:embed lua/time.lua
var timeLua string

// headLua begins what a script does for its key. The common cases come between it and libLua, and
// take few steps. Only the rare cases need libLua, whose definitions alone cost as much as a call.
//
//go:embed lua/head.lua
var headLua string

//go:embed lua/lib.lua
var libLua string

//go:embed lua/acquire_first.lua
var acquireFirst string

//go:embed lua/complete_first.lua
var completeFirst string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/extend.lua
var extendLua string

//go:embed lua/complete.lua
var completeLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/lookup.lua
var lookupLua string

//go:embed lua/forget.lua
var forgetLua string

//go:embed lua/issue.lua
var issueLua string

//go:embed lua/index_add.lua
var indexAddLua string

//go:embed lua/index_page.lua
var indexPageLua string

//go:embed lua/index_drop.lua
var indexDropLua string

//go:embed lua/index_probe.lua
var indexProbeLua string

//go:embed lua/unfinished_page.lua
var unfinishedPageLua string

//go:embed lua/unfinished_set.lua
var unfinishedSetLua string

//go:embed lua/unfinished_mark.lua
var unfinishedMarkLua string

//go:embed lua/charge.lua
var chargeLua string

//go:embed lua/usage.lua
var usageLua string

// Calls that end an attempt are allowed also when memory is full. They are small, and a refusal
// would put finished work in doubt.
var (
	acquire  = newScript("acquire", "", acquireFirst, acquireLua, laterAdded)
	extend   = newScript("extend", "allow-oom", "", extendLua, "")
	complete = newScript("complete", "allow-oom", completeFirst, completeLua, laterRemoved)
	release  = newScript("release", "allow-oom", "", releaseLua, "")
	lookup   = newScript("lookup", "no-writes", "", lookupLua, "")
	issue    = newScript("issue", "", "", issueLua, "")
	forget   = newScript("forget", "allow-oom", "", forgetLua, "")

	indexAdd  = redisclient.NewScript("index_add", "#!lua flags=allow-oom\n"+indexAddLua)
	indexPage = redisclient.NewScript("index_page", "#!lua flags=no-writes\n"+indexPageLua)
	indexDrop = redisclient.NewScript("index_drop", "#!lua flags=allow-oom\n"+indexDropLua)

	indexProbe     = redisclient.NewScript("index_probe", "#!lua flags=no-writes\n"+indexProbeLua)
	unfinishedPage = redisclient.NewScript("unfinished_page", "#!lua flags=no-writes\n"+unfinishedPageLua)
	unfinishedSet  = redisclient.NewJoinable("unfinished_set", "#!lua", timeLua, headLua+unfinishedSetLua, "")
	unfinishedMark = redisclient.NewScript("unfinished_mark", "#!lua\n"+unfinishedMarkLua)

	charge = redisclient.NewScript("charge", "#!lua\n"+chargeLua)
	usage  = redisclient.NewScript("usage", "#!lua flags=no-writes\n"+usageLua)
)

// What joined claims and completions change in the index of unfinished records, in one command.
const (
	laterAdded   = "if #later > 2 then redis.call('ZADD', shared, unpack(later)) end\n"
	laterRemoved = "if #later > 1 then redis.call('ZREM', shared, unpack(later)) end\n"
)

func newScript(name, flags, first, rest, last string) *redisclient.Script {
	shebang := "#!lua"
	if flags != "" {
		shebang += " flags=" + flags
	}
	return redisclient.NewJoinable(name, shebang, timeLua, headLua+first+libLua+rest, last)
}
