-- KEYS: the lock. ARGV: owner, lease in microseconds, for how many ms its fence is remembered behind it.
local had = redis.call('HMGET', KEYS[1], 'owner', 'until')
local ends = tonumber(had[2] or 0)
if had[1] ~= ARGV[1] or ends == 0 then
  return 0
end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
ends = math.max(ends, now + ARGV[2]) -- also of a lease that is over, where nobody has taken it
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', ends))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((ends - now) / 1000) + ARGV[3]))
return 1
