-- KEYS: the lock. ARGV: owner, lease in microseconds, for how many ms its fence is remembered behind it.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local had = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'until')
local fence, ends = tonumber(had[2] or 0), tonumber(had[3] or 0)
if ends > now and had[1] ~= ARGV[1] then
  return {0, ends - now}
end
if ends <= now then
  fence = math.max(fence + 1, now) -- the clock may have gone back
end
ends = math.max(ends, now + ARGV[2])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', string.format('%.0f', fence), 'until', string.format('%.0f', ends))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((ends - now) / 1000) + ARGV[3]))
return {1, fence}
