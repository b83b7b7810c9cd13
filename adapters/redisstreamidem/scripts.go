package redisstreamidem

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/redisclient"
)

// groupsOfLua defines a function that returns the groups of the stream by their names, and how many
// they are. The marks of this package are not counted.
const groupsOfLua = `
local MARK = '` + markSuffix + `'
local function groupsOf(key)
  local all, named, count = redis.pcall('XINFO', 'GROUPS', key), {}, 0
  if all.err then return nil, all end
  for _, one in ipairs(all) do
    local g = {}
    for i = 1, #one, 2 do g[one[i]] = one[i + 1] end
    named[g['name']] = g
    if string.sub(g['name'], -#MARK) ~= MARK then count = count + 1 end
  end
  return named, count
end`

// markSuffix ends the name of a group that no consumer reads: its place in the stream is a mark,
// and says up to where another group has settled everything. The mark is in the stream, so it is
// replicated, copied and deleted with it, and needs no rights for another key.
const markSuffix = ":retrysafe-settled"

// unlessSharedLua deletes an entry if the group is the only one. Another group may have been
// created after the source was opened, and may not have read the entry.
const unlessSharedLua = groupsOfLua + `
local function drop()
  local groups, count = groupsOf(KEYS[1])
  if groups and count == 1 then redis.pcall('XDEL', KEYS[1], ARGV[2]) end
end`

// endsBeforeLua defines a function that reports whether no entry of the stream ever had this id or
// a later one.
const endsBeforeLua = `
local function endsBefore(key, id)
  local function comparable(id)
    local ms, n = string.match(id, '^(%d+)-(%d+)$')
    return string.rep('0', 20 - #ms) .. ms .. string.rep('0', 20 - #n) .. n
  end
  local info = redis.pcall('XINFO', 'STREAM', key)
  if info.err then return nil, info end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return comparable(info[i + 1]) < comparable(id) end
  end
end`

// isGoneLua defines a function that reports whether the stream has lost the entry. A stream that
// was deleted and made again never had it.
const isGoneLua = endsBeforeLua + `
local function isGone()
  local found = redis.pcall('XRANGE', KEYS[1], ARGV[2], ARGV[2])
  return not found.err and not found[1] and endsBefore(KEYS[1], ARGV[2]) == false
end`

// The scripts call redis.pcall and return its errors, so that errors keep their codes on every
// version of the server.
var (
	// setUpScript creates the group. KEYS: stream, dead letters (for the slot, the type and the
	// permissions). ARGV: group, 1 if it must be the only one, the id up to which the caller knows
	// that the group had settled everything, or an empty text. It returns "there", "others",
	// "ahead" (the stream ends before that id), or "made" with the id that the group begins after.
	setUpScript = redisclient.NewScript("streams-set-up", groupsOfLua+endsBeforeLua+`
local length = redis.pcall('XLEN', KEYS[2])
if type(length) == 'table' and length.err then return length end
local group, from = ARGV[1], '0-0'
local groups, count = groupsOf(KEYS[1]) -- none if there is no stream, or the user may not ask
if not groups and ARGV[2] == '1' and not string.find(count.err, 'no such key', 1, true) then return count end
if groups then
  local there, mark = groups[group], groups[group .. MARK]
  if ARGV[2] == '1' and count > (there and 1 or 0) then return {'others'} end
  if there then return {'there'} end
  if mark then
    from = mark['last-delivered-id']
  elseif ARGV[3] ~= '' then
    local ends, refused = endsBefore(KEYS[1], ARGV[3])
    if refused then return refused end
    if ends then return {'ahead'} end
    from = ARGV[3]
  end
end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], group, from, 'MKSTREAM')
if made.err and string.sub(made.err, 1, 9) == 'BUSYGROUP' then return {'there'} end
if made.err then return made end
return {'made', from}`)

	// moveMarkScript moves the mark of the group to where everything is settled. KEYS: stream.
	// ARGV: group, 1 to need no mark while the group is the only one: what is settled is deleted
	// then. It returns the id, or an empty text if there is no mark. Refusals name the command,
	// which Redis 7.0 does not.
	moveMarkScript = redisclient.NewScript("streams-keep", groupsOfLua+`
local function refused(reply, command) return {err = reply.err .. ' (' .. command .. ')'} end
local p = redis.pcall('XPENDING', KEYS[1], ARGV[1])
if p.err then return refused(p, 'XPENDING') end
local groups, count = groupsOf(KEYS[1])
if not groups then return refused(count, 'XINFO GROUPS') end
local name = ARGV[1] .. MARK
if ARGV[2] == '1' and count == 1 and not groups[name] then return '' end
local id = groups[ARGV[1]]['last-delivered-id']
if p[1] > 0 then -- the entry before the oldest that is not settled
  local last = redis.pcall('XREVRANGE', KEYS[1], '(' .. p[2], '-', 'COUNT', 1)
  if last.err then return refused(last, 'XREVRANGE') end
  id = last[1] and last[1][1] or '0-0'
end
local how = groups[name] and 'SETID' or 'CREATE'
local set = redis.pcall('XGROUP', how, KEYS[1], name, id)
if set.err then return refused(set, 'XGROUP ' .. how) end
return id`)

	// takeScript reads new entries. KEYS: stream. ARGV: group, consumer, count.
	takeScript = redisclient.NewScript("streams-take", `
local got = redis.pcall('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[1], '>')
if not got then return {} end
if got.err then return got end
local entries = {}
for i, e in ipairs(got[1][2]) do
  entries[i] = {e[1], 1, e[2]}
end
return entries`)

	// rereadScript reads pending entries of this consumer once more. KEYS: stream. ARGV: group,
	// consumer, ids. It returns the entries, without those that another consumer has by now, and
	// the ids of those that the stream has lost.
	rereadScript = redisclient.NewScript("streams-again", `
local entries, lost = {}, {}
for i = 3, #ARGV do
  local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if p.err then return p end
  if p[1] and p[1][2] == ARGV[2] then
    local got = redis.pcall('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i])
    if got.err then return got end
    if got[1] then
      entries[#entries + 1] = {ARGV[i], p[1][4] + 1, got[1][2]}
    else
      redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[i]) -- versions before 7 keep it pending
      lost[#lost + 1] = ARGV[i]
    end
  end
end
return {entries, lost}`)

	// renewScript resets the idle time of entries. KEYS: stream. ARGV: group, consumer, ids of the
	// consumer. It returns the ids that another consumer has by now, and those that the stream has
	// lost: these are no longer pending.
	renewScript = redisclient.NewScript("streams-renew", `
local taken, lost = {}, {}
for i = 3, #ARGV do
  local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if p.err then return p end
  if p[1] and p[1][2] == ARGV[2] then
    local got = redis.pcall('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
    if got.err then return got end
    local there = redis.pcall('XRANGE', KEYS[1], ARGV[i], ARGV[i])
    if not there.err and not there[1] then
      redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[i])
      lost[#lost + 1] = ARGV[i]
    end
  else
    taken[#taken + 1] = ARGV[i]
  end
end
return {taken, lost}`)

	// claimScript takes over entries of silent consumers. KEYS: stream. ARGV: group, consumer,
	// milliseconds, cursor, count. It returns the next cursor, the entries, and the ids of those
	// that the stream has lost. From version 7 on the server names the lost ones itself.
	claimScript = redisclient.NewScript("streams-claim", `
local got = redis.pcall('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5], 'JUSTID')
if got.err then return got end
local entries, lost = {}, got[3] or {}
for _, id in ipairs(got[2]) do
  local one = redis.pcall('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id)
  if one.err then return one end
  if one[1] then
    local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], id, id, 1)
    if p.err then return p end
    entries[#entries + 1] = {id, p[1] and p[1][4] or 2, one[1][2]}
  else
    redis.pcall('XACK', KEYS[1], ARGV[1], id)
    lost[#lost + 1] = id
  end
end
return {got[1], entries, lost}`)

	// findUnknownScript finds entries that the server gave to this consumer in a lost reply. KEYS:
	// stream. ARGV: group, consumer, limit, ids that the consumer has. It returns ids.
	findUnknownScript = redisclient.NewScript("streams-own", `
local has = {}
for i = 4, #ARGV do has[ARGV[i]] = true end
local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[3], ARGV[2])
if p.err then return p end
local lost = {}
for _, e in ipairs(p) do
  if not has[e[1]] then lost[#lost + 1] = e[1] end
end
return lost`)

	// tidyScript removes consumers that have nothing pending and were silent for long. KEYS:
	// stream. ARGV: group, prefix of their names, milliseconds.
	tidyScript = redisclient.NewScript("streams-tidy", `
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

	// handBackScript sets the idle time of entries, as if this consumer had been silent. KEYS:
	// stream. ARGV: group, consumer, then id and milliseconds in turn. It deletes a consumer that
	// has nothing pending.
	handBackScript = redisclient.NewScript("streams-hand-back", `
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

	// doneScript acks. KEYS: stream. ARGV: group, id, 1 to delete the entry. It returns 0 if the id
	// is not pending, unless the stream has lost the entry: whichever consumer noticed it has acked
	// the entry, and this one may not know yet. Where entries are deleted, one that is gone may as
	// well have been settled by another consumer.
	doneScript = redisclient.NewScript("streams-done", unlessSharedLua+isGoneLua+`
local n = redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[2])
if type(n) == 'table' then return n end
if n == 1 and ARGV[3] == '1' then drop() end
if n == 0 and ARGV[3] ~= '1' and isGone() then return 1 end
return n`)

	// deadLetterScript writes a dead letter and acks. KEYS: stream, dead letters. ARGV: group, id,
	// 1 to delete the entry or "lost", fields. It returns 0 if the id is not pending, and then
	// keeps no dead letter, unless the stream has lost the entry: then no other consumer has it.
	// The write comes first: if the server refuses it, nothing was done. That the stream has lost
	// an entry can be seen here as in doneScript.
	deadLetterScript = redisclient.NewScript("streams-dead-letter", unlessSharedLua+isGoneLua+`
local dead = redis.pcall('XADD', KEYS[2], '*', unpack(ARGV, 4))
if type(dead) == 'table' then return dead end
local n = redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] == 'lost' then return 1 end
if n == 0 and ARGV[3] ~= '1' and isGone() then return 1 end
if n ~= 1 then
  redis.pcall('XDEL', KEYS[2], dead)
  return n
end
if ARGV[3] == '1' then drop() end
return 1`)

	// addScript writes entries, one after the other, until one is refused. KEYS: stream. ARGV:
	// maximum length or 0, then for each entry the number of its fields and values, and these. It
	// returns how many it has written, and the refusal.
	addScript = redisclient.NewScript("streams-add", `
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

	// listScript reads entries. KEYS: stream. ARGV: from, to, count. With count 0 it returns the
	// last id.
	listScript = redisclient.NewScript("streams-list", `
if ARGV[3] == '0' then
  local last = redis.pcall('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
  if last.err then return last end
  return last[1] and {last[1][1]} or {}
end
return redis.pcall('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])`)

	// groupsScript returns the names of the groups. KEYS: stream.
	groupsScript = redisclient.NewScript("streams-groups", `
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local found = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if found.err then return found end
local names, mark = {}, '`+markSuffix+`'
for _, g in ipairs(found) do
  if string.sub(g[2], -#mark) ~= mark then names[#names + 1] = g[2] end
end
return names`)

	// removeScript deletes an entry. KEYS: stream. ARGV: id.
	removeScript = redisclient.NewScript("streams-remove", `return redis.pcall('XDEL', KEYS[1], ARGV[1])`)
)

// eval runs a script within the timeout.
func (s server) eval(ctx context.Context, script *redisclient.Script, keys, args []string) (any, error) {
	ctx, end := context.WithTimeout(ctx, s.timeout)
	defer end()
	r := s.client.Eval(ctx, redisclient.Call{Script: script, Keys: keys, Args: args})
	return r.Value, explainError(r.Err)
}

// errUnexpectedReply is the error for a reply that none of the scripts returns.
var errUnexpectedReply = errors.New("redisstreamidem: the server answered with something else than its scripts return; is it behind a proxy that changes answers?")

// parseNumber parses a reply that is a number.
func parseNumber(v any, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, errUnexpectedReply
	}
	return n, nil
}

// parseText parses a reply that is a string.
func parseText(v any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", errUnexpectedReply
	}
	return s, nil
}

// parseArray parses a reply that is an array.
func parseArray(v any, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, nil
	}
	a, ok := v.([]any)
	if !ok {
		return nil, errUnexpectedReply
	}
	return a, nil
}

// parseTexts parses a reply that is an array of strings.
func parseTexts(v any, err error) ([]string, error) {
	a, err := parseArray(v, err)
	out := make([]string, len(a))
	for i := range a {
		out[i], _ = a[i].(string)
	}
	return out, err
}

// explainError adds advice to refusals whose own text has none.
func explainError(err error) error {
	refused, ok := errors.AsType[redisclient.Error](err)
	if !ok {
		return err
	}
	switch refused.Code() {
	case "WRONGTYPE":
		return fmt.Errorf("the key is there and is no stream; use another name, or remove what is there: %w", err)
	case "NOAUTH", "WRONGPASS":
		return fmt.Errorf("the server does not know the user; check the password: %w", err)
	case "NOPERM":
		return fmt.Errorf("the user may not do this; allow EVAL, EVALSHA, the commands that begin with X, and the keys of the stream and of its dead letters: %w", err)
	case "CROSSSLOT":
		return fmt.Errorf("the stream and its stream of dead letters are in different slots; leave Options.DeadStream empty, or give both one hash tag: %w", err)
	}
	return err
}
