-- KEYS: the lock. How many microseconds it is held for, if nothing happens; zero or less: it is free.
local clock = redis.call('TIME')
return tonumber(redis.call('HGET', KEYS[1], 'until') or 0) - (clock[1] * 1000000 + clock[2])
