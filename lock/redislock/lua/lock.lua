-- KEYS: the lock; the floor of its slot. ARGV: owner (16 bytes), lease in microseconds (8), for how many ms its fence is remembered behind it (8).
-- What is kept: format 1 (a byte), owner (16), fence (8), when its lease ends (8; zero: released), both in microseconds.
-- Says the fence; below zero: how many microseconds it is another's for.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local had = redis.call('GET', KEYS[1])
local owner, fence, ends = string.sub(ARGV[1], 1, 16), 0, 0
if had then
  if #had ~= 33 or string.byte(had) ~= 1 then
    return redis.error_reply('WRONGTYPE not a lock of this format')
  end
  fence, ends = struct.unpack('>I8I8', had, 18)
  if ends > now and string.sub(had, 2, 17) ~= owner then
    return now - ends
  end
else
  local floor = redis.call('GET', KEYS[2])
  if floor then
    if #floor ~= 8 then
      return redis.error_reply('WRONGTYPE not the floor of locks of this format')
    end
    fence = struct.unpack('>I8', floor)
  end
end
if ends <= now then
  fence = fence < now and now or fence + 1 -- the clock may have gone back
end
local lease, remember = struct.unpack('>I8I8', ARGV[1], 17)
ends = ends > now + lease and ends or now + lease
redis.call('SET', KEYS[1], '\1' .. owner .. struct.pack('>I8I8', fence, ends), 'PX', string.format('%.0f', (ends - now) / 1000 + remember))
return fence
