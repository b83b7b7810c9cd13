-- KEYS: the lock. ARGV: owner, for how many ms its fence is remembered. The owner stays with it, so that a repeat is told the same.
local had = redis.call('HMGET', KEYS[1], 'owner', 'until')
if had[1] ~= ARGV[1] then
  return 0
end
if had[2] ~= '0' then
  redis.call('HSET', KEYS[1], 'until', '0')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PUBLISH', KEYS[1], '')
end
return 1
