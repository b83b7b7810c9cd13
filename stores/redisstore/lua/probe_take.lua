-- KEYS: those of probe_put. Answers how many of them this server has.
local found = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) then
    found = found + 1
    redis.call('SET', key, '', 'PX', 1)
  end
end
return found
