package redisstore

import (
	_ "embed"

	"github.com/retrysafe/retrysafe/redisclient"
)

//go:embed lua/lib.lua
var lib string

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

// What ends an attempt is taken also where memory is full: it is small, and a refusal would leave a doubt about work that is done.
var (
	acquire  = script("acquire", "", acquireLua)
	extend   = script("extend", "allow-oom", extendLua)
	complete = script("complete", "allow-oom", completeLua)
	release  = script("release", "allow-oom", releaseLua)
	lookup   = script("lookup", "no-writes", lookupLua)
	issue    = script("issue", "", issueLua)
)

func script(name, flags, source string) *redisclient.Script {
	head := "#!lua"
	if flags != "" {
		head += " flags=" + flags
	}
	return redisclient.NewScript(name, head+"\n"+lib+source)
}
