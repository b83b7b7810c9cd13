-- KEYS: the lock. ARGV: as those of lock.lua. Says 1; 0: the owner does not have it.
local had = redis.call('GET', KEYS[1])
if not had or string.sub(had, 2, 17) ~= string.sub(ARGV[1], 1, 16) then
  return 0
end
local fence, ends = struct.unpack('>I8I8', had, 18)
if ends == 0 then
  return 0
end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local lease, remember = struct.unpack('>I8I8', ARGV[1], 17)
if now + lease > ends then -- also of a lease that is over, where nobody has taken it
  redis.call('SET', KEYS[1], string.sub(had, 1, 17) .. struct.pack('>I8I8', fence, now + lease), 'PX', string.format('%.0f', lease / 1000 + remember))
end
return 1
