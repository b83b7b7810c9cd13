-- KEYS: the lock. ARGV: as those of lock.lua. Says how many microseconds it is held for, if nothing
-- happens; zero or less: it is free, or the owner has it by a call whose answer was lost.
local had = redis.call('GET', KEYS[1])
if not had then
  return 0
elseif #had ~= 33 then
  return redis.error_reply('WRONGTYPE not a lock of this format')
end
local who, _, ends = struct.unpack('>xc16I8I8', had)
if who == string.sub(ARGV[1], 1, 16) then
  return 0
end
local clock = redis.call('TIME')
return ends - (clock[1] * 1000000 + clock[2])
