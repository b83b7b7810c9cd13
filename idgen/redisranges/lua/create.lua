-- KEYS: the tag. ARGV: its first value, its step.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('HSET', KEYS[1], 'next', ARGV[1], 'step', ARGV[2])
return 1
