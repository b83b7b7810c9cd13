-- Made of stores/redisstore/lua by UPDATE=1 go test -run TestScriptsOfNginx ./redisstore; not changed by hand. The digests are those of the
-- scripts in Go, which store.lua compares.
local head = [==[
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local later
local raw = redis.call('GET', KEYS[1])
local stored = raw
if raw and #raw == 40 then -- a finished record without its answer: the rest of it is the server's expiry, and nothing
  local at, made = redis.call('PEXPIRETIME', KEYS[1]), string.sub(raw, 9, 16)
  -- What is left of its life is its retention; without an end that is a number that Lua cannot hold.
  local left = at > 0 and struct.pack('>I8', math.max(at * 1000 - now, 1)) or '\0\32\196\155\165\227\83\247'
  raw = raw .. struct.pack('>I8c8c8I8c8', at > 0 and at * 1000 or 0, made, made, 0, left) .. string.rep('\0', 15)
end
]==]
local lib = [==[
-- The record is one packed string; docs/formats.md has its layout. Numbers above 2^53 (a retention without end) stay bytes. What is usual
-- has been dealt with above this line, in few steps, since each name and function that is made here costs every call that comes here.
local WON, IN_PROGRESS, FINISHED, IN_DOUBT, MISMATCH, PRINCIPAL, FENCE, NOT_ISSUED, ALREADY, SPENT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local FRESH, LOST, LATE, DONE = 99, 100, 101, 102
local ISSUED, RUNNING, COMPLETED, FAILED, RELEASED = 1, 2, 3, 4, 5
local F_REEXECUTE, F_ISSUED, F_KEPT, F_NO_BODY, F_NO_PRINT, F_NO_BIND, F_DIGEST = 1, 2, 4, 8, 16, 32, 64
local FOREVER, ZERO8 = 9223372036854775, '\0\0\0\0\0\0\0\0'
local NO_ANSWER = '\0' .. ZERO8

local function int8(n) return struct.pack('>I8', n) end
local now8 = int8(now)

-- say is an answer: a byte, the time, and bytes of the record.
local function say(code, bytes) return string.char(code) .. now8 .. bytes end

-- after is now + span as an expiry: 0 (never) where the span has no end.
local function after(from, span)
  if span >= FOREVER - from then return 0 end
  return from + span
end

-- put stores bytes; the server removes them when they have expired, never before.
local function put(v, expires)
  if expires == 0 then
    redis.call('SET', KEYS[1], v)
  else
    redis.call('SET', KEYS[1], v, 'PXAT', string.format('%d', math.ceil(expires / 1000)))
  end
  return v
end

-- open adds the record to the index of unfinished records, or removes it. This comes before the record is written: if the user has no right
-- to do it, nothing is written.
local function open(is)
  if KEYS[2] and is then
    redis.call('ZADD', KEYS[2], '0', KEYS[1])
  elseif KEYS[2] then
    redis.call('ZREM', KEYS[2], KEYS[1])
  end
end

local function has(flags, f) return flags % (f * 2) >= f end

local function read(v)
  if string.byte(v, 1) ~= 1 then error({err = 'RSFORMAT the record has a format that this script does not read'}) end
  local r = {raw = v, owner = string.sub(v, 17, 32), fence8 = string.sub(v, 9, 16)}
  local _
  _, r.state, r.flags, _, r.attempt, r.fence = struct.unpack('>BBBBI4I8', v)
  r.lease, r.expires, r.created, r.updated, r.notafter, r.retention = struct.unpack('>I8I8I8I8I8I8', v, 33)
  local at, n = 81, nil
  n = string.byte(v, at); r.print = string.sub(v, at + 1, at + n); at = at + 1 + n
  n = string.byte(v, at); r.bind = string.sub(v, at + 1, at + n); at = at + 1 + n
  n = string.byte(v, at); r.cause = string.sub(v, at + 1, at + n); at = at + 1 + n
  n = struct.unpack('>I2', v, at); r.lasterror = string.sub(v, at + 2, at + 1 + n); at = at + 2 + n
  n = string.byte(v, at); r.worked = string.sub(v, at + 1, at + n); at = at + 1 + n
  r.answer = at -- codec, size, digest, body
  r.reexecute, r.issued = has(r.flags, F_REEXECUTE), has(r.flags, F_ISSUED)
  return r
end

-- body is where the body of the answer begins.
local function body(r)
  local at = r.answer + 1 + string.byte(r.raw, r.answer) + 8
  if has(r.flags, F_DIGEST) then at = at + 32 end
  return at
end

-- pack makes the bytes of r. created8, notafter8 and retention8 are bytes already; answer is codec, size, digest and body.
local function pack(r, answer)
  return struct.pack('>BBBBI4', 1, r.state, r.flags, 0, r.attempt) .. r.fence8 .. r.owner .. int8(r.lease) .. int8(r.expires) ..
    r.created8 .. now8 .. r.notafter8 .. r.retention8 .. string.char(#r.print) .. r.print .. string.char(#r.bind) .. r.bind ..
    string.char(#r.cause) .. r.cause .. struct.pack('>I2', #r.lasterror) .. r.lasterror .. string.char(#r.worked) .. r.worked .. answer
end

local cur = raw and read(raw)
local absent = not cur or (cur.expires ~= 0 and now >= cur.expires)

-- told is what a caller gets of a record that stays as it is.
local function told(status)
  return say(status, absent and '' or cur.raw)
end

-- mine compares fence and owner.
local function mine(who) return not absent and cur.fence8 .. cur.owner == who end
local function abandoned() return cur.state == RUNNING and cur.lease == 0 end

-- keep carries over what an ending leaves as it is.
local function keep(r)
  r.created8, r.notafter8, r.retention8 = string.sub(cur.raw, 49, 56), string.sub(cur.raw, 65, 72), string.sub(cur.raw, 73, 80)
  r.attempt, r.fence8, r.owner, r.worked = cur.attempt, cur.fence8, cur.owner, cur.worked
  return r
end

-- flag sets or clears one.
local function flag(flags, f, on)
  if has(flags, f) == on then return flags end
  return on and flags + f or flags - f
end
]==]
return {
  acquire = {
    sha1 = "d29fdc69a8835d3a17b61c44c6a491fb2a3e4804",
    source = "#!lua\n" .. head .. [==[
-- KEYS: record, and the index of unfinished records if there is one. ARGV: what a new record begins with (8 bytes), owner, lease8; what stands behind its times (not-after8, retention8,
-- fingerprint, binding, and no cause, error, earlier attempts or answer); and only where something is unusual: a byte of flags (1 force, 2 must be issued,
-- 4 IfFence, 8 asks, 16 Finish) and the fence of IfFence, 8 bytes; then the packed record of Finish, without what the claim gives it.
local new, owner, lease = struct.unpack('>c8c16I8', ARGV[1])
local notafter = struct.unpack('>I8', ARGV[2])
if notafter ~= 0 and now > notafter then return struct.pack('>BI8', 101, now) end
if not ARGV[3] then
  if not raw then -- a new key: its fence is the clock
    if KEYS[2] then -- in a joined run the first shows that it is allowed, before anything is written, and the others come at the end
      if not later or #later == 0 then redis.call('ZADD', KEYS[2], '0', KEYS[1]) end
      if later then
        later[#later + 1] = '0'
        later[#later + 1] = KEYS[1]
      end
    end
    if string.byte(new, 3) % 2 == 0 then -- under Refuse nothing but a person removes it while it runs
      redis.call('SET', KEYS[1], struct.pack('>c8I8c16I8I8I8I8', new, now, owner, now + lease, 0, now, now) .. ARGV[2])
      return struct.pack('>BI8I8', 99, now, 0) -- the caller has the rest
    end
    local retention = struct.unpack('>I8', ARGV[2], 9)
    if lease + retention < 7000000000000000 then -- under Reexecute it expires
      local expires = now + lease + retention
      redis.call('SET', KEYS[1], struct.pack('>c8I8c16I8I8I8I8', new, now, owner, now + lease, expires, now, now) .. ARGV[2], 'PXAT', string.format('%d', math.ceil(expires / 1000)))
      return struct.pack('>BI8I8', 99, now, expires)
    end
  else -- a repeat of finished work, with the same payload and credential
    local state, expires = string.byte(raw, 2), struct.unpack('>I8', raw, 41)
    if (state == 3 or state == 4) and string.byte(raw, 1) == 1 and (expires == 0 or now < expires) then
      local asked = string.sub(ARGV[2], 17, -14)
      if string.sub(raw, 81, 80 + #asked) == asked then return struct.pack('>BI8', 3, now) .. raw end
    end
  end
end
]==] .. lib .. [==[
local retention, behind, unusual = struct.unpack('>I8', ARGV[2], 9), ARGV[2], ARGV[3] or ''
local flags, iffence, force, must, asks, finish = string.byte(new, 3), '', false, false, false, nil
if unusual ~= '' then
  local u = string.byte(unusual)
  force, must, asks = has(u, 1), has(u, 2), has(u, 8)
  if has(u, 4) then iffence = string.sub(unusual, 2, 9) end
  if has(u, 16) then finish = read(ARGV[4]) end
end
local reexecute, noprint, nobind = has(flags, F_REEXECUTE), has(flags, F_NO_PRINT), has(flags, F_NO_BIND)
local n = string.byte(behind, 17)
local print = string.sub(behind, 18, 17 + n)
local m = string.byte(behind, 18 + n)
local bind = string.sub(behind, 19 + n, 18 + n + m)

local own = cur and cur.owner == owner
local live = cur and cur.state == RUNNING and cur.lease > now

local function decide()
  if absent and iffence ~= '' then return FENCE end
  if must and (absent or not cur.issued) then return NOT_ISSUED end
  if absent then return WON end
  if finish and cur.fence8 ~= iffence then return FENCE end
  if own and cur.state == RELEASED then return SPENT end
  if iffence ~= '' then
    if own and cur.state == RUNNING and not abandoned() then return WON end
    if cur.fence8 ~= iffence then return FENCE end
    if cur.state == COMPLETED then return FINISHED end
    if live and not force then return IN_PROGRESS end
    return WON
  end
  if #cur.bind > 0 and #bind > 0 and cur.bind ~= bind then return PRINCIPAL end
  if #cur.print > 0 and #print > 0 and string.byte(cur.print) == string.byte(print) and cur.print ~= print then return MISMATCH end
  if cur.state == COMPLETED or cur.state == FAILED then return FINISHED end
  if cur.state ~= RUNNING then return WON end
  if own then return abandoned() and IN_DOUBT or WON end
  if live then return IN_PROGRESS end
  return cur.reexecute and reexecute and WON or IN_DOUBT
end

local status = decide()
if status ~= WON then return told(status) end

local function expiry(r, span)
  r.lease = now + lease
  r.expires = has(r.flags, F_REEXECUTE) and after(r.lease, span) or 0
end

if own and not absent and cur.state == RUNNING then -- a repeat: the lease is renewed
  local r = keep({state = RUNNING, flags = cur.flags, print = cur.print, bind = cur.bind, cause = cur.cause, lasterror = cur.lasterror})
  expiry(r, cur.retention)
  open(true)
  if notafter > cur.notafter then r.notafter8 = string.sub(behind, 1, 8) end
  return say(WON, put(pack(r, string.sub(cur.raw, cur.answer)), r.expires))
end

-- worked is what the new record keeps of earlier attempts that may have worked: flags (1 it asks, 2 more than are kept, 4 a time follows),
-- the time of the doubt that it asks about, 12 bytes each.
local function worked()
  local list, cut, since = '', false, ''
  if not absent and (cur.state == RUNNING or cur.state == RELEASED) then
    local f = string.byte(cur.worked) or 0
    local at = has(f, 4) and 10 or 2
    list, cut = string.sub(cur.worked, at), has(f, 2)
    if asks and cur.state == RUNNING then
      if at == 10 then
        since = string.sub(cur.worked, 2, 9)
      elseif cur.lease == 0 then
        since = string.sub(cur.raw, 57, 64)
      elseif cur.lease <= now then
        since = int8(cur.lease)
      end
    end
    if f % 2 == 0 and (cur.state == RUNNING or cur.reexecute) then list = list .. struct.pack('>I4', cur.attempt) .. cur.fence8 end
  end
  if #list > 16 * 12 then list, cut = string.sub(list, 13), true end
  local f = (asks and 1 or 0) + (cut and 2 or 0) + (since ~= '' and 4 or 0)
  if f == 0 and list == '' then return '' end
  return string.char(f) .. since .. list
end

local r = {
  state = RUNNING, worked = worked(), attempt = 1, owner = owner, print = print, bind = bind, cause = '', lasterror = '', created8 = now8,
  notafter8 = string.sub(behind, 1, 8), retention8 = string.sub(behind, 9, 16), flags = F_NO_BODY + (reexecute and F_REEXECUTE or 0),
}
local answer = NO_ANSWER
r.fence8 = int8(math.max(cur and cur.fence + 1 or 1, now))
if not absent then
  r.attempt, r.created8, r.lasterror = cur.attempt + 1, string.sub(cur.raw, 49, 56), cur.lasterror
  if cur.issued then r.flags = r.flags + F_ISSUED end
  if cur.state == RUNNING or cur.state == RELEASED then -- what has been done so far
    answer = string.sub(cur.raw, cur.answer)
    for _, f in ipairs({F_KEPT, F_NO_BODY, F_DIGEST}) do r.flags = flag(r.flags, f, has(cur.flags, f)) end
  end
  if iffence ~= '' then
    r.flags = flag(r.flags, F_REEXECUTE, cur.reexecute)
    r.retention8, retention = string.sub(cur.raw, 73, 80), cur.retention
  end
  if iffence ~= '' or noprint then r.print, noprint = cur.print, has(cur.flags, F_NO_PRINT) end
  if iffence ~= '' or nobind then r.bind, nobind = cur.bind, has(cur.flags, F_NO_BIND) end
end
if finish then
  for _, f in ipairs({'state', 'print', 'bind', 'cause', 'lasterror', 'worked'}) do r[f] = finish[f] end
  r.flags = flag(finish.flags, F_ISSUED, not absent and cur.issued)
  r.retention8, r.lease, r.expires = string.sub(ARGV[4], 73, 80), 0, after(now, finish.retention)
  open(false)
  return say(WON, put(pack(r, string.sub(ARGV[4], finish.answer)), r.expires))
end
open(true)
r.flags = r.flags + (noprint and F_NO_PRINT or 0) + (nobind and F_NO_BIND or 0)
expiry(r, retention)
return say(WON, put(pack(r, answer), r.expires))
]==],
  },
  complete = {
    sha1 = "51949d508c7da9b0b6b500c192a950835a3bc8b6",
    source = "#!lua flags=allow-oom\n" .. head .. [==[
-- KEYS: record, and the index of unfinished records if there is one. ARGV: fence8, owner, flags of the answer, state, how (1 light form, 2 publish, 4 replicas have to confirm, 8 the record's
-- retention counts), retention8; codec to digest; body.
local mark, flags, done, how, span = struct.unpack('>c24BBBI8', ARGV[1])
if raw and #raw > 83 and how < 8 then
  local version, state, was, attempt, who, till, created, notafter, n = struct.unpack('>BBBxc4c24xxxxxxxxI8c8xxxxxxxxc8xxxxxxxxB', raw)
  if who == mark and state == 2 and version == 1 and (till == 0 or now < till) and span < 7000000000000000 then
    local at = 82 + n
    at = at + 1 + string.byte(raw, at)
    local cause, high, low, worked = string.byte(raw, at, at + 3)
    if cause == 0 and high == 0 and low == 0 and worked == 0 then -- an end, and no cause, error or earlier attempt
      local expires = now + span
      was = was % 64
      if KEYS[2] then -- in a joined run the first shows that it is allowed, before anything is written, and the others come at the end
        if not later or #later == 0 then redis.call('ZREM', KEYS[2], KEYS[1]) end
        if later then later[#later + 1] = KEYS[1] end
      end
      if how % 4 >= 2 then redis.pcall('PUBLISH', KEYS[1], '') end
      if how % 2 == 1 then -- flags: reexecute, issued, and that there is nothing
        local head = struct.pack('>BBBBc4c24I8', 1, done, was % 4 + 56, 0, attempt, who, 0)
        redis.call('SET', KEYS[1], head, 'PXAT', string.format('%d', math.ceil(expires / 1000)))
        return struct.pack('>BI8', 102, now) .. head .. struct.pack('>I8c8c8', math.ceil(expires / 1000) * 1000, string.sub(raw, 9, 16), string.sub(raw, 9, 16)) ..
          string.rep('\0', 31)
      end
      local all = was - was % 16 + was % 4 + flags -- of an attempt: neither kept nor without a body
      local middle = string.sub(raw, 81, at + 3)
      redis.call('SET', KEYS[1], struct.pack('>BBBBc4c24I8I8c8I8c8c8', 1, done, all, 0, attempt, who, 0, expires, created, now, notafter, string.sub(ARGV[1], 28)) ..
        middle .. ARGV[2] .. ARGV[3], 'PXAT', string.format('%d', math.ceil(expires / 1000)))
      return struct.pack('>BI8Bc4c8c8', 98, now, all, attempt, created, notafter) .. middle -- the caller has the rest
    end
  end
end
]==] .. lib .. [==[
if not mine(mark) then return say(LOST, '') end
if cur.state == COMPLETED or cur.state == FAILED then
  -- WAIT speaks of the writes of its connection: a repeat on another one has to write too, or it would confirm nothing.
  if how % 8 >= 4 then redis.call('SET', KEYS[1], stored, 'KEEPTTL') end
  return told(FINISHED)
end
if cur.state ~= RUNNING then return say(LOST, '') end
local r = keep({state = done, lease = 0, print = cur.print, bind = cur.bind, cause = '', lasterror = cur.lasterror})
r.flags = flag(flag(flag(cur.flags, F_KEPT, false), F_NO_BODY, false), F_DIGEST, false) + flags
r.worked = ''
local retention = cur.retention
if how < 8 then retention, r.retention8 = span, string.sub(ARGV[1], 28) end
r.expires = after(now, retention)
open(false)
-- A hint may fail: a user without rights on channels completes all the same.
if how % 4 >= 2 then redis.pcall('PUBLISH', KEYS[1], '') end
if how % 2 == 1 then
  r.print, r.bind, r.lasterror = '', '', ''
  r.flags = r.flags % 4 + F_NO_BODY + F_NO_PRINT + F_NO_BIND
  local whole = pack(r, NO_ANSWER)
  put(string.sub(whole, 1, 40), r.expires)
  return say(DONE, whole)
end
local head = pack(r, ARGV[2])
put(head .. ARGV[3], r.expires)
return say(DONE, head)
]==],
  },
  release = {
    sha1 = "00d0bc2bc810a7498c3369f168ac020a81498411",
    source = "#!lua flags=allow-oom\n" .. head .. [==[
]==] .. lib .. [==[
-- KEYS: record, and the index of unfinished records if there is one. ARGV: fence8 and owner; empty for the record's retention, or retention8 and its digits; in doubt; cause; last error; 1 to publish.
local doubt = ARGV[3] == '1'
if not mine(ARGV[1]) then return say(LOST, '') end
if (cur.state == RELEASED and not doubt) or (abandoned() and doubt) then return say(DONE, '') end -- a repeat
if cur.state ~= RUNNING then return say(LOST, '') end
local r = keep({state = RUNNING, flags = cur.flags, lease = 0, print = cur.print, bind = cur.bind, cause = ARGV[4], lasterror = ARGV[5]})
local retention = cur.retention
if ARGV[2] ~= '' then retention, r.retention8 = tonumber(string.sub(ARGV[2], 9)), string.sub(ARGV[2], 1, 8) end
r.expires = after(now, retention)
open(doubt)
if doubt then
  local f = string.byte(cur.worked) or 0
  if cur.lease <= now and not has(f, 4) then -- the doubt began before it was given up
    r.worked = string.char(f + 4) .. int8(cur.lease) .. string.sub(cur.worked, 2)
  end
  if not cur.reexecute then r.expires = 0 end -- nothing but a person removes it
else
  r.state = RELEASED
  if string.byte(cur.raw, cur.answer) == 0 then -- no progress: the next call need not be the same one
    r.print, r.bind = '', ''
    r.flags = flag(flag(r.flags, F_NO_PRINT, true), F_NO_BIND, true)
  end
  if r.expires ~= 0 then r.expires = math.max(r.expires, cur.notafter + 1) end -- a late repeat of the Acquire must meet the record
end
put(pack(r, string.sub(cur.raw, cur.answer)), r.expires)
if ARGV[6] == '1' then redis.pcall('PUBLISH', KEYS[1], '') end
return say(DONE, '')
]==],
  },
  lookup = {
    sha1 = "4398c83ef5f8d4cd2c1d90dac45906432c1767dd",
    source = "#!lua flags=no-writes\n" .. head .. [==[
]==] .. lib .. [==[
-- KEYS: record. ARGV: 1 to leave the body out.
if absent then return say(DONE, '') end
if ARGV[1] == '1' then return say(DONE, string.sub(cur.raw, 1, body(cur) - 1)) end
return say(DONE, cur.raw)
]==],
  },
}
