-- KEYS: index. ARGV: texts and the places that they had. One that was added again since stays.
for i = 1, #ARGV, 2 do
  local place = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if place and tonumber(place) == tonumber(ARGV[i + 1]) then redis.call('ZREM', KEYS[1], ARGV[i]) end
end
return 0
