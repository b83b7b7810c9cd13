-- KEYS: the tag. ARGV: how many values at least. Numbers stay texts: those of Lua lose digits above 2^53.
local step = redis.call('HGET', KEYS[1], 'step')
if not step then
  return {'', ''}
end
local n = ARGV[1]
if tonumber(step) > tonumber(n) then
  n = step
end
redis.call('HINCRBY', KEYS[1], 'next', n)
return {redis.call('HGET', KEYS[1], 'next'), n}
