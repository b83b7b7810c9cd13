local WON, IN_PROGRESS, FINISHED, IN_DOUBT, MISMATCH, PRINCIPAL, FENCE, NOT_ISSUED, ALREADY, SPENT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local FRESH, LOST, LATE, DONE = 99, 100, 101, 102
local ISSUED, RUNNING, COMPLETED, FAILED, RELEASED = 1, 2, 3, 4, 5
local F_REEXECUTE, F_ISSUED, F_KEPT, F_NO_BODY, F_NO_PRINT, F_NO_BIND, F_DIGEST = 1, 2, 4, 8, 16, 32, 64
local FOREVER, ZERO8 = 9223372036854775, '\0\0\0\0\0\0\0\0'
local NO_ANSWER = '\0' .. ZERO8

local raw = redis.call('GET', KEYS[1])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
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
    redis.call('SET', KEYS[1], v, 'PXAT', string.format('%.0f', math.ceil(expires / 1000)))
  end
  return v
end
