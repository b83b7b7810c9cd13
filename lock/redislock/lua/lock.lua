-- KEYS: the lock; the floor of its slot. ARGV: owner (16 bytes), lease in microseconds (8), for how many ms its fence is remembered behind it (8).
-- What is kept: format 1 (a byte), owner (16), fence (8), when its lease ends (8; zero: released), both in microseconds.
-- Says the fence; below zero: how many microseconds it is another's for.
local call, unpack = redis.call, struct.unpack
local had, clock = call('GET', KEYS[1]), call('TIME')
local now, fence, ends = clock[1] * 1000000 + clock[2], 0, 0
local owner, lease, remember = unpack('>c16I8I8', ARGV[1])
if had then
  local format, who
  if #had == 33 then
    format, who, fence, ends = unpack('>Bc16I8I8', had)
  end
  if format ~= 1 then
    return redis.error_reply('WRONGTYPE not a lock of this format')
  end
  if ends > now and who ~= owner then
    return now - ends
  end
else
  local floor = call('GET', KEYS[2])
  if floor then
    if #floor ~= 8 then
      return redis.error_reply('WRONGTYPE not the floor of locks of this format')
    end
    fence = unpack('>I8', floor)
  end
end
if ends <= now then
  fence = fence < now and now or fence + 1 -- the clock may have gone back
end
if ends < now + lease then
  ends = now + lease
end
-- %d cuts the fraction, which Redis refuses; Redis 7.0 takes a microsecond to write a number itself
call('SET', KEYS[1], struct.pack('>Bc16I8I8', 1, owner, fence, ends), 'PXAT', string.format('%d', ends / 1000 + remember))
return fence
