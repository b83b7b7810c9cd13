package redisstreamidem

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/redisclient"
)

// unlessShared deletes an entry if the group is the only one. Another group may have been created
// after the source was opened, and may not have read the entry.
const unlessShared = `
local function drop()
  local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
  if not groups.err and #groups == 1 then redis.pcall('XDEL', KEYS[1], ARGV[2]) end
end`

// The scripts call redis.pcall and return its errors, so that errors keep their codes on every
// version of the server.
var (
	// setUp creates the group. KEYS: stream, dead letters (for the slot, the type and the
	// permissions). ARGV: group, 1 if it must be the only one.
	setUp = redisclient.NewScript("streams-set-up", `
local length = redis.pcall('XLEN', KEYS[2])
if type(length) == 'table' and length.err then return length end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
local there = made.err and string.sub(made.err, 1, 9) == 'BUSYGROUP'
if made.err and not there then return made end
if ARGV[2] == '1' then
  local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
  if groups.err then return groups end
  if #groups > 1 then
    if not there then redis.call('XGROUP', 'DESTROY', KEYS[1], ARGV[1]) end
    return -1
  end
end
if there then return 0 end
return 1`)

	// take reads new entries. KEYS: stream. ARGV: group, consumer, count.
	take = redisclient.NewScript("streams-take", `
local got = redis.pcall('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[1], '>')
if not got then return {} end
if got.err then return got end
local entries = {}
for i, e in ipairs(got[1][2]) do
  entries[i] = {e[1], 1, e[2]}
end
return entries`)

	// again reads pending entries of this consumer once more. KEYS: stream. ARGV: group, consumer,
	// ids. It leaves out entries that another consumer has by now or that are gone.
	again = redisclient.NewScript("streams-again", `
local entries = {}
for i = 3, #ARGV do
  local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if p.err then return p end
  if p[1] and p[1][2] == ARGV[2] then
    local got = redis.pcall('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i])
    if got.err then return got end
    if got[1] then
      entries[#entries + 1] = {ARGV[i], p[1][4] + 1, got[1][2]}
    else
      redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[i])
    end
  end
end
return entries`)

	// renew resets the idle time of entries. KEYS: stream. ARGV: group, consumer, ids of the
	// consumer. It returns the ids that the consumer has lost.
	renew = redisclient.NewScript("streams-renew", `
local lost = {}
for i = 3, #ARGV do
  local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if p.err then return p end
  if p[1] and p[1][2] == ARGV[2] then
    local got = redis.pcall('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
    if got.err then return got end
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost`)

	// claim takes over entries of silent consumers. KEYS: stream. ARGV: group, consumer,
	// milliseconds, cursor, count. It returns the next cursor and the entries. It acks entries that
	// were deleted meanwhile, which cannot be delivered.
	claim = redisclient.NewScript("streams-claim", `
local got = redis.pcall('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
if got.err then return got end
local entries = {}
for _, e in ipairs(got[2]) do
  if e and e[2] then
    local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], e[1], e[1], 1)
    if p.err then return p end
    entries[#entries + 1] = {e[1], p[1] and p[1][4] or 2, e[2]}
  elseif e and e[1] then
    redis.pcall('XACK', KEYS[1], ARGV[1], e[1])
  end
end
return {got[1], entries}`)

	// own finds entries that the server gave to this consumer in a lost reply. KEYS: stream. ARGV:
	// group, consumer, limit, ids that the consumer has. It returns ids.
	own = redisclient.NewScript("streams-own", `
local has = {}
for i = 4, #ARGV do has[ARGV[i]] = true end
local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[3], ARGV[2])
if p.err then return p end
local lost = {}
for _, e in ipairs(p) do
  if not has[e[1]] then lost[#lost + 1] = e[1] end
end
return lost`)

	// tidy removes consumers that have nothing pending and were silent for long. KEYS: stream.
	// ARGV: group, prefix of their names, milliseconds.
	tidy = redisclient.NewScript("streams-tidy", `
local all = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if all.err then return all end
for _, c in ipairs(all) do
  local f = {}
  for i = 1, #c, 2 do f[c[i]] = c[i + 1] end
  if f['pending'] == 0 and f['idle'] >= tonumber(ARGV[3]) and string.sub(f['name'], 1, #ARGV[2]) == ARGV[2] then
    redis.pcall('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], f['name'])
  end
end
return 0`)

	// handBack sets the idle time of entries, as if this consumer had been silent. KEYS: stream.
	// ARGV: group, consumer, then id and milliseconds in turn. It deletes a consumer that has
	// nothing pending.
	handBack = redisclient.NewScript("streams-hand-back", `
for i = 3, #ARGV, 2 do
  local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if p.err then return p end
  if p[1] and p[1][2] == ARGV[2] then
    redis.pcall('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'IDLE', ARGV[i + 1], 'JUSTID')
  end
end
local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if not p.err and #p == 0 then redis.pcall('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
return 0`)

	// done acks. KEYS: stream. ARGV: group, id, 1 to delete the entry. It returns 0 if the id is
	// not pending.
	done = redisclient.NewScript("streams-done", unlessShared+`
local n = redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[2])
if type(n) == 'table' then return n end
if n == 1 and ARGV[3] == '1' then drop() end
return n`)

	// deadLetter writes a dead letter and acks. KEYS: stream, dead letters. ARGV: group, id, 1 to
	// delete the entry, fields. It returns 0 if the id is not pending, and then keeps no dead
	// letter. The write comes first: if the server refuses it, nothing was done.
	deadLetter = redisclient.NewScript("streams-dead-letter", unlessShared+`
local dead = redis.pcall('XADD', KEYS[2], '*', unpack(ARGV, 4))
if type(dead) == 'table' then return dead end
local n = redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[2])
if n ~= 1 then
  redis.pcall('XDEL', KEYS[2], dead)
  return n
end
if ARGV[3] == '1' then drop() end
return 1`)

	// add writes entries, one after the other, until one is refused. KEYS: stream. ARGV: maximum
	// length or 0, then for each entry the number of its fields and values, and these. It returns
	// how many it has written, and the refusal.
	add = redisclient.NewScript("streams-add", `
local n, i = 0, 2
while i <= #ARGV do
  local words = tonumber(ARGV[i])
  local r
  if ARGV[1] == '0' then
    r = redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, i + 1, i + words))
  else
    r = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, i + 1, i + words))
  end
  if type(r) == 'table' then return {n, r.err} end
  n, i = n + 1, i + words + 1
end
return {n}`)

	// list reads entries. KEYS: stream. ARGV: from, to, count. With count 0 it returns the last id.
	list = redisclient.NewScript("streams-list", `
if ARGV[3] == '0' then
  local last = redis.pcall('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
  if last.err then return last end
  return last[1] and {last[1][1]} or {}
end
return redis.pcall('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])`)

	// groups returns the names of the groups. KEYS: stream.
	groups = redisclient.NewScript("streams-groups", `
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local found = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if found.err then return found end
local names = {}
for i, g in ipairs(found) do names[i] = g[2] end
return names`)

	// remove deletes an entry. KEYS: stream. ARGV: id.
	remove = redisclient.NewScript("streams-remove", `return redis.pcall('XDEL', KEYS[1], ARGV[1])`)
)

// eval runs a script within the timeout.
func (s server) eval(ctx context.Context, script *redisclient.Script, keys, args []string) (any, error) {
	ctx, end := context.WithTimeout(ctx, s.timeout)
	defer end()
	r := s.c.Eval(ctx, redisclient.Call{Script: script, Keys: keys, Args: args})
	return r.Value, explain(r.Err)
}

// errStrange is the error for a reply that none of the scripts returns.
var errStrange = errors.New("redisstreamidem: the server answered with something else than its scripts return; is it behind a proxy that changes answers?")

// number parses a reply that is a number.
func number(v any, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, errStrange
	}
	return n, nil
}

// array parses a reply that is an array.
func array(v any, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, nil
	}
	a, ok := v.([]any)
	if !ok {
		return nil, errStrange
	}
	return a, nil
}

// texts parses a reply that is an array of strings.
func texts(v any, err error) ([]string, error) {
	a, err := array(v, err)
	out := make([]string, len(a))
	for i := range a {
		out[i], _ = a[i].(string)
	}
	return out, err
}

// code returns the first word of a refusal. A refusal inside a script has no code of its own.
func code(refused redisclient.Error) string {
	if strings.Contains(string(refused), "user executing the script") {
		return "NOPERM"
	}
	return refused.Code()
}

// explain adds advice to refusals whose own text has none.
func explain(err error) error {
	refused, ok := errors.AsType[redisclient.Error](err)
	if !ok {
		return err
	}
	switch code(refused) {
	case "WRONGTYPE":
		return fmt.Errorf("the key is there and is no stream; use another name, or remove what is there: %w", err)
	case "NOAUTH", "WRONGPASS":
		return fmt.Errorf("the server does not know the user; check the password: %w", err)
	case "NOPERM":
		return fmt.Errorf("the user may not do this; allow EVAL, EVALSHA, the commands that begin with X, and the keys of the stream and its deadLetters: %w", err)
	case "CROSSSLOT":
		return fmt.Errorf("the stream and its stream of dead letters are in different slots; leave Options.DeadStream empty, or give both one hash tag: %w", err)
	}
	return err
}
