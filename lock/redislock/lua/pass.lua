-- KEYS: the lock. ARGV: those of lock.lua for the next owner; the owner that releases (16 bytes).
-- Says the fence; 0: neither owner has the lock, and nothing is changed. While the lease lasts, a
-- repeat says the same fence. One that comes after the next owner's release says 0.
local call, unpack = redis.call, struct.unpack
local had, clock = call('GET', KEYS[1]), call('TIME')
if not had or #had ~= 33 then
  return 0
end
local now = clock[1] * 1000000 + clock[2]
local owner, lease, remember = unpack('>c16I8I8', ARGV[1])
local format, who, fence, ends = unpack('>Bc16I8I8', had)
if format ~= 1 or ends == 0 or who ~= owner and who ~= ARGV[2] then
  return 0
end
if who ~= owner or ends <= now then
  fence, ends = fence < now and now or fence + 1, 0 -- the clock may have gone back
end
if ends < now + lease then
  ends = now + lease
end
call('SET', KEYS[1], struct.pack('>Bc16I8I8', 1, owner, fence, ends), 'PXAT', string.format('%d', ends / 1000 + remember))
return fence
