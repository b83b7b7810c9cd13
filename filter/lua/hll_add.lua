-- ARGV: the ids. The answer is as that of bloom_add.lua. A sketch of each window has all that came since the window began, also in later ones,
-- since a sketch cannot be asked without an add: the oldest one is the judge.
local answer = {}
for i = 4, #ARGV do
  local changed = 0
  for n = 1, COUNT do
    local key = META .. ':' .. live[n]
    if made[n] and redis.call('EXISTS', key) == 0 then -- evicted or deleted
      lost()
      made[n] = false
      redis.call('HDEL', META, fields[n])
    end
    if made[n] then
      changed = redis.call('PFADD', key, ARGV[i])
    elseif n == 1 then
      changed = redis.call('PFADD', key, ARGV[i])
      expire(key)
      made[n] = '1'
      redis.call('HSET', META, fields[n], '1')
    end
  end
  answer[#answer + 1] = changed == 1 and '1' or '0'
end
if not whole then return 'p' .. string.rep('0', #answer) end
return 'w' .. table.concat(answer)
