-- KEYS: the lock. How many microseconds it is held for, if nothing happens; zero or less: it is free.
local had = redis.call('GET', KEYS[1])
if not had then
  return 0
elseif #had ~= 33 then
  return redis.error_reply('WRONGTYPE not a lock of this format')
end
local _, ends = struct.unpack('>I8I8', had, 18)
local clock = redis.call('TIME')
return ends - (clock[1] * 1000000 + clock[2])
