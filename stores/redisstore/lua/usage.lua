-- KEYS: the counts of a tenant. It only reads them, with the time.
local raw = redis.call('GET', KEYS[1]) or ''
local clock = redis.call('TIME')
return string.char(102) .. struct.pack('>I8', clock[1] * 1000000 + clock[2]) .. raw
