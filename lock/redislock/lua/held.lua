-- KEYS: the lock. What is kept of it, and the time in microseconds (8 bytes) behind it; nothing: it is none, or is free.
local had = redis.call('GET', KEYS[1])
if not had or #had ~= 33 then
  return ''
end
local clock = redis.call('TIME')
return had .. struct.pack('>I8', clock[1] * 1000000 + clock[2])
