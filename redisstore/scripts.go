package redisstore

import (
	_ "embed"

	"github.com/retrysafe/retrysafe/redisclient"
)

// head is the beginning of every script. The common cases come between head and lib, and take few
// steps. Only the rare cases need lib, whose definitions alone cost as much as a call.
//
//go:embed lua/head.lua
var head string

//go:embed lua/lib.lua
var lib string

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

//go:embed lua/issue.lua
var issueLua string

//go:embed lua/index_add.lua
var indexAddLua string

//go:embed lua/index_page.lua
var indexPageLua string

//go:embed lua/index_drop.lua
var indexDropLua string

//go:embed lua/charge.lua
var chargeLua string

// Calls that end an attempt are allowed also when memory is full. They are small, and a refusal
// would put finished work in doubt.
var (
	acquire  = script("acquire", "", acquireFirst, acquireLua)
	extend   = script("extend", "allow-oom", "", extendLua)
	complete = script("complete", "allow-oom", completeFirst, completeLua)
	release  = script("release", "allow-oom", "", releaseLua)
	lookup   = script("lookup", "no-writes", "", lookupLua)
	issue    = script("issue", "", "", issueLua)

	indexAdd  = redisclient.NewScript("index_add", "#!lua flags=allow-oom\n"+indexAddLua)
	indexPage = redisclient.NewScript("index_page", "#!lua flags=no-writes\n"+indexPageLua)
	indexDrop = redisclient.NewScript("index_drop", "#!lua flags=allow-oom\n"+indexDropLua)

	charge = redisclient.NewScript("charge", "#!lua\n"+chargeLua)
)

func script(name, flags, first, rest string) *redisclient.Script {
	shebang := "#!lua"
	if flags != "" {
		shebang += " flags=" + flags
	}
	return redisclient.NewScript(name, shebang+"\n"+head+first+lib+rest)
}
