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
