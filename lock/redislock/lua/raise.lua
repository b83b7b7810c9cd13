-- KEYS: the lock. ARGV: owner, the least fence that it is to have. Nothing that the owner does not have is changed.
local had = redis.call('HMGET', KEYS[1], 'owner', 'until', 'fence')
if had[1] ~= ARGV[1] or had[2] == '0' then
  return 0
end
if tonumber(had[3]) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'fence', ARGV[2])
end
return 1
