package redisstore

import (
	"context"
	"crypto/rand"
	_ "embed"
	"strconv"

	"github.com/retrysafe/retrysafe/redisclient"
)

//go:embed lua/probe_put.lua
var probePutLua string

//go:embed lua/probe_take.lua
var probeTakeLua string

var (
	probePut  = redisclient.NewScript("probe_put", "#!lua\n"+probePutLua)
	probeTake = redisclient.NewScript("probe_take", "#!lua\n"+probeTakeLua)
)

// probes is how many keys are tried. If a proxy spreads them over two servers, the chance that all
// are on one is 2^-31.
const probes = 32

// oneServer reports whether one server has all keys, so that the client may join calls for
// different keys to one run. A proxy may spread the keys over several servers, and send a run to
// the server of its first key: the others would then be looked for where they are not. So
// oneServer puts some keys there one by one, and sees whether one run finds them all. They expire
// within ten seconds. If anything fails, the answer is no.
func (s *Store) oneServer(ctx context.Context) bool {
	client, ok := s.client.(redisclient.Pipeliner)
	joiner, can := s.client.(redisclient.Joiner)
	if !ok || !can || !joiner.Joins() {
		return false
	}
	all := redisclient.Call{Script: probeTake}
	puts := make([]redisclient.Call, probes)
	name := s.o.Prefix + "probe:" + rand.Text() + ":"
	for i := range puts {
		puts[i] = redisclient.Call{Script: probePut, Keys: []string{name + strconv.Itoa(i)}}
		all.Keys = append(all.Keys, puts[i].Keys[0])
	}
	for _, r := range client.EvalMany(ctx, puts) {
		if r.Err != nil {
			return false
		}
	}
	r := s.client.Eval(ctx, all)
	found, _ := r.Value.(int64)
	return r.Err == nil && found == probes
}
